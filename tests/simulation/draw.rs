//! The conditions that a seed draws before its walk begins: the faults, how Pods behave, how the controller
//! is set up, and the Frameworks that users write.

use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;
use framework_sim::{Behaviour, Options, Rates, WatchRates};
use jiff::SignedDuration;

use super::controller::Setup;
use super::manifest::{Manifest, framework};

/// One of these, each as likely as it is often written.
pub fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

fn millis((from, to): (u64, u64)) -> RangeInclusive<Duration> {
    Duration::from_millis(from)..=Duration::from_millis(to)
}

/// The conditions of a walk.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The cluster's.
    pub options: Options,
    /// The controller's.
    pub setup: Setup,
    /// Whether a request may land long after the controller that sent it is dead.
    pub hangs: bool,
    /// Whether the API server's clock is set now and then.
    pub clock_jumps: bool,
    /// How many things users and chance do.
    pub steps: usize,
    /// How many Frameworks there are.
    pub frameworks: usize,
    /// Whether Frameworks are ended by deadlines and deleted after their end.
    pub lifetimes: bool,
    /// Whether Frameworks wait in queues, and users make units of their own.
    pub queues: bool,
}

impl Conditions {
    /// Draws them.
    pub fn draw(rng: &mut Rng) -> Self {
        let rates = rates(rng);
        let clock_jumps = rng.u8(..4) == 0;
        Conditions {
            hangs: rates.hang > 0.0,
            options: Options {
                rates,
                behaviour: behaviour(rng),
                nodes: rng.usize(1..=3),
                collector_delay: millis(one(rng, &[(5, 100), (5, 100), (500, 5_000)])),
                keep_trace: false,
                ..Options::default()
            },
            setup: setup(rng, clock_jumps),
            clock_jumps,
            steps: rng.usize(4..=24),
            frameworks: rng.usize(1..=4),
            lifetimes: rng.clone().u8(..3) == 0,
            queues: false,
        }
    }
}

/// Each kind of fault not at all, sometimes, or often.
fn rates(rng: &mut Rng) -> Rates {
    let rough = Rates::rough();
    let mut rate = |usual: f64| usual * one(rng, &[0.0, 0.0, 1.0, 1.0, 3.0]);
    let rates = Rates {
        refuse_connection: rate(rough.refuse_connection),
        lose_reply: rate(rough.lose_reply),
        hang: rate(rough.hang),
        conflict: rate(rough.conflict),
        too_many_requests: rate(rough.too_many_requests),
        internal_error: rate(rough.internal_error),
        unavailable: rate(rough.unavailable),
        timeout: rate(rough.timeout),
        gone: rate(rough.gone),
        quota: rate(rough.quota),
        watch: WatchRates {
            behind: rate(rough.watch.behind),
            close: rate(rough.watch.close),
            freeze: rate(rough.watch.freeze),
            ..rough.watch
        },
        ..rough
    };
    if rng.u8(..8) == 0 { Rates::calm() } else { rates }
}

fn behaviour(rng: &mut Rng) -> Behaviour {
    let usual = Behaviour::default();
    let longest = one(rng, &[300, 1_000, 10_000]);
    Behaviour {
        run: millis((10, longest)),
        fail: one(rng, &[0.0, 0.2, 0.6]),
        evict: one(rng, &[0.0, 0.2]),
        never_start: one(rng, &[0.0, 0.0, 0.05]),
        never_end: one(rng, &[0.0, 0.0, 0.1]),
        hang_terminating: one(rng, &[0.0, 0.0, 0.3]),
        ..usual
    }
}

fn setup(rng: &mut Rng, clock_jumps: bool) -> Setup {
    let mut setup = Setup::default();
    setup.policy.expectations_limit = one(rng, &[64, 64, 4, 2]);
    setup.policy.framework_completed_retain_sec = one(rng, &[1_000_000, 1_000_000, 60]);
    if clock_jumps {
        // No promise says whether a delay has passed by a clock that is set meanwhile.
        setup.policy.min_conflict_retry_delay_sec = 0;
        setup.policy.max_conflict_retry_delay_sec = 0;
        setup.policy.retry_backoff.max_delay_sec = 0;
    }
    setup.settings.qps = one(rng, &[1000.0, 1000.0, 10.0]);
    setup.settings.burst = one(rng, &[1000, 1000, 3]);
    setup.settings.max_in_flight = one(rng, &[200, 200, 2]);
    // Drawn aside, so that the rest of a seed's meaning does not depend on it.
    let mut aside = rng.clone();
    setup.settings.compression.threshold = one(&mut aside, &[None, None, Some(0), Some(2_000)]);
    setup.wrong_by = SignedDuration::from_millis(one(rng, &[0, 0, 900, -900, 120_000, -120_000]));
    setup
}

/// A Framework as a user may write it.
pub fn random_framework(rng: &mut Rng, name: &str) -> Manifest {
    let mut manifest = framework(name).retry(rng.bool(), retries(rng));
    for role in 0..rng.u32(1..=3) {
        manifest = manifest.role(&format!("r{role}"), rng.u32(0..=5)).retry_tasks(rng.bool(), retries(rng));
        if rng.bool() {
            manifest = manifest.force_after(one(rng, &[0, 5, 20]));
        }
        if rng.u8(..3) == 0 {
            manifest = manifest.completes(one(rng, &[-1, 1, 2]), one(rng, &[-1, 1, 2]));
        }
        if rng.u8(..16) == 0 {
            let class = one(rng, &["forbidden", "invalid", "bad-request", "unrecognized", "too-large"]);
            manifest = manifest.fate("create-error", class);
        }
    }
    match rng.u8(..8) {
        0 => manifest.execution("Create"),
        _ => manifest,
    }
}

/// With a deadline, or with a time for which it is kept, or with both.
pub fn limited(rng: &mut Rng, manifest: Manifest) -> Manifest {
    let which = rng.u8(..4);
    let (deadline, kept) = (one(rng, &[1, 3, 10, 30, 120]), one(rng, &[0, 0, 1, 5, 30, 90]));
    let manifest = if which == 1 { manifest } else { manifest.deadline(deadline) };
    if which == 2 { manifest } else { manifest.kept_for(kept) }
}

fn retries(rng: &mut Rng) -> i32 {
    one(rng, &[0, 0, 0, 1, 1, 3, -1, -2])
}
