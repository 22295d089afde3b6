//! A create that is on its way while its replica loses the slot: the policy of `deploy/epoch` refuses it,
//! however late it lands.

use std::collections::BTreeSet;

use framework_message::Slot;
use framework_testcluster::audit::Record;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::replicas::{Replicas, epochs_of};
use crate::cluster::{apply, block_on, installed, log_of, manifest, pods, until};
use crate::disturbance::relay::Relay;

const POLICY: &str = include_str!("../../deploy/epoch/policy.yaml");
/// So many that a replica with half of the slots has some of them.
const FRAMEWORKS: usize = 12;

/// The policy for replicas in the namespace `default`. It goes with this value.
struct Policy;

impl Policy {
    fn install() -> Policy {
        apply("default", &POLICY.replace("namespace: frameworkcontroller", "namespace: default"));
        Policy
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        let policy = "frameworkcontroller-epoch";
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            // Panics are for tests; other tests run with it as well.
            if let Err(error) = installed().kubectl(&["delete", kind, policy]) {
                eprintln!("the policy is left over: {error}");
            }
        }
    }
}

#[test]
fn a_create_that_lands_after_its_slot_was_seized_is_refused() {
    let _alone = Alone::wait();
    let _policy = Policy::install();
    let ns = namespace("epoch");
    let relay = Relay::start(installed(), "controller");
    let mut replicas = Replicas::none();
    replicas.start("a", &format!("kubeApiServerAddress: {}", relay.url()));
    replicas.start("b", "");
    replicas.await_shares();
    let first = agent_of("a");
    await_the_map(&ns);

    relay.hold_creates();
    let mark = installed().audit().mark().expect("the log is there");
    let slot = |index: usize| {
        let job = manifest(&format!("job{index}")).role("w", 1, &[]).create(&ns);
        Slot::of(job.metadata.uid.as_deref().expect("a UID")).0
    };
    let slots: BTreeSet<u8> = (0..FRAMEWORKS).map(slot).collect();
    until("a create of the first replica is on its way", || (relay.held_creates() > 0).then_some(()));
    // Only the slots of these Frameworks: on a busy machine, probes of all would take longer than the other
    // replica waits before it creates the Pods.
    let mut before = epochs_of("a");
    before.retain(|slot, _| slots.contains(slot));
    assert!(!before.is_empty(), "it owns slots");
    // The replica is gone before it knows of an answer, and its slots go to the other one.
    relay.cut();
    replicas.await_shares_of(&["b"]);
    // The policy has a view of the map by a watch of its own, and promises nothing while it lags.
    for (slot, epoch) in before {
        until("the policy sees the seizure", || is_refused(&ns, slot, epoch).then_some(()));
    }
    let held = relay.held_creates();
    relay.release_creates();

    let late = until("the creates have landed", || {
        let records = installed().audit().since(mark).expect("the log is there");
        // All creates of the first replica were held.
        let is_late = |record: &Record| {
            let (verb, resource) = (record.verb.as_str(), record.resource.as_str());
            (verb, resource, record.namespace.as_str()) == ("create", "pods", &ns)
                && record.user_agent.contains(&first)
        };
        let late: Vec<Record> = records.into_iter().filter(is_late).collect();
        (late.len() == held).then_some(late)
    });
    for record in late {
        assert_eq!(record.code, 403, "{record:?}");
        assert!(record.request_uri.contains("&fieldManager=frameworkcontroller-slot-"), "{record:?}");
        let name = record.request_object.as_ref().and_then(|pod| pod["metadata"]["name"].as_str());
        let name = name.expect("the log carries the Pod");
        // The other replica waits for the life of a request before it creates the Pod.
        assert!(block_on(pods(&ns).get_opt(name)).expect("a read").is_none(), "{name}");
    }
}

/// The part of the user agent of a replica that no other one has.
fn agent_of(replica: &str) -> String {
    let log = log_of(replica);
    // Replicas of this name in other tests wrote to the same file before.
    let run = log.rsplit_once("INFO starting").and_then(|(_, rest)| rest.split_once("incarnation=\""));
    run.and_then(|(_, rest)| rest.split_once('"')).expect("its first line names the run").0.to_owned()
}

/// Whether the policy refuses a create for a slot under an epoch.
fn is_refused(namespace: &str, slot: u8, epoch: u64) -> bool {
    let manager = format!("frameworkcontroller-slot-{slot}-epoch-{epoch}");
    let dry = PostParams { dry_run: true, field_manager: Some(manager) };
    let probe: Pod = serde_json::from_value(json!({
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }))
    .expect("a Pod");
    match block_on(pods(namespace).create(&dry, &probe)) {
        Ok(_) => false,
        Err(kube::Error::Api(refusal)) if refusal.message.contains("was granted again under epoch") => true,
        Err(error) => panic!("the dry run of a create: {error}"),
    }
}

/// Waits until the policy compares with the map: until it refuses a create of the first epoch of all.
fn await_the_map(namespace: &str) {
    let pod = "run probe --image=busybox --dry-run=server --field-manager=frameworkcontroller-slot-7-epoch-1";
    let arguments = [&["--namespace", namespace][..], &pod.split(' ').collect::<Vec<_>>()].concat();
    let refusal = until("the policy sees the map", || {
        let output = installed().kubectl(&arguments).expect("kubectl runs");
        (!output.status.success()).then_some(output.stderr)
    });
    assert!(refusal.contains("slot 7 was granted again under epoch"), "{refusal}");
}
