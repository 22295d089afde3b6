//! Reports about Frameworks that are gone while Pods of them remain. The keeper of QueueUnits holds their
//! quota.

use std::time::Duration;

use framework_api::State;
use framework_api::queue::QUEUE_NAME_LABEL;
use framework_core::Policy;
use framework_core::observed::Admission;
use framework_message::{Change, Key, SlotSelection, Slots};

use super::cluster::{Cluster, policy};
use crate::event::{Event, Kind};

const SECOND: Duration = Duration::from_secs(1);

/// A Framework that a queue has released, and whose Pod is on its way.
fn released() -> Cluster {
    let mut cluster = Cluster::new(Policy { queueing: true, ..policy() });
    cluster.create_framework("job", 1);
    cluster.edit("job", |framework| {
        framework.metadata.labels = Some([(QUEUE_NAME_LABEL.to_owned(), "gpu".to_owned())].into());
    });
    cluster.deliver();
    cluster.live(SECOND);
    let (framework, _) = cluster.frameworks["job"].content.as_ref().unwrap();
    let generation = framework.metadata.generation.unwrap();
    let (now, uid) = (cluster.now(), cluster.frameworks["job"].uid.clone());
    cluster.engine.admit(now, &Key::new("ns", "job"), &uid, Admission::Released { generation });
    cluster.deliver();
    cluster.turn();
    while cluster.count("create job-w-0") == 0 {
        cluster.serve_all();
        cluster.deliver();
        cluster.turn();
    }
    cluster
}

/// The Framework is deleted.
fn deleted(cluster: &mut Cluster) {
    let old = cluster.frameworks.remove("job").unwrap();
    cluster.watch.push_back(Event::Framework(Change::Deleted(old)));
    cluster.deliver();
    cluster.turn();
}

/// Its Pod is deleted.
fn last_pod_goes(cluster: &mut Cluster) {
    cluster.remove_pod("job-w-0");
    cluster.deliver();
    cluster.turn();
}

/// The last report: whether there is a Framework, whether there are strays, and unseen creates.
fn last(cluster: &Cluster) -> (bool, bool, bool) {
    let (strays, creates) = *cluster.heard.left.last().unwrap();
    (cluster.heard.queued.last().unwrap().1.is_some(), strays, creates)
}

#[test]
fn a_framework_that_is_gone_is_reported_until_its_last_pod_is() {
    let mut cluster = released();
    cluster.live(SECOND);
    deleted(&mut cluster);
    assert_eq!(last(&cluster), (false, true, false));
    last_pod_goes(&mut cluster);
    assert_eq!(last(&cluster), (false, false, false));
}

#[test]
fn a_framework_that_went_before_its_pods_were_seen_is_reported_as_such() {
    let mut cluster = released();
    deleted(&mut cluster);
    assert_eq!(last(&cluster), (false, false, true), "the POST is on its way");
    let mut cluster = released();
    for _ in 0..3 {
        cluster.serve_all();
        cluster.watch.retain(|event| !matches!(event, Event::Pod(_)));
        cluster.deliver();
        cluster.pass(SECOND);
    }
    assert_eq!(cluster.state("job"), State::AttemptPreparing, "the Pod is recorded");
    deleted(&mut cluster);
    assert_eq!(last(&cluster), (false, false, true), "the watch is yet to show the Pod");
}

#[test]
fn pods_of_an_earlier_framework_of_the_name_are_strays() {
    let mut cluster = released();
    cluster.live(SECOND);
    deleted(&mut cluster);
    cluster.create_framework("job", 1);
    cluster.edit("job", |framework| {
        framework.metadata.labels = Some([(QUEUE_NAME_LABEL.to_owned(), "gpu".to_owned())].into());
    });
    cluster.deliver();
    cluster.turn();
    assert_eq!(last(&cluster), (true, true, false));
    last_pod_goes(&mut cluster);
    assert_eq!(last(&cluster), (true, false, false));
}

#[test]
fn strays_beside_a_framework_without_a_queue_are_reported_to_the_end() {
    let mut cluster = released();
    cluster.live(SECOND);
    deleted(&mut cluster);
    cluster.create_framework("job", 1);
    cluster.deliver();
    cluster.turn();
    assert_eq!(last(&cluster), (false, true, false));
    last_pod_goes(&mut cluster);
    assert_eq!(last(&cluster), (false, false, false));
}

#[test]
fn a_list_of_other_slots_ends_no_pod_of_a_framework_that_is_gone() {
    let mut cluster = released();
    cluster.live(SECOND);
    let slot: Slots = cluster.slot("job").into_iter().collect();
    deleted(&mut cluster);
    for (list, remain) in [(Slots::ALL.without(slot), true), (slot, false)] {
        let selection = SlotSelection { grant: 0, slots: Slots::ALL, list };
        cluster.step(Event::Selected(Kind::Pods, selection));
        cluster.step(Event::Pod(Change::Restarted));
        cluster.step(Event::Pod(Change::Synced));
        cluster.turn();
        assert_eq!(last(&cluster), (false, remain, false));
    }
}

#[test]
fn pods_that_come_and_go_without_a_framework_leave_nothing_behind() {
    let mut cluster = Cluster::new(policy());
    cluster.make_pod("job", "job-w-stays", "map");
    for _ in 0..100 {
        cluster.make_pod("job", "job-w-0", "map");
        cluster.deliver();
        cluster.delete_pod_by_others("job-w-0");
        cluster.deliver();
        cluster.turn();
    }
    let entry = cluster.engine.cache.get_mut(&Key::new("ns", "job")).expect("one of its Pods is there");
    assert_eq!(entry.known.objects.gone.len(), 0);
}
