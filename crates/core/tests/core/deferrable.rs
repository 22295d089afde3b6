//! Created Pods: when their status may be written late.

use framework_api::ExecutionType;
use framework_core::Urgency;
use framework_core::deferrable::is_deferrable_create;
use framework_core::observed::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;

use crate::world::{World, framework};

const POD: &str = "job-a-0";

/// A world in which a Pod was created and is shown, and no status records it.
fn created() -> World {
    let mut world = framework().role("a", 1).world();
    while world.cluster.objects.pod_creates.is_empty() {
        assert!(world.step());
    }
    assert!(world.cluster.objects.pods.contains_key(POD));
    world
}

/// The cache does not show the Pod. Returns its UID.
fn hide(world: &mut World) -> String {
    world.cluster.objects.pods.remove(POD).unwrap().uid.clone()
}

#[test]
fn a_create_is_recorded_late_while_its_pod_lives_or_is_yet_to_be_seen() {
    let cases: [fn(&mut World); 4] = [
        |_| (),
        |world| world.cluster.run_pod(POD),
        |world| _ = hide(world),
        // That is asked for before the start only: the attempt goes on.
        |world| _ = world.edit(|spec| spec.execution_type = ExecutionType::Create),
    ];
    for (case, change) in cases.into_iter().enumerate() {
        let mut world = created();
        change(&mut world);
        assert!(is_deferrable_create(&world.observed(), POD), "case {case}");
        let plan = world.plan();
        assert_eq!((plan.act, plan.urgency), (vec![], Urgency::Record), "case {case}");
        assert!(plan.persist.is_some(), "case {case}");
    }
}

#[test]
fn a_create_of_a_pod_or_an_attempt_that_ends_is_decided_at_once() {
    let cases: [fn(&mut World); 6] = [
        |world| _ = world.exit("a", 0, 1),
        |world| {
            let uid = hide(world);
            world.cluster.objects.gone.insert(uid);
        },
        |world| _ = world.stop(),
        |world| {
            let now = MetaTime(world.cluster.now.timestamp());
            world.cluster.framework.metadata.deletion_timestamp = Some(now);
        },
        |world| world.cluster.objects.pod_creates.get_mut(POD).unwrap().outcome = Outcome::InFlight,
        |world| world.cluster.objects.pod_creates.clear(),
    ];
    for (case, change) in cases.into_iter().enumerate() {
        let mut world = created();
        change(&mut world);
        assert!(!is_deferrable_create(&world.observed(), POD), "case {case}");
    }
    assert!(!is_deferrable_create(&created().observed(), "job-a-1"), "no Task has that Pod");
}
