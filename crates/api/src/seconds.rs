//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: their bounds, and how other values are read.
//!
//! The CRD refuses a value out of bounds. A cluster whose CRD lacks the rules may have stored one. It
//! counts as not set, so that it deletes and ends nothing, and the rest of the object stays readable.

use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The bounds of `spec.activeDeadlineSeconds`: up to 100 years, so that every due time can be written.
pub const ACTIVE_DEADLINE: RangeInclusive<i64> = 1..=3_153_600_000;
/// The bounds of `spec.ttlSecondsAfterFinished`.
pub const TTL_AFTER_FINISHED: RangeInclusive<i64> = 0..=i32::MAX as i64;

/// Reads `activeDeadlineSeconds`; `None` if the value is invalid.
pub(crate) fn active_deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(within(&Value::deserialize(deserializer)?, &ACTIVE_DEADLINE))
}

/// Reads `ttlSecondsAfterFinished`; `None` if the value is invalid.
pub(crate) fn ttl_after_finished<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i32>, D::Error> {
    let seconds = within(&Value::deserialize(deserializer)?, &TTL_AFTER_FINISHED);
    Ok(seconds.and_then(|seconds| i32::try_from(seconds).ok()))
}

/// The number of seconds, if it is a whole number within the bounds.
pub fn within(value: &Value, bounds: &RangeInclusive<i64>) -> Option<i64> {
    value.as_i64().filter(|seconds| bounds.contains(seconds))
}
