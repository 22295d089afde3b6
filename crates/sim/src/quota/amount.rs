//! Amounts of the two resources that quotas limit here.

use serde_json::Value;

/// The amounts that a quota limits here: Pods, and thousandths of a CPU.
pub(crate) type Uses = [i64; 2];

/// The use of a Pod, or of the template of one.
pub(crate) fn uses(pod: &Value) -> Uses {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let cpu = containers.map(|container| amount("cpu", &container["resources"]["requests"]["cpu"])).sum();
    [1, cpu]
}

/// The sum of two.
pub(crate) fn plus(one: Uses, other: Uses) -> Uses {
    [one[0] + other[0], one[1] + other[1]]
}

/// Where a resource of a quota or of a unit stands in [`Uses`].
pub(crate) fn place(key: &str) -> Option<usize> {
    match key {
        "pods" | "count/pods" => Some(0),
        "cpu" | "requests.cpu" => Some(1),
        _ => None,
    }
}

/// A quantity, of CPU in thousandths. Whole numbers and thousandths are all that simulations write.
pub(crate) fn amount(key: &str, quantity: &Value) -> i64 {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    let scale = if place(key) == Some(1) { 1000 } else { 1 };
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap_or(0),
        None => text.parse::<i64>().map_or(0, |whole| whole * scale),
    }
}

/// An amount as a quantity.
pub(crate) fn text(key: &str, amount: i64) -> String {
    match place(key) {
        Some(1) if amount % 1000 != 0 => format!("{amount}m"),
        Some(1) => (amount / 1000).to_string(),
        _ => amount.to_string(),
    }
}
