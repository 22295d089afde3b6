//! The program that the demo is about: built as users build it.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cluster::root;
use crate::environment::told_by_cargo;

const NAME: &str = "frameworkcontroller";

/// What cargo says of each thing that it built, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// Builds the controller, with cargo's progress on the terminal, and returns its path.
pub(crate) async fn build() -> Result<PathBuf> {
    eprintln!("building the controller");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = tokio::process::Command::new(cargo);
    for name in told_by_cargo() {
        command.env_remove(name);
    }
    let built = command
        .args(["build", "--bin", NAME, "--message-format=json-render-diagnostics"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting cargo")?
        // Not `output`, which would catch what cargo says to people as well.
        .wait_with_output()
        .await
        .context("reading what cargo says")?;
    ensure!(built.status.success(), "building the controller failed ({})", built.status);
    executable(&String::from_utf8_lossy(&built.stdout))
        .context("cargo did not name the controller that it built")
}

fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    messages.filter_map(|message| message.executable).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_the_program() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/there/target/debug/frameworkcontroller"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages), Some("/there/target/debug/frameworkcontroller".into()));
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
