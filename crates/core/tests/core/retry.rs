//! The retry table, row by row, and the delay after a conflict.

use framework_api::RetryPolicy;
use framework_api::code::{Attribute, CompletionType};
use framework_api::status::RetryPolicyStatus;
use framework_core::retry::{Decision, decide, random_delay};

const TABLE: &str = include_str!("../../data/retry_decisions.csv");

fn completion_type(text: &str) -> CompletionType {
    let mut words = text.split(' ');
    let attributes = |word| match word {
        "Transient" => Attribute::Transient,
        "Conflict" => Attribute::Conflict,
        "Permanent" => Attribute::Permanent,
        other => panic!("no attribute {other}"),
    };
    match words.next() {
        Some("Succeeded") => CompletionType::succeeded(),
        Some("Failed") => CompletionType::failed(&words.map(attributes).collect::<Vec<_>>()),
        other => panic!("no type {other:?}"),
    }
}

#[test]
fn every_row_of_the_retry_table_holds() {
    let rows: Vec<&str> = TABLE.lines().skip(1).collect();
    assert_eq!(rows.len(), 26, "a row was dropped");
    for row in rows {
        let cells: Vec<&str> = row.split(',').collect();
        let [what, fancy, max, retried, code, kind, decision] = cells[..] else { panic!("{row}") };
        let policy =
            RetryPolicy { fancy_retry_policy: fancy.parse().unwrap(), max_retry_count: max.parse().unwrap() };
        let status = RetryPolicyStatus {
            total_retried_count: 20,
            accountable_retried_count: retried.parse().unwrap(),
            retry_delay_sec: None,
        };
        let expected = match decision {
            "stop" => Decision::Stop,
            "retry accountable" => Decision::Retry { accountable: true, conflict: false },
            "retry free" => Decision::Retry { accountable: false, conflict: false },
            "retry free later" => Decision::Retry { accountable: false, conflict: true },
            other => panic!("no decision {other}"),
        };
        assert_eq!(decide(policy, status, code.parse().unwrap(), &completion_type(kind)), expected, "{what}");
    }
}

#[test]
fn a_random_delay_stays_in_its_bounds_and_reaches_them() {
    let delays: Vec<i64> = (0..2000).map(|seed| random_delay(60, 70, seed)).collect();
    assert_eq!((delays.iter().min(), delays.iter().max()), (Some(&60), Some(&70)));
    assert_eq!(random_delay(60, 60, 99), 60);
}
