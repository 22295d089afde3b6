//! Creates that fail, hang, or were lost: refusals, orphans, and the cache that never shows the object.

use framework_api::code::Code;
use framework_api::status::TaskStatus;
use framework_api::{ExecutionType, State};
use framework_core::Action;
use framework_core::observed::{ConfigMapFacts, Create, Instance, Outcome, PodPhase, Refusal};

use crate::world::{World, framework, pod};

/// A world in which the create of Pod `job-a-0` came out as `outcome`.
fn with_outcome(outcome: Outcome) -> World {
    let mut world = framework().role("a", 1).world();
    while !matches!(world.plan().act[..], [Action::CreatePod { .. }]) {
        assert!(world.step());
    }
    let [Action::CreatePod { instance, .. }] = &world.plan().act[..] else { unreachable!() };
    world.cluster.objects.pod_creates.insert("job-a-0", Create { instance: instance.clone(), outcome });
    world
}

fn refused(refusal: Refusal, retry_in: i64) -> World {
    let at = framework().world().cluster.now.plus_seconds(retry_in).timestamp();
    with_outcome(Outcome::Refused { refusal, message: "the reason why".into(), retry_at: at })
}

#[test]
fn a_pod_refused_for_good_ends_its_attempt_with_the_reason() {
    for (refusal, code) in [
        (Refusal::Permanent, Code::PodCreationPermanentError),
        (Refusal::Unknown, Code::PodCreationUnknownError),
    ] {
        let mut world = refused(refusal, 0);
        world.settle();
        world.assert_completed(code);
        let end = world.status().attempt_status.completion_status.as_ref().unwrap();
        assert!(end.diagnostics.contains("the reason why"), "{end:?}");
        assert!(end.trigger.is_some());
    }
}

#[test]
fn a_pod_refused_for_now_is_tried_again_and_says_why() {
    for (refusal, reason) in
        [(Refusal::Transient, "PodCreationTransientError"), (Refusal::NameConflict, "NameConflict")]
    {
        let mut world = refused(refusal, 30);
        assert_eq!(world.plan().act, []);
        assert_eq!(world.plan().wake, Some(world.cluster.now.plus_seconds(30).timestamp()));
        world.settle();
        let condition = world.status().conditions.iter().find(|c| c.type_ == "Running").unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), (reason, "the reason why"));
        assert_eq!(world.task("a", 0).state, State::AttemptCreationPending);
        world.pass(30);
        assert!(matches!(world.plan().act[..], [Action::CreatePod { .. }]), "it is due again");
    }
}

/// The create that is due may have to wait for those of other Tasks that are refused, too.
#[test]
fn a_create_that_is_due_again_hides_no_later_time() {
    let mut world = framework().role("a", 2).world();
    while world.plan().act.len() < 2 {
        assert!(world.step());
    }
    let times = [0, 30].map(|seconds| world.cluster.now.plus_seconds(seconds).timestamp());
    for (action, retry_at) in world.plan().act.into_iter().zip(times) {
        let Action::CreatePod { name, instance, .. } = action else { panic!("no create") };
        let message = "exceeded quota".into();
        let outcome = Outcome::Refused { refusal: Refusal::Transient, message, retry_at };
        world.cluster.objects.pod_creates.insert(name, Create { instance, outcome });
    }
    let plan = world.plan();
    assert!(matches!(plan.act[..], [Action::CreatePod { task_index: 0, .. }]), "{:?}", plan.act);
    assert_eq!(plan.wake, Some(times[1]));
}

/// The original stores the UIDs together with the next states, but another client may not.
#[test]
fn objects_that_a_status_records_before_their_creation_are_followed() {
    let mut world = framework().role("a", 1).world();
    world.settle().run();
    let (acts, recorded) = (world.acts.len(), world.task("a", 0).attempt_status.pod_uid.clone());
    let status = world.cluster.status.as_mut().unwrap();
    status.state = State::AttemptCreationPending;
    let roles = status.attempt_status.task_role_statuses.as_mut().unwrap();
    roles[0].task_statuses[0].to_mut().state = State::AttemptCreationPending;
    world.settle();
    assert_eq!(world.acts.len(), acts, "no object is created, and none deleted");
    assert_eq!((world.state(), world.task("a", 0).state), (State::AttemptRunning, State::AttemptRunning));
    assert_eq!(world.task("a", 0).attempt_status.pod_uid, recorded);
    world.exit("a", 0, 0).settle();
    world.assert_completed(Code::Succeeded);
}

#[test]
fn while_a_create_is_in_flight_its_pod_is_not_judged() {
    let mut world = with_outcome(Outcome::InFlight);
    let map = world.status().attempt_status.config_map_uid.clone().unwrap();
    world.cluster.objects.pods.insert("job-a-0", pod("early", &map, PodPhase::Pending).into());
    let plan = world.plan();
    assert_eq!((plan.persist, plan.act), (None, vec![]), "the watch was faster than the reply");
}

#[test]
fn a_pod_whose_create_got_no_reply_is_deleted_not_adopted() {
    let mut world = with_outcome(Outcome::InFlight);
    let map = world.status().attempt_status.config_map_uid.clone().unwrap();
    world.cluster.objects.pod_creates.clear();
    world.cluster.objects.pods.insert("job-a-0", pod("late", &map, PodPhase::Running).into());
    let orphan = Action::DeletePod { name: "job-a-0".to_owned(), uid: "late".to_owned(), force: false };
    assert_eq!(world.plan().act, [orphan]);
    world.settle().run();
    assert_ne!(world.task("a", 0).attempt_status.pod_uid.as_deref(), Some("late"));
}

#[test]
fn orphans_are_deleted_in_every_state() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0).settle();
    assert_eq!(world.state(), State::Completed);
    for name in ["job-a-0", "job-a-7", "job-gone-0"] {
        world.cluster.objects.pods.insert(name, pod("late", "other-map", PodPhase::Running).into());
        assert!(matches!(&world.plan().act[..], [Action::DeletePod { uid, .. }] if uid == "late"), "{name}");
        world.settle();
    }
}

#[test]
fn an_attempt_is_not_over_while_a_pod_of_a_lost_write_lives() {
    let ends: [fn(&mut World); 2] =
        [|world| _ = world.stop(), |world| _ = world.edit(|spec| spec.task_roles[0].task_number = 1)];
    for end in ends {
        let mut world = framework().role("a", 2).graceful(5).world();
        while !matches!(world.plan().act[..], [Action::CreatePod { .. }, _]) {
            assert!(world.step());
        }
        let map = world.status().attempt_status.config_map_uid.clone().unwrap();
        world.cluster.objects.pods.insert("job-a-1", pod("late", &map, PodPhase::Running).into());
        end(&mut world);
        world.terminate("a", 1, 30);
        world.settle();
        let task = world.task("a", 1);
        assert_eq!(task.state, State::AttemptDeletionPending, "its Pod lives");
        assert!(task.attempt_status.completion_status.is_some() && task.attempt_status.pod_uid.is_none());
        // It hangs: its TaskRole's time-out frees it like any other.
        let forced = Action::DeletePod { name: "job-a-1".to_owned(), uid: "late".to_owned(), force: true };
        assert_eq!(world.pass(6).plan().act, [forced]);
        world.settle();
        assert!(!world.cluster.objects.pods.contains_key("job-a-1"));
        let over = |task: &TaskStatus| task.state == State::Completed;
        assert!(world.status().task("a", 1).is_none_or(over));
    }
}

#[test]
fn a_pod_of_another_config_map_is_judged_once_that_config_map_is_gone() {
    let mut world = framework().role("a", 1).world();
    world.settle().run().exit("a", 0, 0).settle();
    world.cluster.objects.config_map = Some(ConfigMapFacts {
        uid: "other-map".to_owned(),
        framework_uid: Some("another".to_owned()),
        deleting: false,
    });
    world.cluster.objects.pods.insert("job-a-0", pod("p", "other-map", PodPhase::Running).into());
    assert_eq!(world.plan().act, [], "its ConfigMap holds the name: the cache may lag");
    world.cluster.objects.config_map = None;
    assert!(matches!(world.plan().act[..], [Action::DeletePod { .. }]));
}

#[test]
fn a_config_map_of_a_lost_write_is_deleted_and_a_foreign_one_never() {
    let mut world = framework().role("a", 1).world();
    world.edit(|spec| spec.execution_type = ExecutionType::Create);
    world.step();
    world.edit(|spec| spec.execution_type = ExecutionType::Start);
    let map = |owner: Option<&str>| {
        Some(ConfigMapFacts { uid: "m".to_owned(), framework_uid: owner.map(str::to_owned), deleting: false })
    };
    world.cluster.objects.config_map = map(None);
    assert_eq!(world.plan().act, []);
    world.cluster.objects.config_map = map(Some("somebody-else"));
    assert_eq!(world.plan().act, []);
    world.cluster.objects.config_map = map(Some("fw-uid"));
    assert_eq!(world.plan().act, [Action::DeleteConfigMap { uid: "m".to_owned() }]);
}

#[test]
fn a_name_that_another_config_map_has_is_shown_until_it_is_free() {
    let map = |owner: Option<&str>| {
        Some(ConfigMapFacts { uid: "m".to_owned(), framework_uid: owner.map(str::to_owned), deleting: true })
    };
    for (owner, whose) in [(Some("earlier"), "with UID earlier"), (None, "which no Framework controls")] {
        let mut world = framework().role("a", 1).world();
        world.cluster.objects.config_map = map(owner);
        world.settle();
        let (status, reason, message) = world.condition("Running").unwrap();
        assert_eq!((status, reason), ("False", "NameConflict"));
        assert!(message.ends_with(whose), "{message}");
        assert_eq!(world.acts, [], "it is not ours");
        world.cluster.objects.config_map = None;
        world.settle();
        assert_eq!(world.condition("Running"), Some(("False", "AttemptPreparing", "")));
    }
    let mut held = framework().role("a", 1).execution("Create").world();
    held.cluster.objects.config_map = map(None);
    held.settle();
    assert_eq!(held.condition("Running").unwrap().1, "AttemptCreationPending", "it needs no name yet");
}

#[test]
fn a_framework_that_runs_says_why_some_of_its_tasks_do_not() {
    let mut world = framework().role("a", 1).world();
    world.settle().run();
    world.edit(|spec| spec.task_roles[0].task_number = 2);
    assert!(world.step());
    let [Action::CreatePod { name, instance, .. }] = &world.plan().act[..] else { panic!("no create") };
    let retry_at = world.cluster.now.plus_seconds(30).timestamp();
    let message = "exceeded quota".into();
    let outcome = Outcome::Refused { refusal: Refusal::Transient, message, retry_at };
    world.cluster.objects.pod_creates.insert(name, Create { instance: instance.clone(), outcome });
    world.settle();
    assert_eq!(world.condition("Running"), Some(("True", "AttemptRunning", "exceeded quota")));
    world.pass(30).settle();
    assert_eq!(world.condition("Running"), Some(("True", "AttemptRunning", "")), "it is created");
}

#[test]
fn a_refusal_that_repeats_beside_tasks_that_run_writes_nothing() {
    let mut world = framework().role("a", 1).world();
    world.settle().run();
    world.edit(|spec| spec.task_roles[0].task_number = 2);
    assert!(world.step());
    let [Action::CreatePod { name, instance, .. }] = &world.plan().act[..] else { panic!("no create") };
    let retry_at = world.cluster.now.plus_seconds(30).timestamp();
    let refused =
        |text: &str| Outcome::Refused { refusal: Refusal::Transient, message: text.into(), retry_at };
    let mut is_written = |outcome| {
        let create = Create { instance: instance.clone(), outcome };
        world.cluster.objects.pod_creates.insert(name, create);
        let is_written = world.plan().persist.is_some();
        world.settle();
        is_written
    };
    assert!(is_written(refused("exceeded quota, used: pods=9")));
    assert!(!is_written(Outcome::InFlight), "it is tried again");
    assert!(!is_written(refused("exceeded quota, used: pods=12")));
    assert!(is_written(refused("exceeded quota, used: memory=9")));
}

#[test]
fn an_object_that_never_appears_is_deleted_and_ends_its_attempt() {
    let mut world = with_outcome(Outcome::Acknowledged { uid: "unseen".to_owned() });
    world.step();
    assert_eq!(world.task("a", 0).state, State::AttemptCreationRequested);
    assert_eq!(world.plan().wake, Some(world.cluster.now.plus_seconds(300).timestamp()));
    world.pass(299);
    assert_eq!(world.plan().act, []);
    world.pass(1).step();
    assert_eq!(world.task_code("a", 0), Some(Code::PodLocalCacheCreationTimeout.number()));
    let confirm = Action::ConfirmPod { name: "job-a-0".to_owned(), uid: "unseen".to_owned() };
    assert_eq!(world.plan().act, [confirm], "a GET says whether there is anything to delete");
    let map = world.status().attempt_status.config_map_uid.clone().unwrap();
    let mut found = pod("unseen", &map, PodPhase::Running);
    found.unwatched = true;
    world.cluster.objects.pods.insert("job-a-0", found.into());
    assert!(matches!(&world.plan().act[..], [Action::DeletePod { uid, .. }] if uid == "unseen"));
    world.settle();
    world.assert_completed(Code::PodLocalCacheCreationTimeout);
}

#[test]
fn a_config_map_that_never_appears_ends_the_attempt() {
    let mut world = framework().role("a", 1).world();
    let instance = Instance::FrameworkAttempt { attempt_id: 0 };
    let outcome = Outcome::Acknowledged { uid: "unseen".to_owned() };
    world.cluster.objects.config_map_create = Some(Create { instance, outcome });
    world.step();
    assert_eq!(world.state(), State::AttemptCreationRequested);
    assert_eq!(world.plan().act, []);
    world.pass(300).settle();
    world.assert_completed(Code::ConfigMapLocalCacheCreationTimeout);
}

#[test]
fn stop_does_not_wait_for_the_cache() {
    let mut world = with_outcome(Outcome::Acknowledged { uid: "unseen".to_owned() });
    world.step();
    world.stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
}

#[test]
fn a_pod_acknowledged_but_not_recorded_is_stopped_like_any_other() {
    let mut world = with_outcome(Outcome::Acknowledged { uid: "known".to_owned() });
    world.stop().step();
    assert_eq!(world.task("a", 0).attempt_status.pod_uid.as_deref(), Some("known"));
    assert_eq!(world.task("a", 0).state, State::AttemptDeletionPending);
    world.settle();
    world.assert_completed(Code::StopFrameworkRequested);
}

#[test]
fn a_framework_being_deleted_gets_no_config_map() {
    let mut world = framework().role("a", 1).world();
    world.step();
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.cluster.now.timestamp());
    world.cluster.framework.metadata.deletion_timestamp = Some(now);
    assert_eq!(world.plan().act, []);
}

#[test]
fn a_framework_that_is_deleted_in_the_foreground_gets_no_more_pods() {
    let mut world = framework().role("a", 1).world();
    while !world.plan().act.iter().any(|act| matches!(act, Action::CreatePod { .. })) {
        world.step();
    }
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.cluster.now.timestamp());
    world.cluster.framework.metadata.deletion_timestamp = Some(now);
    // Somebody's finalizer only holds it up: its ConfigMap stays, and so all else goes on.
    world.cluster.framework.metadata.finalizers = Some(vec!["example.com/audit".to_owned()]);
    assert_eq!(world.plan().act.len(), 1);
    world.cluster.framework.metadata.finalizers = Some(vec!["foregroundDeletion".to_owned()]);
    assert_eq!(world.plan().act, []);
}

#[test]
fn a_template_that_cannot_work_is_named_in_the_first_status() {
    let mut world = framework().role("a", 1).world();
    world.template(|pod| pod["spec"]["containers"] = serde_json::json!("none"));
    world.step();
    world.step();
    let condition = world.status().conditions.iter().find(|c| c.type_ == "Running").unwrap().clone();
    assert_eq!(condition.reason, "InvalidPodTemplate");
    assert!(
        condition.message.starts_with("spec.taskRoles[0].task.pod.spec.containers"),
        "{}",
        condition.message
    );
    assert_eq!(world.reports, ["InvalidPodTemplate"]);
}

#[test]
fn a_template_that_was_corrected_is_reported_no_more() {
    let mut world = framework().role("a", 1).execution("Create").world();
    world.template(|pod| pod["spec"]["containers"] = serde_json::json!("none"));
    world.settle();
    assert_eq!(world.condition("Running").unwrap().1, "InvalidPodTemplate");
    world.edit(|spec| spec.description = Some("new".to_owned())).settle();
    assert_eq!(world.condition("Running").unwrap().1, "InvalidPodTemplate", "it is still there");
    world.template(|pod| pod["spec"]["containers"] = serde_json::json!([]));
    world.edit(|_| ()).settle();
    assert_eq!(world.condition("Running").unwrap().1, "AttemptCreationPending");
}

#[test]
fn a_plan_creates_no_more_pods_of_a_task_role_than_can_be_sent_soon() {
    let mut world = framework().role("a", 300).role("b", 3).world();
    while !world.plan().act.iter().any(|act| matches!(act, Action::CreatePod { .. })) {
        assert!(world.step());
    }
    let planned = |world: &World, role: &str| {
        let acts = world.plan().act.into_iter();
        acts.filter(|act| matches!(act, Action::CreatePod { task_role, .. } if task_role == role)).count()
    };
    let most = 2 * world.policy.expectations_limit;
    assert_eq!((planned(&world, "a"), planned(&world, "b")), (most, 3));
    let in_flight = |act: Action| {
        let Action::CreatePod { name, instance, .. } = act else { panic!("{act:?}") };
        (name, Create { instance, outcome: Outcome::InFlight })
    };
    world.cluster.objects.pod_creates = world.plan().act.into_iter().map(in_flight).collect();
    assert_eq!((planned(&world, "a"), planned(&world, "b")), (most, 0), "the next ones");
    world.cluster.objects.pod_creates.clear();
    world.settle();
    assert_eq!(world.cluster.objects.pods.len(), 303, "in the end all are created");
}
