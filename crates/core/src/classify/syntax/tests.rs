//! A pattern finds the same text as Go's regexp, or the pattern is refused.

use regex::Regex;

use super::checked;

/// Pattern, text, and the match that RE2 finds.
const MEANINGS: &[(&str, &str, Option<&str>)] = &[
    // Literals and the usual operators.
    ("a.c", "xabcx", Some("abc")),
    ("a.c", "a\nc", None),
    ("(?s)a.c", "a\nc", Some("a\nc")),
    ("ab|cd*?", "cdd", Some("c")),
    ("(a|ab)(c|bcd)", "abcd", Some("abcd")),
    ("a{2,3}", "aaaa", Some("aaa")),
    ("a{2}?b", "aab", Some("aab")),
    ("a{2,}", "aaaa", Some("aaaa")),
    ("a#b c", "a#b c", Some("a#b c")),
    ("()", "a", Some("")),
    ("|a", "a", Some("")),
    ("]}", "]}", Some("]}")),
    // Ends: without m only the text's own, with it every line's.
    ("^b$", "a\nb", None),
    ("(?m)^b$", "a\nb\nc", Some("b")),
    ("b$", "b\n", None),
    (r"(?m)\Ab\z", "a\nb", None),
    // Flags last to the end of their group, over its alternatives.
    ("a(?i)b|c", "C", Some("C")),
    ("(a(?i)b)c", "aBC", None),
    ("(?i:a)b", "Ab", Some("Ab")),
    ("(?i-s:a.)", "A\n", None),
    ("(?U)a+", "aa", Some("a")),
    ("(?U)a+?", "aa", Some("aa")),
    ("(?i)straSSe", "STRASSE", Some("STRASSE")),
    // Perl classes are ASCII, and \s has no vertical tab.
    (r"\d", "٣", None),
    (r"\d+", "a12", Some("12")),
    (r"\D", "٣", Some("٣")),
    (r"\w", "é", None),
    (r"\W", "é", Some("é")),
    (r"\w+", "a_9-", Some("a_9")),
    (r"\s", "\u{a0}", None),
    (r"\s", "\x0b", None),
    (r"\s+", " \t\n\r\x0c", Some(" \t\n\r\x0c")),
    (r"\S", "\x0b", Some("\x0b")),
    (r"[\d-]+", "1-2", Some("1-2")),
    (r"[^\D5]+", "a1254", Some("12")),
    (r"[\s\S]+", "a\né", Some("a\né")),
    // So are word boundaries; a count on one is a count, a word in braces after one is text.
    (r"\bb", "éb", Some("b")),
    (r"a\b", "aé", Some("a")),
    (r"\Bb", "éb", None),
    (r"é\Bé", "éé", Some("éé")),
    (r"a\b{2}", "a", Some("a")),
    // Escaped punctuation is itself.
    (r"\_\-\.\/", "_-./", Some("_-./")),
    // Characters by number or letter.
    (r"\a\f\n\r\t\v", "\x07\x0c\n\r\t\x0b", Some("\x07\x0c\n\r\t\x0b")),
    (r"(?i)\x6b", "K", Some("K")),
    // Classes do not nest and have no operators.
    ("[]a]+", "a]", Some("a]")),
    ("[^]a]+", "a]b", Some("b")),
    ("[a-]+", "a-", Some("a-")),
    ("[-a]+", "a-", Some("a-")),
    ("[^a]", "\n", Some("\n")),
    ("[:alpha:]+", "lap:", Some("lap:")),
    ("[[:alpha:]_]+", "aZ_1", Some("aZ_")),
    ("[[:^alpha:]]+", "a12", Some("12")),
    ("[[:word:]]", "é", None),
    (r"[\]\\]+", r"]\", Some(r"]\")),
    (r"[\x41-\x43]+", "ABCD", Some("ABC")),
    ("(?i)[b-c]+", "aBC", Some("BC")),
    ("(?i)[^b]", "B", None),
    ("[a b]+", "a b", Some("a b")),
    // Unicode classes.
    (r"\pL+", "aé1", Some("aé")),
    (r"\PL+", "a12", Some("12")),
    (r"\p{Greek}", "λ", Some("λ")),
    (r"[\p{Lu}\pN]+", "aB2", Some("B2")),
    // The patterns of the default rules.
    (r"(?i)^OutOf\S+$", "OutOfcpu", Some("OutOfcpu")),
    ("(?ms).*", "a\nb", Some("a\nb")),
];

/// Patterns that RE2 refuses.
const REFUSED: &str = r"
    a\ \E \8 \1 (a)\1 \q \C \Z \G \h \x \x4 \x{} \x{110000} \u0041 \p \p{} \p{^}
    \p{gc=L} \pé \p{Nope} \é a** a*+ a+* a{2}{3} a??+ * (*a) |* a{2,1} a{1001} a{99999999999} (
    ) (? (?i (?x)a (?u)a (?R)a (?-u)a (?-)a (?i-)a (?i-:a) (?i--s)a (?=a) (?!a) (?<=a)b (?<!a)b
    (?>a) (?P=n) (?P<>a) (?<a-b>c) (?#c) [ [a [] [^] [z-a] [a--b] [a-\d] [[:nope:]] [\b] [\Qa\E]
    [\A] [a- [\ [a-\
";

/// Facts, one a line: `[pattern, text, the match of Go's regexp]`, or `[pattern]` if it refuses that.
const FACTS: &str = include_str!("../../../data/re2.jsonl");

/// Patterns that RE2 takes and that are refused here.
const REFUSED_HERE: [&str; 28] = [
    // Braces that open no count, and counts that RE2 takes for text.
    "{}",
    "a{1",
    "a{,2}",
    "a{01}",
    "a{ 1}",
    // Quotes, octal numbers, and a [, an operator or a - after a class within a class.
    r"\Qa.b\E",
    r"a\Q\E+",
    r"\0",
    r"\101",
    "[[a]b]",
    "[[:]+",
    "[a&&b]+",
    "[+--]+",
    "[a~~b]+",
    r"[\w-.]+",
    // Escapes that are assertions here and text in RE2.
    r"\<a\>",
    r"\b{start}a",
    // A negation within the braces, or the name of a group that begins with a digit.
    r"\p{^Greek}",
    r"\P{^Greek}",
    "(?<1>d)",
    // Flags that say nothing, or the same twice; repetitions after flags.
    "(?)a",
    "(?ii)a",
    "(?s-s)a.",
    "a(?i)*",
    "a(?i){2}",
    // Surrogates, which no text has, and patterns that would take too much memory.
    r"\p{Cs}",
    r"\x{D800}",
    r"\pL{1000}",
];

/// Each fact that Go accepts and that is refused here contains one of these.
const NOT_READ: [&str; 11] = ["{", r"\Q", r"\0", r"\101", r"\<", r"\>", "&&", "~~", "[[", "[^[", "<1n>"];

fn compile(pattern: &str) -> Result<Regex, String> {
    let checked = checked(pattern, 100)?;
    let mut builder = regex::RegexBuilder::new(&checked);
    builder.size_limit(super::super::regexes::REGEX_SIZE_LIMIT).build().map_err(|error| error.to_string())
}

/// The match of the pattern in the text: the whole of the first match.
fn find<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
    let regex = compile(pattern).unwrap_or_else(|reason| panic!("{pattern}: {reason}"));
    regex.find(text).map(|found| found.as_str())
}

#[test]
fn a_pattern_has_the_meaning_that_it_has_in_re2() {
    for (pattern, text, found) in MEANINGS {
        assert_eq!(find(pattern, text), *found, "{pattern} in {text:?}");
    }
}

#[test]
fn patterns_that_re2_refuses_are_refused() {
    for pattern in REFUSED.split_whitespace() {
        let verdict = compile(pattern);
        assert!(verdict.is_err(), "{pattern} was read as {verdict:?}");
    }
}

#[test]
fn go_reads_each_pattern_in_the_same_way() {
    let facts: Vec<Vec<Option<String>>> =
        FACTS.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let mut held = 0;
    // The facts of a pattern follow each other, so that it is compiled once.
    for facts in facts.chunk_by(|a, b| a[0] == b[0]) {
        let pattern = facts[0][0].as_deref().expect("a pattern");
        let regex = compile(pattern);
        for fact in facts {
            match (&fact[1..], &regex) {
                ([], regex) => assert!(regex.is_err(), "Go refuses {pattern}"),
                ([_, _], Err(reason)) => {
                    let is_refused = NOT_READ.iter().any(|construct| pattern.contains(construct));
                    assert!(is_refused || pattern.starts_with("[(?m))["), "{pattern}: {reason}");
                    continue;
                }
                ([text, expected], Ok(regex)) => {
                    let text = text.as_deref().expect("a text");
                    let found = regex.find(text).map(|found| found.as_str());
                    assert_eq!(found, expected.as_deref(), "{pattern} in {text:?}");
                }
                _ => panic!("{fact:?} is no fact"),
            }
            held += 1;
        }
    }
    assert!(held > 750, "{held} of {} facts", facts.len());
}

#[test]
fn constructs_that_both_engines_read_differently_are_refused() {
    for pattern in REFUSED_HERE {
        assert!(compile(pattern).is_err(), "{pattern} is read");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_check_panic(
        pattern in r"[a-z\\\[\](){}?*+|^$.:<>,\-&~#PQEbdpxiU0-9é]{0,24}",
    ) {
        let _ = compile(&pattern);
    }
}
