//! The promises of README.md and docs/manual/ for a controller in its default configuration.
//!
//! One control plane and one controller serve all tests, each in a namespace of its own. Nothing here may
//! disturb either; tests that need another configuration are in `tests/e2e`.

#[path = "../cluster/mod.rs"]
mod cluster;
mod completion_policy;
mod environment;
mod execution_type;
mod force_deletion;
mod fresh;
mod interop;
mod node;
mod page;
mod pages;
mod pod_failure;
mod readme;
mod restore;
mod retry_policy;
mod shell;
mod training;
mod trouble;
