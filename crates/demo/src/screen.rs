//! The Frameworks while they run: a table redrawn in place, or plain lines where there is no terminal.

use std::io::{self, IsTerminal, Stdout, Write};

use crossterm::cursor::MoveToPreviousLine;
use crossterm::style::Stylize;
use crossterm::terminal::{Clear, ClearType};
use crossterm::{QueueableCommand, terminal};
use framework_api::State;
use jiff::Timestamp;

use crate::history::History;

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    framework: String,
    state: String,
    attempt: i32,
    tasks: String,
    reason: String,
    /// Whether it has failed, once it has completed.
    failed: Option<bool>,
    /// Seconds from its creation to now, or to its completion.
    age: i64,
}

impl Row {
    /// The latest state of the Framework.
    pub(crate) fn of(history: &History) -> Row {
        Row::at(history, Timestamp::now())
    }

    fn at(history: &History, now: Timestamp) -> Row {
        let status = history.status();
        let end = status.and_then(|status| status.completion_time).map_or(now, |time| time.timestamp());
        let age = history.created().map_or(0, |created| end.as_second() - created.as_second());
        // Complete and Failed are set last, and say more than that nothing runs.
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let condition = conditions.iter().rfind(|one| one.status == "True").or(conditions.first());
        Row {
            framework: history.name().to_owned(),
            state: status.map_or_else(String::new, |status| format!("{:?}", status.state)),
            attempt: status.map_or(0, |status| status.attempt_status.id),
            tasks: status.and_then(|status| status.tasks.clone()).unwrap_or_default(),
            reason: condition.map(|condition| condition.reason.clone()).unwrap_or_default(),
            failed: status.filter(|status| status.state == State::Completed).and_then(|status| {
                Some(status.attempt_status.completion_status.as_ref()?.r#type.is_failed())
            }),
            age: age.max(0),
        }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.framework.clone(),
            self.state.clone(),
            self.attempt.to_string(),
            self.tasks.clone(),
            format!("{}s", self.age),
            self.reason.clone(),
        ]
    }
}

/// Where the rows are shown.
pub(crate) enum Screen {
    /// On a terminal: how many lines the table has there.
    Terminal { lines: u16 },
    /// Elsewhere: the rows that were last written.
    Log { written: Vec<Row> },
}

impl Screen {
    /// Standard output.
    pub(crate) fn of_stdout() -> Screen {
        if io::stdout().is_terminal() {
            Screen::Terminal { lines: 0 }
        } else {
            Screen::Log { written: Vec::new() }
        }
    }

    /// Shows the rows that changed.
    pub(crate) fn show(&mut self, rows: &[Row]) -> io::Result<()> {
        match self {
            Screen::Terminal { lines } => {
                let width = terminal::size().map_or(80, |(width, _)| width);
                draw(&mut io::stdout(), rows, usize::from(width), *lines)?;
                *lines = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
                Ok(())
            }
            Screen::Log { written } => {
                let mut out = io::stdout().lock();
                changes(written, rows).try_for_each(|line| writeln!(out, "{line}"))?;
                *written = rows.to_vec();
                out.flush()
            }
        }
    }
}

/// Draws the table over the `above` lines that it had before.
fn draw(out: &mut Stdout, rows: &[Row], width: usize, above: u16) -> io::Result<()> {
    if above > 0 {
        out.queue(MoveToPreviousLine(above))?;
    }
    for (line, row) in table(rows).iter().zip(std::iter::once(None).chain(rows.iter().map(Some))) {
        // A line that wraps would be one more to move up.
        let line: String = line.chars().take(width.saturating_sub(1)).collect();
        out.queue(Clear(ClearType::CurrentLine))?;
        match row.map(|row| row.failed) {
            None => writeln!(out, "{}", line.bold())?,
            Some(None) => writeln!(out, "{line}")?,
            Some(Some(false)) => writeln!(out, "{}", line.green())?,
            Some(Some(true)) => writeln!(out, "{}", line.red())?,
        }
    }
    out.flush()
}

/// The header and a line for each row, in columns.
fn table(rows: &[Row]) -> Vec<String> {
    let header = ["FRAMEWORK", "STATE", "ATTEMPT", "TASKS", "AGE", "REASON"].map(String::from);
    let lines: Vec<[String; 6]> = std::iter::once(header).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    // The longest name of a state, so that the columns stay where they are.
    let widths: [usize; 6] =
        std::array::from_fn(|column| width(column).max(if column == 1 { 25 } else { 0 }));
    let pad = |line: &[String; 6]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(pad).collect()
}

/// A line for each row that differs from the written one by more than its age.
fn changes<'a>(written: &'a [Row], rows: &'a [Row]) -> impl Iterator<Item = String> + 'a {
    let changed = move |(position, row): &(usize, &Row)| {
        !row.state.is_empty()
            && written.get(*position).is_none_or(|old| Row { age: row.age, ..old.clone() } != **row)
    };
    rows.iter().enumerate().filter(changed).map(|(_, row)| {
        let Row { framework, state, attempt, tasks, age, reason, .. } = row;
        let reason = if reason == state { String::new() } else { format!(", {reason}") };
        format!("{age:>3}s {framework}: {state}, attempt {attempt}, tasks {tasks}{reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: &str, age: i64) -> Row {
        Row {
            framework: "job".into(),
            state: state.into(),
            attempt: 1,
            tasks: "3/4".into(),
            reason: "Because".into(),
            failed: None,
            age,
        }
    }

    #[test]
    fn columns_stay_where_they_are_while_states_change() {
        let lines = table(&[row("AttemptRunning", 7), row("AttemptCreationRequested", 12)]);
        let column = |line: &String, text: &str| line.find(text).unwrap();
        assert_eq!(column(&lines[0], "REASON"), column(&lines[1], "Because"));
        assert_eq!(column(&lines[1], "Because"), column(&lines[2], "Because"));
        assert_eq!(column(&lines[0], "TASKS"), column(&table(&[row("Completed", 1)])[0], "TASKS"));
    }

    #[test]
    fn the_log_has_a_line_for_a_change_but_not_for_time_alone() {
        let written = [row("AttemptRunning", 7)];
        assert_eq!(changes(&written, &[row("AttemptRunning", 8)]).count(), 0);
        let line = changes(&written, &[row("Completed", 8)]).next();
        assert_eq!(line.as_deref(), Some("  8s job: Completed, attempt 1, tasks 3/4, Because"));
        assert_eq!(changes(&[], &[row("", 0)]).count(), 0, "it has no status yet");
    }
}
