//! Frameworks that cannot be read are reported once, in an Event and a condition, and continue when they can
//! be read.

use std::sync::Arc;
use std::time::Duration;

use framework_api::State;

use super::cluster::{Cluster, policy};
use crate::event::Event;
use crate::object::Unreadable;
use framework_core::batch::Panicked;
use framework_message::{Change, Key, Slots};

impl Cluster {
    /// Makes the stored Framework unreadable.
    pub(super) fn spoil(&mut self, name: &str, reason: &str) {
        let version = self.version();
        let object = self.frameworks.get_mut(name).unwrap();
        let conditions = match &object.content {
            Ok((_, status)) => status.as_ref().map(|status| status.conditions.clone()),
            Err(unreadable) => unreadable.conditions.clone(),
        };
        let framework = match &object.content {
            Ok((framework, _)) => Some(Arc::clone(framework)),
            Err(unreadable) => unreadable.framework.clone(),
        };
        object.resource_version = version;
        object.content = Err(Unreadable { reason: reason.into(), framework, conditions });
        self.watch.push_back(Event::Framework(Change::Applied(object.clone())));
        self.deliver();
        self.settle();
    }

    fn notes(&self) -> Vec<&str> {
        let reports = self.heard.reports.iter();
        reports.filter(|one| one.reason == "StatusUnreadable").map(|one| &*one.note).collect()
    }
}

#[test]
fn an_unreadable_status_is_reported_once_and_goes_on_when_repaired() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 2);
    cluster.settle();
    let good = cluster.frameworks["job"].content.clone();
    let before = cluster.log.len();
    cluster.spoil("job", "status: it is cut short");
    cluster.spoil("job", "status: it is cut short");
    assert_eq!(cluster.log[before..], ["quarantine job"]);
    assert_eq!(
        cluster.notes(),
        ["the Framework is left alone until it can be read: status: it is cut short"]
    );
    cluster.spoil("job", "status: it is not base64");
    assert_eq!(cluster.log[before..], ["quarantine job", "quarantine job"]);
    assert_eq!(cluster.notes().len(), 2);

    let version = cluster.version();
    let object = cluster.frameworks.get_mut("job").unwrap();
    object.resource_version = version;
    let conditions = object.content.as_ref().unwrap_err().conditions.clone().unwrap();
    object.content = good;
    Arc::make_mut(object.content.as_mut().unwrap().1.as_mut().unwrap()).conditions = conditions;
    cluster.watch.push_back(Event::Framework(Change::Applied(cluster.frameworks["job"].clone())));
    cluster.deliver();
    cluster.live(Duration::from_secs(2));
    let running = cluster.status("job").conditions[0].clone();
    assert!(running.status != "Unknown" && running.reason != "StatusUnreadable", "{running:?}");
    assert_ne!(cluster.state("job"), State::Completed);
}

#[test]
fn a_framework_whose_evaluation_panicked_is_left_alone_until_it_changes() {
    let mut cluster = Cluster::new(policy());
    cluster.running("job", 2);
    cluster.running("other", 1);
    let panicked = Panicked("index 7 of 5".to_owned());
    cluster.engine.leave_alone(&Key::new("ns", "job"), &panicked);
    cluster.exit("job-w-0", 0);
    cluster.exit("other-w-0", 0);
    cluster.deliver();
    cluster.pass(Duration::from_secs(2));
    let words = "its evaluation panicked, a defect of the controller: index 7 of 5";
    assert!(matches!(cluster.notes()[..], [note] if note.ends_with(words)), "{:?}", cluster.notes());
    let waiting = cluster.waiting();
    assert_eq!(waiting, ["put other AttemptRunning", "quarantine job"]);
    // The condition makes another version.
    cluster.live(Duration::from_secs(5));
    assert_eq!(cluster.state("other"), State::Completed);
    assert!(cluster.status("job").task("w", 0).unwrap().attempt_status.completion_status.is_some());
}

#[test]
fn reports_of_an_earlier_controller_are_not_repeated() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.settle();
    cluster.spoil("job", "status: it is cut short");
    let spoilt = cluster.frameworks["job"].clone();

    let mut next = Cluster::new(policy());
    next.frameworks.insert("job".to_owned(), spoilt.clone());
    next.watch.push_back(Event::Framework(Change::Applied(spoilt)));
    next.deliver();
    next.settle();
    assert_eq!((next.log.len(), next.notes().len()), (0, 0), "{:?}", next.log);
}

#[test]
fn a_get_that_is_owed_is_sent_when_the_framework_was_unreadable_meanwhile() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 2);
    cluster.owe_a_lookup(["create job-w-0", "create job-w-1"]);
    let good = cluster.frameworks["job"].content.clone();
    cluster.spoil("job", "status: it is cut short");
    cluster.frameworks.get_mut("job").unwrap().content = good;
    cluster.edit("job", |_| {});
    cluster.deliver();
    cluster.live(Duration::from_secs(20));
    assert_eq!(cluster.count("holder job-w-1"), 1, "{:?}", cluster.log);
    assert_eq!(cluster.state("job"), State::Completed, "{:?}", cluster.log);
}

#[test]
fn a_pod_created_before_its_framework_was_unreadable_is_kept() {
    let mut cluster = Cluster::new(policy());
    cluster.creating("job", 1);
    cluster.serve("create job-w-0");
    let good = cluster.frameworks["job"].content.clone();
    cluster.spoil("job", "status: it is cut short");
    cluster.step(Event::Drain(Slots::ALL));
    cluster.turn();
    assert!(cluster.heard.drained, "nothing of it can be recorded");
    cluster.step(Event::Resume(Slots::ALL));
    cluster.frameworks.get_mut("job").unwrap().content = good;
    cluster.edit("job", |_| {});
    cluster.deliver();
    cluster.live(Duration::from_secs(5));
    let sent = ["create job-w-0", "delete job-w-0"].map(|wanted| cluster.count(wanted));
    assert_eq!(sent, [1, 0], "{:?}", cluster.log);
    let recorded = cluster.status("job").task("w", 0).unwrap().attempt_status.pod_uid.clone();
    assert_eq!(recorded.as_ref(), Some(&cluster.pods["job-w-0"].facts.uid));
}
