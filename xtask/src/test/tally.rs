//! The tests that ran and failed, counted from the output of `cargo test`.

use std::fmt;
use std::ops::AddAssign;

/// A summary shows so many characters of a panic's message.
const MESSAGE: usize = 300;

/// The tests that ran, by the last line of each test program, and the names of those that failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    programs: u64,
    passed: u64,
    failed: u64,
    pub(crate) names: Vec<String>,
    /// The panics of failed tests: the place, and the first line of the message.
    pub(super) panics: Vec<String>,
    reading: Reading,
}

/// Where in the output of a test program the next line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    /// In the output of tests while they run. A panic there may be the one that a test waits for.
    #[default]
    Running,
    /// In the output of a failed test.
    Failed,
    /// At the message of a failed test's panic.
    Message,
}

impl Tally {
    /// Counts a line of the output of `cargo test`.
    pub(crate) fn count(&mut self, line: &str) {
        let failed = line.trim_end().strip_prefix("test ").and_then(|test| test.strip_suffix(" ... FAILED"));
        self.names.extend(failed.map(str::to_owned));
        self.read_panic(line.trim_end());
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let number = |of: &str| -> u64 {
            let word = result.split(of).next().and_then(|before| before.split_whitespace().last());
            word.and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        self.programs += 1;
        self.passed += number(" passed");
        self.failed += number(" failed");
    }

    fn read_panic(&mut self, line: &str) {
        let place = line.strip_prefix("thread '").and_then(|thread| thread.split_once(" panicked at "));
        self.reading = match (self.reading, place) {
            (Reading::Message, _) => {
                let message: String = line.chars().take(MESSAGE).collect();
                if let Some(panic) = self.panics.last_mut() {
                    *panic += &format!(" {message}");
                }
                Reading::Failed
            }
            (Reading::Failed, Some((_, place))) => {
                self.panics.push(place.to_owned());
                Reading::Message
            }
            _ if line.starts_with("---- ") && line.ends_with(" stdout ----") => Reading::Failed,
            _ if line.starts_with("test result: ") => Reading::Running,
            (before, _) => before,
        };
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.programs += other.programs;
        self.passed += other.passed;
        self.failed += other.failed;
        self.names.extend(other.names);
        self.panics.extend(other.panics);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.programs {
            0 => Ok(()),
            n => write!(f, "{} passed, {} failed in {n} programs", self.passed, self.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_every_program_are_counted() {
        let mut tally = Tally::default();
        for line in [
            "running 2 tests\n",
            "test a ... ok\n",
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; finished in 0.53s\n",
            "thread 'c' (7) panicked at src/c.rs:1:1:\n",
            "test wave::b ... FAILED\n",
            "---- wave::b stdout ----\n",
            "three kills\n",
            "thread 'wave::b' (8) panicked at tests/wave.rs:7:5:\n",
            "[0.9]\n",
            "test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; finished in 1s\n",
        ] {
            tally.count(line);
        }
        let (names, panics) = (vec!["wave::b".into()], vec!["tests/wave.rs:7:5: [0.9]".into()]);
        let reading = Reading::Running;
        assert_eq!(tally, Tally { programs: 2, passed: 19, failed: 1, names, panics, reading });
        assert_eq!(tally.to_string(), "19 passed, 1 failed in 2 programs");
        assert_eq!(Tally::default().to_string(), "");
    }
}
