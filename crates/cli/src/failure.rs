//! Tasks that fail or run on in a simulation, as options name them.

use std::fmt;
use std::str::FromStr;

/// One Task, or all of a TaskRole: `worker:3` or `worker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// The TaskRole.
    pub role: String,
    /// The index of the Task; `None`: all.
    pub index: Option<i32>,
}

/// A failure of Tasks: `worker:3=137`; `worker:3=137x2` in the first two attempts of the Task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The Tasks.
    pub tasks: Tasks,
    /// The exit code.
    pub code: i32,
    /// In how many first attempts of the Task; `None`: in all.
    pub times: Option<u32>,
}

impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}:{index}", self.role),
            None => f.write_str(&self.role),
        }
    }
}

impl FromStr for Tasks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (role, index) = match text.split_once(':') {
            Some((role, index)) => {
                let index = index.parse().map_err(|_| format!("{index:?} is not the index of a Task"))?;
                (role, Some(index))
            }
            None => (text, None),
        };
        Ok(Tasks { role: role.to_owned(), index })
    }
}

impl FromStr for Failure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not ROLE=CODE, ROLE:INDEX=CODE or ROLE:INDEX=CODExTIMES");
        let (tasks, end) = text.split_once('=').ok_or_else(form)?;
        let (code, times) = match end.split_once('x') {
            Some((code, times)) => (code, Some(times.parse().map_err(|_| form())?)),
            None => (end, None),
        };
        let code: i32 = code.parse().map_err(|_| form())?;
        if !(1..=255).contains(&code) {
            return Err(format!("{code} is not the exit code of a failure: give 1 to 255"));
        }
        Ok(Failure { tasks: tasks.parse()?, code, times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_and_a_wrong_one_names_the_form() {
        let read = |text: &str| text.parse::<Failure>();
        let worker = |index| Tasks { role: "worker".into(), index };
        assert_eq!(read("worker:3=137"), Ok(Failure { tasks: worker(Some(3)), code: 137, times: None }));
        assert_eq!(read("worker=1x2"), Ok(Failure { tasks: worker(None), code: 1, times: Some(2) }));
        for (text, words) in [
            ("worker", "is not ROLE=CODE"),
            ("worker=x", "is not ROLE=CODE"),
            ("worker=0", "0 is not the exit code of a failure"),
            ("worker:a=1", "\"a\" is not the index"),
        ] {
            assert!(read(text).unwrap_err().contains(words), "{text}");
        }
    }
}
