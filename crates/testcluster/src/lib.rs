//! A real control plane for tests and the demo: etcd, the programs of Kubernetes, and kwok for the nodes.
//!
//! ```no_run
//! use framework_testcluster::{Cluster, Options};
//!
//! let cluster = Cluster::start(Options::default())?;
//! println!("{}", cluster.kubectl(&["get", "nodes"])?.stdout);
//! # Ok::<_, framework_testcluster::Error>(())
//! ```
//!
//! - The programs are built on first use from the Go module proxy ([`Binaries`]) and cached outside the work
//!   tree. Set `KUBEBUILDER_ASSETS` to use ready ones of a directory that has all of them, and
//!   `FRAMEWORK_TESTCLUSTER_CACHE` to choose the cache.
//! - For another version, change `crates/programs/go/<module>/go.mod`, run `go mod tidy` there, and adapt
//!   [`KUBERNETES_VERSION`]. The new programs get a directory of their own in the cache.
//!   `go/kubernetes-oldest` and [`Binaries::oldest`] have the oldest supported version.
//! - A cluster lives in a temporary directory and on free ports of 127.0.0.1. It ends with its [`Cluster`],
//!   or with the process however that ends. `FRAMEWORK_KEEP=1` leaves the directory behind.
//! - The audit log ([`audit`]) has every request to the API server but probes and discovery.
//! - kwok simulates nodes and kubelets: no container ever runs. Annotations decide the life of a Pod.
//!
//! # The life of a Pod
//! Without annotations a bound Pod starts at once and runs until it is deleted, and is then gone at once.
//! These annotations, all with the prefix `test.frameworkcontroller.microsoft.com/` ([`pod`] has them as
//! constants), change that:
//!
//! | annotation | value | effect |
//! |---|---|---|
//! | `start-delay` | duration, such as `500ms` | stays Pending for so long after it was bound |
//! | `never-start` | `true` | stays Pending; with `pod-reason` it fails instead of starting |
//! | `run-duration` | duration or `forever` | runs for so long and ends; the default is below |
//! | `exit-code` | number | exit code of the first container; other containers end with 0 |
//! | `signal` | number | signal that ended the first container; the exit code defaults to 128 + signal |
//! | `reason` | text | reason of the first container's end; default `Completed` or `Error` |
//! | `message` | text | termination message of the first container |
//! | `random-message` | number | instead of that so many characters that are another for every Pod |
//! | `exit-code.<container>` and so on | as above | the same for the container of that name |
//! | `pod-reason` | text, such as `Evicted` | the Pod as a whole fails with this reason |
//! | `pod-message` | text | the message that goes with it |
//! | `only-task-index` | number | only Pods with this annotation `FC_TASK_INDEX` end so, others with 0 |
//! | `only-task-attempt` | number | the same for `FC_TASK_ATTEMPT_ID` |
//! | `stop-delay` | duration | stays terminating for so long |
//! | `hang-terminating` | `true` | stays terminating until it is deleted with a grace period of 0 |
//!
//! - Without `run-duration`, a Pod with an exit code, a signal or a `pod-reason` ends as soon as it runs; any
//!   other Pod runs until it is deleted.
//! - The phase at the end is Failed if any container ended with another code than 0 or by a signal, or if
//!   `pod-reason` is there; else it is Succeeded.
//! - With `pod-reason` and neither exit code nor signal, the container states are gone, as after an eviction.
//! - Any change to a Pod, except by kwok itself, restarts the current delay of the Pod.
//! - A Pod whose deletion was cut between the API server's two writes is gone after two seconds.
//! - Restart policies are ignored: no container is ever started twice.

pub mod interrupt;
pub mod pod;
pub mod running;

mod certificates;
mod cluster;
mod components;
mod definitions;
mod error;
mod kubeconfig;
mod kubectl;
mod options;
mod process;
mod ready;
mod shared;

pub use framework_audit as audit;
pub use framework_programs::{Binaries, KUBERNETES_VERSION, OLDEST_KUBERNETES_VERSION, Program};

pub use cluster::Cluster;
pub use components::{Component, audit_log};
pub use error::Error;
pub use kubectl::Output;
pub use options::Options;
pub use shared::shared;
