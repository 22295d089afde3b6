//! How much two figures of the same work may differ by chance.

use crate::figure::{Better, Figure, Kind};

/// The significance of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// The difference is within noise.
    Noise,
    /// An improvement.
    Better,
    /// A regression.
    Worse,
}

/// The bounds of noise: a difference within one of them is noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// A share of the smaller figure.
    pub share: f64,
    /// An absolute difference in the unit of the figure.
    pub least: f64,
}

/// The rules, as the output explains them.
pub const RULES: &str = "\
How noise is judged, as a share of the smaller figure:
- counts and quotients of counts: 2 %. From 0, any change counts.
- own requests of one kind: 10 %, since changes that coincide share a write. From 0, any change counts.
- bytes: 10 %, at least 64 KiB; allocated objects: 10 %.
- jobs/s, Tasks/s, processor time (at least 0.1 s), memory (at least 4 MiB): 25 %.
- latencies: 25 % plus 100 % / √k, at least 50 ms; k is the number of samples beyond the percentile: 1 for
  the p99 of 100 jobs, 100 for that of 10,000 jobs.
Between different machines, only counts and bytes are judged.
";

/// The bounds of noise between two figures of one name.
pub fn bound(before: &Figure, after: &Figure) -> Bound {
    let fewest = |kind: Kind, other: Kind| match (kind, other) {
        (Kind::Time { beyond: one }, Kind::Time { beyond: two }) => one.min(two).max(1.0),
        _ => 1.0,
    };
    let (share, least) = match before.kind {
        Kind::Count | Kind::Share => (0.02, 0.0),
        Kind::Coalesced | Kind::Objects => (0.10, 0.0),
        Kind::Written => (0.10, 64.0 * 1024.0),
        Kind::Rate => (0.25, 0.0),
        Kind::Processor => (0.25, 0.1),
        Kind::Memory => (0.25, 4.0 * 1024.0 * 1024.0),
        Kind::Time { .. } => (0.25 + 1.0 / fewest(before.kind, after.kind).sqrt(), 0.05),
    };
    Bound { share, least }
}

/// The significance of the difference between two figures of one name.
pub fn judge(before: &Figure, after: &Figure) -> Significance {
    let bound = bound(before, after);
    let difference = after.value - before.value;
    let smaller = before.value.min(after.value).max(0.0);
    // The sum of decimal shares and numbers is not exact.
    if difference.abs() <= (smaller * bound.share).max(bound.least) * (1.0 + 1e-9) {
        return Significance::Noise;
    }
    match (before.better, difference > 0.0) {
        (Better::Less, false) | (Better::More, true) => Significance::Better,
        _ => Significance::Worse,
    }
}

/// Whether such figures can be compared between different machines.
pub fn holds_elsewhere(kind: Kind) -> bool {
    matches!(kind, Kind::Count | Kind::Coalesced | Kind::Objects | Kind::Share | Kind::Written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kind: Kind, better: Better, before: f64, after: f64) -> Significance {
        let figure = |value| Figure { name: "x".into(), value, kind, better, short: false };
        judge(&figure(before), &figure(after))
    }

    #[test]
    fn counts_may_differ_by_two_in_a_hundred() {
        for (before, after, expected) in [
            (5000.0, 5100.0, Significance::Noise),
            (5000.0, 5101.0, Significance::Worse),
            (5101.0, 5000.0, Significance::Better),
            (0.0, 1.0, Significance::Worse),
            (1.0, 0.0, Significance::Better),
            (0.0, 0.0, Significance::Noise),
        ] {
            assert_eq!(judged(Kind::Count, Better::Less, before, after), expected, "{before} {after}");
        }
    }

    #[test]
    fn a_percentile_of_few_samples_may_differ_more() {
        let p99 = |beyond, after| judged(Kind::Time { beyond }, Better::Less, 1.0, after);
        assert_eq!((p99(1.0, 2.2), p99(1.0, 2.3)), (Significance::Noise, Significance::Worse));
        assert_eq!((p99(100.0, 1.34), p99(100.0, 1.36)), (Significance::Noise, Significance::Worse));
    }

    #[test]
    fn a_small_difference_is_noise_however_large_its_share() {
        assert_eq!(judged(Kind::Time { beyond: 1e6 }, Better::Less, 0.002, 0.05), Significance::Noise);
        assert_eq!(judged(Kind::Memory, Better::Less, 4e6, 8e6), Significance::Noise);
    }

    #[test]
    fn more_of_a_rate_is_better_and_a_changed_constant_is_worse() {
        assert_eq!(judged(Kind::Rate, Better::More, 100.0, 126.0), Significance::Better);
        assert_eq!(judged(Kind::Rate, Better::More, 126.0, 100.0), Significance::Worse);
        assert_eq!(judged(Kind::Count, Better::Same, 100.0, 90.0), Significance::Worse);
        assert_eq!(judged(Kind::Count, Better::Same, 90.0, 100.0), Significance::Worse);
    }
}
