//! Frameworks that wait in a queue: their acts meanwhile, the reports about it, and how they go on.

use framework_api::code::Code;
use framework_api::name;
use framework_api::queue::{NAMESPACE_SLOT_LABEL, QUEUE_NAME_LABEL};
use framework_api::{ExecutionType, State};
use framework_core::observed::{ConfigMapFacts, Create, Instance, Outcome, Refusal};
use framework_core::queue::{self, Stage};
use framework_core::{Action, act, lifetime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;
use serde_json::json;

use crate::world::{Builder, World, framework};

/// A Framework that names the queue `gpu`, where queueing is switched on.
fn queued(builder: Builder) -> World {
    let mut world = builder.world();
    world.policy.queueing = true;
    world.name_queue(Some("gpu"));
    world
}

/// It waits: nothing was done for it, and its conditions say why.
fn assert_waits(world: &World, reason: &str, message: &str) {
    assert_eq!((world.state(), world.acts.len()), (State::AttemptCreationPending, 0), "{:?}", world.acts);
    assert_eq!(world.condition("Queued"), Some(("True", reason, message)));
    assert_eq!(world.condition("Running"), Some(("False", "Queued", message)));
    assert_eq!(queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()), Some("gpu"));
    assert_eq!(queue::stage(world.cluster.status.as_ref()), Stage::Waiting);
}

/// It left the queue without being released.
fn assert_not_queued(world: &World, message: &str) {
    assert_eq!(world.condition("Queued"), Some(("False", "NotQueued", message)));
    assert_eq!(queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()), None);
    assert!(!world.reports.iter().any(|reason| reason == "Admitted"), "{:?}", world.reports);
}

/// The queue label of the object that a create posts.
fn label(world: &World, action: &Action) -> Option<String> {
    labels(world, action)[0].clone()
}

/// That label, and the one of the slot of the namespace.
fn labels(world: &World, action: &Action) -> [Option<String>; 2] {
    let body = act::body(&world.cluster.framework, world.status(), action)
        .expect("a create")
        .expect("a small template");
    let labels = &body["metadata"]["labels"];
    [QUEUE_NAME_LABEL, NAMESPACE_SLOT_LABEL].map(|label| labels[label].as_str().map(str::to_owned))
}

fn is_config_map(action: &Action) -> bool {
    matches!(action, Action::CreateConfigMap { .. })
}

#[test]
fn a_framework_waits_until_its_queue_releases_it() {
    let mut world = queued(framework().role("a", 2));
    assert_eq!(queue::is_queued(&world.cluster.framework, None), Some("gpu"));
    assert_eq!(queue::stage(None), Stage::Waiting);
    world.settle();
    assert_waits(&world, "Pending", "waits to be put into queue gpu");
    world.refuse("InsufficientQuota", "cpu: 4 are missing").settle();
    assert_waits(&world, "InsufficientQuota", "cpu: 4 are missing");
    world.admit().settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
    assert_eq!(world.condition("Queued"), Some(("False", "Admitted", "released from queue gpu")));
    assert_eq!(queue::stage(world.cluster.status.as_ref()), Stage::Started);
    world.exit("a", 0, 0).exit("a", 1, 0).settle();
    world.assert_completed(Code::Succeeded);
    assert_eq!(world.reports, ["Admitted", "Succeeded"]);
    assert_eq!(queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()), Some("gpu"));
    assert_eq!(queue::stage(world.cluster.status.as_ref()), Stage::Finished);
}

#[test]
fn waiting_costs_a_write_only_when_its_reason_changes() {
    let mut world = queued(framework().role("a", 1));
    world.settle();
    assert_eq!(world.writes, 1);
    world.refuse("InsufficientQuota", "4 are missing").settle();
    assert_eq!(world.writes, 2);
    for missing in 0..10 {
        world.refuse("InsufficientQuota", &format!("{missing} are missing")).pass(60).settle();
    }
    world.admission = None;
    world.pass(60).settle();
    assert_eq!(world.writes, 2, "nor does it when the controller is started again");
    assert_waits(&world, "InsufficientQuota", "4 are missing");
    world.refuse("Waiting", "others go first").settle();
    assert_eq!(world.writes, 3);
    assert_waits(&world, "Waiting", "others go first");
    assert!(world.reports.is_empty(), "its unit has the reason: {:?}", world.reports);
}

#[test]
fn a_release_is_recorded_with_the_config_map() {
    let mut world = queued(framework().role("a", 3));
    world.settle();
    assert_eq!(world.writes, 1);
    let plan = world.admit().plan();
    assert!(plan.persist.is_none() && plan.act.len() == 1, "{plan:?}");
    world.settle().run();
    (0..3).for_each(|index| _ = world.exit("a", index, 0));
    world.settle();
    assert!(world.writes <= 7, "{} status writes", world.writes);
    let admitted =
        world.history.iter().find(|status| status.conditions.iter().any(|c| c.reason == "Admitted"));
    assert!(admitted.is_some_and(|status| status.attempt_status.config_map_uid.is_some()));
}

#[test]
fn a_framework_released_before_its_first_sync_never_waits() {
    let mut world = queued(framework().role("a", 1));
    world.admit().settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
    assert_eq!(world.condition("Queued"), Some(("False", "Admitted", "released from queue gpu")));
    assert_eq!(world.reports, ["Admitted"]);
}

#[test]
fn a_framework_without_a_queue_never_waits() {
    let life = |queueing: bool, label: Option<&str>| {
        let mut world = framework().role("a", 2).retry(false, 1).world();
        world.policy.queueing = queueing;
        world.name_queue(label).settle();
        world.run().exit("a", 0, 1).settle().run().exit("a", 1, 1).settle();
        assert_eq!(queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()), None);
        (world.history, world.acts, world.reports)
    };
    let plain = life(false, None);
    assert!(!plain.1.is_empty());
    for (queueing, label) in [(false, Some("gpu")), (true, None), (true, Some(""))] {
        assert_eq!(life(queueing, label), plain, "{queueing} {label:?}");
    }
}

#[test]
fn a_stop_ends_one_that_waits() {
    let mut world = queued(framework().role("a", 2).retry(false, -2));
    world.settle().stop();
    assert_eq!(
        queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()),
        None,
        "nothing is reserved for it"
    );
    world.settle();
    world.assert_completed(Code::StopFrameworkRequested);
    assert_eq!(world.acts, []);
    assert_not_queued(&world, "the Framework ended while it waited");
    assert_eq!(queue::stage(world.cluster.status.as_ref()), Stage::Finished);
}

#[test]
fn a_stop_that_races_the_release_starts_nothing() {
    let mut world = queued(framework().role("a", 2));
    world.settle().stop().admit().settle();
    world.assert_completed(Code::StopFrameworkRequested);
    assert_eq!(world.acts, []);
    assert_not_queued(&world, "the Framework ended while it waited");
}

#[test]
fn a_deadline_ends_one_that_waits() {
    let mut world = queued(framework().role("a", 1).deadline(100));
    world.settle().pass(99).settle();
    assert_waits(&world, "Pending", "waits to be put into queue gpu");
    world.pass(1).settle();
    world.assert_completed(Code::ActiveDeadlineExceeded);
    assert_eq!(world.acts, []);
    assert_not_queued(&world, "the Framework ended while it waited");
}

#[test]
fn a_ttl_counts_from_the_end_however_long_it_waited() {
    let mut world = queued(framework().role("a", 1).ttl(60));
    world.settle().pass(10 * 365 * 24 * 3600).settle();
    assert_waits(&world, "Pending", "waits to be put into queue gpu");
    assert_eq!(lifetime::expiry(&world.cluster.framework, world.status(), &world.policy), None);
    world.stop().settle().pass(59).settle();
    assert_eq!(world.acts, []);
    world.pass(1).settle();
    assert_eq!(world.acts, [Action::DeleteFramework]);
}

#[test]
fn a_rescale_while_it_waits_takes_effect_and_its_reason_stays() {
    let mut world = queued(framework().role("a", 3));
    world.settle().refuse("InsufficientQuota", "4 are missing").settle();
    world.edit(|spec| spec.task_roles[0].task_number = 5).settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 5);
    assert_eq!(world.status().observed_generation, Some(2));
    assert_waits(&world, "InsufficientQuota", "4 are missing");
    world.edit(|spec| spec.task_roles[0].task_number = 1).settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 1, "no Pod has to be waited for");
    assert_waits(&world, "InsufficientQuota", "4 are missing");
    let queued = world.status().conditions.iter().find(|condition| condition.type_ == "Queued").unwrap();
    assert_eq!((world.status().observed_generation, queued.observed_generation), (Some(3), Some(3)));
    world.admit().settle().run();
    assert_eq!((world.state(), world.cluster.objects.pods.len()), (State::AttemptRunning, 1));
}

#[test]
fn a_framework_being_deleted_begins_nothing_even_if_released() {
    let mut world = queued(framework().role("a", 1));
    world.settle();
    world.cluster.framework.metadata.deletion_timestamp = Some(MetaTime(world.cluster.now.timestamp()));
    world.cluster.framework.metadata.finalizers = Some(vec!["example.com/audit".to_owned()]);
    world.cluster.framework.metadata.generation = Some(2);
    world.admit().settle();
    assert_eq!((world.state(), world.acts.len()), (State::AttemptCreationPending, 0));
    assert_not_queued(&world, "the Framework is being deleted");
}

#[test]
fn one_that_is_deleted_waits_unless_its_first_config_map_may_come() {
    let mut world = queued(framework().role("a", 1));
    world.settle().admit();
    let create = |outcome| Some(Create { instance: Instance::FrameworkAttempt { attempt_id: 0 }, outcome });
    world.cluster.objects.config_map_create = create(Outcome::Refused {
        refusal: Refusal::Transient,
        message: "exceeded quota".into(),
        retry_at: world.cluster.now.plus_seconds(60).timestamp(),
    });
    world.settle();
    let stage = |world: &World| queue::stage_now(&world.observed(), &world.policy);
    assert_eq!(stage(&world), Stage::Started, "its release is stored");
    world.cluster.framework.metadata.deletion_timestamp = Some(MetaTime(world.cluster.now.timestamp()));
    assert_eq!(stage(&world), Stage::Waiting, "no other one is created");
    for outcome in [Outcome::InFlight, Outcome::Acknowledged { uid: "u".to_owned() }] {
        world.cluster.objects.config_map_create = create(outcome);
        assert_eq!(stage(&world), Stage::Started);
    }
    world.cluster.objects.config_map_create = None;
    for (owner, expected) in [("fw-uid", Stage::Started), ("another", Stage::Waiting)] {
        let framework_uid = Some(owner.to_owned());
        let facts = ConfigMapFacts { uid: "u".to_owned(), framework_uid, deleting: false };
        world.cluster.objects.config_map = Some(facts);
        assert_eq!(stage(&world), expected, "a ConfigMap of {owner}");
    }
}

#[test]
fn one_whose_label_is_removed_starts_and_belongs_to_no_queue() {
    let mut world = queued(framework().role("a", 1));
    world.settle().name_queue(None).settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
    assert_not_queued(&world, "the label that named a queue was removed");
    world.name_queue(Some("gpu")).admit().settle();
    assert_not_queued(&world, "the label that named a queue was removed");
    let pod = world.acts.iter().find(|act| matches!(act, Action::CreatePod { .. })).unwrap();
    assert_eq!(label(&world, pod), None);
}

#[test]
fn one_that_waits_goes_on_when_queueing_is_switched_off() {
    let mut world = queued(framework().role("a", 1));
    world.settle();
    world.policy.queueing = false;
    world.settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
    assert_not_queued(&world, "queueing is switched off");
}

#[test]
fn a_label_that_comes_or_changes_after_the_start_means_nothing() {
    let mut late = framework().role("a", 1).world();
    late.policy.queueing = true;
    late.settle().run().name_queue(Some("gpu")).admit().settle();
    assert_eq!((late.condition("Queued"), late.state()), (None, State::AttemptRunning));
    assert_eq!(queue::is_queued(&late.cluster.framework, late.cluster.status.as_ref()), None);

    let mut world = queued(framework().role("a", 1));
    world.settle().admit().settle().run();
    let writes = world.writes;
    let pod = world.acts.iter().find(|act| matches!(act, Action::CreatePod { .. })).unwrap().clone();
    for queue in [Some("other"), None] {
        world.name_queue(queue).settle();
        assert_eq!(queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()), Some("gpu"));
        assert_eq!(label(&world, &pod).as_deref(), Some("gpu"), "also for a retry");
    }
    assert_eq!(world.writes, writes);
}

#[test]
fn the_config_map_and_the_pods_have_the_labels_of_queue_and_namespace() {
    let mut world = queued(framework().role("a", 1));
    let mine = json!({ "labels": { QUEUE_NAME_LABEL: "mine", NAMESPACE_SLOT_LABEL: "mine" } });
    world.template(|pod| pod["metadata"] = mine);
    world.settle();
    let expected = ["gpu".to_owned(), name::slot("default").to_string()].map(Some);
    let create = world.admit().plan().act.remove(0);
    assert!(is_config_map(&create));
    assert_eq!(labels(&world, &create), expected);
    world.settle();
    let create = world.acts.iter().find(|act| matches!(act, Action::CreatePod { .. })).unwrap();
    assert_eq!(labels(&world, create), expected, "even if the template has other labels");
}

#[test]
fn a_retry_does_not_wait_again_even_after_a_restart() {
    let mut world = queued(framework().role("a", 1).retry(true, 1));
    world.settle().admit().settle().run();
    world.admission = None;
    world.exit("a", 0, 201).settle();
    assert_eq!(queue::stage(world.cluster.status.as_ref()), Stage::Started, "it waits for its delay");
    world.pass(900).settle().run();
    assert_eq!((world.status().attempt_status.id, world.state()), (1, State::AttemptRunning));
    world.exit("a", 0, 1).settle().run().exit("a", 0, 1).settle();
    assert_eq!((world.state(), world.status().attempt_status.id), (State::Completed, 2));
    assert_eq!(world.reports.iter().filter(|reason| *reason == "Admitted").count(), 1);
}

#[test]
fn a_config_map_that_is_on_its_way_is_not_taken_back() {
    let mut world = queued(framework().role("a", 1));
    world.settle();
    let instance = Instance::FrameworkAttempt { attempt_id: 0 };
    world.cluster.objects.config_map_create = Some(Create { instance, outcome: Outcome::InFlight });
    let plan = world.plan();
    assert!(plan.persist.is_none() && plan.act.is_empty(), "{plan:?}");
    world.cluster.objects.config_map_create.as_mut().unwrap().outcome =
        Outcome::Acknowledged { uid: "u".to_owned() };
    world.step();
    assert_eq!(world.state(), State::AttemptCreationRequested);
    assert_eq!(world.condition("Queued"), Some(("False", "Admitted", "released from queue gpu")));
}

#[test]
fn a_release_outlives_a_refused_config_map_and_a_restart() {
    let mut world = queued(framework().role("a", 1));
    world.settle().admit();
    let instance = Instance::FrameworkAttempt { attempt_id: 0 };
    let refused = Outcome::Refused {
        refusal: Refusal::Transient,
        message: "exceeded quota".into(),
        retry_at: world.cluster.now.plus_seconds(60).timestamp(),
    };
    world.cluster.objects.config_map_create = Some(Create { instance, outcome: refused });
    world.settle();
    assert_eq!(world.condition("Queued"), Some(("False", "Admitted", "released from queue gpu")));
    assert_eq!(world.condition("Running").unwrap().2, "exceeded quota");
    (world.admission, world.cluster.objects.config_map_create) = (None, None);
    assert!(world.plan().act.iter().any(is_config_map));
    world.refuse("InsufficientQuota", "late news").settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
    assert_eq!(world.reports, ["Admitted"]);
}

#[test]
fn one_that_is_held_is_in_no_queue_until_it_is_started() {
    let mut world = queued(framework().role("a", 1).execution("Create"));
    world.settle();
    assert_eq!(world.condition("Queued"), None);
    assert_eq!(queue::is_queued(&world.cluster.framework, world.cluster.status.as_ref()), None);
    world.edit(|spec| spec.execution_type = ExecutionType::Start).settle();
    assert_waits(&world, "Pending", "waits to be put into queue gpu");
}

#[test]
fn an_obstacle_after_the_release_is_shown_while_it_waits() {
    let mut invalid = queued(framework().role("a", 1));
    invalid.template(|pod| pod["spec"]["containers"] = json!("none"));
    invalid.settle();
    assert_eq!(invalid.condition("Running").unwrap().1, "InvalidPodTemplate");
    assert_eq!(invalid.condition("Queued").unwrap().0, "True");
    assert_eq!(invalid.reports, ["InvalidPodTemplate"]);

    let mut large = queued(framework().role("a", 100));
    large.policy.size.object = 2000;
    large.settle();
    assert_eq!(large.condition("Running").unwrap().1, "FrameworkTooLarge");
    large.admit().settle();
    assert_eq!(large.acts, [], "it is held all the same");
    assert_eq!(large.condition("Queued").unwrap().1, "Admitted", "and no longer because of its queue");
}

#[test]
fn the_message_of_a_queue_is_truncated() {
    let mut world = queued(framework().role("a", 1));
    world.refuse("InsufficientQuota", &"\u{1F980}".repeat(100_000)).settle();
    let conditions = serde_json::to_string(&world.status().conditions).unwrap();
    assert!(conditions.len() < 5000, "{} bytes", conditions.len());
    world.settle();
    assert_eq!(world.writes, 1, "what was cut once is not cut again");
}
