//! The worst that a Framework of the greatest size can do to its status still fits into it.

use framework_api::codec::{Effort, encode_json};
use framework_api::config::CompressionCodec;
use framework_api::{FrameworkStatus, Shared};
use framework_core::size::SizeLimits;

use crate::size::{fail, noise, running};
use crate::world::World;

const TASKS: i32 = 10_000;

/// A number that differs from Task to Task and follows no rule.
fn random(task: i32, salt: u64) -> u64 {
    let mut z =
        (task as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd134_2543_de82_ef95);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Gives every Task the UID, the addresses and the times of a Pod in a real cluster.
fn be_real(status: &mut FrameworkStatus) {
    for role in status.attempt_status.task_role_statuses.as_mut().unwrap() {
        for task in role.task_statuses.iter_mut().map(Shared::to_mut) {
            let (a, b) = (random(task.index, 1), random(task.index, 2));
            let uid = format!(
                "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                a >> 32,
                a & 0xffff,
                b >> 52,
                b & 0xfff,
                b >> 16 & 0xffff_ffff_ffff
            );
            let node = random(task.index, 3) % 500;
            let attempt = &mut task.attempt_status;
            attempt.instance_uid = Some(format!("0_{uid}"));
            attempt.pod_uid = Some(uid);
            attempt.pod_node_name = Some(format!("node-{node}.cluster.example"));
            attempt.pod_host_ip = Some(format!("10.0.{}.{}", node / 250, node % 250));
            attempt.pod_ip =
                Some(format!("10.{}.{}.{}", 64 + node / 250, node % 250, random(task.index, 4) % 250));
            let run = task.start_time.plus_seconds(i64::from(task.index) / 100);
            let end = run.plus_seconds((random(task.index, 5) % 60) as i64);
            attempt.start_time = task.start_time;
            (attempt.run_time, task.run_time) = (Some(run), Some(run));
            (attempt.completion_time, task.completion_time) = (Some(end), Some(end));
            task.transition_time = end;
        }
    }
}

/// All Tasks fail, a few hundred at a time, with the messages that `message` makes.
fn failed(message: impl Fn(i32) -> String) -> World {
    let mut world = running(TASKS as usize);
    for index in 0..TASKS {
        // Not in the order of their indexes.
        let index = (index * 7919) % TASKS;
        fail(&mut world, index, &message(index));
        if index % 997 == 0 {
            while world.plan().persist.is_some() && world.step() && world.plan().act.is_empty() {}
            world.history.clear();
        }
    }
    world.settle();
    world
}

#[test]
fn ten_thousand_tasks_that_fail_with_incompressible_messages_fit() {
    let mut world = failed(|index| noise(index as usize, 4096));
    let limit = SizeLimits::default().compressed;
    let status = world.cluster.status.as_mut().unwrap();
    be_real(status);
    for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
        for effort in [Effort::Fast, Effort::Good, Effort::Best] {
            let roles = &status.attempt_status.task_role_statuses;
            let taken = encode_json(roles, codec, effort).unwrap().len();
            assert!(taken <= limit, "{codec:?} {effort:?}: {taken} bytes");
        }
    }
}
