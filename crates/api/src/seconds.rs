//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: their bounds, and how other values are read.
//!
//! The CRD refuses a value out of bounds. A cluster whose CRD lacks the rules may have stored one. It
//! counts as not set, so that it deletes and ends nothing, and the rest of the object stays readable.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The bounds of `spec.activeDeadlineSeconds`: up to 100 years, so that every due time can be written.
pub const ACTIVE_DEADLINE: RangeInclusive<i64> = 1..=3_153_600_000;
/// The bounds of `spec.ttlSecondsAfterFinished`.
pub const TTL_AFTER_FINISHED: RangeInclusive<i64> = 0..=i32::MAX as i64;

/// Reads `activeDeadlineSeconds`; `None` if the value is invalid.
pub(crate) fn active_deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(WholeNumber::deserialize(deserializer)?.within(&ACTIVE_DEADLINE))
}

/// Reads `ttlSecondsAfterFinished`; `None` if the value is invalid.
pub(crate) fn ttl_after_finished<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i32>, D::Error> {
    let seconds = WholeNumber::deserialize(deserializer)?.within(&TTL_AFTER_FINISHED);
    Ok(seconds.and_then(|seconds| i32::try_from(seconds).ok()))
}

/// A whole number; `None` for any other value, of which nothing is kept.
pub struct WholeNumber(pub Option<i64>);

impl WholeNumber {
    /// The number, if it is within the bounds.
    pub fn within(self, bounds: &RangeInclusive<i64>) -> Option<i64> {
        self.0.filter(|seconds| bounds.contains(seconds))
    }
}

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = WholeNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_i64<E>(self, number: i64) -> Result<WholeNumber, E> {
                Ok(WholeNumber(Some(number)))
            }

            fn visit_u64<E>(self, number: u64) -> Result<WholeNumber, E> {
                Ok(WholeNumber(i64::try_from(number).ok()))
            }

            fn visit_f64<E>(self, _: f64) -> Result<WholeNumber, E> {
                Ok(WholeNumber(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<WholeNumber, E> {
                Ok(WholeNumber(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<WholeNumber, E> {
                Ok(WholeNumber(None))
            }

            fn visit_unit<E>(self) -> Result<WholeNumber, E> {
                Ok(WholeNumber(None))
            }

            fn visit_none<E>(self) -> Result<WholeNumber, E> {
                Ok(WholeNumber(None))
            }

            fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<WholeNumber, D::Error> {
                value.deserialize_any(Any)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<WholeNumber, A::Error> {
                while elements.next_element::<IgnoredAny>()?.is_some() {}
                Ok(WholeNumber(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<WholeNumber, A::Error> {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(WholeNumber(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
