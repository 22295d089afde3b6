//! A controller whose wall clock is wrong. The program is the shipped one: a preloaded library answers its
//! questions for the system's time. Built by `cc`, which links Rust programs too.

use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};

use super::until;
use crate::cluster::{installed, log_of, program, start_program_with};

/// Starts the controller with a wall clock that is so many seconds ahead; its log shows that it is.
pub fn start_off_by(name: &'static str, seconds: i64, config: &str) -> u32 {
    let dir = installed().dir();
    let library = dir.join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lifetime/clock.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    let built = built.expect("cc is missing: apt-get install gcc");
    assert!(built.success(), "cc does not build {source}");
    let text = format!(
        "export LD_PRELOAD='{}' CLOCK_OFFSET={seconds}\nexec '{}' \"$@\"\n",
        library.display(),
        program().display()
    );
    let script = dir.join(format!("{name}.sh"));
    std::fs::write(&script, text).expect("the script is written");
    // By `sh`: a program that is open for writing, by a child of another test too, cannot be executed.
    let first = [script.display().to_string()];
    let pid = start_program_with(name, Path::new("/bin/sh"), &first, config);
    until("the controller says what time it takes it to be", || shown(name).is_some());
    let off = shown(name).expect("it was said").duration_since(Timestamp::now());
    let wrong = (off - SignedDuration::from_secs(seconds)).abs();
    assert!(wrong < SignedDuration::from_secs(600), "its clock is {off:?} off, not {seconds} s");
    pid
}

/// The time of the first line of a log.
fn shown(name: &str) -> Option<Timestamp> {
    log_of(name).lines().find_map(|line| line.split_whitespace().next()?.parse().ok())
}
