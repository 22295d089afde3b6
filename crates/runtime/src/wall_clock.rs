//! Jumps of the wall clock against the monotonic one: it was set, or the machine was suspended.
//!
//! The log, the history and Events follow the wall clock. A status does not: it has the API server's times.

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use framework_message::Now;

use crate::metrics::Metrics;

/// The clocks do not drift apart by so much between two looks at them.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// The wall clock, as it was seen last.
#[derive(Debug, Default)]
pub struct WallClock {
    /// The wall clock at the zero of the monotonic one.
    zero: Option<Timestamp>,
}

impl WallClock {
    /// Looks at the clocks. Logs and counts a jump since the last look.
    pub fn look(&mut self, now: Now, metrics: &Metrics) {
        if let Some(by) = self.jump(now) {
            metrics.wall_clock_jumped();
            warn!(seconds = by.as_secs_f64(), "the wall clock jumped, or the machine was suspended");
        }
    }

    /// By how much the wall clock has jumped ahead since the last look, if it has; back: negative.
    fn jump(&mut self, now: Now) -> Option<SignedDuration> {
        let steady = SignedDuration::try_from(now.steady).ok()?;
        let zero = now.wall.checked_sub(steady).ok()?;
        let by = zero.duration_since(self.zero.replace(zero)?);
        (by.abs() > JUMP).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_jump_of_the_wall_clock_is_counted_once() {
        let (mut clock, metrics) = (WallClock::default(), Metrics::new());
        let at = |steady, wall| Now {
            steady: Duration::from_secs(steady),
            boot: Duration::from_secs(steady),
            wall: Timestamp::from_second(wall).unwrap(),
        };
        for (steady, wall, jumps) in [
            (10, 1_000_010, 0),
            (20, 1_000_020, 0),
            // It is set by a little, and then drifts for a day.
            (30, 1_000_035, 0),
            (86_430, 1_086_438, 0),
            (86_440, 1_090_048, 1),
            (86_450, 1_090_058, 1),
            (86_460, 1_086_468, 2),
            (86_470, 1_086_478, 2),
        ] {
            clock.look(at(steady, wall), &metrics);
            let text = metrics.text(at(steady, wall));
            let line = format!("frameworkcontroller_wall_clock_jumps_total {jumps}\n");
            assert!(text.contains(&line), "after {steady} s: {text}");
        }
    }
}
