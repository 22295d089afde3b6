//! A directory in which the commands of a document are run, as its reader runs them.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::cluster;
use crate::page::{Block, Note};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A directory, with a kubeconfig and a search path of its own.
pub struct Shell {
    dir: tempfile::TempDir,
    kubeconfig: PathBuf,
    path: OsString,
}

impl Shell {
    /// An empty directory. Commands may change the kubeconfig: they have a copy.
    pub fn new(kubeconfig: &Path, path: OsString) -> Shell {
        let dir = tempfile::tempdir().expect("a directory");
        let copy = dir.path().join("kubeconfig");
        std::fs::copy(kubeconfig, &copy).expect("the kubeconfig is copied");
        Shell { dir, kubeconfig: copy, path }
    }

    /// Copies a folder of the repository.
    pub fn copy(&self, folder: &str) {
        let copied =
            Command::new("cp").arg("-r").arg(Path::new(ROOT).join(folder)).arg(self.dir.path()).status();
        assert!(copied.is_ok_and(|status| status.success()), "{folder} is not copied");
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("make the folder");
        std::fs::write(path, text).expect("write the file");
    }

    /// Runs commands by `sh -e`, for two minutes at most.
    pub fn run(&self, commands: &str, input: &str) -> Output {
        let mut shell = Command::new("timeout");
        shell.args(["120", "sh", "-e", "-c", commands]).current_dir(self.dir.path());
        shell.env("PATH", &self.path);
        shell.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.dir.path());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().expect("timeout of coreutils runs sh");
        // Commands that read nothing may end before this is written.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        child.wait_with_output().expect("sh ends")
    }
}

/// Asserts that the commands of a block ended as they should and printed the expected words.
pub fn judge(block: &Block, output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    match block.refused() {
        Some(words) => {
            assert!(!output.status.success(), "it is not refused: {said}");
            assert!(complaint.contains(words), "it is refused otherwise: {complaint}");
        }
        None => assert!(output.status.success(), "{}\n{said}\n{complaint}", block.text),
    }
    for words in block.says() {
        assert!(said.contains(words), "{}does not say {words:?} but\n{said}\n{complaint}", block.text);
    }
}

/// Sets the work of the containers as annotations for the nodes of the test cluster, where no container runs.
pub fn decide_fates(framework: &mut Value, notes: &[Note]) {
    let roles = framework["spec"]["taskRoles"].as_array_mut();
    for role in roles.into_iter().flatten() {
        for note in notes {
            let Note::Pods { role: wanted, fate } = note else { continue };
            if wanted.as_ref().is_none_or(|wanted| role["name"] == **wanted) {
                for (key, value) in fate {
                    let key = format!("{}/{key}", cluster::TEST);
                    role["task"]["pod"]["metadata"]["annotations"][key] = json!(value);
                }
            }
        }
    }
}
