//! The settings of `deploy/base` and those that docs/capacity.md recommends by size follow from the figures:
//! the generated plans, and the constants that bound a stop.

use std::time::Duration;

use framework_api::config::Config;
use framework_message::timeout::REQUEST_LIFETIME;
use framework_runtime::run;
use frameworkcontroller::logging;
use serde_json::Value;

const CAPACITY: &str = include_str!("../../docs/capacity.md");
const DEPLOYMENT: &str = include_str!("../../deploy/base/deployment.yaml");
const INSTALLED: &str = include_str!("../../deploy/base/frameworkcontroller.yaml");

fn pod() -> Value {
    let deployment: Value = serde_saphyr::from_str(DEPLOYMENT).expect("YAML");
    deployment["spec"]["template"]["spec"].clone()
}

/// The rows of the table of docs/capacity.md whose head begins so, with the head.
fn table(head: &str) -> Vec<Vec<&'static str>> {
    let rows = CAPACITY.lines().skip_while(|line| !line.starts_with(head));
    let rows = rows.take_while(|line| line.starts_with('|')).filter(|line| !line.starts_with("|--"));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The figure of a plan: the number, and its unit.
fn figure(name: &str, plan: &str) -> (f64, &'static str) {
    let rows = table("| figure |");
    let column = rows[0].iter().position(|head| *head == plan).unwrap_or_else(|| panic!("no plan {plan}"));
    let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no figure {name}"));
    let mut words = row[column].split_whitespace();
    let number = words.next().and_then(|word| word.replace(',', "").parse().ok()).expect("a number");
    (number, words.next().unwrap_or_default())
}

fn mebibytes(quantity: &str) -> f64 {
    let number = |unit: &str| quantity.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    number("Gi").map(|number| number * 1024.0).or_else(|| number("Mi")).expect("Gi or Mi")
}

#[test]
fn the_settings_by_size_are_enough_for_their_plans() {
    let rows = table("| plan |");
    assert_eq!(rows.len() - 1, table("| figure |")[0].len() - 1, "each plan has a row");
    for row in &rows[1..] {
        let [plan, qps, burst, memory] = row[..] else { panic!("{row:?}") };
        let (qps, burst): (f64, f64) = (qps.parse().expect(plan), burst.parse().expect(plan));
        let (requests, _) = figure("own requests/s", plan);
        assert!(qps >= 1.25 * requests, "{plan}: {requests} requests/s, {qps} allowed");
        assert_eq!(burst, 1.5 * qps, "{plan}: as by default");
        let (planned, unit) = figure("controller: memory", plan);
        assert_eq!(unit, "MiB", "{plan}");
        assert!(mebibytes(memory) >= 2.0 * planned, "{plan}: {planned} MiB planned, {memory} allowed");
    }
}

#[test]
fn the_base_has_the_settings_of_the_sizes_that_it_is_said_to_serve() {
    let pod = pod();
    let limit = pod["containers"][0]["resources"]["limits"]["memory"].as_str().expect("a limit");
    let config = Config::parse(INSTALLED).expect("the installed config file is good");
    let installed = [config.kube_client_qps.to_string(), config.kube_client_burst.to_string(), limit.into()];
    let rows = table("| plan |");
    let served: Vec<usize> = (1..rows.len()).filter(|row| rows[*row][1..] == installed).collect();
    assert_eq!(served, [1, 3], "{installed:?}");
    assert!(CAPACITY.contains("are enough for the first and the third of the [plans]"));
}

#[test]
fn a_stop_fits_into_the_grace_period() {
    let pod = pod();
    let grace = pod["terminationGracePeriodSeconds"].as_u64().map(Duration::from_secs).expect("a time");
    let stop = REQUEST_LIFETIME + run::HAND_OVER + run::FLUSH + logging::FLUSH;
    assert!(grace > stop, "{stop:?} of {grace:?}");
    let comment = format!(
        "{} s. Then it hands its slots over, in\n      # {} s at most, and writes Events for {} s and the \
         log for {} s: {} s.",
        REQUEST_LIFETIME.as_secs(),
        run::HAND_OVER.as_secs(),
        run::FLUSH.as_secs(),
        logging::FLUSH.as_secs(),
        stop.as_secs()
    );
    assert!(DEPLOYMENT.contains(&comment), "the comment is not: {comment}");
}
