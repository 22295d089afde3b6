//! The trace: every request, reply, fault, change and watch event with its virtual time, and a digest of
//! all of it, by which two runs are compared.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// One line of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Virtual microseconds since the simulation began.
    pub micros: u64,
    /// The text of the line.
    pub note: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} µs  {}", self.micros, self.note)
    }
}

/// Collects the entries and their digest.
#[derive(Debug)]
pub(crate) struct Trace {
    entries: Vec<Entry>,
    keep: bool,
    digest: Digest,
    line: String,
}

impl Trace {
    /// A trace that keeps its entries, or only their digest.
    pub(crate) fn new(keep: bool) -> Self {
        Self { entries: Vec::new(), keep, digest: Digest::new(), line: String::new() }
    }

    /// Adds a line.
    pub(crate) fn note(&mut self, at: Duration, note: fmt::Arguments<'_>) {
        let micros = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        self.line.clear();
        // Writing into a String cannot fail.
        let _ = self.line.write_fmt(note);
        self.digest.add(&micros.to_le_bytes());
        self.digest.add(self.line.as_bytes());
        if self.keep {
            self.entries.push(Entry { micros, note: self.line.clone() });
        }
    }

    /// Adds bytes that are too long to show, such as a body, to the digest alone.
    pub(crate) fn absorb(&mut self, bytes: &[u8]) {
        self.digest.add(bytes);
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.0
    }
}

/// A fast hash that is the same in every process. Not for adversaries.
#[derive(Debug)]
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let rest = rest.iter().fold(1_u64, |word, byte| word << 8 | u64::from(*byte));
        self.mix(rest);
        self.mix(bytes.len() as u64);
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x2545_f491_4f6c_dd1d);
        self.0 = mixed ^ mixed.rotate_left(29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_order_and_on_every_byte() {
        let digest = |parts: &[&str]| {
            let mut trace = Trace::new(false);
            for part in parts {
                trace.note(Duration::ZERO, format_args!("{part}"));
            }
            trace.digest()
        };
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
        assert_ne!(digest(&["ab", ""]), digest(&["a", "b"]));
        assert_ne!(digest(&["12345678x"]), digest(&["12345678y"]));
    }
}
