//! Validates the environment into settings.
//!
//! Names, defaults and bounds are those of the original, so that its manifests work unchanged. The path of
//! the volume is new.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use framework_access::Directions;
use framework_access::proxy::Variables;
use framework_api::name::{is_dns_word, variable};

/// Variable: seconds between the first two queries.
pub const INTERVAL: &str = "BARRIER_CHECK_INTERVAL_SEC";
/// Variable: seconds after which the barrier gives up.
pub const TIMEOUT: &str = "BARRIER_CHECK_TIMEOUT_SEC";
/// Variable: the mount path of the volume that the app containers share.
pub const MOUNT: &str = "BARRIER_MOUNT_PATH";

/// Where the containers of the original's examples expect the files.
pub const DEFAULT_MOUNT: &str = "/mnt/frameworkbarrier";
const DEFAULT_INTERVAL: u64 = 10;
const DEFAULT_TIMEOUT: u64 = 600;
/// The original has no upper bound; an interval longer than the time-out means the time-out.
const INTERVALS: RangeInclusive<u64> = 5..=u32::MAX as u64;
const TIMEOUTS: RangeInclusive<u64> = 60..=1200;

/// Validated settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the Framework.
    pub namespace: String,
    /// The name of the Framework.
    pub name: String,
    /// The time between the first two queries.
    pub interval: Duration,
    /// The time after which the barrier gives up.
    pub timeout: Duration,
    /// The directory for the files, besides the working directory.
    pub mount: PathBuf,
    /// How the environment names the API server.
    pub directions: Directions,
}

/// Why the environment is not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A required variable is not set.
    #[error("{0} is not set: the controller sets it in every container of a Framework's Pods")]
    Missing(&'static str),
    /// A variable has a bad value.
    #[error("{name}={value:?} is not allowed, give {allowed}")]
    Bad {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: OsString,
        /// The allowed values.
        allowed: String,
    },
}

impl Settings {
    /// Reads the environment through `variable`. An empty variable counts as not set.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let read = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| read(name).and_then(|value| value.into_string().ok());
        let object = |name: &'static str, good: fn(&str) -> bool, allowed: &str| {
            let value = read(name).ok_or(Error::Missing(name))?;
            let bad = |value| Error::Bad { name, value, allowed: allowed.to_owned() };
            value
                .into_string()
                .map_err(bad)
                .and_then(|value| if good(&value) { Ok(value) } else { Err(bad(value.into())) })
        };
        Ok(Settings {
            namespace: object(
                variable::FRAMEWORK_NAMESPACE,
                is_dns_label,
                "a namespace: 1 to 63 lower-case letters, digits and dashes",
            )?,
            name: object(
                variable::FRAMEWORK_NAME,
                is_dns_word,
                "a Framework's name: 1 to 63 lower-case letters and digits",
            )?,
            interval: seconds(INTERVAL, read(INTERVAL), DEFAULT_INTERVAL, INTERVALS)?,
            timeout: seconds(TIMEOUT, read(TIMEOUT), DEFAULT_TIMEOUT, TIMEOUTS)?,
            mount: read(MOUNT).map_or_else(|| DEFAULT_MOUNT.into(), Into::into),
            directions: Directions {
                address: text("KUBE_APISERVER_ADDRESS"),
                kubeconfig_file: None,
                kubeconfig: read("KUBECONFIG"),
                context: None,
                home: read("HOME").map(Into::into),
                proxies: Variables::read(text),
            },
        })
    }
}

fn seconds(
    name: &'static str,
    value: Option<OsString>,
    default: u64,
    allowed: RangeInclusive<u64>,
) -> Result<Duration, Error> {
    let Some(value) = value else { return Ok(Duration::from_secs(default)) };
    let number = value.to_str().and_then(|text| text.parse().ok()).filter(|number| allowed.contains(number));
    number.map(Duration::from_secs).ok_or_else(|| {
        let allowed = format!("a number of seconds from {} to {}", allowed.start(), allowed.end());
        Error::Bad { name, value, allowed }
    })
}

/// Whether `name` may name a namespace.
fn is_dns_label(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(letters)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let known = [("FC_FRAMEWORK_NAMESPACE", "jobs"), ("FC_FRAMEWORK_NAME", "train")];
        let all: Vec<_> = variables.iter().chain(&known).collect();
        let value = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Settings::read(value).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_ten_seconds_and_ten_minutes() {
        let settings = read(&[("KUBECONFIG", "/k"), ("KUBE_APISERVER_ADDRESS", "10.0.0.1")]).unwrap();
        assert_eq!((settings.namespace.as_str(), settings.name.as_str()), ("jobs", "train"));
        assert_eq!((settings.interval.as_secs(), settings.timeout.as_secs()), (10, 600));
        assert_eq!(settings.directions.address.as_deref(), Some("10.0.0.1"));
        assert_eq!(settings.directions.kubeconfig, Some("/k".into()));
        assert_eq!(settings.mount, PathBuf::from("/mnt/frameworkbarrier"));
        assert_eq!(read(&[(MOUNT, "/data")]).unwrap().mount, PathBuf::from("/data"));
    }

    #[test]
    fn bounds_are_the_originals() {
        for (name, good, bad) in
            [(INTERVAL, ["5", "7200"], ["4", "-1"]), (TIMEOUT, ["60", "1200"], ["59", "1201"])]
        {
            for value in good {
                read(&[(name, value)]).unwrap();
            }
            for value in bad.into_iter().chain(["ten", "5s", "5.5"]) {
                let error = read(&[(name, value)]).unwrap_err();
                let expected = format!("{name}=\"{value}\" is not allowed, give a number of seconds from ");
                assert!(error.starts_with(&expected), "{error}");
            }
        }
    }

    #[test]
    fn a_framework_must_be_named_and_its_name_can_lead_nowhere_else() {
        let error = read(&[("FC_FRAMEWORK_NAME", "")]).unwrap_err();
        assert!(error.starts_with("FC_FRAMEWORK_NAME is not set: "), "{error}");
        let error = read(&[("FC_FRAMEWORK_NAMESPACE", "")]).unwrap_err();
        assert!(error.starts_with("FC_FRAMEWORK_NAMESPACE is not set: "), "{error}");
        for name in ["a/b", "a?b", "A", "../secrets"] {
            assert!(read(&[("FC_FRAMEWORK_NAME", name)]).unwrap_err().contains("is not allowed"), "{name}");
            assert!(read(&[("FC_FRAMEWORK_NAMESPACE", name)]).is_err(), "{name}");
        }
    }
}
