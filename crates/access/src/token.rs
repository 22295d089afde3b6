//! The bearer token in a file that others renew.
//!
//! The file is read again within a minute, also after the clock of the machine was set back. kube's own
//! reader then waits until the clock is where it was, with a token that expires meanwhile. White space
//! around the token is no part of it. A file without a token leaves the last one in use.

use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use kube::config::AuthInfo;

/// How long a token is used until its file is read again.
const PERIOD: Duration = Duration::from_secs(50);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the token in {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is empty, or has characters that no header may have.
    #[error("no token in {}", .0.display())]
    NoToken(PathBuf),
}

/// The token of a file.
#[derive(Clone)]
pub(crate) struct TokenFile(Arc<Mutex<Reading>>);

/// The file as it was read last.
struct Reading {
    path: PathBuf,
    header: HeaderValue,
    at: SystemTime,
}

impl TokenFile {
    /// Takes the file out of the account, if kube would use it. `None`: the account has no such file, or
    /// something that takes precedence.
    pub fn take(account: &mut AuthInfo) -> Result<Option<Self>, Error> {
        let has_password = account.username.is_some() && account.password.is_some();
        if has_password || account.token.is_some() || account.auth_provider.is_some() {
            return Ok(None);
        }
        let Some(file) = account.token_file.take() else { return Ok(None) };
        // The file takes precedence over a plugin, which kube would run without it.
        account.exec = None;
        let (path, at) = (PathBuf::from(file), SystemTime::now());
        let header = read(&path)?;
        Ok(Some(Self(Arc::new(Mutex::new(Reading { path, header, at })))))
    }

    /// Gives a request the token.
    pub fn authorize<B>(&self, request: &mut http::Request<B>) {
        request.headers_mut().insert(AUTHORIZATION, self.header(SystemTime::now()));
    }

    fn header(&self, now: SystemTime) -> HeaderValue {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // There is no age after the clock was set back.
        if !now.duration_since(last.at).is_ok_and(|age| age < PERIOD) {
            last.at = now;
            if let Ok(header) = read(&last.path) {
                last.header = header;
            }
        }
        last.header.clone()
    }
}

fn read(path: &Path) -> Result<HeaderValue, Error> {
    let text = read_to_string(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    let token = text.trim();
    let header = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| !token.is_empty());
    let mut header = header.ok_or_else(|| Error::NoToken(path.to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(file: &Path) -> AuthInfo {
        AuthInfo { token_file: Some(file.display().to_string()), ..AuthInfo::default() }
    }

    #[test]
    fn a_renewed_token_is_read_also_after_the_clock_was_set_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let token = TokenFile::take(&mut account(file.path())).unwrap().unwrap();
        let start = token.0.lock().unwrap().at;
        let (second, day) = (Duration::from_secs(1), Duration::from_secs(24 * 3600));
        std::fs::write(file.path(), "second").unwrap();
        assert_eq!(token.header(start + PERIOD - second), "Bearer first");
        assert_eq!(token.header(start + PERIOD), "Bearer second");
        std::fs::write(file.path(), " third \r\n").unwrap();
        assert_eq!(token.header(start - day), "Bearer third");
        std::fs::write(file.path(), "fourth").unwrap();
        assert_eq!(token.header(start - day + second), "Bearer third", "it was just read");
        assert_eq!(token.header(start - day + PERIOD), "Bearer fourth");
    }

    #[test]
    fn a_file_without_a_token_leaves_the_last_one_in_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first").unwrap();
        let token = TokenFile::take(&mut account(file.path())).unwrap().unwrap();
        let start = token.0.lock().unwrap().at;
        for (nth, text) in (1_u32..).zip(["", "\n", "two\nlines"]) {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(token.header(start + PERIOD * nth), "Bearer first", "{text:?}");
            let error = TokenFile::take(&mut account(file.path())).err().unwrap().to_string();
            assert_eq!(error, format!("no token in {}", file.path().display()));
        }
        let path = file.path().to_owned();
        drop(file);
        assert_eq!(token.header(start + PERIOD * 9), "Bearer first");
        let error = TokenFile::take(&mut account(&path)).err().unwrap().to_string();
        assert!(error.starts_with(&format!("cannot read the token in {}: ", path.display())), "{error}");
    }

    #[test]
    fn a_token_beside_the_file_takes_precedence() {
        let mut both = AuthInfo { token: Some("inline".to_owned().into()), ..account(Path::new("/nowhere")) };
        assert!(TokenFile::take(&mut both).unwrap().is_none());
        assert!(both.token_file.is_some() && both.token.is_some(), "kube reads it");
        assert!(TokenFile::take(&mut AuthInfo::default()).unwrap().is_none());
    }
}
