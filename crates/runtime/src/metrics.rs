//! The metrics for Prometheus: base units, `_total` for counters, and no object's name as a label, except for
//! a bounded number of Queues.
//!
//! Metrics of lifetimes have the names that users were promised; all others share a prefix.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Gauge, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

use framework_api::queue::Reason;
use framework_core::snapshot::Trigger;
use framework_engine::event::Measure;
use framework_engine::gauges::Gauges;
use framework_engine::server_time::ServerTime;
use framework_membership::Figures;
use framework_message::{Key, Now};
use framework_queueing::{LifetimeGauges, LifetimeMeasure, UnitWait};

use attempts::AttemptMetrics;
use events::EventMetrics;
use lifetimes::LifetimeMetrics;
use maker::{Maker, whole};
use membership::MembershipMetrics;
use requests::RequestMetrics;
use spans::SpanMetrics;
use stalls::StallMetrics;
use units::UnitMetrics;
use watches::WatchMetrics;

mod attempts;
mod events;
mod lifetimes;
mod maker;
mod membership;
mod remaining;
mod requests;
mod spans;
mod stalls;
mod units;
mod watches;

pub use requests::RequestResult;
pub use stalls::Threads;

/// All metrics of one controller, in a registry of their own.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Held while series are replaced, and while they are gathered: a scrape sees all of them.
    series: Mutex<()>,
    requests: RequestMetrics,
    status_bytes: IntCounter,
    received_bytes: IntCounter,
    watches: WatchMetrics,
    membership: MembershipMetrics,
    turn_seconds: Histogram,
    turn_events: Histogram,
    stalls: StallMetrics,
    events: EventMetrics,
    snapshots: IntCounterVec,
    snapshots_dropped: IntCounterVec,
    log_lines_dropped: IntCounter,
    oldest_log_line: Gauge,
    wall_clock_jumps: IntCounter,
    spans: SpanMetrics,
    queues: IntGaugeVec,
    frameworks: IntGaugeVec,
    held: IntGaugeVec,
    oldest_event: Gauge,
    in_flight_limit: IntGauge,
    ready: IntGauge,
    attempts: AttemptMetrics,
    lifetimes: LifetimeMetrics,
    job_lifetimes: LifetimeMetrics,
    units: UnitMetrics,
}

/// A turn of more than a minute fails the liveness probe.
const TURN_BUCKETS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
const COUNT_BUCKETS: &[f64] = &[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

impl Metrics {
    /// Metrics at zero.
    pub fn new() -> Arc<Self> {
        let maker = Maker::default();
        maker.process();
        let build = maker.gauges("build_info", "Constant 1, labelled with the version.", &["version"]);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Metrics {
            requests: RequestMetrics::new(&maker),
            status_bytes: maker.counter("status_write_bytes_total", "Bytes of status writes that were sent."),
            received_bytes: maker.counter("received_bytes_total", "Bytes of the API server's replies."),
            watches: WatchMetrics::new(&maker),
            membership: MembershipMetrics::new(&maker),
            turn_seconds: maker.histogram(
                "turn_duration_seconds",
                "Duration of one iteration of the event loop, a turn.",
                TURN_BUCKETS,
            ),
            turn_events: maker.histogram("turn_events", "Events that a turn took in.", COUNT_BUCKETS),
            stalls: StallMetrics::new(&maker),
            events: EventMetrics::new(&maker),
            snapshots: maker.counters(
                "snapshots_total",
                "History snapshots that went to standard error.",
                &["trigger"],
            ),
            snapshots_dropped: maker.counters(
                "snapshots_dropped_total",
                "History snapshots that standard error did not take.",
                &["trigger"],
            ),
            log_lines_dropped: maker.counter(
                "log_lines_dropped_total",
                "Lines of the log, history aside, that standard error did not take.",
            ),
            oldest_log_line: maker.gauge(
                "oldest_log_line_age_seconds",
                "How long standard error has not taken the oldest line of the log that waits.",
            ),
            wall_clock_jumps: maker.counter("wall_clock_jumps_total", "Jumps of the local wall clock."),
            spans: SpanMetrics::new(&maker),
            queues: maker.gauges("queue_depth", "Items in a queue or on their way.", &["queue"]),
            frameworks: maker.gauges("frameworks", "Frameworks by the state of their status.", &["state"]),
            held: maker.gauges("held", "Items that the engine holds, by kind.", &["kind"]),
            oldest_event: maker.gauge(
                "oldest_event_age_seconds",
                "How long the oldest event has been waiting for the evaluation of its Framework.",
            ),
            in_flight_limit: maker.whole_gauge("requests_in_flight_limit", "Requests that may be in flight."),
            ready: maker.whole_gauge("ready", "1 while the readiness probe is answered with 200."),
            attempts: AttemptMetrics::new(&maker),
            lifetimes: LifetimeMetrics::of_frameworks(&maker),
            job_lifetimes: LifetimeMetrics::of_train_jobs(&maker),
            units: UnitMetrics::new(&maker),
            registry: maker.registry,
            series: Mutex::default(),
        };
        metrics.begin_series();
        Arc::new(metrics)
    }

    /// Begins series at 0. `rate()` misses the first increase of one that is created by it.
    fn begin_series(&self) {
        for trigger in Trigger::ALL {
            self.snapshots_dropped.with_label_values(&[trigger.name()]);
        }
    }

    /// The text that `/metrics` answers with at `now`.
    pub fn text(&self, now: Now) -> String {
        let mut text = Vec::new();
        // A text encoder fails only if a family has no name; ours have.
        let _ = TextEncoder::new().encode(&self.families(now), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }

    /// All metrics at `now`, by name.
    fn families(&self, now: Now) -> Vec<MetricFamily> {
        let _series = self.series();
        self.membership.grow_old(now);
        let remaining = [&self.lifetimes, &self.job_lifetimes].map(|of| of.remaining.collect(now));
        let mut families = self.registry.gather();
        families.extend(remaining.into_iter().flatten());
        families.sort_by(|one, other| one.name().cmp(other.name()));
        families
    }

    fn series(&self) -> MutexGuard<'_, ()> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the readiness probe is answered with 200.
    pub fn set_ready(&self, ready: bool) {
        self.ready.set(ready.into());
    }

    /// A request that was given to the client ended.
    pub fn request_ended(&self, verb: &str, resource: &str, outcome: RequestResult, took: Duration) {
        self.requests.ended(verb, resource, outcome, took);
    }

    /// That many bytes of a response's body came in.
    pub fn received(&self, bytes: usize) {
        self.received_bytes.inc_by(bytes as u64);
    }

    /// A status write of that many bytes is sent.
    pub fn status_written(&self, bytes: usize) {
        self.status_bytes.inc_by(bytes as u64);
    }

    /// A request was not sent because the right to act for its slot had ended, or was refused for its epoch.
    pub fn request_fenced(&self) {
        self.membership.fenced.inc();
    }

    /// The replica acts for so many slots now, after it began or ceased to act for so many.
    pub fn slots(&self, held: usize, changed: usize) {
        self.membership.slots.set(whole(held));
        self.membership.changes.inc_by(changed as u64);
    }

    /// The replica is the leader now, or is not.
    pub fn leads(&self, leads: bool) {
        self.membership.leader.set(i64::from(leads));
    }

    /// A write of a Lease ended.
    pub fn lease_written(&self, lease: &str, outcome: &str) {
        self.membership.lease_written(lease, outcome);
    }

    /// The figures of the member have changed.
    pub fn member(&self, figures: &Figures) {
        let _series = self.series();
        self.membership.member(figures);
    }

    /// This replica changed the owner of so many slots.
    pub fn slots_moved(&self, slots: usize) {
        self.membership.moved.inc_by(slots as u64);
    }

    /// A slot was lost after so long a drain.
    pub fn handed_over(&self, took: Duration) {
        self.membership.handover_seconds.observe(took.as_secs_f64());
    }

    /// A watch is opened.
    pub fn watch_started(&self, resource: &str) {
        self.watches.started(resource);
    }

    /// A LIST or a watch failed.
    pub fn watch_failed(&self, resource: &str) {
        self.watches.failures.with_label_values(&[resource]).inc();
    }

    /// An object in a LIST or a watch cannot be decoded.
    pub fn object_left_out(&self, resource: &str) {
        self.watches.left_out.with_label_values(&[resource]).inc();
    }

    /// The event loop took a turn on that many events.
    pub fn turn_taken(&self, events: usize, took: Duration) {
        self.turn_events.observe(events as f64);
        self.turn_seconds.observe(took.as_secs_f64());
    }

    /// A heartbeat of these threads was late by this much.
    pub fn stalled(&self, threads: Threads, late: Duration) {
        self.stalls.note(threads, late);
    }

    /// An Event was written.
    pub fn event_published(&self) {
        self.events.published.inc();
    }

    /// A report was added to an Event that exists.
    pub fn event_aggregated(&self) {
        self.events.aggregated.inc();
    }

    /// A report made no Event: the queue was `full`, or the API server `refused` it, or did not answer, so
    /// that its outcome is `unknown`.
    pub fn event_dropped(&self, reason: &str) {
        self.events.dropped.with_label_values(&[reason]).inc();
    }

    /// A history snapshot is on its way to standard error.
    pub fn snapshot_queued(&self, trigger: &str) {
        self.snapshots.with_label_values(&[trigger]).inc();
    }

    /// A history snapshot found no room.
    pub fn snapshot_dropped(&self, trigger: &str) {
        self.snapshots_dropped.with_label_values(&[trigger]).inc();
    }

    /// The number of lines of the log that were dropped since the start.
    pub fn log_lines_dropped(&self, total: u64) {
        self.log_lines_dropped.inc_by(total.saturating_sub(self.log_lines_dropped.get()));
    }

    /// Standard error has not taken the oldest line of the log for so long; `None`: no line waits.
    pub fn log_waits(&self, oldest: Option<Duration>) {
        self.oldest_log_line.set(oldest.unwrap_or_default().as_secs_f64());
    }

    /// The local wall clock jumped.
    pub fn wall_clock_jumped(&self) {
        self.wall_clock_jumps.inc();
    }

    /// The receiver of traces took so many spans.
    pub fn spans_exported(&self, spans: usize) {
        self.spans.exported.inc_by(spans as u64);
    }

    /// So many spans found no room, or no receiver that took them.
    pub fn spans_dropped(&self, spans: usize) {
        self.spans.dropped.inc_by(spans as u64);
    }

    /// The number of items that wait in a queue.
    pub fn queue(&self, name: &str, depth: usize) {
        self.queues.with_label_values(&[name]).set(whole(depth));
    }

    /// Sets the gauges of the engine at `now`, on the monotonic clock.
    pub fn engine(&self, gauges: &Gauges, now: Duration) {
        let _series = self.series();
        // Gauges of states that no Framework is in any more must fall to 0.
        self.frameworks.reset();
        for (state, count) in &gauges.frameworks {
            self.frameworks.with_label_values(&[&format!("{state:?}")]).set(whole(*count));
        }
        self.frameworks.with_label_values(&["New"]).set(whole(gauges.new_frameworks));
        self.frameworks.with_label_values(&["Unreadable"]).set(whole(gauges.unreadable_frameworks));
        for (kind, count) in [
            ("configmaps", gauges.config_maps),
            ("pods", gauges.pods),
            ("timers", gauges.timers),
            ("unrecorded_creates", gauges.expectations),
        ] {
            self.held.with_label_values(&[kind]).set(whole(count));
        }
        for (queue, depth) in ["records", "deletes", "creates"].into_iter().zip(gauges.queued) {
            self.queue(queue, depth);
        }
        self.queue("requests_in_flight", gauges.in_flight);
        self.in_flight_limit.set(whole(gauges.in_flight_limit));
        let waiting = gauges.oldest_event.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.oldest_event.set(waiting.as_secs_f64());
        self.lifetimes.set(gauges.ttl_pending, gauges.deadlines.clone(), gauges.time);
    }

    /// A lifetime or attempts have ended, or a Framework has begun to run.
    pub fn ended(&self, measure: Measure) {
        match measure {
            Measure::Attempts(outcomes) => self.attempts.ended(&outcomes),
            Measure::Running { after } => self.attempts.runs(after),
            Measure::TtlDeletion { late } => self.lifetimes.deleted(late),
            Measure::DeadlineExceeded => self.lifetimes.exceeded(),
        }
    }

    /// The lifetimes of TrainJobs that wait to end, and the clock that they follow.
    pub fn job_lifetimes(&self, gauges: LifetimeGauges, time: ServerTime) {
        self.job_lifetimes.set(gauges.ttl_pending, gauges.deadlines, time);
    }

    /// The lifetime of a TrainJob has ended.
    pub fn job_ended(&self, measure: LifetimeMeasure) {
        match measure {
            LifetimeMeasure::TtlDeletion { late } => self.job_lifetimes.deleted(late),
            LifetimeMeasure::DeadlineExceeded => self.job_lifetimes.exceeded(),
        }
    }

    /// How many QueueUnits wait, and how many are released. Series of Queues that are not there go.
    pub fn units(&self, gauges: &framework_queueing::Gauges, is_there: impl Fn(&Key) -> bool) {
        let _series = self.series();
        self.units.set(gauges, is_there);
    }

    /// A decision was stored: a unit was released, after such a wait, or waits for a reason.
    pub fn unit_decided(&self, reason: Reason, waited: Option<&UnitWait>) {
        self.units.decided(reason, waited);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use framework_api::State;

    use super::*;

    fn now() -> Now {
        Now {
            steady: Duration::from_secs(40),
            boot: Duration::from_secs(40),
            wall: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn lifetimes_have_the_metric_names_that_were_promised() {
        let metrics = Metrics::new();
        metrics.ended(Measure::TtlDeletion { late: Duration::from_millis(300) });
        metrics.ended(Measure::DeadlineExceeded);
        let mut time = ServerTime::default();
        let at = |second| framework_api::Time::floor(jiff::Timestamp::from_second(second).unwrap());
        time.heard(at(1000), Duration::from_secs(10), Now { steady: Duration::from_secs(10), ..now() });
        let deadlines = vec![at(1045), at(1029), at(9000)];
        metrics.job_ended(LifetimeMeasure::TtlDeletion { late: Duration::from_millis(300) });
        metrics.job_ended(LifetimeMeasure::DeadlineExceeded);
        metrics.job_lifetimes(LifetimeGauges { ttl_pending: 3, deadlines: vec![at(1045)] }, time);
        let gauges = Gauges { ttl_pending: 7, deadlines, time, ..Gauges::default() };
        metrics.engine(&gauges, Duration::from_secs(10));
        let text = metrics.text(now());
        for line in [
            "framework_ttl_deletions_total 1",
            r#"framework_ttl_deletion_latency_seconds_bucket{le="0.25"} 0"#,
            r#"framework_ttl_deletion_latency_seconds_bucket{le="0.5"} 1"#,
            "framework_ttl_pending_deletions 7",
            "framework_deadline_exceeded_total 1",
            r#"framework_active_deadline_remaining_seconds_bucket{le="0"} 1"#,
            r#"framework_active_deadline_remaining_seconds_bucket{le="60"} 2"#,
            r#"framework_active_deadline_remaining_seconds_bucket{le="+Inf"} 3"#,
            "framework_active_deadline_remaining_seconds_count 3",
            "frameworkcontroller_nearest_deadline_seconds -1",
            "trainjob_ttl_deletions_total 1",
            r#"trainjob_ttl_deletion_latency_seconds_bucket{le="0.5"} 1"#,
            "trainjob_ttl_pending_deletions 3",
            "trainjob_deadline_exceeded_total 1",
            "trainjob_active_deadline_remaining_seconds_count 1",
            "frameworkcontroller_nearest_trainjob_deadline_seconds 15",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn series_that_alerts_query_exist_before_the_first_event() {
        let metrics = Metrics::new();
        metrics.watch_started("pods");
        let text = metrics.text(now());
        for line in [
            r#"frameworkcontroller_attempts_completed_total{kind="Task",type="FailedTransient"} 0"#,
            r#"frameworkcontroller_events_dropped_total{reason="refused"} 0"#,
            r#"frameworkcontroller_objects_left_out_total{resource="pods"} 0"#,
            r#"frameworkcontroller_retries_total{kind="Framework"} 0"#,
            r#"frameworkcontroller_snapshots_dropped_total{trigger="OnTaskRetry"} 0"#,
            r#"frameworkcontroller_watch_failures_total{resource="pods"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn without_a_deadline_the_nearest_is_infinitely_far() {
        let text = Metrics::new().text(now());
        for of in ["deadline", "trainjob_deadline"] {
            assert!(text.contains(&format!("frameworkcontroller_nearest_{of}_seconds inf")), "{of}: {text}");
        }
    }

    #[test]
    fn the_text_has_the_figures_of_the_process() {
        let text = Metrics::new().text(now());
        for name in ["cpu_seconds_total", "open_fds", "resident_memory_bytes", "start_time_seconds"] {
            let line = text.lines().find(|line| line.starts_with(&format!("process_{name} ")));
            assert!(line.is_some(), "process_{name} is not in\n{text}");
        }
    }

    #[test]
    fn the_text_has_all_counts() {
        let metrics = Metrics::new();
        metrics.request_ended("create", "pods", RequestResult::Code(201), Duration::from_millis(3));
        metrics.request_ended("create", "pods", RequestResult::NoResponse, Duration::from_millis(3));
        metrics.event_dropped("refused");
        metrics.log_waits(Some(Duration::from_millis(1500)));
        metrics.status_written(1000);
        let frameworks = [(State::Completed, 4)].into();
        let oldest_event = Some(Duration::from_secs(3));
        let gauges = Gauges { frameworks, oldest_event, in_flight_limit: 16, ..Gauges::default() };
        metrics.engine(&gauges, Duration::from_secs(5));
        let text = metrics.text(now());
        for line in [
            r#"frameworkcontroller_api_requests_total{code="201",resource="pods",verb="create"} 1"#,
            r#"frameworkcontroller_api_requests_total{code="none",resource="pods",verb="create"} 1"#,
            r#"_api_request_duration_seconds_bucket{resource="pods",verb="create",le="0.005"} 2"#,
            "frameworkcontroller_status_write_bytes_total 1000",
            r#"frameworkcontroller_events_dropped_total{reason="refused"} 1"#,
            "frameworkcontroller_oldest_log_line_age_seconds 1.5",
            r#"frameworkcontroller_frameworks{state="Completed"} 4"#,
            "frameworkcontroller_oldest_event_age_seconds 2",
            "frameworkcontroller_requests_in_flight_limit 16",
            concat!(r#"frameworkcontroller_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_age_of_the_lease_grows_until_a_renewal_is_applied() {
        let metrics = Metrics::new();
        let has = |line: &str| metrics.text(now()).lines().any(|found| found == line);
        assert!(has("frameworkcontroller_lease_age_seconds 0"), "it is no member");
        let leader = |name: &str| Some(name.to_owned());
        let renewed = Some(Duration::from_secs(37));
        metrics.member(&Figures { renewed, epoch: 1_790_000_000_000, leader: leader("a") });
        assert!(has("frameworkcontroller_lease_age_seconds 3"), "{}", metrics.text(now()));
        assert!(has("frameworkcontroller_slot_epoch 1790000000000"));
        assert!(has(r#"frameworkcontroller_leader_info{member="a"} 1"#));
        // Another life begins, which has not renewed yet.
        metrics.member(&Figures { renewed: None, epoch: 0, leader: leader("b") });
        assert!(has("frameworkcontroller_lease_age_seconds 3"));
        assert!(has(r#"frameworkcontroller_leader_info{member="b"} 1"#));
        assert!(!metrics.text(now()).contains(r#"member="a""#), "there is one leader");
    }

    #[test]
    fn the_age_of_a_lease_that_is_refused_from_the_start_grows() {
        let metrics = Metrics::new();
        let age = |seconds| {
            let text = metrics.text(Now { boot: Duration::from_secs(seconds), ..now() });
            let name = "frameworkcontroller_lease_age_seconds ";
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
        };
        metrics.lease_written("leader", "refused");
        assert_eq!([age(40), age(45)], ["0", "0"], "that of another Lease");
        metrics.lease_written("own", "refused");
        assert_eq!([age(50), age(61)], ["0", "11"]);
        metrics.member(&Figures { renewed: Some(Duration::from_secs(60)), ..Figures::default() });
        assert_eq!(age(61), "1");
    }

    /// Another thread replaces the series all the time.
    #[test]
    fn a_scrape_never_sees_a_part_of_the_series_that_are_replaced() {
        let metrics = Metrics::new();
        let frameworks = [(State::AttemptRunning, 1), (State::Completed, 2)].into();
        let gauges = Gauges { frameworks, ..Gauges::default() };
        let waiting = [((Key::new("team", "q"), "InsufficientQuota"), 7)].into();
        let units = framework_queueing::Gauges { waiting, ..Default::default() };
        let figures = Figures { renewed: None, epoch: 1, leader: Some("a".to_owned()) };
        let replace = || {
            metrics.engine(&gauges, Duration::ZERO);
            metrics.units(&units, |_| true);
            metrics.member(&figures);
        };
        replace();
        let is_over = AtomicBool::new(false);
        let whole = |text: &str| {
            [r#"state="Completed"} 2"#, r#"reason="InsufficientQuota"} 7"#, r#"leader_info{member="a"} 1"#]
                .iter()
                .all(|series| text.contains(series))
        };
        let parts = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    replace();
                    std::thread::yield_now();
                }
            });
            let parts = (0..300).filter(|_| !whole(&metrics.text(now()))).count();
            is_over.store(true, Ordering::Relaxed);
            parts
        });
        assert_eq!(parts, 0);
    }

    #[test]
    fn a_state_without_frameworks_is_not_shown() {
        let metrics = Metrics::new();
        let frameworks = [(State::AttemptRunning, 1)].into();
        metrics.engine(&Gauges { frameworks, ..Gauges::default() }, Duration::ZERO);
        assert!(metrics.text(now()).contains("AttemptRunning"));
        metrics.engine(&Gauges::default(), Duration::ZERO);
        assert!(!metrics.text(now()).contains("AttemptRunning"), "{}", metrics.text(now()));
    }

    #[test]
    fn counters_end_in_total_and_all_share_the_prefix() {
        let metrics = Metrics::new();
        for family in metrics.families(now()) {
            let name = family.name();
            let promised = ["framework", "trainjob"].iter().any(|kind| {
                ["ttl", "deadline", "active_deadline"]
                    .iter()
                    .any(|of| name.starts_with(&format!("{kind}_{of}_")))
            }) || name.starts_with("process_");
            assert!(promised || name.starts_with("frameworkcontroller_"), "{name}");
            let counter = family.get_field_type() == prometheus::proto::MetricType::COUNTER;
            assert_eq!(counter, name.ends_with("_total"), "{name}");
        }
    }
}
