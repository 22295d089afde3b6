//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use framework_api::name::is_namespace;

use crate::logging::Format;

/// Runs Frameworks on a Kubernetes cluster.
///
/// Exits with 0 after SIGTERM or SIGINT, and with 2 for a bad argument or config file. Exits with 3 if the
/// CustomResourceDefinition is not installed, or if replicas share the Frameworks and this program does not.
/// Exits with 1 for any other error.
#[derive(Clone, Debug, Default, clap::Parser)]
#[command(name = "frameworkcontroller", version)]
pub struct Args {
    /// The config file [default: frameworkcontroller.yaml in the working directory, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address of metrics; overrides metricsAddress of the config file
    #[arg(long, value_name = "IP:PORT")]
    pub metrics_address: Option<SocketAddr>,
    /// The only namespace whose Frameworks are run; overrides namespace of the config file
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub namespace: Option<String>,
    /// Whether jobs that name a queue wait in it; overrides queueing of the config file
    #[arg(long, value_name = "BOOLEAN")]
    pub queueing: Option<bool>,
    /// The log level, or directives as in RUST_LOG, which overrides this [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Format of log lines; lines of the history keep their own format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: Format,
}

fn namespace(text: &str) -> Result<String, &'static str> {
    if is_namespace(text) { Ok(text.to_owned()) } else { Err("give the name of a namespace") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
        let args =
            Args::parse_from(["frameworkcontroller", "--config", "a.yaml", "--metrics-address=[::1]:80"]);
        assert_eq!(args.config.unwrap().to_str(), Some("a.yaml"));
        assert_eq!(args.metrics_address.unwrap().port(), 80);
    }
}
