//! `null` on the wire.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default: Go writes an unset slice as `null`.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
