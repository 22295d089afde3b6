//! When a status is packed, how it is told that it is ours, and what becomes of one that cannot be opened.

use super::*;
use framework_api::Framework;
use framework_engine::object::Form;
use framework_message::Key;
use serde_json::{Value, json};

const AT: &str = "2026-01-01T00:00:00Z";
/// Next to nothing stands beside the status.
const ROOM: SizeLimits = SizeLimits { object: 1_450_000, compressed: 1_000_000 };

fn status(tasks: usize, state: &str) -> Arc<FrameworkStatus> {
    let retries = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0});
    let task = |index: usize| {
        json!({
            "index": index, "instanceUID": format!("task-{index}"), "startTime": AT, "state": state,
            "transitionTime": AT, "retryPolicyStatus": retries,
            "attemptStatus": {"id": 0, "startTime": AT, "podName": format!("job-w-{index}")},
        })
    };
    let tasks: Vec<Value> = (0..tasks).map(task).collect();
    let status = serde_json::from_value(json!({
        "startTime": AT, "state": state, "transitionTime": AT, "retryPolicyStatus": retries,
        "attemptStatus": {"id": 0, "startTime": AT, "configMapName": "job-attempt",
            "taskRoleStatuses": [{"name": "w", "instanceUID": "role", "taskStatuses": tasks}]},
    }));
    Arc::new(status.unwrap())
}

fn compressor(threshold: Option<usize>) -> Compressor {
    Compressor::new(Compression { threshold, codec: CompressionCodec::Zstd })
}

fn object(status: FrameworkStatus) -> FrameworkObject {
    let framework =
        json!({"metadata": {"name": "job", "namespace": "ns", "uid": "f"}, "spec": {"taskRoles": []}});
    let framework: Framework = serde_json::from_value(framework).unwrap();
    FrameworkObject {
        key: Key::new("ns", "job"),
        uid: "f".into(),
        resource_version: 1,
        stored_bytes: 100,
        form: Form { compressed: true, bytes: 100 },
        content: Ok((Arc::new(framework), Some(Arc::new(status)))),
        ignored: None,
    }
}

fn opened(object: FrameworkObject) -> Arc<FrameworkStatus> {
    object.content.unwrap().1.unwrap()
}

fn text(status: &FrameworkStatus) -> &str {
    status.attempt_status.task_role_statuses_compressed.as_deref().unwrap()
}

#[test]
fn a_status_is_packed_from_the_threshold_on() {
    let status = status(3, "AttemptRunning");
    let length = serde_json::to_vec(status.task_roles()).unwrap().len();
    assert!(compressor(Some(length)).pack(&status, false, &ROOM).is_some());
    assert!(compressor(Some(length + 1)).pack(&status, false, &ROOM).is_none());
    assert!(compressor(Some(0)).pack(&status, false, &ROOM).is_some());
    assert!(compressor(None).pack(&status, false, &ROOM).is_none());
}

#[test]
fn an_attempt_that_was_compressed_stays_so_whatever_the_settings() {
    let status = status(1, "AttemptRunning");
    for threshold in [None, Some(LARGEST_RAW)] {
        assert!(compressor(threshold).pack(&status, true, &ROOM).is_some());
    }
}

#[test]
fn with_compression_off_a_status_is_packed_that_would_pass_a_mebibyte() {
    let compressor = compressor(None);
    let (small, large) = (status(2000, "AttemptRunning"), status(4000, "AttemptRunning"));
    let length = |status: &FrameworkStatus| serde_json::to_vec(status).unwrap().len();
    assert!(length(&small) < LARGEST_RAW && length(&large) > LARGEST_RAW);
    assert!(compressor.pack(&small, false, &ROOM).is_none());
    let packed = compressor.pack(&large, false, &ROOM).unwrap();
    assert!(length(&packed) < LARGEST_RAW / 10, "{}", length(&packed));
}

#[test]
fn a_high_threshold_does_not_keep_a_status_raw_that_would_pass_a_mebibyte() {
    let large = status(4000, "AttemptRunning");
    let task_roles = serde_json::to_vec(large.task_roles()).unwrap().len();
    assert!(compressor(Some(task_roles + 1)).pack(&large, false, &ROOM).is_some());
}

#[test]
fn a_status_is_packed_that_does_not_fit_beside_the_spec() {
    let status = status(2000, "AttemptRunning");
    let length = serde_json::to_vec(&*status).unwrap().len();
    for threshold in [None, Some(LARGEST_RAW)] {
        let packs = |beside| compressor(threshold).pack(&status, false, &ROOM.beside(beside)).is_some();
        assert!(!packs(ROOM.object - length));
        assert!(packs(ROOM.object - length + 1));
    }
}

#[test]
fn what_the_api_server_stores_escaped_is_counted_so() {
    let with = |text: &str| {
        let mut status = FrameworkStatus::clone(&status(1, "AttemptRunning"));
        status.tasks = Some(text.to_owned());
        status
    };
    let length = serde_json::to_vec(&with("")).unwrap().len();
    for (text, stored) in [
        ("<", 6),
        ("a&b>", 14),
        ("\u{2028}\u{2029}", 12),
        ("\u{2027}\u{a028}", 6),
        ("\"\n", 4),
        ("\u{1}", 6),
        ("\u{1f600}", 4),
    ] {
        let packs = |room| {
            let room = SizeLimits { object: room, ..ROOM };
            compressor(None).pack(&with(text), false, &room).is_some()
        };
        assert!(!packs(length + stored), "{text:?}");
        assert!(packs(length + stored - 1), "{text:?}");
    }
}

#[test]
fn what_is_too_long_in_a_hurry_is_compressed_with_effort_and_at_last_by_zstd() {
    let status = status(500, "AttemptRunning");
    let packed = |codec, compressed| {
        let room = SizeLimits { compressed, ..ROOM };
        let packed = Compressor::new(Compression { threshold: Some(0), codec }).pack(&status, false, &room);
        text(&packed.unwrap()).to_owned()
    };
    let length = |codec, effort| codec::encode_json(&status.task_roles(), codec, effort).unwrap().len();
    for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
        let [fast, best] = [Effort::Fast, Effort::Best].map(|effort| length(codec, effort));
        assert!(best < fast, "{codec:?}");
        assert_eq!(packed(codec, fast).len(), fast, "{codec:?}");
        assert_eq!(packed(codec, fast - 1).len(), best, "{codec:?}");
        assert!(packed(codec, best - 1).starts_with("KLUv/"), "{codec:?}");
    }
}

#[test]
fn what_is_packed_is_opened_to_what_it_was() {
    for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
        for state in ["AttemptRunning", "Completed"] {
            let status = status(50, state);
            let packed = Compressor::new(Compression { threshold: Some(0), codec })
                .pack(&status, false, &ROOM)
                .unwrap();
            assert_eq!(packed.attempt_status.task_role_statuses, None);
            let mut object = object(packed);
            // Another process reads it, with other settings.
            compressor(None).open(&mut object);
            assert_eq!(opened(object), status);
        }
    }
}

#[test]
fn our_own_echo_is_recognised_and_not_decoded() {
    let compressor = compressor(Some(0));
    let status = status(3, "AttemptRunning");
    let packed = compressor.pack(&status, false, &ROOM).unwrap();
    compressor.remember(&"f".into(), packed.clone(), &status);
    let mut echo = object(packed.clone());
    compressor.open(&mut echo);
    assert!(Arc::ptr_eq(&opened(echo), &status), "the very one that was sent");

    let mut edited = packed.clone();
    edited.tasks = Some("by somebody else".to_owned());
    let mut edited = object(edited);
    compressor.open(&mut edited);
    let edited = opened(edited);
    assert_eq!(
        (edited.tasks.as_deref(), edited.task_roles()),
        (Some("by somebody else"), status.task_roles())
    );

    let mut again = object(edited.stored(Some(text(&packed).to_owned())));
    compressor.open(&mut again);
    assert!(Arc::ptr_eq(&opened(again), &edited), "what was read is known, too");
}

#[test]
fn what_nobody_has_any_more_is_forgotten() {
    let compressor = compressor(Some(0));
    for uid in ["a", "b"] {
        let status = status(3, "AttemptRunning");
        compressor.remember(&uid.into(), compressor.pack(&status, false, &ROOM).unwrap(), &status);
    }
    assert_eq!(compressor.known.lock().unwrap().keys().map(|uid| &**uid).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn what_cannot_be_opened_is_unreadable_and_says_why() {
    let mut broken = status(3, "AttemptRunning").stored(Some("AAAA".to_owned()));
    broken.conditions = framework_engine::quarantine::conditions(&[], "x", broken.start_time).unwrap();
    let conditions = broken.conditions.clone();
    let mut object = object(broken);
    compressor(None).open(&mut object);
    let unreadable = object.content.unwrap_err();
    assert_eq!(
        &*unreadable.reason,
        "status.attemptStatus.taskRoleStatusesCompressed: neither zstd nor gzip: it begins with 00 00 00"
    );
    assert_eq!(unreadable.conditions, Some(conditions));
    assert_eq!(unreadable.framework.unwrap().metadata.name.as_deref(), Some("job"));
}

#[test]
fn a_raw_status_counts_though_a_compressed_one_stands_beside_it() {
    let raw = status(3, "AttemptRunning");
    let mut both = FrameworkStatus::clone(&raw);
    both.attempt_status.task_role_statuses_compressed = Some("AAAA".to_owned());
    let mut object = object(both);
    compressor(None).open(&mut object);
    assert_eq!(opened(object), raw);
}
