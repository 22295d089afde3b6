//! The Go toolchain, which builds the programs of the control plane.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::error::Error;

/// The first minor version that fetches the version which a go.mod names, or says that it must not.
const LEAST: u32 = 21;

/// An error that says how to install it unless it is there.
pub(crate) fn require() -> Result<(), Error> {
    let said = match Command::new("go").arg("version").stderr(Stdio::null()).output() {
        Ok(output) => output.stdout,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Error::GoMissing),
        Err(source) => return Err(Error::Io { step: "running go".into(), source }),
    };
    match too_old(&String::from_utf8_lossy(&said)) {
        Some(found) => Err(Error::GoTooOld { found }),
        None => Ok(()),
    }
}

/// The version in the output of `go version`, if such a Go does not understand our go.mod files.
fn too_old(said: &str) -> Option<String> {
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("go1."))?;
    let minor: u32 = version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()?;
    (minor < LEAST).then(|| format!("1.{version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_go_that_cannot_read_our_modules_is_too_old() {
        let of = |version: &str| too_old(&format!("go version {version} linux/amd64\n"));
        assert_eq!(of("go1.19.8").as_deref(), Some("1.19.8"));
        assert_eq!(of("go1.20").as_deref(), Some("1.20"));
        for new in ["go1.21.0", "go1.26rc1", "devel go1.27-0a1b2c3", "go2.0"] {
            assert_eq!(of(new), None, "{new}");
        }
        assert_eq!(too_old(""), None, "a Go that says nothing is tried");
    }
}
