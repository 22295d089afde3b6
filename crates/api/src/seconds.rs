//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: their bounds, and what becomes of other values.
//!
//! The CRD refuses such a value. A cluster whose CRD lacks the rules may have stored one all the same: it
//! counts as not set, so that it neither deletes nor ends anything, and it hides nothing else of the object.

use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What `spec.activeDeadlineSeconds` may be: up to 100 years, so that every due time is a time.
pub const ACTIVE_DEADLINE: RangeInclusive<i64> = 1..=3_153_600_000;
/// What `spec.ttlSecondsAfterFinished` may be.
pub const TTL_AFTER_FINISHED: RangeInclusive<i64> = 0..=i32::MAX as i64;

/// `activeDeadlineSeconds`, if it is one.
pub(crate) fn active_deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(within(&Value::deserialize(deserializer)?, &ACTIVE_DEADLINE))
}

/// `ttlSecondsAfterFinished`, if it is one.
pub(crate) fn ttl_after_finished<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i32>, D::Error> {
    let seconds = within(&Value::deserialize(deserializer)?, &TTL_AFTER_FINISHED);
    Ok(seconds.and_then(|seconds| i32::try_from(seconds).ok()))
}

/// The number of seconds, if it is a whole number within the bounds.
pub(crate) fn within(value: &Value, bounds: &RangeInclusive<i64>) -> Option<i64> {
    value.as_i64().filter(|seconds| bounds.contains(seconds))
}
