//! The programs that tests and commands start.
//!
//! - [`Binaries`]: the programs of a control plane, found ready or built by Go.
//! - [`workspace`]: this work tree, and the programs of it that cargo builds.
//! - [`output`]: what commands print.
//!
//! `cargo xtask` links this crate and nothing of Kubernetes, so that it is compiled in seconds and both
//! builds start at once. Must therefore never depend on a crate that takes long to compile.

pub mod output;
pub mod workspace;

mod binaries;
mod error;
mod go;

pub use binaries::{Binaries, KUBERNETES_VERSION, OLDEST_KUBERNETES_VERSION, Program};
pub use error::Error;
pub use output::{Report, say};
