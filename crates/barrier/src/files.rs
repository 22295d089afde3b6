//! Writes `framework.json` and `injector.sh` into the given directories.
//!
//! A file is there whole and with its mode, or not at all: a restarted init container, or an early reader,
//! finds no partial file. `injector.sh` is written last.

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
    /// A directory cannot be made.
    #[error(
        "cannot create the directory {}: {source}; mount a volume there, such as an emptyDir, or run as a \
         user with permission to create it", path.display()
    )]
    NoDirectory {
        /// The directory.
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

/// Writes both files into every directory, and makes the directories that do not exist.
pub fn write(dirs: &[PathBuf], framework: &[u8], injector: &str) -> Result<(), Error> {
    for dir in dirs {
        fs::create_dir_all(dir).map_err(|source| Error::NoDirectory { path: dir.clone(), source })?;
    }
    for (name, content, mode) in [(FRAMEWORK, framework, 0o644), (INJECTOR, injector.as_bytes(), 0o755)] {
        for dir in dirs {
            let path = dir.join(name);
            write_whole(&path, content, mode).map_err(|source| Error::NotWritten { path, source })?;
        }
    }
    Ok(())
}

fn write_whole(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    fs::write(&partial, content)?;
    // Independent of the umask: another user may have to read it.
    fs::set_permissions(&partial, fs::Permissions::from_mode(mode))?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_in_every_directory_whole_and_with_their_modes() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().to_owned(), dir.path().join("mnt/frameworkbarrier")];
        for round in ["first", "the second"] {
            write(&dirs, b"{}", round).unwrap();
            for dir in &dirs {
                let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
                assert_eq!((mode(FRAMEWORK), mode(INJECTOR)), (0o644, 0o755));
                assert_eq!(fs::read_to_string(dir.join(INJECTOR)).unwrap(), round);
                assert_eq!(fs::read(dir.join(FRAMEWORK)).unwrap(), b"{}");
            }
        }
        let names: Vec<_> = fs::read_dir(&dirs[1]).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "nothing else is left behind: {names:?}");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named_with_a_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let dir = file.path().join("mnt");
        let error = write(std::slice::from_ref(&dir), b"{}", "").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot create the directory {}: ", dir.display())), "{error}");
        assert!(error.contains("mount a volume there"), "{error}");
    }
}
