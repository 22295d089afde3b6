//! When a status is written, and which statuses an act needs the permission of meanwhile.

use super::*;
use framework_api::{State, Time};
use framework_core::EventReason;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const SMALL: StatusSize = StatusSize { bytes: 20, tasks: 1 };

fn windows() -> Windows {
    Windows { gather: ms(100), record: ms(250), bytes_per_second: 1 << 20, tasks_per_second: 10_000 }
}

fn draft(state: State) -> Draft {
    let status = serde_json::from_value(serde_json::json!({
        "startTime": "2026-01-01T00:00:00Z", "state": state,
        "transitionTime": Time::floor(jiff::Timestamp::UNIX_EPOCH),
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
        "attemptStatus": {"id": 0, "startTime": "2026-01-01T00:00:00Z", "configMapName": "job-attempt"},
    }));
    let reports = vec![Report::normal(EventReason::Admitted, format!("{state:?}"))];
    Draft { status: Arc::new(status.unwrap()), reports, history: Vec::new() }
}

fn propose(write: &mut StatusWrite, urgency: Urgency, now: u64) -> Option<Duration> {
    write.propose(draft(State::AttemptPreparing), urgency, SMALL, &windows(), ms(now))
}

#[test]
fn an_urgent_change_is_written_at_once() {
    let mut write = StatusWrite::default();
    write.event(ms(1000));
    assert_eq!(propose(&mut write, Urgency::Now, 1000), None);
    assert!(write.is_due(ms(1000)));
}

#[test]
fn changes_gather_until_a_window_passes_without_an_event() {
    let mut write = StatusWrite::default();
    write.event(ms(1000));
    assert_eq!(propose(&mut write, Urgency::Gather, 1000), Some(ms(1100)));
    write.event(ms(1050));
    assert_eq!(propose(&mut write, Urgency::Gather, 1050), Some(ms(1150)));
    assert!(!write.is_due(ms(1149)));
    assert_eq!(propose(&mut write, Urgency::Gather, 1150), None);
    assert!(write.is_due(ms(1150)));
}

#[test]
fn changes_gather_no_longer_than_five_windows() {
    let mut write = StatusWrite::default();
    let mut now = 1000;
    let due = loop {
        write.event(ms(now));
        if propose(&mut write, Urgency::Record, now).is_none() {
            break now;
        }
        now += 10;
    };
    assert_eq!(due, 1000 + 5 * 250);
}

#[test]
fn a_joining_change_is_as_urgent_as_the_gathered_ones() {
    for (urgency, window) in [(Urgency::Record, 250), (Urgency::Gather, 100)] {
        let mut write = StatusWrite::default();
        write.event(ms(1000));
        propose(&mut write, urgency, 1000);
        assert_eq!(write.join(SMALL, &windows(), ms(1010)), Some(ms(1010 + window)), "{urgency:?}");
    }
    let mut write = StatusWrite::default();
    assert_eq!(write.join(SMALL, &windows(), ms(1000)), Some(ms(1250)), "it begins to gather");
    propose(&mut write, Urgency::Now, 1001);
    assert_eq!(write.join(SMALL, &windows(), ms(1002)), None, "what is due was evaluated without it");
    write.send(ms(1003));
    assert_eq!(write.join(SMALL, &windows(), ms(1004)), None);
}

/// The time until a status of this size may be written again.
fn spacing(size: StatusSize) -> Duration {
    let mut write = StatusWrite::default();
    write.propose(draft(State::AttemptPreparing), Urgency::Now, size, &windows(), ms(0));
    write.send(ms(0));
    write.accepted();
    let due = write.propose(draft(State::AttemptRunning), Urgency::Now, size, &windows(), ms(0));
    due.unwrap_or_default()
}

#[test]
fn a_large_status_is_written_less_often() {
    // 1 MiB a second.
    let spaced = spacing(StatusSize { bytes: 450_000, tasks: 600 });
    assert!(spaced > ms(420) && spaced < ms(440), "{spaced:?}");
    assert_eq!(spacing(StatusSize { bytes: 100_000, tasks: 10_000 }), ms(1000), "it is compressed");
    assert_eq!(spacing(StatusSize { bytes: 30_000, tasks: 250 }), ms(0));
}

#[test]
fn a_status_of_unknown_outcome_is_unsettled_until_another_version() {
    let mut write = StatusWrite::default();
    propose(&mut write, Urgency::Now, 0);
    let sent = write.send(ms(0)).unwrap();
    assert!(write.is_busy());
    assert_eq!(write.unknown(5, ms(0)), 1);
    assert!(write.is_busy() && write.is_due(ms(0)), "the Framework is to be read");
    write.send_read();
    assert_eq!(write.read(5), None, "it is counted");
    assert!(!write.is_busy());
    assert_eq!(write.unsettled_statuses().collect::<Vec<_>>(), [&*sent]);
    // The same version was read: it is evaluated and written again.
    write.propose(draft(State::AttemptRunning), Urgency::Now, SMALL, &windows(), ms(50));
    write.send(ms(50));
    assert_eq!(write.unsettled_statuses().count(), 2);
    // The first write was accepted after all.
    let published = write.settle(Some(&sent));
    assert_eq!(published, [Report::normal(EventReason::Admitted, "AttemptPreparing".into())]);
    assert_eq!(write.unsettled_statuses().count(), 1, "the one in flight");
}

#[test]
fn few_statuses_of_unknown_outcome_are_kept_until_a_read_proves_them_void() {
    let mut write = StatusWrite::default();
    for at in 0..10 {
        propose(&mut write, Urgency::Now, at);
        write.send(ms(at)).unwrap();
        assert_eq!(u64::from(write.unknown(5, ms(at))), at + 1, "it backs off more and more");
        assert_eq!(write.unsettled_statuses().count() as u64, (at + 1).min(4));
        assert_eq!(write.is_untracked(), at >= 4);
        write.send_read();
        write.read(5);
    }
    let lifetime = ms(100);
    write.outlived(ms(105), lifetime);
    assert_eq!((write.unsettled_statuses().count(), write.is_untracked()), (4, false));
    write.outlived(ms(107), lifetime);
    assert_eq!(write.unsettled_statuses().count(), 2);
    write.outlived(ms(109), lifetime);
    assert_eq!(write.unsettled_statuses().count(), 0);
}

#[test]
fn only_a_newer_version_ends_the_back_off_of_a_write() {
    let mut write = StatusWrite::default();
    let mut conflict = |base| {
        propose(&mut write, Urgency::Now, 0);
        write.send(ms(0)).unwrap();
        write.conflicted(base);
        write.send_read();
        write.read(5)
    };
    assert_eq!(
        [conflict(4), conflict(5), conflict(5), conflict(4), conflict(5)],
        [None, Some(1), Some(2), None, Some(1)]
    );
}

#[test]
fn a_refused_read_is_repeated_and_a_refused_write_is_not() {
    let mut write = StatusWrite::default();
    propose(&mut write, Urgency::Now, 0);
    write.send(ms(0));
    assert_eq!(write.refused(true), 1);
    assert!(!write.is_busy() && !write.is_due(ms(0)));
    write.wait_until(ms(500));
    assert_eq!(propose(&mut write, Urgency::Now, 10), Some(ms(500)));
    propose(&mut write, Urgency::Now, 500);
    write.send(ms(500));
    assert!(write.conflicted(5).is_some());
    write.send_read();
    assert_eq!(write.refused(true), 2);
    write.wait_until(ms(900));
    assert!(write.is_busy() && !write.is_due(ms(899)));
    assert_eq!(write.next(), Some(ms(900)));
}

#[test]
fn a_slow_api_server_makes_windows_longer_and_a_fast_one_leaves_them() {
    let windows = windows();
    let stretched = |round_trip| {
        let windows = windows.stretched(ms(round_trip));
        (windows.gather, windows.record)
    };
    assert_eq!(stretched(10), (windows.gather, windows.record));
    assert_eq!(stretched(200), (ms(800), ms(800)));
    assert_eq!(stretched(60_000), (ms(2000), ms(2000)), "even if writes are slow, events are stored soon");
}

#[test]
fn much_history_delays_the_next_write_of_its_framework() {
    let line = |bytes: usize| {
        let json = format!("\"{}\"", "x".repeat(bytes));
        let state = crate::last_seen::LastState::Whole(serde_json::from_str(&json).unwrap());
        let pod = crate::last_seen::LastSeen { name: "p".to_owned(), uid: "p".to_owned(), state };
        Line::Pod { key: framework_message::Key::new("ns", "job"), pod }
    };
    for (bytes, pause) in [(1 << 19, 0), (1 << 20, 125), (64 << 20, 8000)] {
        let mut write = StatusWrite::default();
        let history = vec![line(bytes)];
        let draft = Draft { history, ..draft(State::AttemptPreparing) };
        assert_eq!(write.propose(draft, Urgency::Now, SMALL, &windows(), ms(1000)), None);
        write.send(ms(1000)).unwrap();
        let lines = write.take_history();
        assert_eq!(lines.len(), 1);
        write.write_history(ms(1000), &lines);
        write.accepted();
        let next = propose(&mut write, Urgency::Now, 1001).unwrap_or(ms(1000));
        let (least, most) = (ms(1000 + pause), ms(1010 + pause));
        assert!((least..=most).contains(&next), "{next:?} after {bytes} bytes");
    }
}
