//! When a status is compressed, how our own status is recognised, and how one that cannot be opened is
//! reported.

use serde_json::{Value, json};

use framework_api::{Framework, Shared};
use framework_engine::object::Form;
use framework_message::Key;

use super::*;

const AT: &str = "2026-01-01T00:00:00Z";
/// Metadata and spec take next to nothing.
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
fn a_status_is_compressed_from_the_threshold_on() {
    let status = status(3, "AttemptRunning");
    let length = serde_json::to_vec(status.task_roles()).unwrap().len();
    assert!(compressor(Some(length)).compressed("f", &status, false, &ROOM).is_some());
    assert!(compressor(Some(length + 1)).compressed("f", &status, false, &ROOM).is_none());
    assert!(compressor(Some(0)).compressed("f", &status, false, &ROOM).is_some());
    assert!(compressor(None).compressed("f", &status, false, &ROOM).is_none());
}

#[test]
fn an_attempt_that_was_compressed_stays_so_under_any_settings() {
    let status = status(1, "AttemptRunning");
    for threshold in [None, Some(LARGEST_RAW)] {
        assert!(compressor(threshold).compressed("f", &status, true, &ROOM).is_some());
    }
}

#[test]
fn with_compression_off_a_status_over_a_mebibyte_is_compressed() {
    let compressor = compressor(None);
    let (small, large) = (status(2000, "AttemptRunning"), status(4000, "AttemptRunning"));
    let length = |status: &FrameworkStatus| serde_json::to_vec(status).unwrap().len();
    assert!(length(&small) < LARGEST_RAW && length(&large) > LARGEST_RAW);
    assert!(compressor.compressed("f", &small, false, &ROOM).is_none());
    let compressed = compressor.compressed("f", &large, false, &ROOM).unwrap();
    assert!(length(&compressed) < LARGEST_RAW / 10, "{}", length(&compressed));
}

#[test]
fn a_high_threshold_keeps_no_status_over_a_mebibyte_raw() {
    let large = status(4000, "AttemptRunning");
    let task_roles = serde_json::to_vec(large.task_roles()).unwrap().len();
    assert!(compressor(Some(task_roles + 1)).compressed("f", &large, false, &ROOM).is_some());
}

#[test]
fn a_status_that_does_not_fit_beside_the_spec_is_compressed() {
    let status = status(2000, "AttemptRunning");
    let length = serde_json::to_vec(&*status).unwrap().len();
    for threshold in [None, Some(LARGEST_RAW)] {
        let is_compressed =
            |beside| compressor(threshold).compressed("f", &status, false, &ROOM.beside(beside)).is_some();
        assert!(!is_compressed(ROOM.object - length));
        assert!(is_compressed(ROOM.object - length + 1));
    }
}

#[test]
fn text_that_the_api_server_escapes_is_counted_as_escaped() {
    let with = |text: &str| {
        let mut status = FrameworkStatus::clone(&status(1, "AttemptRunning"));
        status.tasks = Some(text.to_owned());
        Arc::new(status)
    };
    let length = serde_json::to_vec(&*with("")).unwrap().len();
    for (text, stored) in [
        ("<", 6),
        ("a&b>", 14),
        ("\u{2028}\u{2029}", 12),
        ("\u{2027}\u{a028}", 6),
        ("\"\n", 4),
        ("\u{1}", 6),
        ("\u{1f600}", 4),
    ] {
        let is_compressed = |room| {
            let room = SizeLimits { object: room, ..ROOM };
            compressor(None).compressed("f", &with(text), false, &room).is_some()
        };
        assert!(!is_compressed(length + stored), "{text:?}");
        assert!(is_compressed(length + stored - 1), "{text:?}");
    }
}

#[test]
fn a_status_that_stays_too_long_is_compressed_harder_and_then_by_zstd() {
    let status = status(500, "AttemptRunning");
    let compressed = |codec, compressed| {
        let room = SizeLimits { compressed, ..ROOM };
        let compressed =
            Compressor::new(Compression { threshold: Some(0), codec }).compressed("f", &status, false, &room);
        text(&compressed.unwrap()).to_owned()
    };
    for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
        let fast = Frames::of(status.task_roles(), codec, None).unwrap().text().unwrap().len();
        let best = codec::encode_json(&status.task_roles(), codec, Effort::Best).unwrap().len();
        assert!(best < fast, "{codec:?}");
        assert_eq!(compressed(codec, fast).len(), fast, "{codec:?}");
        assert_eq!(compressed(codec, fast - 1).len(), best, "{codec:?}");
        assert!(compressed(codec, best - 1).starts_with("KLUv/"), "{codec:?}");
    }
}

#[test]
fn a_compressed_status_opens_to_the_same_status() {
    for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
        for state in ["AttemptRunning", "Completed"] {
            let status = status(50, state);
            let compressed = Compressor::new(Compression { threshold: Some(0), codec })
                .compressed("f", &status, false, &ROOM)
                .unwrap();
            assert_eq!(compressed.attempt_status.task_role_statuses, None);
            let mut object = object(compressed);
            // Another process reads it, with other settings.
            compressor(None).open(&mut object);
            assert_eq!(opened(object), status);
        }
    }
}

#[test]
fn a_write_compresses_the_changes_since_the_one_before() {
    let compressor = compressor(Some(0));
    let first = status(1000, "AttemptRunning");
    compressor.compressed("f", &first, false, &ROOM).unwrap();
    let mut second = FrameworkStatus::clone(&first);
    let roles = second.attempt_status.task_role_statuses.as_mut().unwrap();
    roles[0].task_statuses[999].to_mut().deletion_pending = true;
    let second = Arc::new(second);
    let (before, _) = compressor.frames("f").unwrap();
    let stored = compressor.compressed("f", &second, false, &ROOM).unwrap();
    let (after, _) = compressor.frames("f").unwrap();
    assert_eq!(after.in_common(&before), [true, true, true, false]);
    let mut object = object(stored);
    self::compressor(None).open(&mut object);
    assert_eq!(opened(object), second);
    drop((first, second));
    assert!(compressor.frames("f").is_none(), "nothing is compared with a status that is not in use");
}

#[test]
fn our_own_echo_is_recognised_and_not_decoded() {
    let compressor = compressor(Some(0));
    let status = status(3, "AttemptRunning");
    let compressed = compressor.compressed("f", &status, false, &ROOM).unwrap();
    let mut echo = object(compressed.clone());
    compressor.open(&mut echo);
    assert!(Arc::ptr_eq(&opened(echo), &status), "the very one that was sent");

    let mut edited = compressed.clone();
    edited.tasks = Some("by another client".to_owned());
    let mut edited = object(edited);
    compressor.open(&mut edited);
    let edited = opened(edited);
    assert_eq!(
        (edited.tasks.as_deref(), edited.task_roles()),
        (Some("by another client"), status.task_roles())
    );

    let mut again = object(edited.stored(Some(text(&compressed).to_owned())));
    compressor.open(&mut again);
    assert!(Arc::ptr_eq(&opened(again), &edited), "a status that was read is known, too");
}

#[test]
fn a_status_that_is_dropped_elsewhere_is_forgotten() {
    let compressor = compressor(Some(0));
    for uid in ["a", "b"] {
        let status = status(3, "AttemptRunning");
        assert!(compressor.compressed(uid, &status, false, &ROOM).is_some());
    }
    assert_eq!(compressor.known.lock().unwrap().keys().map(|uid| &**uid).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_status_that_cannot_be_opened_is_unreadable_with_a_reason() {
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
fn a_status_without_its_tasks_is_unreadable() {
    let mut object = object(status(3, "AttemptRunning").stored(None));
    compressor(None).open(&mut object);
    assert_eq!(&*object.content.unwrap_err().reason, NO_TASKS);
}

/// Why a status is unreadable after this change of its TaskRoles.
fn reason_after(change: impl FnOnce(&mut Vec<TaskRoleStatus>)) -> Option<String> {
    let mut status = FrameworkStatus::clone(&status(3, "AttemptRunning"));
    change(status.attempt_status.task_role_statuses.as_mut().unwrap());
    let mut object = object(status);
    compressor(None).open(&mut object);
    object.content.err().map(|error| error.reason.to_string())
}

#[test]
fn a_status_that_lacks_a_task_or_mixes_them_up_is_unreadable() {
    let broken = |change: fn(&mut Vec<Shared<framework_api::status::TaskStatus>>)| {
        reason_after(|roles| change(&mut roles[0].task_statuses))
    };
    assert_eq!(broken(|_| {}), None);
    assert_eq!(broken(|tasks| drop(tasks.pop())), None, "one less is another taskNumber");
    assert_eq!(broken(|tasks| drop(tasks.remove(1))).as_deref(), Some(TASKS_OUT_OF_ORDER));
    assert_eq!(broken(|tasks| tasks.swap(0, 2)).as_deref(), Some(TASKS_OUT_OF_ORDER));
}

#[test]
fn a_status_that_renames_a_pod_or_a_task_role_is_unreadable() {
    for (task, pod) in [(0, "job-x-0"), (0, "job-w-1"), (0, "job-w-00"), (0, "job2-w-0"), (0, ""), (2, "x")] {
        let reason = reason_after(|roles| {
            roles[0].task_statuses[task].to_mut().attempt_status.pod_name = pod.to_owned();
        });
        assert_eq!(reason.as_deref(), Some(POD_RENAMED), "{pod:?} of Task {task}");
    }
    let reason = reason_after(|roles| roles[0].name = "x".to_owned());
    assert_eq!(reason.as_deref(), Some(POD_RENAMED));
    let mut zipped = FrameworkStatus::clone(&status(3, "AttemptRunning"));
    zipped.attempt_status.task_role_statuses.as_mut().unwrap()[0].name = "x".to_owned();
    let zipped = compressor(Some(0)).compressed("f", &Arc::new(zipped), false, &ROOM).unwrap();
    let mut object = object(zipped);
    compressor(None).open(&mut object);
    assert_eq!(&*object.content.unwrap_err().reason, POD_RENAMED);
}

#[test]
fn of_task_roles_with_one_name_only_the_first_may_have_pods() {
    let twice = |pod: Option<&str>| {
        reason_after(|roles| {
            let mut second = roles[0].clone();
            second.task_statuses[2].to_mut().attempt_status.pod_uid = pod.map(str::to_owned);
            roles.push(second);
        })
    };
    assert_eq!(twice(None), None, "the original leaves such statuses");
    assert_eq!(twice(Some("pod")).as_deref(), Some(TASK_ROLE_TWICE));
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
