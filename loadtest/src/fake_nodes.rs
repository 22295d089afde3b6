//! How long Pods wait for fake nodes, from the audit log.

use std::collections::BTreeMap;

use framework_audit::Record;
use jiff::Timestamp;

/// The reports of fake nodes on Pods.
#[derive(Debug, Default)]
pub struct FakeNodes {
    /// When each Pod was stored.
    stored: Vec<Timestamp>,
    /// The first and the last report of the latest Pod with a namespace and a name.
    reports: BTreeMap<(String, String), [Timestamp; 2]>,
    /// Those of earlier Pods.
    earlier: Vec<[Timestamp; 2]>,
}

impl FakeNodes {
    /// A Pod was created.
    pub fn stored(&mut self, creation: &Record) {
        self.stored.push(creation.completed);
        // The Pod of a retried Task has the name of the one before.
        self.earlier.extend(self.reports.remove(&key(creation)));
    }

    /// A node patched the status of a Pod, and the patch was accepted.
    pub fn reported(&mut self, patch: &Record) {
        let at = patch.received;
        let [first, last] = self.reports.entry(key(patch)).or_insert([at, at]);
        // A report that the log has later may be an earlier one.
        (*first, *last) = ((*first).min(at), (*last).max(at));
    }

    /// The latencies of nodes, with the seconds of each Pod, sorted.
    ///
    /// - Until the first report, which says that the Pod runs or has ended: the k-th first report minus the
    ///   k-th stored Pod. A creation with a generated name does not say which Pod it is. Each value is
    ///   exact if Pods are started in the order of their creation, and the mean if all are started.
    /// - From the first report to the last one: the time that the Pod is asked to run, and the wait.
    pub fn latencies(&self) -> [(&'static str, Vec<f64>); 2] {
        let reports = || self.reports.values().chain(&self.earlier);
        let mut stored = self.stored.clone();
        let mut started: Vec<Timestamp> = reports().map(|[first, _]| *first).collect();
        stored.sort_unstable();
        started.sort_unstable();
        // A Pod may be reported before the reply to its creation is complete.
        let until = |(from, to): (Timestamp, Timestamp)| to.duration_since(from).as_secs_f64().max(0.0);
        let starts = stored.into_iter().zip(started).map(until);
        let runs = reports().map(|[first, last]| until((*first, *last)));
        [("Pod stored → taken up", sorted(starts)), ("Pod taken up → last report", sorted(runs))]
    }
}

fn key(record: &Record) -> (String, String) {
    (record.namespace.clone(), record.name.clone())
}

fn sorted(seconds: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut seconds: Vec<f64> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request on a Pod that is received in this second and completed half a second later.
    fn request(name: &str, second: i64) -> Record {
        let received = Timestamp::from_second(second).unwrap();
        Record {
            verb: String::new(),
            resource: "pods".into(),
            subresource: String::new(),
            namespace: "n".into(),
            name: name.into(),
            code: 200,
            user: String::new(),
            user_agent: String::new(),
            request_uri: String::new(),
            received,
            completed: received + jiff::SignedDuration::from_millis(500),
            request_object: None,
            response_object: None,
        }
    }

    fn latencies(nodes: &FakeNodes) -> [Vec<f64>; 2] {
        nodes.latencies().map(|(_, seconds)| seconds)
    }

    #[test]
    fn a_later_report_is_not_the_start_of_another_pod() {
        let mut nodes = FakeNodes::default();
        for (name, second) in [("a", 0), ("b", 1), ("c", 2)] {
            nodes.stored(&request(name, second));
        }
        for (name, second) in [("a", 1), ("a", 2), ("b", 9), ("b", 12), ("c", 20)] {
            nodes.reported(&request(name, second));
        }
        assert_eq!(latencies(&nodes), [vec![0.5, 7.5, 17.5], vec![0.0, 1.0, 3.0]]);
    }

    #[test]
    fn the_pod_of_a_retry_is_started_again() {
        let mut nodes = FakeNodes::default();
        for second in [0, 10] {
            nodes.stored(&request("a", second));
            nodes.reported(&request("a", second + 2));
            nodes.reported(&request("a", second + 6));
        }
        assert_eq!(latencies(&nodes), [vec![1.5, 1.5], vec![4.0, 4.0]]);
    }

    #[test]
    fn pods_with_generated_names_are_paired_in_their_order() {
        let mut nodes = FakeNodes::default();
        for second in [0, 1] {
            nodes.stored(&request("", second));
        }
        for (name, second) in [("a-x7k2p", 3), ("a-9qwzt", 2), ("a-9qwzt", 8)] {
            nodes.reported(&request(name, second));
        }
        assert_eq!(latencies(&nodes), [vec![1.5, 1.5], vec![0.0, 6.0]]);
    }

    #[test]
    fn a_report_before_the_reply_to_the_creation_waited_for_nothing() {
        let mut nodes = FakeNodes::default();
        nodes.stored(&request("a", 5));
        nodes.reported(&request("a", 5));
        assert_eq!(latencies(&nodes), [vec![0.0], vec![0.0]]);
    }
}
