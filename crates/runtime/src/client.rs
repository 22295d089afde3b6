//! The client of the controller.
//!
//! It is the client of [`framework_access`]. It never sends a request again by itself once any of it may have
//! left, so that the longest life of a request is known.

use std::sync::Arc;

use framework_access::client::connect_counting;
pub use framework_access::client::{Error, TCP_USER_TIMEOUT};
pub use framework_message::timeout::{REPLY_TIMEOUT, REQUEST_LIFETIME, SERVER_TIMEOUT};

use crate::metrics::Metrics;

/// A client for the API server that `config` names. `incarnation` names this run of the program. `metrics`
/// counts the bytes that it receives.
pub fn connect(
    config: kube::Config,
    incarnation: &str,
    metrics: &Arc<Metrics>,
) -> Result<kube::Client, Error> {
    let metrics = Arc::clone(metrics);
    connect_counting(config, &agent(incarnation), move |bytes| metrics.received(bytes))
}

fn agent(incarnation: &str) -> String {
    format!("frameworkcontroller/{} (incarnation {incarnation})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_names_program_version_and_incarnation() {
        let expected = format!("frameworkcontroller/{} (incarnation a1b2)", env!("CARGO_PKG_VERSION"));
        assert_eq!(agent("a1b2"), expected);
    }
}
