//! The summary of a Framework's history, in a few lines.

use framework_api::status::{FrameworkAttemptCompletionStatus, TaskAttemptCompletionStatus};
use framework_testcluster::audit::Record;

use crate::history::History;
use crate::requests::Requests;

/// The longest line.
const WIDTH: usize = 110;
const INDENT: &str = "            ";

/// States with times, attempts, the reason of the end, and the requests that it took.
pub(crate) fn of(history: &History, records: &[Record]) -> String {
    let requests = Requests::of(history.name(), records);
    let mut lines = vec![format!("{}: {} ({})", history.name(), history.example.shows, history.example.file)];
    if history.states.is_empty() {
        lines.push("  the controller has not touched it".into());
        return lines.join("\n");
    }
    let mut add = |topic: &str, text: &str| lines.extend(wrap(&format!("  {topic:<10}"), text));
    add("states", &states(history));
    add("attempts", &attempts(history));
    add("end", &end(history));
    add("requests", &requests.describe(history.task_number()));
    lines.join("\n")
}

fn states(history: &History) -> String {
    let seconds = history.states.chunk_by(|(one, _), (other, _)| one == other).map(|states| {
        let time = states[0].0.timestamp().strftime("%H:%M:%S");
        let states: Vec<String> = states.iter().map(|(_, state)| format!("{state:?}")).collect();
        format!("{time} {}", states.join(", "))
    });
    seconds.collect::<Vec<_>>().join("; ")
}

fn attempts(history: &History) -> String {
    let attempts = history.ends.keys().last().map_or(0, |last| last + 1);
    let mut parts = vec![format!("{attempts} of the Framework")];
    for (id, end) in history.ends.iter().filter(|(id, _)| **id + 1 < attempts) {
        parts.push(format!("its attempt {id} ended as {} ({})", end.phrase, end.code));
    }
    let retried = history.tasks().filter(|(_, task)| task.attempt_status.id > 0);
    for (role, task) in retried {
        let ends = (0..=task.attempt_status.id).map(|attempt| {
            let end = history.task_ends.get(&(role.to_owned(), task.index, attempt));
            format!("attempt {attempt} {}", end.map_or_else(|| "was not seen to end".into(), ended))
        });
        parts.push(format!("Task {role}-{}: {}", task.index, ends.collect::<Vec<_>>().join(", ")));
    }
    if parts.len() == 1 {
        parts.push("no Task was retried".into());
    }
    parts.join("; ")
}

fn ended(end: &TaskAttemptCompletionStatus) -> String {
    let message = end.pod.iter().flat_map(|pod| &pod.containers).map(|container| container.message.as_str());
    let message =
        message.filter(|message| !message.is_empty()).map(|message| format!(" saying \"{message}\""));
    format!("ended as {} ({}){}", end.phrase, end.code, message.collect::<String>())
}

fn end(history: &History) -> String {
    let status = history.status();
    let Some(end) = status.and_then(|status| status.attempt_status.completion_status.as_ref()) else {
        return "it has not ended".into();
    };
    let mut parts = vec![outcome(end)];
    if !end.diagnostics.is_empty() {
        parts.push(end.diagnostics.clone());
    }
    if let Some(trigger) = &end.trigger {
        parts.push(format!("by Task {}-{}: {}", trigger.task_role_name, trigger.task_index, trigger.message));
    }
    let stopped = history
        .stopped_tasks()
        .into_iter()
        .map(|(role, index)| format!("{role}-{index}"))
        .collect::<Vec<_>>();
    if !stopped.is_empty() {
        parts.push(format!("still unfinished then, and ended with it: {}", stopped.join(", ")));
    }
    if let (Some(start), Some(end)) = (status.map(|s| s.start_time), status.and_then(|s| s.completion_time)) {
        parts.push(format!("{} s after its start", end.since(start).as_secs()));
    }
    parts.join("; ")
}

fn outcome(end: &FrameworkAttemptCompletionStatus) -> String {
    if !end.r#type.is_failed() {
        return format!("{} ({})", end.phrase, end.code);
    }
    let attributes: Vec<String> = end.r#type.attributes.iter().map(|one| format!("{one:?}")).collect();
    let kind = std::iter::once("Failed".to_owned()).chain(attributes).collect::<Vec<_>>().join(" ");
    format!("{kind}: {} ({})", end.phrase, end.code)
}

/// The text after its topic, broken between words.
fn wrap(topic: &str, text: &str) -> Vec<String> {
    let mut lines = vec![topic.to_owned()];
    let mut fresh = true;
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| fresh || line.len() + 1 + word.len() <= WIDTH);
        match line {
            Some(line) => {
                if !fresh {
                    line.push(' ');
                }
                line.push_str(word);
            }
            None => lines.push(format!("{INDENT}{word}")),
        }
        fresh = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let words = ["word"; 50].join(" ");
        let lines = wrap("  topic     ", &words);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
        assert!(lines[0].starts_with("  topic     word word"), "{lines:?}");
        let words_of_lines: Vec<&str> =
            lines.iter().flat_map(|line| line.split_whitespace()).skip(1).collect();
        assert_eq!(words_of_lines.join(" "), words);
    }
}
