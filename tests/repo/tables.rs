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
const NAMES: &str = include_str!("../../crates/api/src/name.rs");

/// The cells of the rows of the table with this head.
fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let rows = page.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let row = row.trim_matches('|').replace(r"\|", "\u{0}");
        row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
    };
    rows.map(cells).collect()
}

/// The rows of a CSV file whose first three cells have no comma.
fn rows(csv: &str) -> Vec<Vec<String>> {
    csv.lines().skip(1).map(|line| line.splitn(4, ',').map(str::to_owned).collect()).collect()
}

#[test]
fn the_table_of_the_controllers_codes_has_each_of_them() {
    let told = table(FAILURES, "| code | phrase | type | because |");
    assert!(told.iter().all(|row| !row[3].is_empty()), "{told:?}");
    let told: Vec<Vec<String>> = told.into_iter().map(|row| row[..3].to_vec()).collect();
    assert_eq!(told, rows(CODES));
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
    let told = table(STATES, "| state | of a Framework | of a Task |");
    let told: Vec<&str> = told.iter().map(|row| row[0].trim_matches('`')).collect();
    let expected: Vec<String> = states.iter().map(|state| format!("{state:?}")).collect();
    assert_eq!(told, expected);
    assert!(states.into_iter().map(position).eq(0..told.len()));
}

#[test]
fn the_table_of_reasons_has_each_of_them() {
    let rows = table(QUEUE_API, "| reason | of the condition | means |");
    let told: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(told, Reason::ALL.into_iter().map(Reason::as_str).collect());
}

#[test]
fn the_table_of_variables_has_each_of_them() {
    let rows = table(FRAMEWORKS, "| variable | value |");
    let mut told: Vec<&str> = rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2)).collect();
    let mut known: Vec<&str> = NAMES.split('"').filter(|text| text.starts_with("FC_")).collect();
    told.sort_unstable();
    known.sort_unstable();
    known.dedup();
    assert!(known.len() > 10, "the names were not found");
    assert_eq!(told, known);
}

#[test]
fn the_table_of_completion_policies_sets_only_what_is_allowed() {
    let rows = table(COMPLETION, "| job | TaskRole | minFailedTaskCount | minSucceededTaskCount |");
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows {
        for cell in &row[2..] {
            let count = cell.parse::<i32>().map(|count| count >= -1 && count != 0);
            assert!(cell == "any" || count == Ok(true), "{row:?}");
        }
    }
}
