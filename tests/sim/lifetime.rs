//! A deadline that passes at about the moment at which its Framework completes, fails, is retried, is
//! stopped, rescaled, or loses its controller. The end that is stored first is the outcome and stays, and no
//! deadline comes early.
//!
//! `FRAMEWORK_LIFETIME_SEEDS=from..to` chooses the seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use framework_sim::{Change, History, Options, Rates, SimCluster, check};
use jiff::SignedDuration;

use crate::simulation::controller::{Controller, Setup};
use crate::simulation::draw::one;
use crate::simulation::life::{calm, lived_well};
use crate::simulation::manifest::{Deeds, framework};
use crate::simulation::{self, SECOND, pass, simulate};

/// Seeds of the gate.
const SEEDS: Range<u64> = 0..1_000;
const EXCEEDED: i64 = -240;
const STOPPED: i64 = -210;
/// So late a deadline may be acted on where nothing goes wrong.
const LATE: SignedDuration = SignedDuration::from_secs(2);

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("FRAMEWORK_LIFETIME_SEEDS") else { return SEEDS };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = text.split_once("..").and_then(|(from, to)| Some(number(from)?..number(to)?));
    range.unwrap_or_else(|| panic!("FRAMEWORK_LIFETIME_SEEDS is {text:?}, not from..to"))
}

/// The event that the deadline races with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rival {
    Success,
    Failure,
    TaskRetry,
    FrameworkRetry,
    RetryDelay,
    Stop,
    Rescale,
    Hold,
}

const RIVALS: [Rival; 8] = [
    Rival::Success,
    Rival::Failure,
    Rival::TaskRetry,
    Rival::FrameworkRetry,
    Rival::RetryDelay,
    Rival::Stop,
    Rival::Rescale,
    Rival::Hold,
];

/// One race.
struct Race {
    rival: Rival,
    seconds: i64,
    kept: Option<i64>,
    /// After the creation, when the rival comes.
    rival_at: Duration,
    /// After the creation, when the controller dies.
    dies_at: Option<Duration>,
    /// How far the fraction of a second had gone when the Framework was created.
    fraction: Duration,
    options: Options,
    setup: Setup,
}

impl Race {
    fn draw(rng: &mut Rng) -> Self {
        let seconds = rng.i64(2..=4);
        let fraction = rng.u64(0..1_000);
        // Time is counted from the whole second in which the Framework was created.
        let left = u64::try_from(seconds).expect("positive") * 1000 - fraction;
        let about = |rng: &mut Rng| Duration::from_millis((left + rng.u64(0..1_200)).saturating_sub(800));
        let rates = match rng.u8(..3) {
            0 => Rates::calm(),
            1 => Rates { latency: Duration::ZERO..=Duration::from_millis(200), ..Rates::calm() },
            _ => Rates { quota: 0.0, hang: 0.0, ..Rates::rough() },
        };
        let wrong_by = SignedDuration::from_millis(one(rng, &[0, 0, 900, -900, 3_600_000, -3_600_000]));
        Race {
            rival: one(rng, &RIVALS),
            seconds,
            kept: one(rng, &[None, Some(0), Some(3)]),
            rival_at: about(rng),
            dies_at: (rng.u8(..3) == 0).then(|| about(rng)),
            fraction: Duration::from_millis(fraction),
            options: Options { rates, keep_trace: false, ..calm() },
            setup: Setup { wrong_by, ..Setup::default() },
        }
    }

    fn is_calm(&self) -> bool {
        self.options.rates == Rates::calm() && self.dies_at.is_none()
    }

    fn manifest(&self) -> simulation::manifest::Manifest {
        let until = self.rival_at.saturating_sub(Duration::from_millis(80)).as_millis().to_string();
        let job = framework("job").deadline(self.seconds);
        let job = match self.kept {
            Some(seconds) => job.kept_for(seconds),
            None => job,
        };
        let job = match self.rival {
            Rival::RetryDelay => job.retry(true, 3),
            Rival::FrameworkRetry => job.retry(false, -2),
            Rival::Hold => job.execution("Create"),
            _ => job,
        };
        let job = job.role("w", 2);
        match self.rival {
            Rival::Success => job.fate("run-ms", &until),
            Rival::Failure => job.fate("run-ms", &until).fate("exit-code", "1"),
            Rival::TaskRetry => job.retry_tasks(false, -2).fate("run-ms", "300").fate("exit-code", "1"),
            Rival::FrameworkRetry => job.fate("run-ms", "300").fate("exit-code", "1"),
            // Conflicts are retried after a delay.
            Rival::RetryDelay => job.fate("run-ms", "300").fate("exit-code", "201"),
            Rival::Stop | Rival::Rescale | Rival::Hold => job.fate("run-ms", "forever"),
        }
    }

    fn outcomes(&self) -> &'static [i64] {
        match self.rival {
            Rival::Success => &[0, EXCEEDED],
            Rival::Failure => &[1, EXCEEDED],
            Rival::Stop => &[STOPPED, EXCEEDED],
            _ => &[EXCEEDED],
        }
    }

    async fn run(&self, cluster: SimCluster) -> Result<i64, String> {
        pass(self.fraction).await;
        let user = cluster.user();
        let mut controller = Controller::start(&cluster, 1, 1, &self.setup);
        self.manifest().create(&user);
        let (mut passed, mut moments) = (Duration::ZERO, vec![(self.rival_at, false)]);
        moments.extend(self.dies_at.map(|at| (at, true)));
        moments.sort_unstable();
        for (at, dies) in moments {
            pass(at.saturating_sub(passed)).await;
            passed = passed.max(at);
            if dies {
                controller.crash().await;
                controller = Controller::start(&cluster, 2, 2, &self.setup);
                continue;
            }
            match self.rival {
                Rival::Stop => _ = user.stop("job"),
                Rival::Rescale => _ = user.scale("job", 0, 4),
                Rival::Hold => _ = user.start("job"),
                _ => {}
            }
        }
        if self.rival == Rival::Hold || !self.is_calm() {
            cluster.until(SECOND * 20, |_| false).await;
            cluster.heal();
        }
        lived_well(&cluster, "job").await?;
        let gone = user.get("frameworks", "job").is_none();
        if gone != self.kept.is_some() {
            return Err(format!("it is gone: {gone}, and to be kept for {:?}", self.kept));
        }
        self.judge(&cluster.history())
    }

    /// The outcome, if nothing is wrong with it.
    fn judge(&self, history: &History) -> Result<i64, String> {
        let retained = self.setup.policy.framework_completed_retain_sec;
        check::lifetime::check(history, retained).map_err(|violation| violation.to_string())?;
        let code = |change: &Change| {
            let status = &change.new.as_ref()?["status"];
            let code = status["attemptStatus"]["completionStatus"]["code"].as_i64()?;
            Some((status["state"] == "Completed", code))
        };
        let ends: BTreeSet<i64> = history
            .of("frameworks")
            .filter_map(|change| code(change))
            .filter(|end| end.0)
            .map(|end| end.1)
            .collect();
        let [end] = ends.iter().copied().collect::<Vec<_>>()[..] else {
            return Err(format!("not one outcome: {ends:?}"));
        };
        if !self.outcomes().contains(&end) {
            return Err(format!("it ended with {end}"));
        }
        let exceeded =
            history.of("frameworks").find(|change| code(change).is_some_and(|end| end.1 == EXCEEDED));
        if let Some(change) = exceeded.filter(|_| self.is_calm()) {
            let created = change.object()["metadata"]["creationTimestamp"].as_str().expect("it was created");
            let due =
                created.parse::<jiff::Timestamp>().expect("a time") + SignedDuration::from_secs(self.seconds);
            if change.time > due + LATE {
                return Err(format!("due at {due}, it ended at {}", change.time));
            }
        }
        Ok(end)
    }
}

/// Runs the race of a seed: its rival, and how it ended.
fn race(seed: u64) -> (Rival, Result<i64, String>) {
    let race = Race::draw(&mut Rng::with_seed(seed));
    (race.rival, simulate(seed, race.options.clone(), |cluster| race.run(cluster)))
}

#[test]
fn a_deadline_that_races_anything_leaves_one_outcome_that_stays() {
    let seeds = seeds();
    let mut seen = BTreeMap::<(Rival, i64), usize>::new();
    let mut broken = Vec::new();
    for seed in seeds.clone() {
        match race(seed) {
            (rival, Ok(code)) => *seen.entry((rival, code)).or_default() += 1,
            (rival, Err(what)) => broken.push(format!("seed {seed}, {rival:?}: {what}")),
        }
    }
    eprintln!("{seen:?}");
    assert!(broken.is_empty(), "{} of {seeds:?}:\n{}", broken.len(), broken.join("\n"));
    if seeds == SEEDS {
        // A race that always ends in the same way is none.
        for won in [(Rival::Success, 0), (Rival::Failure, 1), (Rival::Stop, STOPPED)] {
            let lost = (won.0, EXCEEDED);
            assert!(seen.contains_key(&won) && seen.contains_key(&lost), "{won:?} and {lost:?}: {seen:?}");
        }
    }
}
