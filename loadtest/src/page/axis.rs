//! The axis of a plot: from 0 to a round number at or above the largest, with ticks at round numbers.

use crate::number::{fitting, short};

/// An axis that starts at 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its end, in the unit of the numbers.
    pub end: f64,
    /// The unit of the labels.
    pub unit: String,
    /// Ticks: their positions as shares of the axis, and their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis for numbers with a unit.
    pub fn of(unit: &str, largest: f64) -> Axis {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let (divisor, unit) = fitting(unit, largest);
        let shown = largest / divisor;
        let step = round_step(shown / 4.0);
        let count = (shown / step - 1e-9).ceil().max(1.0);
        Axis { end: count * step * divisor, unit, ticks: ticks(count as usize, step, count * step) }
    }

    /// An axis for the time since the start, which ends at the last point.
    pub fn of_time(last: f64) -> Axis {
        const STEPS: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 60.0, 120.0, 300.0, 600.0];
        let last = if last.is_finite() && last > 0.0 { last } else { 1.0 };
        let (divisor, unit) = match last {
            _ if last >= 3.0 * 3600.0 => (3600.0, "h"),
            _ if last >= 180.0 => (60.0, "min"),
            _ => (1.0, "s"),
        };
        let shown = last / divisor;
        let fits = STEPS.into_iter().find(|step| shown / step <= 6.0 && shown >= *step);
        let step = fits.unwrap_or_else(|| round_step(shown / 5.0));
        Axis { end: last, unit: unit.into(), ticks: ticks((shown / step + 1e-9) as usize, step, shown) }
    }

    /// The position of a number, as a share of the axis.
    pub fn share(&self, number: f64) -> f64 {
        (number / self.end).clamp(0.0, 1.0)
    }
}

fn ticks(count: usize, step: f64, end: f64) -> Vec<(f64, String)> {
    (0..=count).map(|at| at as f64 * step).map(|number| (number / end, short(number))).collect()
}

/// The least of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, name)| &**name).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_the_largest() {
        for (largest, expected) in [
            (2000.0, vec!["0", "500", "1,000", "1,500", "2,000"]),
            (0.37, vec!["0", "0.1", "0.2", "0.3", "0.4"]),
            (7.0, vec!["0", "2", "4", "6", "8"]),
            (0.0, vec!["0", "0.25", "0.5", "0.75", "1"]),
        ] {
            let axis = Axis::of("jobs", largest);
            assert_eq!(names(&axis), expected);
            assert!(axis.end >= largest && axis.ticks.iter().all(|(share, _)| (0.0..=1.0).contains(share)));
        }
    }

    #[test]
    fn bytes_and_short_times_get_their_units() {
        let axis = Axis::of("bytes", 64.0 * 1024.0 * 1024.0);
        assert_eq!((axis.unit.as_str(), names(&axis)), ("MiB", vec!["0", "20", "40", "60", "80"]));
        let axis = Axis::of("s", 0.9);
        assert_eq!((axis.unit.as_str(), names(&axis)), ("ms", vec!["0", "250", "500", "750", "1,000"]));
    }

    #[test]
    fn time_ends_where_the_run_ends() {
        for (last, unit, expected) in [
            (14.3, "s", vec!["0", "5", "10"]),
            (600.0, "min", vec!["0", "2", "4", "6", "8", "10"]),
            (10_800.0, "h", vec!["0", "1", "2", "3"]),
            (0.4, "s", vec!["0", "0.1", "0.2", "0.3", "0.4"]),
        ] {
            let axis = Axis::of_time(last);
            assert_eq!((axis.end, axis.unit.as_str(), names(&axis)), (last, unit, expected));
        }
    }

    #[test]
    fn a_number_that_is_not_finite_gets_the_default_axis() {
        for odd in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!((Axis::of("jobs", odd).end, Axis::of_time(odd).end), (1.0, 1.0));
        }
    }
}
