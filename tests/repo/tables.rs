//! The tables of docs/manual/ have every row that they should: codes, states, variables, reasons, policies.

use std::collections::BTreeSet;

use framework_api::State;
use framework_api::config::Config;
use framework_api::pod_failure::DEFAULT_TABLE;
use framework_api::queue::Reason;
use framework_core::classify::Classifier;

const COMPLETION: &str = include_str!("../../docs/manual/completion.md");
const FAILURES: &str = include_str!("../../docs/manual/failures.md");
const FRAMEWORKS: &str = include_str!("../../docs/manual/frameworks.md");
const QUEUE_API: &str = include_str!("../../docs/manual/queue-api.md");
const STATES: &str = include_str!("../../docs/manual/states.md");
const CODES: &str = include_str!("../../crates/api/data/completion_codes.csv");
const RETRY: &str = include_str!("../../docs/manual/retry.md");
const DECISIONS: &str = include_str!("../../crates/core/data/retry_decisions.csv");
const NAMES: &str = include_str!("../../crates/api/src/name.rs");

/// The cells of a row of a table.
pub fn cells(row: &str) -> Vec<String> {
    let row = row.trim_matches('|').replace(r"\|", "\u{0}");
    row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

/// The cells of the rows of the table with this head.
pub fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let rows = page.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    rows.map(cells).collect()
}

/// The rows of a CSV file whose first three cells have no comma.
fn rows(csv: &str) -> Vec<Vec<String>> {
    csv.lines().skip(1).map(|line| line.splitn(4, ',').map(str::to_owned).collect()).collect()
}

#[test]
fn the_table_of_the_controllers_codes_has_each_of_them() {
    let documented = table(FAILURES, "| code | phrase | type | because |");
    assert!(documented.iter().all(|row| !row[3].is_empty()), "{documented:?}");
    let documented: Vec<Vec<String>> = documented.into_iter().map(|row| row[..3].to_vec()).collect();
    assert_eq!(documented, rows(CODES));
}

#[test]
fn the_table_of_the_clusters_codes_is_the_default_list() {
    assert_eq!(table(FAILURES, "| code | phrase | type | matched by |"), rows(DEFAULT_TABLE));
}

#[test]
fn the_entry_of_a_pod_failure_spec_that_is_shown_is_good() {
    let shown = FAILURES.split("```yaml\n").find(|block| block.starts_with("podFailureSpec:"));
    let shown = shown.and_then(|block| block.split("```").next()).expect("there is one");
    let config = Config::parse(shown).expect("a good config file");
    assert_eq!(config.pod_failure_spec.len(), 1);
    Classifier::new(&config.pod_failure_spec).expect("a good rule");
}

#[test]
fn the_table_of_states_has_each_of_them_in_order() {
    use State::*;
    let states = [
        AttemptCreationPending,
        AttemptCreationRequested,
        AttemptPreparing,
        AttemptRunning,
        AttemptDeletionPending,
        AttemptDeletionRequested,
        AttemptDeleting,
        AttemptCompleted,
        Completed,
    ];
    // A state that is added makes this refuse to compile.
    let position = |state: State| match state {
        AttemptCreationPending => 0,
        AttemptCreationRequested => 1,
        AttemptPreparing => 2,
        AttemptRunning => 3,
        AttemptDeletionPending => 4,
        AttemptDeletionRequested => 5,
        AttemptDeleting => 6,
        AttemptCompleted => 7,
        Completed => 8,
    };
    let documented = table(STATES, "| state | of a Framework | of a Task |");
    let documented: Vec<&str> = documented.iter().map(|row| row[0].trim_matches('`')).collect();
    let expected: Vec<String> = states.iter().map(|state| format!("{state:?}")).collect();
    assert_eq!(documented, expected);
    assert!(states.into_iter().map(position).eq(0..documented.len()));
}

#[test]
fn the_table_of_reasons_has_each_of_them() {
    let rows = table(QUEUE_API, "| reason | of the condition | means |");
    let documented: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(documented, Reason::ALL.into_iter().map(Reason::as_str).collect());
}

#[test]
fn the_table_of_variables_has_each_of_them() {
    let rows = table(FRAMEWORKS, "| variable | value |");
    let mut documented: Vec<&str> =
        rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    let mut known: Vec<&str> = NAMES.split('"').filter(|text| text.starts_with("FC_")).collect();
    documented.sort_unstable();
    known.sort_unstable();
    known.dedup();
    assert!(known.len() > 10, "the names were not found");
    assert_eq!(documented, known);
}

#[test]
fn the_table_of_completion_policies_sets_only_allowed_counts() {
    let rows = table(COMPLETION, "| job | TaskRole | minFailedTaskCount | minSucceededTaskCount |");
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows {
        for cell in &row[2..] {
            let count = cell.parse::<i32>().map(|count| count >= -1 && count != 0);
            assert!(cell == "any" || count == Ok(true), "{row:?}");
        }
    }
}

/// Whether the page says that a failure is retried: by the effect of the policy, the type of the completion
/// code, and how many accountable retries there were. Another effect needs a line here.
fn is_retried(effect: &str, kind: &str, retried: u32) -> bool {
    let failed = kind.starts_with("Failed");
    match effect {
        "nothing is retried" => false,
        "always retried, succeeded or failed" => true,
        "every failure is retried, without limit" => failed,
        "transient failures without limit, unknown ones 3 times, permanent ones never" => {
            kind.contains("Transient") || kind == "Failed" && retried < 3
        }
        "transient failures only: a failure of the application itself is kept for inspection" => {
            kind.contains("Transient")
        }
        other => panic!("this test does not know the effect {other:?}"),
    }
}

#[test]
fn the_policies_of_the_retry_page_decide_as_the_table_of_decisions() {
    let rows = table(RETRY, "| job | fancyRetryPolicy | maxRetryCount | effect |");
    assert_eq!(rows.len(), 5);
    let decisions: Vec<Vec<&str>> = DECISIONS.lines().skip(1).map(|line| line.split(',').collect()).collect();
    for row in &rows {
        let same = |decision: &&Vec<&str>| decision[1] == row[1] && decision[2] == row[2];
        let same: Vec<_> = decisions.iter().filter(same).collect();
        assert!(same.len() >= 2, "{row:?} has too few decisions");
        for decision in same {
            let retried = decision[3].parse().expect("a number");
            let expected = is_retried(&row[3], decision[5], retried);
            assert_eq!(decision[6] != "stop", expected, "{row:?}: {decision:?}");
        }
    }
}

#[test]
fn the_codes_that_the_retry_page_calls_never_retried_are_so() {
    let said = RETRY.split("Never retried: ").nth(1).and_then(|rest| rest.split('.').next()).expect("a list");
    let said: BTreeSet<&str> = said.split('(').skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let never = DECISIONS.lines().filter(|line| line.contains(": never,"));
    let never: BTreeSet<&str> = never.filter_map(|line| line.split(',').nth(4)).collect();
    assert!(!never.is_empty() && said == never, "{said:?} {never:?}");
}
