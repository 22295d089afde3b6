//! The metrics of the API server and of the controller's replicas.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::client::Body;
use tokio::time::Instant;

use crate::exposition::{Labels, Scrape};
use crate::report::{Process, Replica};
use crate::system::System;

/// How long replicas may take until each is ready and has its share of the slots.
const REST_TIMEOUT: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(200);
/// The number of slots of all replicas together.
const SLOTS: f64 = 256.0;

const SLOTS_HELD: &str = "frameworkcontroller_slots";
const LEASE_WRITES: &str = "frameworkcontroller_lease_writes_total";
const READY: &str = "frameworkcontroller_ready";
const RECEIVED: &str = "frameworkcontroller_received_bytes_total";

/// The metrics endpoints of the controller, one for each replica.
#[derive(Clone)]
pub struct Metrics(Vec<kube::Client>);

/// The answers of all replicas.
pub struct Scrapes {
    /// Those of each replica.
    pub each: Vec<Scrape>,
    /// Their sums.
    pub sum: Scrape,
}

impl Metrics {
    /// The endpoints at these URLs without their paths: `http://127.0.0.1:8080`.
    /// `token` is the file of the token that is sent.
    pub fn of(urls: &[http::Uri], token: Option<&Path>) -> Result<Metrics> {
        let client = |url: &http::Uri| {
            let mut config = kube::Config::new(url.clone());
            config.auth_info.token_file = token.map(|file| file.display().to_string());
            Ok(framework_access::client::connect(config, "loadtest")?)
        };
        Ok(Metrics(urls.iter().map(client).collect::<Result<_>>()?))
    }

    /// The current values. An error if one replica does not answer.
    pub async fn scrape(&self) -> Result<Scrapes> {
        let mut each = Vec::new();
        for client in &self.0 {
            each.push(scrape(client).await.context("reading the controller's metrics")?);
        }
        let sum = Scrape::sum_of(&each);
        Ok(Scrapes { each, sum })
    }

    /// Waits until each replica has listed what it needs, and together they have all slots in about equal
    /// shares. No run begins while slots still move, or while a replica reads what was there before. The
    /// metrics of one replica of several would pass for those of the whole controller.
    pub async fn await_rest(&self) -> Result<()> {
        let deadline = Instant::now() + REST_TIMEOUT;
        loop {
            let scrapes = self.scrape().await?;
            let ready = scrapes.each.iter().filter(|scrape| is_ready(scrape)).count();
            let slots: Vec<f64> =
                scrapes.each.iter().map(|scrape| scrape.total(SLOTS_HELD).unwrap_or(0.0)).collect();
            // A controller without sharding has no slot and writes no Lease.
            let shares = slots.iter().any(|held| *held > 0.0) || scrapes.sum.total(LEASE_WRITES).is_some();
            if ready == slots.len() && (are_shared(&slots) || slots.len() == 1 && !shares) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "after {} s, {ready} of {} replicas are ready, and they have {slots:?} of {SLOTS} slots: \
                 give --controller-metrics once for each running replica",
                REST_TIMEOUT.as_secs(),
                slots.len()
            );
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Whether the controller says so; other systems do not say it.
fn is_ready(scrape: &Scrape) -> bool {
    scrape.total(READY).is_none_or(|ready| ready == 1.0)
}

/// Whether these are all slots, in shares that differ by a tenth of a share at most, rounded up.
fn are_shared(slots: &[f64]) -> bool {
    let share = SLOTS / slots.len() as f64;
    let is_fair = |held: &f64| (held - share).abs() <= (share / 10.0).ceil();
    slots.iter().sum::<f64>() == SLOTS && slots.iter().all(is_fair)
}

/// A row for each replica: its process and its metrics, each in the order in which they were named.
pub fn rows(
    processes: Vec<Process>,
    before: Option<&Scrapes>,
    after: Option<&Scrapes>,
    system: System,
) -> Vec<Replica> {
    let (earlier, later) = (before.map_or(&[][..], |all| &all.each), after.map_or(&[][..], |all| &all.each));
    // Replicas whose metrics are gone at the end are replicas, too.
    let count = processes.len().max(earlier.len());
    let mut processes = processes.into_iter();
    let row = |index: usize| {
        let (before, after) = (earlier.get(index), later.get(index));
        Replica {
            process: processes.next(),
            slots: after.and_then(|after| after.total(SLOTS_HELD)).map(|slots| slots as usize),
            received_bytes: growth(before, after, RECEIVED).map(|bytes| bytes as u64),
            requests: counted_requests(before, after, system),
        }
    };
    (0..count).map(row).collect()
}

/// Reads `/metrics` of a server.
pub async fn scrape(client: &kube::Client) -> Result<Scrape> {
    let response = client.send(Request::get("/metrics").body(Body::empty())?).await?;
    anyhow::ensure!(response.status().is_success(), "/metrics answers {}", response.status());
    let text = response.into_body().collect_bytes().await?;
    Ok(Scrape::parse(&String::from_utf8_lossy(&text)))
}

/// The number of requests on the resources of its work that the controller counted itself between two
/// scrapes; `None` as for [`Scrape::growth`].
pub fn counted_requests(before: Option<&Scrape>, after: Option<&Scrape>, system: System) -> Option<usize> {
    let is_own = |labels: &Labels| {
        let resource = labels.get("resource").map_or("", String::as_str);
        let resource = resource.split('/').next().unwrap_or_default();
        system.counts(resource)
            && labels.get("verb").is_none_or(|verb| verb != "watch")
            // Without a response it is not known whether it reached the API server; a fenced one did not.
            && labels.get("code").is_none_or(|code| code != "none" && code != "fenced")
    };
    let counted = |scrape: &Scrape| scrape.sum("frameworkcontroller_api_requests_total", is_own);
    after?.growth(before?, counted).map(|count| count as usize)
}

/// The growth of a counter between two scrapes; `None` as for [`Scrape::growth`].
pub fn growth(before: Option<&Scrape>, after: Option<&Scrape>, name: &str) -> Option<f64> {
    after?.growth(before?, |scrape| scrape.total(name))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One replica that answers each scrape with the next text, or with an error.
    pub(crate) fn answering(mut next: impl FnMut() -> Option<&'static str> + Send + 'static) -> Metrics {
        let service = tower::service_fn(move |_: Request<Body>| {
            let (code, text) = next().map_or((503_u16, ""), |text| (200, text));
            let body = Body::from(text.as_bytes().to_vec());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        Metrics(vec![kube::Client::new(service, "default")])
    }

    fn scrapes(texts: [&str; 2]) -> Scrapes {
        let each = texts.map(Scrape::parse).to_vec();
        Scrapes { sum: Scrape::sum_of(&each), each }
    }

    #[test]
    fn counters_of_replicas_are_added_by_labels_and_reported_for_each() {
        let before = scrapes(["frameworkcontroller_received_bytes_total 100\n", ""]);
        let one = "frameworkcontroller_received_bytes_total 400\n\
            frameworkcontroller_api_requests_total{verb=\"create\",resource=\"pods\",code=\"201\"} 7\n";
        let other = "frameworkcontroller_received_bytes_total 50\n\
            frameworkcontroller_api_requests_total{verb=\"create\",resource=\"pods\",code=\"201\"} 2\n\
            frameworkcontroller_api_requests_total{verb=\"create\",resource=\"pods\",code=\"409\"} 1\n";
        let after = scrapes([one, other]);
        assert_eq!(after.sum.total(RECEIVED), Some(450.0));
        let created = |labels: &crate::exposition::Labels| labels["code"] == "201";
        assert_eq!(after.sum.sum("frameworkcontroller_api_requests_total", created), Some(9.0));
        let rows = rows(Vec::new(), Some(&before), Some(&after), System::Framework);
        assert_eq!(rows.iter().map(|row| row.received_bytes).collect::<Vec<_>>(), [Some(300), Some(50)]);
        assert_eq!(rows.iter().map(|row| row.requests).collect::<Vec<_>>(), [Some(7), Some(3)]);
    }

    #[test]
    fn a_replica_that_began_again_or_is_gone_has_no_counts() {
        let text = "frameworkcontroller_received_bytes_total 400\n\
            frameworkcontroller_api_requests_total{verb=\"create\",resource=\"pods\",code=\"201\"} 7\n";
        let before = scrapes([text, text]);
        let after = scrapes([text, &text.replace("400", "50").replace("} 7", "} 3")]);
        let counts = |after: Option<&Scrapes>| -> Vec<_> {
            let rows = rows(Vec::new(), Some(&before), after, System::Framework);
            rows.into_iter().map(|row| (row.received_bytes, row.requests)).collect()
        };
        assert_eq!(counts(Some(&after)), [(Some(0), Some(0)), (None, None)]);
        assert_eq!(counts(None), [(None, None); 2], "there were two replicas");
    }

    #[tokio::test(start_paused = true)]
    async fn one_replica_of_several_is_refused_and_one_alone_is_not() {
        for (text, is_whole) in [
            ("workqueue_depth 1\n", true),
            ("frameworkcontroller_slots 0\n", true),
            ("frameworkcontroller_slots 256\nframeworkcontroller_lease_writes_total 9\n", true),
            ("frameworkcontroller_slots 128\nframeworkcontroller_lease_writes_total 9\n", false),
            ("frameworkcontroller_slots 128\n", false),
            ("frameworkcontroller_slots 0\nframeworkcontroller_lease_writes_total 9\n", false),
        ] {
            let waited = answering(move || Some(text)).await_rest().await;
            assert_eq!(waited.is_ok(), is_whole, "{text}");
            let why = waited.err().map(|error| error.to_string());
            let expected = "give --controller-metrics once for each running replica";
            assert!(why.is_none_or(|why| why.contains(expected)), "{text}");
        }
    }

    #[test]
    fn a_run_waits_for_a_controller_that_says_that_it_is_not_ready() {
        assert!(!is_ready(&Scrape::parse("frameworkcontroller_ready 0\n")));
        assert!(is_ready(&Scrape::parse("frameworkcontroller_ready 1\n")));
        assert!(is_ready(&Scrape::parse("workqueue_depth 1\n")), "another system");
    }

    #[test]
    fn a_run_waits_for_equal_shares_of_all_slots() {
        assert!(are_shared(&[86.0, 85.0, 85.0]));
        assert!(are_shared(&[140.0, 116.0]), "within a tenth of a share");
        assert!(!are_shared(&[142.0, 114.0]), "too far apart");
        assert!(!are_shared(&[86.0, 85.0, 84.0]), "one slot has no owner");
        assert!(!are_shared(&[256.0, 0.0]));
    }
}
