//! Reads the text format of Prometheus metrics.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>. Comments and lines that
//! are not in the format are ignored.

use std::collections::BTreeMap;

/// When a process started.
const STARTED: &str = "process_start_time_seconds";

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// The samples of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    samples: BTreeMap<String, Vec<(Labels, f64)>>,
}

impl Scrape {
    /// Reads the text of a response.
    pub fn parse(text: &str) -> Scrape {
        let mut samples = BTreeMap::<_, Vec<_>>::new();
        for (name, labels, value) in text.lines().filter_map(sample) {
            samples.entry(name).or_default().push((labels, value));
        }
        Scrape { samples }
    }

    /// The sums of these scrapes, metric by metric and label set by label set.
    pub fn sum_of(scrapes: &[Scrape]) -> Scrape {
        let mut sum = Scrape::default();
        for (name, samples) in scrapes.iter().flat_map(|scrape| &scrape.samples) {
            let known = sum.samples.entry(name.clone()).or_default();
            for (labels, value) in samples {
                match known.iter_mut().find(|(same, _)| same == labels) {
                    Some((_, total)) => *total += value,
                    None => known.push((labels.clone(), *value)),
                }
            }
        }
        sum
    }

    /// The sum of a metric over the wanted label sets; `None` if there is no such metric.
    pub fn sum(&self, name: &str, wanted: impl Fn(&Labels) -> bool) -> Option<f64> {
        let samples = self.samples.get(name)?;
        Some(samples.iter().filter(|(labels, _)| wanted(labels)).map(|(_, value)| value).sum())
    }

    /// The sum of a metric over all its label sets.
    pub fn total(&self, name: &str) -> Option<f64> {
        self.sum(name, |_| true)
    }

    /// How far a sum of counters grew since an earlier scrape; `None` if there are none, or a process was
    /// started again. Its counts from before that are lost, so that each number would be too small.
    pub fn growth(&self, before: &Scrape, sum: impl Fn(&Scrape) -> Option<f64>) -> Option<f64> {
        let is_same = self.total(STARTED) == before.total(STARTED);
        let grown = sum(self)? - sum(before).unwrap_or(0.0);
        (is_same && grown >= 0.0).then_some(grown)
    }

    /// The least bound of a histogram that contains this share of the observations since `before`. `None` if
    /// nothing was observed, the share lies beyond the last bound, or a process was started again.
    pub fn bound(&self, before: Option<&Scrape>, histogram: &str, share: f64) -> Option<f64> {
        let name = format!("{histogram}_bucket");
        let mut counts = Vec::new();
        for (labels, count) in self.samples.get(&name)? {
            let Some(text) = labels.get("le") else { continue };
            let within = |scrape: &Scrape| scrape.sum(&name, |labels| labels.get("le") == Some(text));
            let grown = match before {
                Some(before) => self.growth(before, within)?,
                None => *count,
            };
            counts.push((text.parse::<f64>().ok()?, grown));
        }
        counts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = counts.last().map(|(_, count)| *count).filter(|all| *all > 0.0)?;
        let found = counts.into_iter().find(|(_, count)| *count >= all * share);
        found.map(|(bound, _)| bound).filter(|bound| bound.is_finite())
    }

    /// The value of a label in the first sample of a metric.
    pub fn label(&self, name: &str, label: &str) -> Option<&str> {
        self.samples.get(name)?.first()?.0.get(label).map(String::as_str)
    }
}

/// `name{label="value",…} number`, perhaps with a timestamp after it.
fn sample(line: &str) -> Option<(String, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.trim().to_owned(), value);
            rest = after.trim_start_matches(',');
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((name.to_owned(), labels, value))
}

/// The value of a label up to its quotation mark, and the rest of the line.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP requests_total Requests.\n# TYPE requests_total counter\n\
        requests_total{verb=\"create\",code=\"201\"} 3\n\
        requests_total{verb=\"say \\\"hi\\\", {you}\",code=\"none\",} 4 1700000000000\n\
        up 1e0\nnonsense\nopen{a=\"b\n";

    #[test]
    fn a_share_of_the_new_observations_lies_within_a_bound() {
        let scrape = |counts: [u32; 3]| {
            let line = |(le, count)| format!("t_bucket{{le=\"{le}\"}} {count}\n");
            Scrape::parse(&["0.1", "1", "+Inf"].into_iter().zip(counts).map(line).collect::<String>())
        };
        let (before, after) = (scrape([5, 5, 9]), scrape([104, 105, 109]));
        assert_eq!(after.bound(Some(&before), "t", 0.99), Some(0.1));
        assert_eq!(after.bound(Some(&before), "t", 1.0), Some(1.0));
        assert_eq!(after.bound(None, "t", 1.0), None, "beyond the last");
        assert_eq!(before.bound(Some(&before), "t", 0.5), None, "nothing");
    }

    #[test]
    fn counters_of_a_process_that_was_started_again_have_no_growth() {
        let scrape = |started: &str, count: u32| {
            let histogram = format!("t_bucket{{le=\"1\"}} {count}\n");
            Scrape::parse(&format!("{started}\nbytes_total {count}\n{histogram}"))
        };
        let growth = |before: &Scrape, after: &Scrape| {
            (after.growth(before, |scrape| scrape.total("bytes_total")), after.bound(Some(before), "t", 1.0))
        };
        let (first, again) = ("process_start_time_seconds 1.5e9", "process_start_time_seconds 1.6e9");
        assert_eq!(growth(&scrape(first, 3), &scrape(first, 7)), (Some(4.0), Some(1.0)));
        assert_eq!(growth(&scrape(first, 3), &scrape(again, 7)), (None, None));
        assert_eq!(growth(&scrape("", 3), &scrape("", 7)), (Some(4.0), Some(1.0)));
        assert_eq!(growth(&scrape("", 7), &scrape("", 3)), (None, None), "no start, but fewer");
        assert_eq!(growth(&Scrape::default(), &scrape("", 7)), (Some(7.0), Some(1.0)), "a new counter");
    }

    #[test]
    fn samples_are_summed_over_the_labels_that_are_asked_for() {
        let scrape = Scrape::parse(TEXT);
        assert_eq!(scrape.total("requests_total"), Some(7.0));
        assert_eq!(scrape.sum("requests_total", |labels| labels["code"] == "201"), Some(3.0));
        assert_eq!(scrape.sum("requests_total", |labels| labels["verb"] == "say \"hi\", {you}"), Some(4.0));
        assert_eq!((scrape.total("up"), scrape.total("down")), (Some(1.0), None));
        assert_eq!(scrape.label("requests_total", "verb"), Some("create"));
    }
}
