//! Layers: compressed tars of files, and content by its digest.

use std::fs;
use std::io;
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

/// A file or a directory of an image.
pub(crate) struct Entry {
    /// Its path from the root directory.
    path: String,
    mode: u32,
    /// None for a directory.
    content: Option<Vec<u8>>,
}

impl Entry {
    pub(crate) fn directory(path: &str) -> Entry {
        Entry { path: format!("{path}/"), mode: 0o755, content: None }
    }

    pub(crate) fn program(path: &str, content: Vec<u8>) -> Entry {
        Entry { path: path.to_owned(), mode: 0o755, content: Some(content) }
    }

    /// Everything below a directory, in the order of the names.
    pub(crate) fn all_of(directory: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        collect(directory, "", &mut entries)?;
        Ok(entries)
    }
}

fn collect(directory: &Path, prefix: &str, entries: &mut Vec<Entry>) -> io::Result<()> {
    let mut names: Vec<String> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    for name in names {
        let (file, path) = (directory.join(&name), format!("{prefix}{name}"));
        if file.is_dir() {
            entries.push(Entry::directory(&path));
            collect(&file, &format!("{path}/"), entries)?;
        } else {
            entries.push(Entry { path, mode: 0o644, content: Some(fs::read(&file)?) });
        }
    }
    Ok(())
}

/// The header of an entry in a tar: owner, group and time are 0.
pub(crate) fn header(kind: EntryType, mode: u32, content: &[u8]) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    header
}

/// Bytes, and the digest that names them.
pub(crate) struct Blob {
    /// In hexadecimal digits, without the name of the algorithm.
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

impl Blob {
    pub(crate) fn of(bytes: Vec<u8>) -> Blob {
        Blob { digest: digest(&bytes), bytes }
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A layer.
pub(crate) struct Layer {
    /// The compressed tar.
    pub(crate) blob: Blob,
    /// The digest of the tar before compression.
    pub(crate) difference: String,
}

impl Layer {
    pub(crate) fn of(entries: &[Entry]) -> io::Result<Layer> {
        let mut tar = tar::Builder::new(Vec::new());
        for Entry { path, mode, content } in entries {
            let kind = if content.is_some() { EntryType::Regular } else { EntryType::Directory };
            let content = content.as_deref().unwrap_or_default();
            let mut header = header(kind, *mode, content);
            tar.append_data(&mut header, path, content)?;
        }
        let tar = tar.into_inner()?;
        // The header of gzip has no time and no name unless they are set.
        let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
        io::Write::write_all(&mut compressed, &tar)?;
        Ok(Layer { blob: Blob::of(compressed.finish()?), difference: format!("sha256:{}", digest(&tar)) })
    }
}
