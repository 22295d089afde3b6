//! Samples the watched processes and the controller's metrics once a second during a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::exposition::Scrape;
use crate::metrics::Metrics;
use crate::process::{Usage, Watched};

use crate::report::{Process, Series};

/// The samples of a run.
pub struct Sampler {
    metrics: Option<Metrics>,
    watched: Vec<Watched>,
    start: Instant,
    before: Vec<Usage>,
    samples: Vec<(Duration, Vec<Usage>)>,
    queue_age: Option<f64>,
}

impl Sampler {
    /// Takes the first sample. An error if a process does not exist.
    pub fn begin(metrics: Option<Metrics>, watched: Vec<Watched>, start: Instant) -> Result<Sampler> {
        watched.iter().for_each(Watched::forget_peak);
        let before = watched.iter().map(Watched::usage).collect::<Result<Vec<_>>>()?;
        let samples = vec![(Duration::ZERO, before.clone())];
        Ok(Sampler { metrics, watched, start, before, samples, queue_age: None })
    }

    /// Takes a sample. An error if a process has ended.
    pub async fn sample(&mut self) -> Result<()> {
        let usage = self.watched.iter().map(Watched::usage).collect::<Result<Vec<_>>>()?;
        self.samples.push((self.start.elapsed(), usage));
        if let Some(metrics) = &self.metrics {
            // A busy controller may miss a scrape; the run goes on.
            if let Ok(scrapes) = metrics.scrape().await {
                let age = |scrape: &Scrape| scrape.total("frameworkcontroller_oldest_event_age_seconds");
                let ages = scrapes.each.iter().filter_map(age).chain(self.queue_age);
                self.queue_age = ages.reduce(f64::max);
            }
        }
        Ok(())
    }

    /// The longest wait of an event at any sample.
    pub fn queue_age(&self) -> Option<f64> {
        self.queue_age
    }

    /// The use of the processes in total, those of one name added, and of each over time.
    pub fn report(&self, tasks: usize) -> (Vec<Process>, Vec<Series>) {
        let (mut sums, mut series) = (Vec::<Process>::new(), Vec::new());
        for (index, watched) in self.watched.iter().enumerate() {
            let process = self.process(index, tasks);
            match sums.iter_mut().find(|sum| sum.name == process.name) {
                Some(sum) => sum.add(&process),
                None => sums.push(process),
            }
            let alike = |other: &&Watched| other.name == watched.name;
            let name = match self.watched.iter().filter(alike).count() {
                1 => watched.name.clone(),
                _ => {
                    let before = self.watched[..index].iter().filter(alike).count();
                    format!("{} {}", watched.name, before + 1)
                }
            };
            let busy = self.samples.windows(2).map(|pair| {
                let ((from, then), (to, now)) = (&pair[0], &pair[1]);
                let used = now[index].cpu.saturating_sub(then[index].cpu).as_secs_f64();
                (to.as_secs_f64(), used / to.saturating_sub(*from).as_secs_f64().max(0.001))
            });
            series.push(Series::new("processors", &name, "processors", busy));
            let memory = self.samples.iter().map(|(at, usage)| (at.as_secs_f64(), usage[index].rss as f64));
            series.push(Series::new("memory", &name, "bytes", memory));
        }
        (sums, series)
    }

    /// The use of each process of this name.
    pub fn processes(&self, name: &str, tasks: usize) -> Vec<Process> {
        let alike = (0..self.watched.len()).filter(|index| self.watched[*index].name == name);
        alike.map(|index| self.process(index, tasks)).collect()
    }

    fn process(&self, index: usize, tasks: usize) -> Process {
        let before = self.before[index];
        let last = self.samples.last().map_or(before, |(_, usage)| usage[index]);
        let cpu = last.cpu.saturating_sub(before.cpu).as_secs_f64();
        Process {
            name: self.watched[index].name.clone(),
            cpu_seconds: cpu,
            cpu_milliseconds_per_task: cpu * 1000.0 / tasks.max(1) as f64,
            rss_before_bytes: before.rss,
            rss_after_bytes: last.rss,
            rss_peak_bytes: last.peak,
        }
    }
}

/// The counter of the bytes that a Go program allocated, freed memory included.
pub const ALLOCATED_BYTES: &str = "go_memstats_alloc_bytes_total";
/// The counter of the objects that it allocated.
pub const ALLOCATED_OBJECTS: &str = "go_memstats_mallocs_total";

/// The bytes of watch events of Frameworks, ConfigMaps and Pods that the API server sent between two scrapes;
/// `None` as for [`Scrape::growth`].
pub fn watched_bytes(before: Option<&Scrape>, after: Option<&Scrape>) -> Option<u64> {
    let bytes = |scrape: &Scrape| {
        scrape.sum("apiserver_watch_events_sizes_sum", |labels| {
            let kind =
                labels.get("kind").or(labels.get("resource")).map_or("", String::as_str).to_lowercase();
            ["framework", "configmap", "pod"].contains(&kind.trim_end_matches('s'))
        })
    };
    after?.growth(before?, bytes).map(|bytes| bytes as u64)
}

/// The version of the controller in a scrape.
pub fn controller_version(scrape: &Scrape) -> BTreeMap<String, String> {
    let version = scrape.label("frameworkcontroller_build_info", "version");
    version.map(|version| ("frameworkcontroller".to_owned(), version.to_owned())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_watch_events_are_those_between_two_scrapes_or_not_known() {
        let sent = |pods: u32| {
            let text = "apiserver_watch_events_sizes_sum{kind=\"";
            Scrape::parse(&format!("{text}Pod\"}} {pods}\n{text}Node\"}} 9\n"))
        };
        let (few, many) = (sent(100), sent(400));
        assert_eq!(watched_bytes(Some(&few), Some(&many)), Some(300));
        assert_eq!(watched_bytes(Some(&many), Some(&few)), None, "another process");
        assert_eq!(watched_bytes(None, Some(&many)), None, "those before the run do not count");
    }
}
