//! Times on the wire.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use framework_api::Time;

/// A time that the API server stores. Its calendar ends later than ours, so a time that is none of ours
/// reads as the end of ours.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    Ok(text.map(|text| text.parse().unwrap_or(Timestamp::MAX)))
}

/// [`time`], in whole seconds.
pub fn whole_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    Ok(time(deserializer)?.map(Time::floor))
}
