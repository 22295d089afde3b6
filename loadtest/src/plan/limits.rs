//! The largest load that replicas hold within limits: the inverse of a plan.
//!
//! It is found by bisection over plans, so it rests on the same runs, and it ends where plans end. Tasks that
//! are active need memory; the rate at which they come and go needs processors and requests.

use std::num::NonZeroU32;

use anyhow::{Result, anyhow, ensure};

use crate::number::{short, size, whole};

use super::demand::Demand;
use super::estimate::{Estimate, estimates};
use super::source::{Source, of_replicas};
use super::table::row;

/// The part of a memory limit that a load may use, as docs/capacity.md advises.
const USED_MEMORY: f64 = 0.5;
/// The same part of `kubeClientQps`.
const USED_QPS: f64 = 0.8;

/// Frameworks a second at which only the number of active Tasks matters.
const SLOWEST: f64 = 0.000_001;

/// The limit that ends a load if plans end first.
const REACH: &str = "reach of the plan";

/// The limits of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The memory of each replica in bytes.
    pub memory: f64,
    /// The processors of each replica.
    pub processors: f64,
    /// `kubeClientQps`, of all replicas together.
    pub qps: f64,
    /// The processors of the API server.
    pub api_server: f64,
}

/// The largest load within limits. Both parts hold at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Frameworks at one time.
    pub frameworks: u32,
    /// The limit that one more of them exceeds.
    pub frameworks_by: &'static str,
    /// Frameworks that come and go each second.
    pub churn: f64,
    /// The limit that a higher rate exceeds.
    pub churn_by: &'static str,
}

/// Parses an amount as Kubernetes has it: `512Mi`, `1.5Gi`, `500m`, `2`.
pub fn quantity(text: &str) -> Result<f64> {
    let units = [("Ki", 1024.0), ("Mi", 1_048_576.0), ("Gi", 1_073_741_824.0), ("m", 0.001), ("", 1.0)];
    let found = units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let number = found.and_then(|(number, factor)| Some(number.parse::<f64>().ok()? * factor));
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| anyhow!("{text:?} is not an amount above 0, such as 512Mi, 1.5Gi, 500m or 2"))
}

impl Limits {
    /// The limits as a sentence, with the reserve.
    pub fn sentence(&self) -> String {
        format!(
            "Limits: memory {} and processors {} for each replica; `kubeClientQps` {} of all together; \
             processors {} for the API server. Half of the memory and a fifth of `kubeClientQps` stay free.",
            size(self.memory),
            short(self.processors),
            short(self.qps),
            short(self.api_server)
        )
    }

    /// Each limit with the figure of a plan that it bounds, and the bound.
    fn each(&self) -> [(&'static str, &'static str, f64); 4] {
        [
            ("memory", "controller: memory", self.memory * USED_MEMORY),
            ("processors", "controller: processors", self.processors),
            ("kubeClientQps", "own requests/s", self.qps * USED_QPS),
            ("API server", "kube-apiserver: processors", self.api_server),
        ]
    }

    /// The first limit that a plan exceeds.
    fn exceeded(&self, plan: &[Estimate]) -> Option<&'static str> {
        let is_over = |figure: &str, most: f64| {
            let needed = plan.iter().find(|one| one.name.starts_with(figure)).and_then(|one| one.number);
            needed.is_some_and(|needed| needed > most)
        };
        self.each().into_iter().find(|(_, figure, most)| is_over(figure, *most)).map(|(limit, ..)| limit)
    }
}

/// The largest load of Frameworks of so many Tasks. An error if the smallest load cannot be planned, or if a
/// limited figure is not known.
///
/// A plan takes the most similar run. Where it changes to a cheaper run, a rate above this one may fit again.
pub fn held(tasks: u32, replicas: NonZeroU32, limits: &Limits, sources: &[Source]) -> Result<Held> {
    let demand = |frameworks: u32, churn: f64| Demand { frameworks, tasks, churn, replicas };
    for one in estimates(&demand(1, SLOWEST), sources)? {
        let is_limited = limits.each().iter().any(|(_, figure, _)| one.name.starts_with(figure));
        ensure!(one.number.is_some() || !is_limited, "{} is not known: {}", one.name, one.from);
    }
    let exceeded = |demand: Demand| match estimates(&demand, sources) {
        Ok(plan) => limits.exceeded(&plan),
        Err(_) => Some(REACH),
    };
    let (frameworks, frameworks_by) = largest(|number| exceeded(demand(number as u32, SLOWEST)));
    let (churn, churn_by) = largest(|number| exceeded(demand(1, number)));
    Ok(Held { frameworks: frameworks as u32, frameworks_by, churn, churn_by })
}

/// The largest number that exceeds no limit, and the limit that ends it.
fn largest(exceeded: impl Fn(f64) -> Option<&'static str>) -> (f64, &'static str) {
    let (mut low, mut high, mut by) = (0.0, f64::from(u32::MAX), REACH);
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        match exceeded(middle) {
            None => low = middle,
            Some(limit) => (high, by) = (middle, limit),
        }
    }
    (low, by)
}

impl Held {
    /// The cells of its row. If plans end first, the load may be larger.
    fn cells(&self, tasks: u32) -> [String; 5] {
        let least = |by: &str| if by == REACH { "≥ " } else { "" };
        let (frameworks, each) = (self.frameworks as usize, tasks as usize);
        let (at_least, rate_at_least) = (least(self.frameworks_by), least(self.churn_by));
        [
            format!("{at_least}{} × {}", whole(frameworks), whole(each)),
            format!("{at_least}{}", whole(frameworks * each)),
            self.frameworks_by.to_owned(),
            format!("{rate_at_least}{}", short(self.churn * f64::from(tasks))),
            self.churn_by.to_owned(),
        ]
    }
}

/// One row for each number of replicas. It says if no run with that number is known.
pub fn table_of(tasks: u32, numbers: &[NonZeroU32], limits: &Limits, sources: &[Source]) -> String {
    let titles = "replicas | Frameworks held | active Tasks | limited by | Tasks/s | limited by";
    let mut out = format!("| {titles} |\n|---|---|---|---|---|---|\n");
    for replicas in numbers {
        let number = replicas.get() as usize;
        let found = of_replicas(sources, replicas.get());
        let is_split = found.iter().any(|source| source.run.replica_count() != number);
        let first = format!("{}{}", whole(number), if is_split { ", an even split of one" } else { "" });
        let cells = match held(tasks, *replicas, limits, &found) {
            Ok(held) => held.cells(tasks),
            Err(error) => [format!("{error:#}").as_str(), "–", "–", "–", "–"].map(str::to_owned),
        };
        out += &row(&[first].into_iter().chain(cells).collect::<Vec<String>>());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_a_unit_of_kubernetes() {
        let amounts = ["2", "500m", "1.5Gi", "512Mi", "4Ki"].map(|text| quantity(text).unwrap());
        assert_eq!(amounts, [2.0, 0.5, 1_610_612_736.0, 536_870_912.0, 4096.0]);
        for wrong in ["", "Gi", "1 Gi", "1GB", "0", "-1", "inf", "NaN"] {
            assert!(quantity(wrong).is_err(), "{wrong}");
        }
    }
}
