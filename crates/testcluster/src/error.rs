//! The errors of a test cluster, named for the step that failed.
//!
//! A component that dies quotes the end of its log: a test's output is often all that is left of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of the control plane is missing and could not be built.
    #[error(transparent)]
    Programs(#[from] framework_programs::Error),
    /// The user or the system asked the command to end.
    #[error("interrupted; nothing is left running")]
    Interrupted,
    /// A manifest is not a CustomResourceDefinition.
    #[error("{} is not a CustomResourceDefinition: {problem}", file.display())]
    BadManifest {
        /// The file.
        file: PathBuf,
        /// The problem.
        problem: String,
    },
    /// Certificates could not be made.
    #[error("making certificates failed: {0}")]
    Certificates(#[from] rcgen::Error),
    /// A file or process operation failed.
    #[error("{step} failed: {source}")]
    Io {
        /// The step that failed.
        step: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A component ended by itself.
    #[error("{component} ended ({status}); the last lines of {}:\n{tail}", log.display())]
    ComponentDied {
        /// The component.
        component: &'static str,
        /// Its exit status.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },
    /// A component is not running, so that it cannot be signalled.
    #[error("{component} is not running")]
    NotRunning {
        /// The component.
        component: &'static str,
    },
    /// A component or object did not get ready in time.
    #[error("{what} after {after:?}: {last}")]
    NotReady {
        /// The component or object.
        what: String,
        /// The time-out.
        after: Duration,
        /// Its last state.
        last: String,
    },
    /// A user was named that the cluster was not started with.
    #[error("the cluster has no user {0:?}: name it in Options::users")]
    UnknownUser(String),
    /// A request to the API server failed.
    #[error("{step} failed: {source}")]
    Request {
        /// The step that failed.
        step: String,
        /// Why it failed.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Error {
    /// For `map_err`: an input or output error of the step that `step` describes.
    pub(crate) fn io(step: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { step: step.into(), source }
    }

    /// For `map_err`: a request that failed in the step that `step` describes.
    pub(crate) fn request(step: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
        move |source| Error::Request { step: step.into(), source: Box::new(source) }
    }
}

/// The last lines of a file, for error messages; says so when there are none.
pub(crate) fn tail(file: &Path) -> String {
    const LINES: usize = 15;
    let text = String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0 => "(nothing was logged)".into(),
        n => lines[n.saturating_sub(LINES)..].join("\n"),
    }
}
