//! What one undisturbed Framework costs the API server, by its audit log, beside the floor of 2n + 11.

mod stand;

use framework_testcluster::audit::Record;
use stand::{completed, manifest, namespace, stand};

/// The controller's requests that concern the objects of one namespace, Events aside.
fn requests(records: &[Record], namespace: &str) -> Vec<Record> {
    let ours = |record: &&Record| {
        record.namespace == namespace
            && record.user_agent.starts_with("frameworkcontroller/")
            && ["frameworks", "configmaps", "pods"].contains(&record.resource.as_str())
    };
    records.iter().filter(ours).cloned().collect()
}

#[test]
fn twenty_tasks_take_little_more_than_the_floor() {
    let ns = namespace("audit");
    let cluster = stand();
    let mark = cluster.audit().mark().expect("the log is there");
    // Two seconds apart, so that starting and ending do not mix.
    manifest("cost").role("a", 20, &[("exit-code", "0"), ("run-duration", "2s")]).create(&ns);
    completed(&ns, "cost");
    let records = cluster.audit().since(mark).expect("the log is there");
    let requests = requests(&records, &ns);

    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for record in &requests {
        let resource = if record.subresource.is_empty() {
            record.resource.clone()
        } else {
            format!("{}/{}", record.resource, record.subresource)
        };
        *counts.entry(format!("{} {resource}", record.verb)).or_default() += 1;
    }
    let floor = 2 * 20 + 11;
    for (what, count) in &counts {
        println!("{count:4}  {what}");
    }
    println!(
        "{:4}  in all; the floor 2n + 11 is {floor}: write efficiency {:.2}",
        requests.len(),
        floor as f64 / requests.len() as f64
    );

    let count = |what: &str| counts.get(what).copied().unwrap_or(0);
    assert_eq!((count("create pods"), count("delete pods")), (20, 20));
    assert_eq!((count("create configmaps"), count("delete configmaps")), (1, 1));
    let writes = count("update frameworks/status");
    assert!((6..=30).contains(&writes), "{writes} status writes");
    assert_eq!(requests.len(), 42 + writes, "nothing else is asked for: {counts:?}");
    let refused: Vec<_> = requests.iter().filter(|record| record.code >= 400).collect();
    assert!(refused.is_empty(), "an undisturbed run has no refused request: {refused:?}");
}
