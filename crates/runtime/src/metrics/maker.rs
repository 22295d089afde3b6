//! Makes metrics. All share a prefix, except those whose names users were promised.

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// The label of everything beyond the number of series that a metric may have. No object may have this name.
pub const OTHERS: &str = "_others";

/// A count as a gauge has it.
pub fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Makes metrics and registers them. Names are constants, so a failure is a defect that every test shows.
#[derive(Default)]
pub struct Maker {
    /// Holds every metric that was made.
    pub registry: Registry,
}

impl Maker {
    fn opts(name: &str, help: &str) -> Opts {
        Opts::new(name, help).namespace("frameworkcontroller")
    }

    /// Registers a metric as it is named.
    pub fn register<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let collector = made.expect("a metric of a constant name can be made");
        self.registry.register(Box::new(collector.clone())).expect("each metric is registered once");
        collector
    }

    /// Registers the figures of this process under their usual names, `process_*`.
    pub fn process(&self) {
        let process = ProcessCollector::for_self();
        self.registry.register(Box::new(process)).expect("the figures of the process are registered once");
    }

    pub fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::with_opts(Self::opts(name, help)))
    }

    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Self::opts(name, help), labels))
    }

    pub fn gauge(&self, name: &str, help: &str) -> Gauge {
        self.register(Gauge::with_opts(Self::opts(name, help)))
    }

    pub fn whole_gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::with_opts(Self::opts(name, help)))
    }

    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Self::opts(name, help), labels))
    }

    pub fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(Self::opts(name, help), labels))
    }

    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::from(Self::opts(name, help)).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(opts))
    }

    pub fn histograms(&self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        let opts = HistogramOpts::from(Self::opts(name, help)).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, labels))
    }
}
