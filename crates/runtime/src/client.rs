//! The client of the controller, and how long its requests may live.
//!
//! The client itself is that of [`framework_access`]: it never sends a request again behind the caller's back
//! once any of it may have left, so that the longest life of a request is known.

use std::time::Duration;

pub use framework_access::client::{Error, TCP_USER_TIMEOUT};

/// What the API server is told, as `?timeout=`: after this it gives a request up.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a reply is waited for; then the connection is closed.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(12);
/// The longest life of a request: it leaves before its reply is given up, travels, and is worked on.
pub const REQUEST_LIFETIME: Duration = Duration::from_secs(12 + 5 + 10 + 1);

/// A client for the API server that `config` names. `incarnation` tells this run of the program from others.
pub fn connect(config: kube::Config, incarnation: &str) -> Result<kube::Client, Error> {
    framework_access::client::connect(config, &agent(incarnation))
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
