//! Programs that a test writes and runs at once.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program. Another process writes the file: a program that is open for writing cannot be executed,
/// and a child that another test has just forked still has each file that is open here.
pub fn write(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}
