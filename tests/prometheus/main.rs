//! A real Prometheus scrapes two controllers over a real run: it finds series for each query of the
//! dashboard, and it evaluates each alert.
//!
//! The gate compiles this program and does not run it, and asks promtool in its place
//! (`tests/e2e/dashboard.rs`, `tests/repo/alerts.rs`): to build Prometheus takes about five minutes of
//! processor time. `cargo xtask soak prometheus` runs it. With `--draw`, Grafana's own components draw the
//! dashboard from the answers of that Prometheus.

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../dashboard/mod.rs"]
mod dashboard;
mod drawn;
#[path = "../lifetime/mod.rs"]
mod lifetime;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};

use framework_programs::{Binaries, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

use cluster::lease::Alone;
use cluster::queues::QUEUEING;
use cluster::replicas::Replicas;
use cluster::until;
use dashboard::{life, queries};
use lifetime::metrics;

const RULES: &str = include_str!("../../deploy/monitoring/prometheus_rule.yaml");
const REPLICAS: [&str; 2] = ["a", "b"];

/// A server that runs until this value is dropped.
struct Prometheus {
    process: Child,
    address: String,
    directory: TempDir,
}

impl Prometheus {
    /// Scrapes these controllers every second, with the labels that the PodMonitor adds.
    fn start(controllers: &[&str]) -> Prometheus {
        let program =
            Binaries::tool(Program::Prometheus, &framework_programs::say).expect("it is there, or is built");
        let directory = tempfile::tempdir().expect("a directory");
        let target = |name: &&str| {
            let labels =
                json!({"namespace": "frameworkcontroller", "pod": format!("frameworkcontroller-{name}")});
            json!({"targets": [metrics::address(name)], "labels": labels})
        };
        let targets: Vec<Value> = controllers.iter().map(target).collect();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "frameworkcontroller", "static_configs": targets}],
        });
        let rules: Value = serde_saphyr::from_str(RULES).expect("YAML");
        for (name, content) in [("prometheus.yaml", &config), ("rules.yaml", &rules["spec"])] {
            fs::write(directory.path().join(name), content.to_string()).expect("it is written");
        }
        // Its log does not report the port that it was given, so it gets one that is free now.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a port is free").to_string();
        let log = File::create(directory.path().join("log")).expect("a file");
        let mut command = Command::new(program);
        command.args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address={address}"));
        let process = command.current_dir(directory.path()).stderr(log).spawn().expect("it starts");
        let prometheus = Prometheus { process, address, directory };
        until("Prometheus is ready", || {
            prometheus
                .response("/-/ready")
                .is_ok_and(|response| response.starts_with("HTTP/1.0 200"))
                .then_some(())
        });
        prometheus
    }

    /// The response to a GET of HTTP/1.0, whose body is never in chunks.
    fn response(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }

    /// The data of an answer of its API.
    fn get(&self, path: &str) -> Value {
        let response = self.response(path).expect("it answers");
        let (_, body) = response.split_once("\r\n\r\n").expect("a head and a body");
        let answer: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// The values that a query finds now.
    fn values(&self, query: &str) -> Vec<f64> {
        let data = self.get(&format!("/api/v1/query?query={}", escaped(query)));
        let series = data["result"].as_array().expect("a list").iter();
        series.filter_map(|series| series["value"][1].as_str()?.parse().ok()).collect()
    }

    /// The series that a query finds between two times, in seconds of Unix time, each second.
    fn range(&self, query: &str, from: u64, to: u64) -> Value {
        let query = escaped(query);
        self.get(&format!("/api/v1/query_range?query={query}&start={from}&end={to}&step=1"))["result"].clone()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// A query as a part of a URL.
fn escaped(query: &str) -> String {
    query.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").expect("a string takes it");
        text
    })
}

#[test]
fn prometheus_finds_series_for_each_panel_and_evaluates_each_alert() {
    let _alone = Alone::wait();
    let mut replicas = Replicas::none();
    REPLICAS.into_iter().for_each(|name| replicas.start(name, QUEUEING));
    replicas.await_shares();
    let prometheus = Prometheus::start(&REPLICAS);
    until("both are scraped", || (prometheus.values("count(up == 1)") == [2.0]).then_some(()));
    let begun = drawn::now();
    life();

    for (title, query) in queries() {
        let values = until(&format!("{title}: {query} finds series"), || {
            let values = prometheus.values(&query);
            values.iter().any(|value| value.is_finite()).then_some(values)
        });
        println!(
            "{title}: {} series, the highest {:.3}",
            values.len(),
            values.iter().copied().fold(0.0, f64::max)
        );
    }

    drawn::draw(&prometheus, begun);

    let groups = until("each alert is evaluated", || {
        let groups = prometheus.get("/api/v1/rules")["groups"].clone();
        let rules =
            groups.as_array()?.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten());
        rules.clone().all(|rule| rule["health"] != "unknown").then(|| rules.cloned().collect::<Vec<_>>())
    });
    println!("{} alerts", groups.len());
    assert!(groups.len() >= 10, "{groups:?}");
    for rule in groups {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "nothing is wrong: {rule}");
    }

    // A replica that dies is no more scraped, and its slots show up at the other one.
    replicas.kill("b");
    replicas.forget("b");
    until("one is scraped", || (prometheus.values("count(up == 1)") == [1.0]).then_some(()));
    until("it has all slots", || {
        (prometheus.values("sum(frameworkcontroller_slots)") == [256.0]).then_some(())
    });
}
