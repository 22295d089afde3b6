//! The load that a plan is for.

use std::num::NonZeroU32;

use anyhow::{Result, anyhow, ensure};

use crate::number::{count, rate as per_second, time};

/// A number of Frameworks at one time, and the rate at which they come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Frameworks at one time.
    pub frameworks: u32,
    /// Tasks of each.
    pub tasks: u32,
    /// Frameworks that start each second; the same number ends.
    pub churn: f64,
    /// Replicas of the controller that share them.
    pub replicas: NonZeroU32,
}

impl Demand {
    /// Tasks at one time.
    pub fn tasks_at_once(&self) -> f64 {
        f64::from(self.frameworks) * f64::from(self.tasks)
    }

    /// Tasks that start and end each second.
    pub fn tasks_per_second(&self) -> f64 {
        self.churn * f64::from(self.tasks)
    }

    /// The demand as a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "{} of {} at one time; {} ({}) come and go, so that each lives {}.",
            count(self.frameworks as usize, "Framework"),
            count(self.tasks as usize, "Task"),
            per_second(self.churn, "Framework"),
            per_second(self.tasks_per_second(), "Task"),
            time(f64::from(self.frameworks) / self.churn),
        )
    }
}

/// Parses `10/s`, `600/min`, `36000/h`; a number alone is a rate a second.
pub fn rate(text: &str) -> Result<f64> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(anyhow!("{unit:?} is none of s, min, h, d")),
    };
    let number: f64 = number.trim().parse().map_err(|_| anyhow!("{number:?} is not a number"))?;
    ensure!(number.is_finite() && number > 0.0, "the rate must be above 0");
    Ok(number / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_of_time() {
        assert_eq!(
            ["10/s", "600/min", "36000/h", "10", "864000 / d"].map(|text| rate(text).unwrap()),
            [10.0; 5]
        );
        for wrong in ["", "x/s", "10/w", "0/s", "-1/s", "inf", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
