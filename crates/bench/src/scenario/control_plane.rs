//! The control plane of each run.

use framework_testcluster::Options;

/// Options of every control plane here: kubectl is not needed.
pub(super) fn options() -> Options {
    Options { audit_bodies: false, kubectl: false, ..Options::default() }
}
