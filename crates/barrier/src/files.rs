//! `framework.json` and `injector.sh`, each in every place that wants it.
//!
//! A file is there whole or not at all, and with its mode: an init container that is started again, or a
//! reader that comes too early, finds no half of one. `injector.sh` comes last.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The Framework, decompressed.
pub const FRAMEWORK: &str = "framework.json";
/// The script to source.
pub const INJECTOR: &str = "injector.sh";

/// Why a file is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A place cannot be made.
    #[error(
        "cannot make the directory {}: {source}; mount a volume there, such as an emptyDir, or run as a user \
         who may make it", path.display()
    )]
    NoPlace {
        /// The place.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(
        "cannot write {}: {source}; let its directory be writable for the user of this container",
        path.display()
    )]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Writes both files into every place, and makes the places that are not there.
pub fn write(places: &[PathBuf], framework: &[u8], injector: &str) -> Result<(), Error> {
    for place in places {
        fs::create_dir_all(place).map_err(|source| Error::NoPlace { path: place.clone(), source })?;
    }
    for (name, content, mode) in [(FRAMEWORK, framework, 0o644), (INJECTOR, injector.as_bytes(), 0o755)] {
        for place in places {
            let path = place.join(name);
            write_whole(&path, content, mode).map_err(|source| Error::NotWritten { path, source })?;
        }
    }
    Ok(())
}

fn write_whole(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    fs::write(&partial, content)?;
    // Whatever the umask is: another user may have to read it.
    fs::set_permissions(&partial, fs::Permissions::from_mode(mode))?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_in_every_place_whole_and_with_their_modes() {
        let dir = tempfile::tempdir().unwrap();
        let places = [dir.path().to_owned(), dir.path().join("mnt/frameworkbarrier")];
        for round in ["first", "the second"] {
            write(&places, b"{}", round).unwrap();
            for place in &places {
                let mode = |name: &str| fs::metadata(place.join(name)).unwrap().permissions().mode() & 0o777;
                assert_eq!((mode(FRAMEWORK), mode(INJECTOR)), (0o644, 0o755));
                assert_eq!(fs::read_to_string(place.join(INJECTOR)).unwrap(), round);
                assert_eq!(fs::read(place.join(FRAMEWORK)).unwrap(), b"{}");
            }
        }
        let names: Vec<_> =
            fs::read_dir(&places[1]).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "nothing else is left behind: {names:?}");
    }

    #[test]
    fn a_place_that_cannot_be_made_is_named_with_what_helps() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let place = file.path().join("mnt");
        let error = write(std::slice::from_ref(&place), b"{}", "").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot make the directory {}: ", place.display())), "{error}");
        assert!(error.contains("mount a volume there"), "{error}");
    }
}
