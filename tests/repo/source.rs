//! The source tree as the checks of its form see it: its files, and the code in them.
//!
//! Reading Rust goes no further than telling code from comments, literals and tests: enough to search words
//! without finding them in prose or in the samples of the checks themselves.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// A file of the tree.
pub struct File {
    /// Its path from the root of the tree.
    pub path: String,
    /// Its text; bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl File {
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is there for tests only.
    pub fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    /// The code outside of tests; line numbers are those of the file.
    pub fn product(&self) -> String {
        if self.is_test() {
            return String::new();
        }
        let mut code = code(&self.text);
        for range in tests(&code).collect::<Vec<_>>() {
            let blank = blanked(&code[range.clone()]);
            code.replace_range(range, &blank);
        }
        code
    }

    /// How many lines it has outside of tests.
    pub fn product_lines(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        let within: usize = tests(&code(&self.text)).map(|range| self.text[range].lines().count()).sum();
        self.text.lines().count() - within
    }
}

/// The root of the tree.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file that is in the repository or about to be: tracked, or new and not ignored.
pub fn files() -> Vec<File> {
    let listing = Command::new("git")
        // A tree that belongs to another user is read all the same, as on a build machine.
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("run git");
    assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
    let mut paths: Vec<_> =
        String::from_utf8(listing.stdout).expect("paths in UTF-8").split('\0').map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    // A tracked file may just have been deleted.
    let present = paths.into_iter().filter(|path| root().join(path).is_file());
    present.map(|path| File { text: read(&path), path }).collect()
}

fn read(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).expect("read a file of the tree");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text with comments and the insides of literals replaced by blanks of the same length.
pub fn code(text: &str) -> String {
    blank_out(text, |_| true)
}

/// The text with the insides of literals replaced by blanks of the same length.
pub fn without_literals(text: &str) -> String {
    blank_out(text, |token| !token.starts_with('/'))
}

fn blank_out(text: &str, unwanted: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // A comment and a literal begin with one of these. The millions of other bytes of the tree are skipped.
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'/' | b'"' | b'\'' | b'r')) {
        let (plain, from) = rest.split_at(at);
        let token = comment(from).or_else(|| literal(from));
        let (token, tail) = from.split_at(token.unwrap_or(1));
        out += plain;
        match token {
            _ if token.len() == 1 || !unwanted(token) => out += token,
            _ if token.starts_with('/') => out += &blanked(token),
            // The quotes stay, so that code before and after a literal is not joined.
            _ => out += &format!("\"{}\"", blanked(&token[1..token.len() - 1])),
        }
        rest = tail;
    }
    out + rest
}

fn blanked(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// The length of the comment that the text starts with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while let Some(pair) = text.as_bytes().get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    Some(text.len())
}

/// The length of the string or character literal that the text starts with.
fn literal(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r').map(|rest| rest.len() - rest.trim_start_matches('#').len());
    if let Some(hashes) = hashes.filter(|hashes| text[1 + hashes..].starts_with('"')) {
        let close = format!("\"{}", "#".repeat(hashes));
        let open = 1 + close.len();
        return Some(open + text[open..].find(&close)? + close.len());
    }
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let inside = &text[1..];
    if quote == '\'' && !inside.starts_with('\\') {
        let length = inside.chars().next()?.len_utf8();
        // Otherwise it is a lifetime.
        return inside[length..].starts_with('\'').then_some(length + 2);
    }
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote as u8 => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// The names of the functions that are tests, those of `proptest!` too, each with its line.
pub fn named_tests(text: &str) -> Vec<(usize, &str)> {
    let (mut names, mut marked) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| marked) {
            names.extend(rest.split(['(', '<']).next().map(|name| (number, name)));
            marked = false;
        }
    }
    names
}

/// The items of the code that only tests see.
fn tests(code: &str) -> impl Iterator<Item = Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + code[from..].find(MARK)?;
        let body = start + MARK.len();
        let end = code[body..].find(['{', ';']).map_or(code.len(), |open| body + open);
        from = if code[end..].starts_with('{') { block_end(code, end) } else { (end + 1).min(code.len()) };
        Some(start..from)
    })
}

/// Where the block ends that opens at `open`.
pub fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The numbers of the lines for which `holds` is true.
pub fn lines<'a>(text: &'a str, mut holds: impl FnMut(&'a str) -> bool) -> Vec<usize> {
    (1..).zip(text.lines()).filter(|(_, line)| holds(line)).map(|(number, _)| number).collect()
}

/// Whether `word` stands in the line and is not the end of a longer word.
pub fn has_word(line: &str, word: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(inside))
}
