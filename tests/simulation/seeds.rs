//! Which seeds to walk.

use std::ops::Range;

/// The seeds that `FRAMEWORK_SIM_SEEDS=from..to` names, or those of the gate.
///
/// # Panics
/// When it names none.
pub fn from_environment(gate: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("FRAMEWORK_SIM_SEEDS") else { return gate };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = text.split_once("..").and_then(|(from, to)| Some(number(from)?..number(to)?));
    range.unwrap_or_else(|| panic!("FRAMEWORK_SIM_SEEDS is {text:?}, not from..to"))
}
