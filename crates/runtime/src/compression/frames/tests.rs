//! The frames of a status decode to its JSON, and those of unchanged Tasks are kept.

use framework_api::codec::decode;
use serde_json::json;

use super::*;

const BOTH: [CompressionCodec; 2] = [CompressionCodec::Zstd, CompressionCodec::Gzip];
const AT: &str = "2026-01-01T00:00:00Z";

fn task(index: usize, state: &str) -> Shared<TaskStatus> {
    let task = json!({
        "index": index, "instanceUID": format!("task-{index}"), "startTime": AT, "state": state,
        "transitionTime": AT, "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
        "attemptStatus": {"id": 0, "startTime": AT, "podName": format!("job-w-{index}")},
    });
    serde_json::from_value(task).unwrap()
}

fn role(name: &str, tasks: usize) -> TaskRoleStatus {
    TaskRoleStatus {
        name: name.to_owned(),
        instance_uid: format!("role-\"{name}\""),
        pod_graceful_deletion_timeout_sec: None,
        task_statuses: (0..tasks).map(|index| task(index, "AttemptRunning")).collect(),
    }
}

fn json_of(frames: &Frames) -> Vec<u8> {
    decode(&frames.text().unwrap()).unwrap()
}

impl Frames {
    /// Which frames are those of the same place in another status, and were not made again.
    pub fn in_common(&self, other: &Frames) -> Vec<bool> {
        let pairs = self.frames.iter().zip(&other.frames);
        pairs.map(|(one, other)| Arc::ptr_eq(one, other)).collect()
    }
}

fn sizes(roles: &[TaskRoleStatus]) -> Vec<usize> {
    roles.iter().map(|role| role.task_statuses.len()).collect()
}

/// How many frames of a status are kept from another one. The result is the JSON of the status in any case.
fn kept(before: &[TaskRoleStatus], now: &[TaskRoleStatus], codec: CompressionCodec) -> usize {
    let frames = Frames::of(before, codec, None).unwrap();
    assert_eq!(json_of(&frames), serde_json::to_vec(before).unwrap());
    let next = Frames::of(now, codec, Some((frames.clone(), before))).unwrap();
    assert_eq!(json_of(&next), serde_json::to_vec(now).unwrap());
    next.in_common(&frames).into_iter().filter(|kept| *kept).count()
}

#[test]
fn only_frames_whose_tasks_changed_are_compressed_again() {
    let before = [role("a", 1000), role("b", 3), role("c", 1000)];
    let mut now = before.clone();
    // 256, 512 and 768 Tasks of the first role; its rest, the second role and a part of the third; and so on.
    for codec in BOTH {
        assert_eq!(kept(&before, &now, codec), 8, "{codec:?}");
    }
    now[0].task_statuses[300] = task(300, "Completed");
    now[2].task_statuses[999] = task(999, "Completed");
    assert_eq!(kept(&before, &now, CompressionCodec::Zstd), 6);
    now[0].task_statuses[301].to_mut().deletion_pending = true;
    assert_eq!(kept(&before, &now, CompressionCodec::Zstd), 6, "a change in place is one, too");
}

#[test]
fn a_status_that_is_divided_otherwise_is_still_its_json() {
    let before = [role("a", 300), role("b", 300)];
    let renamed = |name: &str| TaskRoleStatus { name: name.to_owned(), ..before[1].clone() };
    let with_a_timeout =
        |seconds| TaskRoleStatus { pod_graceful_deletion_timeout_sec: Some(seconds), ..before[0].clone() };
    let shorter = |tasks| {
        let mut role = before[0].clone();
        role.task_statuses.truncate(tasks);
        role
    };
    for (now, expected) in [
        (vec![], 0),
        (vec![before[0].clone()], 1),
        (vec![before[1].clone(), before[0].clone()], 0),
        (vec![before[0].clone(), renamed("c")], 2),
        (vec![with_a_timeout(5), before[1].clone()], 2),
        (vec![shorter(0), before[1].clone()], 0),
        (vec![shorter(256)], 0),
        (vec![shorter(257), before[1].clone()], 1),
        (vec![role("a", 300), before[1].clone()], 1),
        (vec![before[0].clone(), before[1].clone(), role("c", 600)], 2),
    ] {
        assert_eq!(kept(&before, &now, CompressionCodec::Zstd), expected, "{:?}", sizes(&now));
        kept(&now, &before, CompressionCodec::Gzip);
    }
}

#[test]
fn another_codec_keeps_nothing() {
    let roles = [role("a", 600)];
    let frames = Frames::of(&roles, CompressionCodec::Zstd, None).unwrap();
    let frames = Frames::of(&roles, CompressionCodec::Gzip, Some((frames, &roles))).unwrap();
    assert!(frames.frames.iter().all(|frame| frame.starts_with(&[0x1f, 0x8b])));
    assert_eq!(json_of(&frames), serde_json::to_vec(&roles).unwrap());
}

#[test]
fn the_most_tasks_of_a_framework_have_fewer_frames_than_a_reader_takes() {
    let frames = divided(&[role("a", 10_000)]).unwrap().len();
    assert!(frames * 20 < codec::FRAMES_LIMIT, "{frames}");
}
