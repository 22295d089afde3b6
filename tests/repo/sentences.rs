//! A sentence of the documents, or of a doc comment of the product, has at most 30 words.
//!
//! Code counts as one word. A sentence ends with its cell of a table. Headings, code blocks and generated
//! parts of a page are not read.

use crate::source::{self, File};
use crate::tables::cells;

/// The words of a sentence, at most.
const WORDS: usize = 30;
/// The pages beside those in `docs/`.
const PAGES: [&str; 3] = ["CONTRIBUTING.md", "README.md", "SECURITY.md"];

/// The paragraphs, items of lists and cells of tables of a page, each with the number of its first line.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut goes_on, mut is_code, mut is_generated) = (false, false, false);
    for (number, whole) in (1..).zip(lines) {
        let line = whole.trim();
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if line.starts_with("<!-- Generated ") {
            is_generated = !line.starts_with("<!-- Generated until here");
        }
        // Such a line within a paragraph goes on with it.
        let is_indented_code = !goes_on && whole.starts_with("    ");
        let is_other = is_fence || line.is_empty() || line.starts_with('#') || line.starts_with("<!--");
        if is_code || is_generated || is_indented_code || is_other {
            goes_on = false;
            continue;
        }
        if line.starts_with('|') {
            found.extend(cells(line).into_iter().map(|cell| (number, cell)));
            goes_on = false;
            continue;
        }
        let item = item(line);
        if !goes_on || item.is_some() {
            found.push((number, item.unwrap_or(line).to_owned()));
        } else if let Some((_, text)) = found.last_mut() {
            text.push(' ');
            text.push_str(line);
        }
        goes_on = true;
    }
    found
}

/// The text of an item of a list that begins on this line.
fn item(line: &str) -> Option<&str> {
    let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    let numbered = || {
        let (number, text) = line.split_once(". ")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
    };
    bullet.or_else(numbered)
}

/// A paragraph with one word for each piece of code, and without the targets of links.
fn plain(paragraph: &str) -> String {
    let pieces = paragraph.split('`').enumerate();
    let text: String = pieces.map(|(at, piece)| if at % 2 == 0 { piece } else { "code" }).collect();
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    plain
}

/// How many words each sentence has, and its first words.
fn sentences(paragraph: &str) -> Vec<(usize, String)> {
    let text = plain(paragraph);
    let mut sentences = vec![Vec::new()];
    for word in text.split_whitespace() {
        if let Some(sentence) = sentences.last_mut().filter(|_| word.contains(char::is_alphanumeric)) {
            sentence.push(word);
        }
        if word.trim_end_matches(['"', '\'', ')', ']', '*', '_']).ends_with(['.', '!', '?']) {
            sentences.push(Vec::new());
        }
    }
    let begin = |words: &Vec<&str>| words.iter().take(6).copied().collect::<Vec<_>>().join(" ");
    sentences.iter().map(|words| (words.len(), begin(words))).collect()
}

/// The text of a line of a doc comment, empty for any other line.
fn doc_comment(line: &str) -> &str {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default()
}

/// The sentences of a file that are too long.
fn long(file: &File) -> Vec<String> {
    let is_document = file.path.starts_with("docs/") && file.path.ends_with(".md");
    let paragraphs = if is_document || PAGES.contains(&file.path.as_str()) {
        paragraphs(file.text.lines())
    } else if file.is_rust() && !file.is_test() {
        paragraphs(file.text.lines().map(doc_comment))
    } else {
        Vec::new()
    };
    let mut wrong = Vec::new();
    for (line, paragraph) in paragraphs {
        for (words, begin) in sentences(&paragraph).into_iter().filter(|(words, _)| *words > WORDS) {
            wrong.push(format!("{}:{line}: {words} words: {begin} ...", file.path));
        }
    }
    wrong
}

#[test]
fn no_sentence_of_a_document_or_a_doc_comment_has_more_than_30_words() {
    let files = source::files();
    assert!(files.iter().any(|file| file.path == "docs/architecture.md"), "the tree was not found");
    assert!(PAGES.iter().all(|page| files.iter().any(|file| file.path == *page)), "a page was not found");
    let wrong: Vec<String> = files.iter().flat_map(long).collect();
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

#[test]
fn sentences_end_at_stops_and_code_is_one_word() {
    let counts = |text: &str| sentences(text).into_iter().map(|(words, _)| words).collect::<Vec<_>>();
    assert_eq!(counts("One two. Three (four.) `five six. seven` eight"), [2, 2, 2]);
    assert_eq!(counts("See [the page](a/b.md): 1.5 s – or more?"), [7, 0]);
    assert_eq!(counts("A `b` **c.** D"), [3, 1]);
}

#[test]
fn paragraphs_leave_out_what_is_no_sentence() {
    let page = "# Head\n\na\nb\n- c\n    d\n2. e\n\n```sh\ng\n\n```\nh\n<!-- note -->\ni\n\
                <!-- Generated from x -->\nj\n<!-- Generated until here. -->\nk\n\
                \n    code\n\n    code\nl\n<!-- Generated by y -->\nm\n";
    let found = paragraphs(page.lines());
    let found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
    assert_eq!(found, [(3, "a b"), (5, "c d"), (7, "e"), (13, "h"), (15, "i"), (19, "k"), (24, "l")]);
}

#[test]
fn each_cell_of_a_table_is_read_alone() {
    let found = paragraphs("a\n| b | c \\| d |\n|---|---|\n| e |  |\nf\n".lines());
    let found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
    let expected = [(1, "a"), (2, "b"), (2, "c | d"), (3, "---"), (3, "---"), (4, "e"), (4, ""), (5, "f")];
    assert_eq!(found, expected);
}

#[test]
fn a_long_sentence_is_found_in_a_page_and_in_a_doc_comment() {
    let (fits, long_one) = (["word"; 30].join(" "), ["word"; 31].join(" "));
    assert_eq!(long(&file("docs/a.md", &format!("{fits}. {fits}\n"))), [""; 0]);
    let finding =
        |path: &str, line: usize| [format!("{path}:{line}: 31 words: word word word word word word ...")];
    assert_eq!(long(&file("docs/manual/a.md", &format!("\n{long_one}.\n"))), finding("docs/manual/a.md", 2));
    assert_eq!(long(&file("README.md", &format!("| {fits} | {fits} |\n"))), [""; 0]);
    assert_eq!(long(&file("README.md", &format!("| a | {long_one} |\n"))), finding("README.md", 1));
    let code = format!("//! A.\n\nfn a() {{\n    // {long_one}\n}}\n\n/// {long_one}\nfn b() {{}}\n");
    assert_eq!(long(&file("src/a.rs", &code)), finding("src/a.rs", 7));
    assert_eq!(long(&file("tests/a.rs", &code)), [""; 0]);
    assert_eq!(long(&file("NOTES.md", &long_one)), [""; 0]);
}
