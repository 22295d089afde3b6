//! The error of a value that is not allowed.

use std::fmt::Display;

use serde::de;

/// Names the value, and the allowed ones.
pub fn refused<E: de::Error>(value: impl Display, allowed: impl Display) -> E {
    E::custom(format_args!("{value} is not allowed, give {allowed}"))
}
