//! Which seeds to walk, and walks over all of them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::walk::{Manner, Walked};

/// Seeds are walked on as many threads, each walk in a runtime of its own.
const THREADS: usize = 2;
/// So many failures are printed; there may be more.
const TOLD: usize = 5;

/// The seeds that `FRAMEWORK_SIM_SEEDS=from..to` names, or those of the gate.
///
/// # Panics
/// When it names none.
pub fn from_environment(gate: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("FRAMEWORK_SIM_SEEDS") else { return gate };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = text.split_once("..").and_then(|(from, to)| Some(number(from)?..number(to)?));
    range.unwrap_or_else(|| panic!("FRAMEWORK_SIM_SEEDS is {text:?}, not from..to"))
}

/// How many seeds an interleaving has that was written for one rule.
const OF_AN_INTERLEAVING: u64 = 10;

/// After how many seeds an interleaving goes wrong, and the fault; `None`: with none of its seeds.
pub fn until_wrong(interleaving: impl Fn(u64) -> Result<(), String>) -> Option<(u64, String)> {
    (1..=OF_AN_INTERLEAVING).find_map(|seed| Some((seed, interleaving(seed).err()?)))
}

/// Walks each seed, and returns the outcomes in no order. `test` is the test to repeat a seed with.
///
/// # Panics
/// When a promise was broken, with the messages of the first seed that broke one.
pub fn each<T>(test: &str, seeds: Range<u64>, run: impl Fn(u64, Manner<'_>) -> T + Sync) -> Vec<T>
where
    T: AsRef<Walked> + Send,
{
    let (began, next) = (Instant::now(), AtomicU64::new(seeds.start));
    let (broken, outcomes) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || broken.lock().unwrap().len() >= TOLD {
                        return;
                    }
                    let outcome = run(seed, Manner::default());
                    if let Some(what) = &outcome.as_ref().broken {
                        broken.lock().unwrap().push((seed, what.what.clone()));
                    }
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let mut broken = broken.into_inner().unwrap();
    broken.sort_unstable();
    let failures: Vec<String> = broken.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
    if let Some((seed, _)) = broken.first() {
        let again = run(*seed, Manner { talks: true, ..Manner::default() });
        panic!("{}\n\nall that was found:\n{}", replayed(test, *seed, again.as_ref()), failures.join("\n"));
    }
    let outcomes: Vec<T> = outcomes.into_inner().unwrap();
    let requests: usize = outcomes.iter().map(|outcome| outcome.as_ref().requests).sum();
    eprintln!(
        "{test}: {} seeds, {requests} requests, {:.1} s",
        outcomes.len(),
        began.elapsed().as_secs_f64()
    );
    outcomes
}

/// The walk of a seed that went wrong once more, with every message.
fn replayed(test: &str, seed: u64, again: &Walked) -> String {
    let Some(broken) = &again.broken else {
        return format!("seed {seed} went wrong once and then right: it does not replay");
    };
    let next = seed + 1;
    let command = format!("FRAMEWORK_SIM_SEEDS={seed}..{next} cargo test --test sim {test} -- --nocapture");
    format!("{}\nseed {seed}: {}\nrepeat it with: {command}", broken.tail.join("\n"), broken.what)
}
