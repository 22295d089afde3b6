//! The fuzz targets: each decoder of a watched kind takes any bytes, alone, in a LIST and in a watch.
//!
//! Inputs are mutated from sound objects, and from each input to which a target gave an answer that it never
//! gave before. So they get past the first field that cannot be read. The seed decides everything; a failure
//! prints the input. `cargo xtask soak fuzz` plays more of them.

use std::collections::HashSet;
use std::env;
use std::ops::Range;
use std::time::Instant;

use serde_json::value::RawValue;

use framework_engine::object::{ConfigMapObject, FrameworkObject, PodObject};
use framework_queueing::{ClassObject, PodUse, QueueObject, QuotaObject, UnitObject};

use super::poison::{JobByRow, JobSetByRow, read_in_a_list, sound};
use super::{AttemptObject, Resource, UnlabelledFramework, Wire, decode, page};

/// How many inputs each target gets in the gate.
const INPUTS: u64 = 4_000;
/// The inputs that are mutated further: the newest ones.
const CORPUS: usize = 2_000;
/// The longest input: longer ones are slower, and not richer.
const LONGEST: usize = 8 << 10;

/// Values at the limits of the decoders.
const VALUES: [&str; 20] = [
    "null",
    "true",
    "-1",
    "1e999",
    "2147483648",
    "18446744073709551616",
    "0.1",
    "\"\"",
    "\"a\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "[null]",
    "{}",
    "{\"\":null}",
    "\"9999-12-31T23:59:59Z\"",
    "\"-0001-01-01T00:00:00Z\"",
    "\"1Ei\"",
    "\"-3e99\"",
    "[{\"state\":{\"terminated\":{\"exitCode\":-2147483649}}}]",
];
/// Pieces of text that are no values.
const PIECES: [&str; 7] = ["[[[[", "}}", ",", ":", "\"", "\u{fffd}", "\"ownerReferences\":"];

/// The inputs of one target.
struct Fuzzer {
    random: fastrand::Rng,
    corpus: Vec<Vec<u8>>,
    answers: HashSet<String>,
}

/// Prints the input at which a target panics.
struct Culprit<'a>(&'a str, &'a [u8]);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the decoder of {} fails at {:?}", self.0, String::from_utf8_lossy(self.1));
        }
    }
}

/// The target of a kind: decodes an input in every way in which it may come. Returns the answer without its
/// values.
fn target<T: Wire>(input: &[u8]) -> String {
    let _culprit = Culprit(T::RESOURCE.kind, input);
    // A body of its own, which may be no JSON at all.
    let alone = decode::<T>(input);
    let _ = page::<T>(input);
    let json = str::from_utf8(input).ok().filter(|text| serde_json::from_str::<&RawValue>(text).is_ok());
    if let Some(json) = json {
        // Within others it may cost nobody but itself.
        let listed = read_in_a_list::<T>(json);
        let same = format!("{:?}", alone.as_ref().ok().and_then(Option::as_ref));
        assert_eq!(format!("{listed:?}"), same, "it is another object in a LIST");
    }
    let answer = match alone {
        Ok(Some(object)) => format!("{object:?}"),
        Ok(None) => "not ours".to_owned(),
        Err(error) => error.to_string(),
    };
    shape(&answer)
}

/// An answer without digits and without the contents of strings.
fn shape(answer: &str) -> String {
    let mut within = false;
    let is_kept = |letter: &char| {
        within ^= *letter == '"';
        !within && !letter.is_ascii_digit()
    };
    answer.chars().filter(is_kept).collect()
}

impl Fuzzer {
    fn new(seed: u64, resource: &Resource) -> Fuzzer {
        let corpus = vec![sound(resource, "job").to_string().into_bytes()];
        Fuzzer { random: fastrand::Rng::with_seed(seed), corpus, answers: HashSet::new() }
    }

    /// The next input: one of the corpus, changed in one to four places. Three of four stay JSON.
    fn next(&mut self) -> Vec<u8> {
        // Half of them come from the sound one: an input that was changed often is seldom read any more.
        let from = if self.random.bool() { 0 } else { self.random.usize(..self.corpus.len()) };
        let mut input = self.corpus[from].clone();
        let stays_json = self.random.u8(..4) > 0;
        for _ in 0..self.random.usize(1..=4) {
            if stays_json { self.replace_value(&mut input) } else { self.replace_bytes(&mut input) }
        }
        if input.len() <= LONGEST { input } else { self.corpus[0].clone() }
    }

    /// Flips, removes, repeats or replaces bytes anywhere.
    fn replace_bytes(&mut self, input: &mut Vec<u8>) {
        let at = self.random.usize(..=input.len());
        let end = input.len().min(at + self.random.usize(..32));
        match self.random.u8(..5) {
            0 if at < input.len() => input[at] ^= 1 << self.random.u8(..8),
            1 => drop(input.drain(at..end)),
            2 => drop(input.splice(at..at, input[at..end].to_vec())),
            3 => drop(input.splice(at..end, self.piece())),
            _ => {
                let other = &self.corpus[self.random.usize(..self.corpus.len())];
                let from = self.random.usize(..=other.len());
                let to = other.len().min(from + self.random.usize(..64));
                drop(input.splice(at..end, other[from..to].to_vec()));
            }
        }
    }

    /// Puts another value in the place of one.
    fn replace_value(&mut self, input: &mut Vec<u8>) {
        let Some(place) = self.value(input) else { return };
        let value = if self.random.bool() {
            self.random.choice(VALUES).unwrap_or_default().as_bytes().to_vec()
        } else {
            let other = self.random.choice(&self.corpus).cloned().unwrap_or_default();
            self.value(&other).map(|place| other[place].to_vec()).unwrap_or_default()
        };
        // None at all would end the JSON.
        if !value.is_empty() {
            drop(input.splice(place, value));
        }
    }

    /// The place of a value of a field.
    fn value(&mut self, json: &[u8]) -> Option<Range<usize>> {
        let colons = json.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at + 1);
        let at = self.random.choice(colons.collect::<Vec<usize>>())?;
        let mut values = serde_json::Deserializer::from_slice(&json[at..]).into_iter::<Box<RawValue>>();
        values.next()?.ok()?;
        Some(at..at + values.byte_offset())
    }

    fn piece(&mut self) -> Vec<u8> {
        let pieces: Vec<&str> = VALUES.into_iter().chain(PIECES).collect();
        self.random.choice(pieces).unwrap_or_default().as_bytes().to_vec()
    }

    /// Keeps an input that got an answer of a new shape.
    fn learn(&mut self, input: Vec<u8>, answer: String) {
        if self.answers.insert(answer) {
            if self.corpus.len() == CORPUS {
                // The first one is sound and stays.
                self.corpus.remove(1);
            }
            self.corpus.push(input);
        }
    }
}

/// The number in a variable.
fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}

/// Plays inputs on the target of a kind, and prints the results.
fn fuzz<T: Wire>() {
    let inputs = number("FRAMEWORK_FUZZ_INPUTS").unwrap_or(INPUTS);
    let seed = number("FRAMEWORK_FUZZ_SEED").unwrap_or(1);
    let mut fuzzer = Fuzzer::new(seed, &T::RESOURCE);
    let begun = Instant::now();
    let (mut played, mut read) = (0, 0);
    for _ in 0..inputs {
        let input = fuzzer.next();
        let answer = target::<T>(&input);
        read += u64::from(decode::<T>(&input).is_ok());
        fuzzer.learn(input, answer);
        played += 1;
    }
    let (kind, shapes) = (T::RESOURCE.kind, fuzzer.answers.len());
    println!("{kind}: {played} inputs, {read} read, {shapes} shapes of answers, {:.1?}", begun.elapsed());
    // Inputs that are all refused at once, or all sound, show nothing.
    assert!(played >= INPUTS, "{kind}: {played} inputs show little");
    assert!(read * 20 >= played && read < played, "{kind}: {read} of {played} inputs were read");
    assert!(shapes > 20, "{kind}: {shapes} shapes of answers");
}

#[test]
fn any_bytes_of_a_framework_cost_nobody_else() {
    fuzz::<FrameworkObject>();
}

#[test]
fn any_bytes_of_a_framework_without_a_label_cost_nobody_else() {
    fuzz::<UnlabelledFramework>();
}

#[test]
fn any_bytes_of_a_config_map_cost_nobody_else() {
    fuzz::<ConfigMapObject>();
}

#[test]
fn any_bytes_of_a_pod_cost_nobody_else() {
    fuzz::<PodObject>();
}

#[test]
fn any_bytes_of_a_config_map_in_a_queue_cost_nobody_else() {
    fuzz::<AttemptObject>();
}

#[test]
fn any_bytes_of_a_pod_in_a_queue_cost_nobody_else() {
    fuzz::<PodUse>();
}

#[test]
fn any_bytes_of_a_job_cost_nobody_else() {
    fuzz::<JobByRow>();
}

#[test]
fn any_bytes_of_a_job_set_cost_nobody_else() {
    fuzz::<JobSetByRow>();
}

#[test]
fn any_bytes_of_a_queue_unit_cost_nobody_else() {
    fuzz::<UnitObject>();
}

#[test]
fn any_bytes_of_a_queue_cost_nobody_else() {
    fuzz::<QueueObject>();
}

#[test]
fn any_bytes_of_a_resource_quota_cost_nobody_else() {
    fuzz::<QuotaObject>();
}

#[test]
fn any_bytes_of_a_priority_class_cost_nobody_else() {
    fuzz::<ClassObject>();
}
