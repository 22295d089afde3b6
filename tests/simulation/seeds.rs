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

/// How many seeds an interleaving has that was written for one rule.
const OF_AN_INTERLEAVING: u64 = 10;

/// After how many seeds an interleaving goes wrong, and the fault; `None`: with none of its seeds.
pub fn until_wrong(interleaving: impl Fn(u64) -> Result<(), String>) -> Option<(u64, String)> {
    (1..=OF_AN_INTERLEAVING).find_map(|seed| Some((seed, interleaving(seed).err()?)))
}
