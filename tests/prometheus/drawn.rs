//! The dashboard, drawn by Grafana's own components in a real browser. `cargo xtask soak prometheus --draw`
//! makes them a script, and names its directory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Prometheus;
use crate::cluster::until;
use crate::dashboard::{panels, queries};

/// The variable of that directory. Without it nothing is drawn.
const DIRECTORY: &str = "FRAMEWORK_DASHBOARD";

const BROWSER: &str = "chromium";

/// The points of a line that is seen.
const POINTS: usize = 10;

/// A panel in the browser.
#[derive(Debug, Deserialize)]
struct Drawn {
    title: String,
    /// How many colours its lines have.
    colours: usize,
    /// Its texts: the title and the legends.
    text: String,
}

/// The time, in seconds of Unix time.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Draws each panel from the samples of Prometheus since `begun`, and leaves a picture of all. Fails if a
/// panel is drawn without a line or without the legend of a series.
pub fn draw(prometheus: &Prometheus, begun: u64) {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    for (title, query) in queries() {
        // A rate has its first point at the second scrape after the first event, and a line has several.
        until(&format!("{title}: {query} has a line"), || {
            let series = prometheus.range(&query, begun, now());
            let points = series.as_array()?.iter().map(points).max();
            points.filter(|points| *points >= POINTS)
        });
    }
    let to = now();
    let mut panels = panels();
    for panel in &mut panels {
        for target in panel["targets"].as_array_mut().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            target["result"] = prometheus.range(query, begun, to);
        }
    }
    let data = json!({"panels": panels, "from": begun, "to": to});
    let files = [
        ("data.js", format!("window.DASHBOARD = {data};")),
        ("page.html", include_str!("page.html").to_owned()),
    ];
    for (name, text) in files {
        fs::write(directory.join(name), text).expect("the page is written");
    }
    let drawn = browse(directory);
    assert_eq!(drawn.len(), panels.len());
    for (panel, drawn) in panels.iter().zip(drawn) {
        assert_eq!(panel["title"], drawn.title);
        assert!(drawn.colours > 0, "{drawn:?} has no line");
        for legend in legends(panel) {
            assert!(drawn.text.contains(&legend), "{drawn:?} lacks the legend {legend:?}");
        }
    }
    println!("{} panels are drawn in {}", panels.len(), directory.join("dashboard.png").display());
}

/// How many of the points of a series are numbers.
fn points(series: &Value) -> usize {
    let values = series["values"].as_array().expect("points").iter();
    values
        .filter(|point| point[1].as_str().is_some_and(|text| text.parse().is_ok_and(f64::is_finite)))
        .count()
}

/// The legends of the series of a panel.
fn legends(panel: &Value) -> Vec<String> {
    let of_target = |target: &Value| -> Vec<String> {
        let format = target["legendFormat"].as_str().expect("a legend");
        let series = target["result"].as_array().expect("series").iter();
        let legend = |series: &Value| {
            let labels = series["metric"].as_object().expect("labels").iter();
            labels.fold(format.to_owned(), |text, (label, value)| {
                text.replace(&format!("{{{{{label}}}}}"), value.as_str().expect("a text"))
            })
        };
        series.map(legend).collect()
    };
    panel["targets"].as_array().expect("targets").iter().flat_map(of_target).collect()
}

/// Shows the page in a browser, which leaves a picture of it. Returns the page's report of its panels.
fn browse(directory: &Path) -> Vec<Drawn> {
    let home = tempfile::tempdir().expect("a directory");
    let mut browser = Command::new("timeout");
    browser.args(["300", BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"]);
    browser.args(["--window-size=1520,2250", "--virtual-time-budget=20000", "--dump-dom"]);
    browser.arg(format!("--screenshot={}", directory.join("dashboard.png").display()));
    browser.arg(format!("--user-data-dir={}", home.path().join("profile").display()));
    browser.arg(format!("file://{}", directory.join("page.html").display())).env("HOME", home.path());
    let output = browser.stdin(Stdio::null()).output().expect("timeout of coreutils runs the browser");
    let (page, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let found =
        page.split_once("<pre id=\"found\" hidden=\"\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    // Names of queues and reasons have no character that HTML escapes, but for those of a comparison.
    let found = found.map(|(found, _)| found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
    let drawn = found.and_then(|found| serde_json::from_str(&found).ok());
    drawn.unwrap_or_else(|| panic!("{BROWSER} drew nothing: {log}"))
}
