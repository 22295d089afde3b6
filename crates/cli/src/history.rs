//! `history`: the times of a Framework's status and the Events about it, in their order.

use framework_api::Time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde::Serialize;

use crate::cluster::{self, Cluster};
use crate::duration::age;
use crate::error::Error;
use crate::find::{self, Found};
use crate::output::Style;
use crate::rule::result;
use crate::table::Table;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    at: Time,
    /// `Status`, or the type of the Event.
    from: String,
    what: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

/// The text that `history` prints. Fails if the Framework does not exist or the API server refuses a read.
pub async fn run(cluster: &Cluster, name: &str, style: Style) -> Result<String, Error> {
    let found = find::one(cluster, name).await?;
    let uid = found.metadata().uid.clone().unwrap_or_default();
    let events: Api<Event> = cluster.api();
    let asked = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let what = format!("the Events of the Framework {name:?} in the namespace {:?}", cluster.namespace);
    let events = cluster.each(&events, asked, &what, cluster::decode::<Event>).await?;
    let mut entries: Vec<Entry> = of_status(&found);
    // An Event with a time that no type of ours holds must not hide the others.
    entries.extend(events.iter().flatten().filter_map(of_event));
    entries.sort();
    style.show(&entries, || render(&entries, style, Timestamp::now()))
}

fn of_status(found: &Found) -> Vec<Entry> {
    let entry = |at: Option<Time>, what: String, note: String| {
        at.map(|at| Entry { at, from: "Status".to_owned(), what, note })
    };
    let created = found.metadata().creation_timestamp.as_ref().map(|at| Time::floor(at.0));
    let mut entries = vec![entry(created, "Created".to_owned(), String::new())];
    if let Some(status) = &found.framework.status {
        let attempt = &status.attempt_status;
        let id = attempt.id;
        entries.push(entry(status.run_time, "FirstRan".to_owned(), String::new()));
        if id > 0 {
            entries.push(entry(Some(attempt.start_time), format!("Attempt{id}Started"), String::new()));
            entries.push(entry(attempt.run_time, format!("Attempt{id}Ran"), String::new()));
        }
        let end = attempt.completion_status.as_deref();
        let ended = end.map(|end| result(&end.phrase, end.code)).unwrap_or_default();
        entries.push(entry(attempt.completion_time, format!("Attempt{id}Ended"), ended));
        entries.push(entry(status.completion_time, "Completed".to_owned(), String::new()));
    }
    entries.into_iter().flatten().collect()
}

fn of_event(event: &Event) -> Option<Entry> {
    let series = event.series.as_ref().and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let last = event.last_timestamp.as_ref().map(|at| at.0);
    let at = series.or(last).or(event.event_time.as_ref().map(|at| at.0))?;
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let message = event.message.clone().unwrap_or_default();
    Some(Entry {
        at: Time::floor(at),
        from: event.type_.clone().unwrap_or_default(),
        what: event.reason.clone().unwrap_or_default(),
        note: if count > 1 { format!("{message} ({count} times)") } else { message },
    })
}

fn render(entries: &[Entry], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["AGO", "TIME", "FROM", "WHAT", "NOTE"]);
    for Entry { at, from, what, note } in entries {
        table.row(vec![age(*at, now), at.to_string(), from.clone(), what.clone(), note.clone()]);
    }
    style.table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, PLAIN, found};
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn status_and_events_are_one_list_in_the_order_of_time() {
        let event = json!({"metadata": {}, "involvedObject": {}, "type": "Normal", "reason": "Retrying",
            "message": "attempt 0 ended", "count": 2, "lastTimestamp": "2026-01-02T01:04:06Z"});
        let mut entries = of_status(&found("completed.yaml"));
        entries.extend(of_event(&serde_json::from_value(event).unwrap()));
        entries.sort();
        expect![[r#"
            AGO    TIME                   FROM     WHAT              NOTE
            125m   2026-01-02T01:04:05Z   Status   Created
            125m   2026-01-02T01:04:06Z   Normal   Retrying          attempt 0 ended (2 times)
            125m   2026-01-02T01:04:06Z   Status   Attempt1Started
            65m    2026-01-02T02:04:05Z   Status   Attempt1Ended     as OOMKilled 137
            65m    2026-01-02T02:04:06Z   Status   Completed
        "#]]
        .assert_eq(&render(&entries, PLAIN, NOW.parse().unwrap()));
    }
}
