//! Messages of Tasks are cut when they do not fit, once and for all; and Tasks that cannot fit are not begun.

use framework_api::code::Code;
use framework_api::status::TaskAttemptCompletionStatus;
use framework_api::{FrameworkStatus, State};
use framework_core::Action;
use framework_core::observed::{Outcome, Refusal};
use framework_core::size::SizeLimits;
use proptest::prelude::*;

use crate::world::{World, framework};

/// A Framework whose Tasks run, and complete it only when all have ended.
pub fn running(tasks: usize) -> World {
    let mut world = framework().role("a", tasks).policy(-1, -1).world();
    world.settle().run();
    world.history.clear();
    world
}

fn limits(object: usize, compressed: usize) -> SizeLimits {
    SizeLimits { object, compressed }
}

/// The Pod of a Task fails and says so.
pub fn fail(world: &mut World, index: i32, message: &str) {
    world.exit("a", index, 1);
    let end = world.cluster.objects.pods.get_mut(&format!("job-a-{index}")).unwrap().end.as_mut().unwrap();
    end.containers[0].terminated.as_mut().unwrap().message = message.to_owned();
}

/// Text that no compression makes much shorter, another one for each `seed`.
pub fn noise(seed: usize, bytes: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(DIGITS[(state >> 58) as usize])
    };
    (0..bytes).map(|_| next()).collect()
}

fn end_of(world: &World, index: i32) -> &TaskAttemptCompletionStatus {
    world.task("a", index).attempt_status.completion_status.as_ref().expect("it has ended")
}

/// The message of its container, as the status has it.
fn said(world: &World, index: i32) -> &str {
    &end_of(world, index).pod.as_ref().unwrap().containers[0].message
}

#[test]
fn small_frameworks_keep_the_messages_of_their_tasks() {
    for tasks in [1, 20, 100] {
        let mut world = running(tasks);
        for index in 0..tasks {
            fail(&mut world, index as i32, &noise(index, 4096));
            if index % 7 == 0 {
                world.step();
            }
        }
        world.settle();
        for index in 0..tasks {
            assert_eq!(said(&world, index as i32), noise(index, 4096), "{index} of {tasks}");
        }
    }
}

#[test]
fn a_truncated_text_names_its_size_and_never_changes() {
    let mut world = running(20);
    world.policy.size = limits(40_000, 30_000);
    for index in 0..20 {
        fail(&mut world, index, &format!("begin {}\n\"end\"", noise(index as usize, 4000)));
        world.step();
    }
    let ends: Vec<_> = (0..20).map(|index| end_of(&world, index).clone()).collect();
    world.policy.size = SizeLimits::default();
    world.settle();
    assert_eq!(world.state(), State::Completed);
    for (index, end) in ends.iter().enumerate() {
        assert_eq!(end, end_of(&world, index as i32), "it never changes");
        let said = said(&world, index as i32);
        assert!(said.len() < 3000 && said.contains(" bytes cut]") && said.starts_with("begin"), "{said}");
        assert!(said.ends_with("\"end\""), "its end says what went wrong: {said}");
        let found = end.diagnostics.strip_prefix("Pod failed: PodPattern unmatched: ").unwrap();
        let found: serde_json::Value = serde_json::from_str(found).expect("what is cut is JSON still");
        assert_eq!(found["containers"][0]["message"], said);
    }
}

#[test]
fn the_first_to_fail_may_say_more_than_the_last() {
    let mut world = running(200);
    world.policy.size = limits(600_000, 500_000);
    for index in (0..200).rev() {
        fail(&mut world, index, &noise(index as usize, 4096));
        world.step();
    }
    assert_eq!(said(&world, 199), noise(199, 4096));
    assert!((400..800).contains(&said(&world, 0).len()), "{}", said(&world, 0));
}

#[test]
fn a_text_that_all_tasks_share_is_kept() {
    let mut world = running(300);
    world.policy.size = limits(400_000, 300_000);
    let message = noise(1, 3000);
    for index in 0..300 {
        fail(&mut world, index, &message);
    }
    world.settle();
    let whole = (0..300).filter(|index| said(&world, *index) == message).count();
    assert_eq!(whole, 300);
}

#[test]
fn a_refusal_of_the_api_server_is_truncated() {
    let mut world = framework().role("a", 1).world();
    world.policy.size = limits(20_000, 20_000);
    while !matches!(world.plan().act[..], [Action::CreatePod { .. }]) {
        assert!(world.step());
    }
    let [Action::CreatePod { instance, .. }] = &world.plan().act[..] else { unreachable!() };
    let refused = Outcome::Refused {
        refusal: Refusal::Permanent,
        message: noise(1, 1 << 20).into(),
        retry_at: world.cluster.now.timestamp(),
    };
    let create = framework_core::observed::Create { instance: instance.clone(), outcome: refused };
    world.cluster.objects.pod_creates.insert("job-a-0", create);
    world.settle();
    let end = end_of(&world, 0);
    assert_eq!(end.code, Code::PodCreationPermanentError.number());
    assert!(end.diagnostics.len() < 10_000 && end.diagnostics.contains(" bytes cut]"), "{}", end.diagnostics);
}

#[test]
fn a_pod_of_very_many_containers_is_truncated() {
    let mut world = running(1);
    fail(&mut world, 0, "");
    let end = world.cluster.objects.pods.get_mut("job-a-0").unwrap().end.as_mut().unwrap();
    end.containers = vec![end.containers[0].clone(); 100_007];
    world.step();
    let end = end_of(&world, 0);
    assert_eq!(end.pod.as_ref().unwrap().containers.len(), 100_000);
    assert!(end.diagnostics.ends_with("; 7 more containers are left out"));
}

/// The reason of the condition `Running`.
fn reason(world: &World) -> &str {
    &world.status().conditions.iter().find(|condition| condition.type_ == "Running").unwrap().reason
}

/// A Framework that can never fit into its object.
fn too_large() -> World {
    let mut world = framework().role("a", 500).role("b", 1).world();
    world.stored_bytes = 1_430_000;
    world.settle();
    world
}

#[test]
fn an_attempt_that_cannot_fit_waits_until_the_spec_is_smaller() {
    let mut world = too_large();
    assert_eq!((world.state(), reason(&world)), (State::AttemptCreationPending, "FrameworkTooLarge"));
    assert_eq!(world.acts, []);
    assert_eq!(world.reports, ["FrameworkTooLarge"], "reported once");
    assert!(serde_json::to_vec(world.status()).unwrap().len() < 2000, "nothing of the Tasks is stored");
    world.stored_bytes = 100_000;
    world.edit(|spec| spec.description = None).settle().run();
    assert_eq!((world.state(), world.status().tasks.as_deref()), (State::AttemptRunning, Some("501/501")));
    assert_eq!(reason(&world), "AttemptRunning");
}

#[test]
fn a_framework_that_is_held_can_be_stopped() {
    let mut world = too_large();
    world.stop().settle();
    world.assert_completed(Code::StopFrameworkRequested);
}

#[test]
fn an_attempt_that_would_not_fit_any_more_is_held() {
    let mut world = framework().role("a", 500).retry(false, 1).world();
    world.settle().run();
    world.stored_bytes = 1_430_000;
    world.exit("a", 0, 1).settle();
    assert_eq!((world.state(), reason(&world)), (State::AttemptCreationPending, "FrameworkTooLarge"));
    assert_eq!(world.status().attempt_status.id, 1);
    world.stored_bytes = 1_000;
    world.settle().run();
    assert_eq!(world.state(), State::AttemptRunning);
}

#[test]
fn a_scale_up_that_would_not_fit_waits_while_the_others_go_on() {
    let mut world = framework().role("a", 3).role("b", 2).world();
    world.policy.size = limits(10_000, 10_000);
    world.settle().run();
    world.edit(|spec| spec.task_roles[0].task_number = 2000).settle();
    assert_eq!(world.status().task_roles()[0].task_statuses.len(), 3);
    assert_eq!(
        (reason(&world), world.reports.as_slice()),
        ("AttemptRunning", &["FrameworkTooLarge".to_owned()][..])
    );
    world.edit(|spec| spec.task_roles[1].task_number = 1).settle();
    assert_eq!(world.status().task_roles()[1].task_statuses.len(), 1, "a scale-down is done");
    world.edit(|spec| spec.task_roles[0].task_number = 5).settle().run();
    assert_eq!(world.status().tasks.as_deref(), Some("6/6"));
}

fn message() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (any::<usize>(), 0..5000usize).prop_map(|(seed, bytes)| noise(seed, bytes)),
        1 => "[\"\\\\\n\u{1}-\u{1f}<>&]{0,2000}",
        1 => "\\PC{0,1500}",
        1 => Just("always the same, whoever says it: the data set cannot be found".to_owned()),
    ]
}

/// The size of the task statuses in their object when they are compressed in a hurry.
fn compressed(status: &FrameworkStatus) -> usize {
    use framework_api::codec::{Effort, encode_json};
    let codec = framework_api::config::CompressionCodec::Zstd;
    encode_json(&status.attempt_status.task_role_statuses, codec, Effort::Fast).unwrap().len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_of_tasks_fit_into_the_object(
        tasks in 1..150usize,
        grown in 0..100usize,
        object in 20_000..120_000usize,
        messages in prop::collection::vec((0..250usize, message()), 1..120),
    ) {
        let mut world = running(tasks);
        world.policy.size = limits(object, object / 3 * 2);
        let half = messages.len() / 2;
        for (position, (index, message)) in messages.iter().enumerate() {
            let index = (index % (tasks + grown)) as i32;
            let pod = world.cluster.objects.pods.get(&format!("job-a-{index}"));
            if pod.is_some_and(|pod| pod.end.is_none()) {
                fail(&mut world, index, message);
            }
            if position % 3 == 0 {
                world.step();
            }
            if position == half {
                world.edit(|spec| spec.task_roles[0].task_number = (tasks + grown) as i32).settle().run();
            }
        }
        world.settle();
        let taken = compressed(world.status());
        prop_assert!(taken + world.stored_bytes <= object, "{taken} of {object}");
        for pair in world.history.windows(2) {
            for (old, new) in pair[0].task_roles().iter().zip(pair[1].task_roles()) {
                for (old, new) in old.task_statuses.iter().zip(&new.task_statuses) {
                    let old = &old.attempt_status.completion_status;
                    prop_assert!(old.is_none() || *old == new.attempt_status.completion_status);
                }
            }
        }
    }
}
