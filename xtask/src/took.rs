//! Durations for people.

use std::fmt;
use std::time::Duration;

/// A duration, in seconds or in minutes and seconds.
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0..60 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            seconds => write!(f, "{} min {:02} s", seconds / 60, seconds % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_duration_is_in_minutes() {
        assert_eq!(Took(Duration::from_millis(4_250)).to_string(), "4.2 s");
        assert_eq!(Took(Duration::from_secs(186)).to_string(), "3 min 06 s");
    }
}
