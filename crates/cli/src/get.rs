//! `get`: Frameworks in a table, by name, or with their decompressed status.

use framework_api::name::{GROUP, KIND};
use framework_api::{Framework, FrameworkStatus, Time};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{Form, Get};
use crate::cluster::Cluster;
use crate::duration::age;
use crate::error::Error;
use crate::find::{self, Found};
use crate::output::Style;
use crate::table::Table;
use crate::visible::visible;

/// The text that `get` prints. Fails if the API server refuses a list. Fails with the text if only some of
/// the named or listed Frameworks can be read.
pub async fn run(cluster: &Cluster, asked: &Get, style: Style) -> Result<String, Error> {
    let keep: fn(Found) -> Found = match style.form {
        Form::Table | Form::Wide | Form::Name => Found::summarized,
        Form::Json | Form::Yaml => std::convert::identity,
    };
    let listed = find::asked(cluster, asked, keep).await?;
    let found = &listed.found;
    let objects = match found.as_slice() {
        [one] if asked.name.len() == 1 => one.stored.clone(),
        several => list(several),
    };
    let text = style.show(&objects, || match style.form {
        Form::Name => names(found),
        _ => table(found, asked.all_namespaces, style, Timestamp::now()),
    })?;
    listed.answer(text)
}

/// A line for each, as kubectl prints it.
fn names(found: &[Found]) -> String {
    let kind = KIND.to_lowercase();
    found.iter().map(|one| format!("{kind}.{GROUP}/{}\n", visible(one.name()))).collect()
}

fn list(found: &[Found]) -> Value {
    let items: Vec<&Value> = found.iter().map(|one| &one.stored).collect();
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
}

fn table(found: &[Found], with_namespace: bool, style: Style, now: Timestamp) -> String {
    if found.is_empty() {
        return style.nothing("No Frameworks found.\n");
    }
    let wide = style.form == Form::Wide;
    let of_wide = |titles: &'static [&'static str]| if wide { titles } else { &[] };
    let namespace: &[&str] = if with_namespace { &["NAMESPACE"] } else { &[] };
    let titles = ["NAME", "STATE", "ATTEMPT", "RUNNING", "SUCCEEDED", "FAILED", "TOTAL", "REASON", "RESULT"];
    let titles = [namespace, &titles, of_wide(&["QUEUE"]), &["AGE"]].concat();
    let mut table = Table::new(&titles);
    for one in found {
        let mut cells = Vec::new();
        cells.extend(with_namespace.then(|| one.namespace().to_owned()));
        cells.push(one.name().to_owned());
        cells.extend(figures(&one.framework));
        cells.extend(wide.then(|| one.queue().to_owned()));
        let created = one.metadata().creation_timestamp.as_ref();
        cells.push(created.map(|at| age(Time::floor(at.0), now)).unwrap_or_default());
        table.row(cells);
    }
    style.table(&table)
}

/// State, attempt, counts, reason and result.
fn figures(framework: &Framework) -> Vec<String> {
    let Some(status) = &framework.status else {
        return [vec!["New".to_owned()], vec![String::new(); 7]].concat();
    };
    let counts = status.task_counts.unwrap_or_default();
    let numbers = [status.attempt_status.id, counts.running, counts.succeeded, counts.failed, counts.total];
    let numbers = numbers.iter().map(i32::to_string);
    let end = status.attempt_status.completion_status.as_deref();
    let result = end.map(|end| end.phrase.clone()).unwrap_or_default();
    [format!("{:?}", status.state)].into_iter().chain(numbers).chain([reason(status), result]).collect()
}

/// The obstacle of a Framework that does not run: the reason of its queue, or of its condition `Running`.
fn reason(status: &FrameworkStatus) -> String {
    let state = format!("{:?}", status.state);
    let of = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let queued = of(framework_core::queue::QUEUED).filter(|condition| condition.status == "True");
    let running = of(framework_core::summary::RUNNING).filter(|condition| condition.reason != state);
    queued.or(running).map(|condition| condition.reason.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, PLAIN, found};
    use expect_test::expect;

    #[test]
    fn a_list_shows_counts_and_the_obstacle() {
        let frameworks = [found("running.yaml"), found("queued.yaml"), found("completed.yaml")];
        let now = NOW.parse().unwrap();
        expect![[r#"
            NAMESPACE   NAME    STATE                    ATTEMPT   RUNNING   SUCCEEDED   FAILED   TOTAL   REASON              RESULT      AGE
            team        train   AttemptRunning           0         1         0           1        4                                       5m55s
            team        gang    AttemptCreationPending   0         0         0           0        1       InsufficientQuota               5m55s
            team        done    Completed                1         0         0           2        2                           OOMKilled   125m
        "#]].assert_eq(&table(&frameworks, true, PLAIN, now));
        assert_eq!(table(&[], false, PLAIN, now), "No Frameworks found.\n");
    }

    #[test]
    fn without_headers_each_line_is_a_framework() {
        let (style, now) = (Style { titles: false, ..PLAIN }, NOW.parse().unwrap());
        let text = table(&[found("running.yaml"), found("queued.yaml")], false, style, now);
        let names: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["train", "gang"], "{text}");
        assert_eq!(table(&[], false, style, now), "");
    }

    #[test]
    fn a_table_needs_no_tasks_and_no_templates() {
        let frameworks = ["running.yaml", "queued.yaml", "completed.yaml"].map(found);
        let rows = frameworks.clone().map(Found::summarized);
        for one in &rows {
            let framework = serde_json::to_string(&one.framework).unwrap();
            assert!(one.stored.is_null() && !framework.contains("containers"), "{framework}");
            assert!(!framework.contains("podName"), "{framework}");
        }
        let (wide, now) = (Style { form: Form::Wide, ..PLAIN }, NOW.parse().unwrap());
        assert_eq!(table(&rows, true, wide, now), table(&frameworks, true, wide, now));
    }
}
