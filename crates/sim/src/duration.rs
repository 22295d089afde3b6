//! Durations: a range of them, a draw from a range, and the text form that Go writes.

use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;

/// A range of milliseconds.
pub(crate) fn ms(from: u64, to: u64) -> RangeInclusive<Duration> {
    Duration::from_millis(from)..=Duration::from_millis(to)
}

/// A duration from a range, in whole milliseconds, which is the grain of the runtime's timers.
pub(crate) fn draw(rng: &mut Rng, range: &RangeInclusive<Duration>) -> Duration {
    let (from, to) = (range.start().as_millis(), range.end().as_millis());
    let ms = if from >= to { from } else { rng.u128(from..=to) };
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// Reads a duration as Go writes it, such as `1m30s`. A request's `timeout` parameter has the same form.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let unit = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let millis = match &tail[..unit] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total += Duration::from_millis(number * millis);
        rest = &tail[unit..];
    }
    Some(total)
}
