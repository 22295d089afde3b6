//! Points in time as the Kubernetes API writes them: UTC, whole seconds, RFC 3339.
//!
//! A [`Time`] cannot hold a fraction of a second, so that a status equals itself after a round trip
//! through the API server.

use jiff::{SignedDuration, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time with the resolution of `metav1.Time`: one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The last whole second that is not after `at`.
    pub fn floor(at: Timestamp) -> Self {
        Time(at.as_millisecond().div_euclid(1000))
    }

    /// This point in time, with a zero fraction.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_second(self.0).unwrap_or(Timestamp::MAX)
    }

    /// Seconds since the Unix epoch.
    pub fn unix(self) -> i64 {
        self.0
    }

    /// The point `seconds` later; saturates at the end of the year 9999.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Time(self.0.saturating_add(seconds).min(Timestamp::MAX.as_second()).max(Timestamp::MIN.as_second()))
    }

    /// How long after `earlier` this is; negative if it is before.
    pub fn since(self, earlier: Time) -> SignedDuration {
        SignedDuration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.timestamp())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse::<Timestamp>().map(Time::floor).map_err(de::Error::custom)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_the_api_server_writes_it() {
        let time = Time::floor("2026-01-02T03:04:05.999Z".parse().unwrap());
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-01-02T03:04:05Z\"");
        assert_eq!(serde_json::from_str::<Time>("\"2026-01-02T04:04:05+01:00\"").unwrap(), time);
    }

    #[test]
    fn arithmetic_never_leaves_the_calendar() {
        let end = Time::floor(Timestamp::MAX).plus_seconds(i64::MAX);
        assert_eq!(end.timestamp().as_second(), Timestamp::MAX.as_second());
    }
}
