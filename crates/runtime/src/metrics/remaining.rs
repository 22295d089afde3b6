//! The time that is left until deadlines, as a histogram of this moment.
//!
//! It stays as small as its buckets, however many Frameworks run; one gauge for each would not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use framework_api::Time;
use jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};

use framework_engine::server_time::ServerTime;
use framework_message::Now;

/// Seconds: past, 1 min, 5 min, 15 min, 1 h, 4 h, 12 h, 1 d, 3 d, 1 week, 30 d.
const BUCKETS: &[i64] = &[0, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 2_592_000];

/// Deadlines that have not passed yet, or are about to be acted on.
#[derive(Clone, Debug)]
pub struct Remaining {
    desc: Desc,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// In order.
    deadlines: Vec<Time>,
    time: ServerTime,
    now: Option<Timestamp>,
}

impl Remaining {
    /// A metric of that name with no deadlines. Fails if the name is none.
    pub fn new(name: &str, help: &str) -> prometheus::Result<Self> {
        let desc = Desc::new(name.to_owned(), help.to_owned(), Vec::new(), Default::default())?;
        Ok(Remaining { desc, state: Arc::default() })
    }

    /// Replaces the deadlines.
    pub fn set(&self, mut deadlines: Vec<Time>, time: ServerTime) {
        deadlines.sort_unstable();
        let mut state = self.lock();
        (state.deadlines, state.time) = (deadlines, time);
    }

    /// What is collected next is as of `now`.
    pub fn set_now(&self, now: Now) {
        let mut state = self.lock();
        state.now = Some(state.time.now(now));
    }

    /// A panic while it was held leaves whole values behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn histogram(&self) -> Histogram {
        let now = Time::floor(self.now.unwrap_or(Timestamp::UNIX_EPOCH)).unix();
        let left = |deadline: &Time| deadline.unix().saturating_sub(now);
        let mut histogram = Histogram::default();
        histogram.set_sample_count(self.deadlines.len() as u64);
        histogram.set_sample_sum(self.deadlines.iter().map(|deadline| left(deadline) as f64).sum());
        let bucket = |bound: &i64| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound as f64);
            let within = self.deadlines.partition_point(|deadline| left(deadline) <= *bound);
            bucket.set_cumulative_count(within as u64);
            bucket
        };
        histogram.set_bucket(BUCKETS.iter().map(bucket).collect());
        histogram
    }
}

impl Collector for Remaining {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut metric = Metric::from_label(Vec::new());
        metric.set_histogram(self.lock().histogram());
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);
        vec![family]
    }
}
