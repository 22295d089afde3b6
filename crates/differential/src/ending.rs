//! The ends of Pods: at least one for each class of failures.
//!
//! Never an end that only our default rules name: the sides have different rules for it, as the row "codes
//! for ends by kubelet, containerd and CRI-O" of `docs/compatibility.md` says.

use fastrand::Rng;

use crate::plan::{CONTAINERS, ContainerEnd, Ending};

/// A message that is hard to encode: quotes, line breaks, characters that some encoders escape.
const AWKWARD: &str = "line one\nline \"two\" <a> & b\\c\ttab \u{e9}\u{2028}\u{1F600}";
/// Exit codes that a rule names, that are predefined, or that are unknown.
const CODES: &[i32] = &[
    1, 2, 42, 125, 126, 127, 128, 130, 131, 132, 134, 135, 136, 137, 139, 141, 143, 200, 201, 210, 220, 255,
];
/// The reasons that kubelets give for a Pod that failed as a whole.
const POD_REASONS: &[&str] = &[
    "Evicted",
    "NodeLost",
    "OutOfcpu",
    "OutOfmemory",
    "Preempting",
    "DeadlineExceeded",
    "Forbidden",
    "UnexpectedAdmissionError",
    "UnknownReason",
    "InvalidNodeInfo",
    "UnexpectedPredicateFailureType",
    "evicted",
    "Evicted too",
    "NotInAnyRule",
];
/// Reason, exit code and message of a container that its runtime could not start, or that was killed.
const CONTAINER_REASONS: &[(&str, i32, &str)] = &[
    ("OOMKilled", 137, ""),
    ("OOMKilled", 0, "killed, and yet 0"),
    ("oomkilled", 1, "in small letters"),
    ("ContainerCannotRun", 125, "the daemon failed"),
    ("ContainerCannotRun", 126, "permission denied"),
    ("ContainerCannotRun", 127, "no"),
    ("ContainerCannotRun", 128, "exec: \"nothing\": executable file NOT FOUND in $PATH"),
    ("ContainerCannotRun", 128, "anything else"),
    ("ContainerCannotRun", 129, "no rule names it"),
    ("Error", 1, AWKWARD),
    ("Error", 1, "first\nTensorFlow: ResourceExhaustedError:\nOOM when allocating"),
    ("Error", 139, "Signal code: Address not mapped (1)"),
    ("Error", 0, "CUDA_ERROR_ECC_UNCORRECTABLE, and yet 0"),
    ("Error", 9, "cuda_error_ecc_uncorrectable"),
];
/// Codes after which a fancy policy retries.
const TRANSIENT: &[i32] = &[200, 130, 131, 137, 143];

/// The main container's end alone; the others end with 0.
fn main(code: i32, reason: &'static str, message: &'static str) -> Ending {
    let completed = |name| ContainerEnd { name, reason: "Completed", ..ContainerEnd::default() };
    let mut containers = CONTAINERS.map(completed).to_vec();
    containers[0] = ContainerEnd { name: CONTAINERS[0], code, reason, message, ..ContainerEnd::default() };
    Ending { failed: code != 0, containers, ..Ending::default() }
}

/// The Pod succeeds.
pub(crate) fn success() -> Ending {
    main(0, "Completed", "")
}

/// The Pod fails, because of others at the same time, and may succeed later.
pub(crate) fn conflict() -> Ending {
    main(201, "Error", "")
}

/// Any end.
pub(crate) fn any(rng: &mut Rng) -> Ending {
    match rng.u8(..24) {
        0..=4 => success(),
        5..=8 => main(one(rng, CODES), "Error", one(rng, &["", "why", AWKWARD])),
        9 | 10 => main(one(rng, TRANSIENT), "Error", ""),
        11..=13 => contained(rng),
        14 | 15 => whole(rng),
        16 => of_two(rng),
        17 => of_init(rng),
        18 => of_nobody(rng),
        19..=22 => of_many(rng),
        _ => by_signal(rng),
    }
}

/// A container that could not run.
fn contained(rng: &mut Rng) -> Ending {
    let (reason, code, message) = one(rng, CONTAINER_REASONS);
    Ending { failed: true, ..main(code, reason, message) }
}

/// The Pod fails as a whole, with its containers or without.
fn whole(rng: &mut Rng) -> Ending {
    let containers = if rng.bool() { main(137, "Error", "").containers } else { Vec::new() };
    let (reason, message) = (one(rng, POD_REASONS), one(rng, &["", "the node was low on memory", AWKWARD]));
    Ending { failed: true, reason, message, containers }
}

/// Two containers fail: the one that finished last counts, or the first of them.
fn of_two(rng: &mut Rng) -> Ending {
    let mut ending = main(one(rng, &[3, 137, 200]), "Error", "first");
    ending.containers[0].earlier = rng.i64(0..=2);
    ending.containers[1] = ContainerEnd {
        name: CONTAINERS[1],
        code: one(rng, &[4, 5, 201]),
        reason: "Error",
        message: "second",
        earlier: rng.i64(0..=2),
        ..ContainerEnd::default()
    };
    ending
}

/// Two or three containers end with codes that different rules name: the first rule in the file decides, and
/// of codes that no rule names the last end.
fn of_many(rng: &mut Rng) -> Ending {
    let mut ending = main(one(rng, CODES), "Error", "");
    let others = if rng.bool() { 1..2 } else { 1..3 };
    for end in &mut ending.containers[others] {
        (end.reason, end.code, end.message) = match rng.u8(..4) {
            0 => one(rng, CONTAINER_REASONS),
            _ => ("Error", one(rng, CODES), one(rng, &["", "why"])),
        };
        end.earlier = rng.i64(0..=2);
    }
    rng.shuffle(&mut ending.containers);
    for (end, name) in ending.containers.iter_mut().zip(CONTAINERS) {
        end.name = name;
    }
    ending
}

/// An init container fails, and the others never start.
fn of_init(rng: &mut Rng) -> Ending {
    let code = one(rng, &[6, 126, 210]);
    let first = ContainerEnd { name: "first", init: true, code, reason: "Error", ..ContainerEnd::default() };
    let waits = |name| ContainerEnd { name, waiting: true, ..ContainerEnd::default() };
    let containers = [first].into_iter().chain(CONTAINERS.map(waits)).collect();
    Ending { failed: true, containers, ..Ending::default() }
}

/// The Pod fails although no container did.
fn of_nobody(rng: &mut Rng) -> Ending {
    let message = one(rng, &["", "nobody knows"]);
    Ending { failed: true, message, ..main(0, "Completed", "") }
}

fn by_signal(rng: &mut Rng) -> Ending {
    let mut ending = main(one(rng, &[137, 139, 143]), "Error", "");
    ending.containers[0].signal = one(rng, &[9, 11, 15]);
    ending
}

/// One of these, each as likely as it is often written.
pub(crate) fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}
