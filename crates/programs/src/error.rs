//! Why a program of the control plane is missing, named for the step that failed.

/// The step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Go toolchain that builds the control plane is not installed.
    #[error("the test cluster is built with Go, and `go` is not on the PATH; {}", install_go())]
    GoMissing,
    /// The Go toolchain is too old to fetch the one that is needed.
    #[error("the test cluster is built with Go, and `go` on the PATH is version {found}; {}", install_go())]
    GoTooOld {
        /// Its version.
        found: String,
    },
    /// `go build` failed.
    #[error("building {programs} failed: {output}")]
    BuildFailed {
        /// The programs that were built together.
        programs: String,
        /// The end of the Go toolchain's output.
        output: String,
    },
    /// No directory for the built programs is known.
    #[error("set FRAMEWORK_TESTCLUSTER_CACHE or HOME: there is no directory to keep the built programs in")]
    NoCacheDirectory,
    /// A file or process operation failed.
    #[error("{step} failed: {source}")]
    Io {
        /// The step that failed.
        step: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err`: an input or output error of the step that `step` describes.
    pub(crate) fn io(step: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { step: step.into(), source }
    }
}

/// The sentence that says how to install Go.
fn install_go() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "install Go 1.26 or newer:\n  curl -fsSL https://go.dev/dl/go1.26.0.linux-{arch}.tar.gz | \
         sudo tar -C /usr/local -xz && export PATH=/usr/local/go/bin:$PATH"
    )
}
