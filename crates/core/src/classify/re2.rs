//! Regexes with RE2 syntax, as config files have them, in the words of the `regex` crate.
//!
//! Both engines find the same leftmost-first match, but read some patterns differently: `\d`, `\w`, `\s` and
//! `\b` are ASCII in RE2, `\<` is a plain `<`, `[[a]` and `[a&&b]` are plain sets of characters, `\Q..\E`
//! quotes. So nothing is passed on as it stands: the pattern is read as RE2 reads it and written anew, each
//! literal as itself or by number. What RE2 would refuse is refused here, with the reason; so is a repetition
//! right after flags (`a(?i)*`), which RE2 takes and nobody means.
//!
//! Groups are written without a capture, as only the whole match is ever asked for. The work is one pass
//! without recursion: the depth of groups is the engine's to limit.
//!
//! `data/re2.jsonl` holds what Go's `regexp`, which the original uses, makes of each construct; a test
//! compares.

use std::fmt::Write;

use regex::Regex;

/// The most that a counted repetition may ask for in RE2.
const MOST_REPETITIONS: u32 = 1000;

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// The same pattern for the `regex` crate, or why RE2 has no such pattern.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let out = String::with_capacity(2 * pattern.len());
    let mut translation = Translation { rest: pattern, out, counts: Counts::default() };
    let mut after_repetition = false;
    while let Some(c) = translation.next() {
        after_repetition = translation.item(c, after_repetition)?;
    }
    Ok(translation.out)
}

struct Translation<'p> {
    rest: &'p str,
    out: String,
    counts: Counts,
}

/// How often something is asked for within the item before, the counts of what is nested multiplied.
#[derive(Default)]
struct Counts {
    last: u32,
    /// The most within each group that is open, from the outermost.
    open: Vec<u32>,
}

impl Counts {
    fn item(&mut self, count: u32) {
        self.last = count;
        if let Some(most) = self.open.last_mut() {
            *most = count.max(*most);
        }
    }

    fn close(&mut self) {
        let most = self.open.pop().unwrap_or(1);
        self.item(most);
    }
}

impl<'p> Translation<'p> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.eat(c);
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes everything up to `end`, and `end` itself.
    fn take_until(&mut self, end: &str) -> Option<&'p str> {
        let (taken, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(taken)
    }

    /// One item outside of a class; says whether it was a repetition, after which no other may stand.
    fn item(&mut self, c: char, after_repetition: bool) -> Result<bool, String> {
        match c {
            '*' | '+' | '?' => {
                self.out.push(c);
                self.end_repetition(after_repetition)?;
                return Ok(true);
            }
            '(' => {
                self.group()?;
                return Ok(false);
            }
            ')' => {
                self.out.push(c);
                self.counts.close();
                return Ok(false);
            }
            '{' => {
                if let Some(bounds) = self.bounds() {
                    self.repeat(bounds)?;
                    self.end_repetition(after_repetition)?;
                    return Ok(true);
                }
                self.literal(c);
            }
            '\\' => self.escape()?,
            '[' => self.class()?,
            '.' | '^' | '$' | '|' => self.out.push(c),
            c => self.literal(c),
        }
        self.counts.item(1);
        Ok(false)
    }

    /// Writes a character so that it has no meaning but itself, inside and outside of a class.
    fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.out.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(self.out, r"\x{{{:X}}}", u32::from(c));
        }
    }

    fn end_repetition(&mut self, after_repetition: bool) -> Result<(), String> {
        if after_repetition {
            return Err("a repetition is repeated".to_owned());
        }
        if self.eat('?') {
            self.out.push('?');
        }
        Ok(())
    }

    /// Takes `n}`, `n,}` or `n,m}`; anything else after a brace makes the brace a literal.
    fn bounds(&mut self) -> Option<(u32, Option<u32>)> {
        let (inside, rest) = self.rest.split_once('}')?;
        let bounds = match inside.split_once(',') {
            None => (count(inside)?, Some(count(inside)?)),
            Some((least, "")) => (count(least)?, None),
            Some((least, most)) => (count(least)?, Some(count(most)?)),
        };
        self.rest = rest;
        Some(bounds)
    }

    fn repeat(&mut self, (least, most): (u32, Option<u32>)) -> Result<(), String> {
        let highest = most.unwrap_or(least);
        if least > highest || highest > MOST_REPETITIONS {
            return Err(format!("a count of repetitions is not ordered, or above {MOST_REPETITIONS}"));
        }
        // Without an upper end and with none below, it is a star: nothing is counted.
        let factor = if most.is_none() { least.max(1) } else { highest };
        let total = factor * self.counts.last;
        if total > MOST_REPETITIONS {
            return Err(format!("counts of repetitions multiply to {total}, above {MOST_REPETITIONS}"));
        }
        self.counts.item(total);
        let most = most.map_or_else(String::new, |most| most.to_string());
        let _ = write!(self.out, "{{{least},{most}}}");
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.next() {
            None => return Err("it ends in a backslash".to_owned()),
            Some('A') => self.out.push_str(r"\A"),
            Some('z') => self.out.push_str(r"\z"),
            Some('b') => self.out.push_str(r"(?-u:\b)"),
            Some('B') => self.out.push_str(r"(?-u:\B)"),
            Some('Q') => {
                let quoted = self.take_until(r"\E").unwrap_or_else(|| std::mem::take(&mut self.rest));
                quoted.chars().for_each(|c| self.literal(c));
            }
            Some(c) => {
                if !self.named_class(c)? {
                    let c = self.escaped(c)?;
                    self.literal(c);
                }
            }
        }
        Ok(())
    }

    /// Writes the class that `\c` names; false if it names none.
    fn named_class(&mut self, c: char) -> Result<bool, String> {
        let class = match c {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => r"[\t\n\x0C\r ]",
            'S' => r"[^\t\n\x0C\r ]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            'p' | 'P' => return self.property(c == 'P').map(|()| true),
            _ => return Ok(false),
        };
        self.out.push_str(class);
        Ok(true)
    }

    /// `\pN`, `\p{Name}`, `\p{^Name}`: a Unicode category or script.
    fn property(&mut self, negated: bool) -> Result<(), String> {
        let name = match self.next() {
            Some('{') => self.take_until("}").unwrap_or_default().to_owned(),
            Some(letter) => letter.to_string(),
            None => String::new(),
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name.as_str(), negated),
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(r"\p names no Unicode class".to_owned());
        }
        // The engine knows other properties too, and reads some names as one of those.
        let known = |kind: &&str| Regex::new(&format!(r"\p{{{kind}={name}}}")).is_ok();
        let kind = ["gc", "sc"].into_iter().find(known);
        let kind = kind.ok_or_else(|| format!(r"\p{{{name}}} is not a class of RE2"))?;
        let letter = if negated { 'P' } else { 'p' };
        let _ = write!(self.out, r"\{letter}{{{kind}={name}}}");
        Ok(())
    }

    /// The character that `\c` stands for.
    fn escaped(&mut self, c: char) -> Result<char, String> {
        let unknown = || format!(r"\{c} is not an escape of RE2");
        match c {
            'a' => Ok('\x07'),
            'f' => Ok('\x0C'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\x0B'),
            'x' => self.hexadecimal().ok_or_else(unknown),
            // A lone digit would be a backreference, which RE2 does not have.
            '1'..='7' if !self.rest.starts_with(|c| matches!(c, '0'..='7')) => Err(unknown()),
            '0'..='7' => self.octal(c).ok_or_else(unknown),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok(c),
            _ => Err(unknown()),
        }
    }

    fn octal(&mut self, first: char) -> Option<char> {
        let mut number = first.to_digit(8)?;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            self.next();
            number = number * 8 + digit;
        }
        char::from_u32(number)
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let number = if self.eat('{') {
            let digits = self.take_until("}")?;
            if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return None;
            }
            u32::from_str_radix(digits, 16).ok()?
        } else {
            16 * self.next()?.to_digit(16)? + self.next()?.to_digit(16)?
        };
        char::from_u32(number)
    }

    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.eat('^') {
            self.out.push('^');
        }
        let mut first = true;
        // A bracket that closes at once is a literal one.
        while first || !self.eat(']') {
            first = false;
            self.class_item()?;
        }
        self.out.push(']');
        Ok(())
    }

    fn class_item(&mut self) -> Result<(), String> {
        if let Some((name, rest)) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
            if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                return Err(format!("[:{name}:] is not a class of RE2"));
            }
            self.rest = rest;
            let _ = write!(self.out, "[:{name}:]");
            return Ok(());
        }
        let low = match self.next() {
            Some('\\') => {
                let c = self.next().ok_or("it ends in a backslash")?;
                if self.named_class(c)? {
                    return Ok(());
                }
                self.escaped(c)?
            }
            Some(c) => c,
            None => return Err("a [ is not closed".to_owned()),
        };
        self.literal(low);
        if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest != "-" {
            self.eat('-');
            let high = match self.next() {
                Some('\\') => {
                    let c = self.next().ok_or("it ends in a backslash")?;
                    self.escaped(c)?
                }
                Some(c) => c,
                None => return Err("a [ is not closed".to_owned()),
            };
            if high < low {
                return Err(format!("the range {low}-{high} is not ordered"));
            }
            self.out.push('-');
            self.literal(high);
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        if !self.eat('?') {
            self.open("(?:");
            return Ok(());
        }
        let Some(named) = self.rest.strip_prefix("P<").or_else(|| self.rest.strip_prefix('<')) else {
            return self.flags();
        };
        self.rest = named;
        let name = self.take_until(">").unwrap_or_default();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("the name of a group is not a word, or (?< is meant to look behind".to_owned());
        }
        self.open("(?:");
        Ok(())
    }

    fn open(&mut self, group: &str) {
        self.out.push_str(group);
        self.counts.open.push(0);
    }

    /// `(?flags)` or `(?flags:`: of the same flag given twice the last holds.
    fn flags(&mut self) -> Result<(), String> {
        let mut flags = [('i', None), ('m', None), ('s', None), ('U', None)];
        let mut on = true;
        let mut dangling = false;
        let end = loop {
            match self.next() {
                Some('-') if on => (on, dangling) = (false, true),
                Some(end @ (':' | ')')) if !dangling => break end,
                Some(c) => {
                    let flag = flags.iter_mut().find(|(flag, _)| *flag == c);
                    flag.ok_or_else(|| format!("(?{c} is not a group of RE2"))?.1 = Some(on);
                    dangling = false;
                }
                None => return Err("a (? is not closed".to_owned()),
            }
        };
        let with = |wanted| flags.iter().filter(move |(_, set)| *set == Some(wanted)).map(|(flag, _)| *flag);
        let (set, unset): (String, String) = (with(true).collect(), with(false).collect());
        let dash = if unset.is_empty() { "" } else { "-" };
        // The engine refuses a group that sets nothing; it has no effect.
        let flags = format!("(?{set}{dash}{unset}{end}");
        if end == ':' {
            self.open(&flags);
        } else if !set.is_empty() || !unset.is_empty() {
            self.out.push_str(&flags);
        }
        Ok(())
    }
}

/// A count of repetitions: digits without a leading zero. One too big for a number is too big for RE2 too.
fn count(digits: &str) -> Option<u32> {
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let padded = digits.len() > 1 && digits.starts_with('0');
    (number && !padded).then(|| digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pattern, text, and what RE2 finds there.
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
        ("(?P<w>b)(?<v>c)(?<1>d)", "abcd", Some("bcd")),
        ("()", "a", Some("")),
        ("|a", "a", Some("")),
        // A brace that opens no count is a brace; so is a leading zero's.
        ("a{,2}", "a{,2}", Some("a{,2}")),
        ("a{01}", "a{01}", Some("a{01}")),
        ("{}", "{}", Some("{}")),
        ("a{1", "a{1", Some("a{1")),
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
        ("(?s-s)a.", "a\n", None),
        ("(?ii)a", "A", Some("A")),
        ("(?)a", "a", Some("a")),
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
        (r"\b{start}a", "{start}a", None),
        (r"a\b{start}", "a{start}", Some("a{start}")),
        (r"a\b{2}", "a", Some("a")),
        // Escaped punctuation is itself.
        (r"\<a\>", "<a>", Some("<a>")),
        (r"\_\-\.\/", "_-./", Some("_-./")),
        // Quotes.
        (r"\Qa.b\E.", "a.bc", Some("a.bc")),
        (r"\Qa.b", "axb", None),
        (r"\Q(\E+", "((", Some("((")),
        (r"\Qab\E+", "abb", Some("abb")),
        (r"a\Q\E+", "aa", Some("aa")),
        (r"\Q\\E", r"\", Some(r"\")),
        // Characters by number or letter.
        (r"\x41\x{1F600}\0\101\012", "A😀\0A\n", Some("A😀\0A\n")),
        (r"\0101", "\x081", Some("\x081")),
        (r"\a\f\n\r\t\v", "\x07\x0c\n\r\t\x0b", Some("\x07\x0c\n\r\t\x0b")),
        (r"(?i)\x6b", "K", Some("K")),
        // Classes do not nest and have no operators.
        ("[[a]b]", "ab", None),
        ("[[a]b]", "ab]", Some("ab]")),
        ("[[a]b]", "[b]", Some("[b]")),
        ("[a&&b]+", "b&a", Some("b&a")),
        ("[+--]+", "+,-", Some("+,-")),
        ("[a~~b]+", "~ab", Some("~ab")),
        ("[]a]+", "a]", Some("a]")),
        ("[^]a]+", "a]b", Some("b")),
        ("[a-]+", "a-", Some("a-")),
        ("[-a]+", "a-", Some("a-")),
        ("[^a]", "\n", Some("\n")),
        ("[[:]+", "[:", Some("[:")),
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
        (r"\p{^Greek}", "λ", None),
        (r"\P{^Greek}", "λ", Some("λ")),
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

    /// Facts, one a line: `[pattern, text, what Go's regexp finds]`, or `[pattern]` if it refuses that.
    const FACTS: &str = include_str!("../../data/re2.jsonl");

    /// Patterns that RE2 takes and that are refused here: surrogates, which no text has, repetitions after
    /// flags, and what would take too much memory.
    const REFUSED_HERE: [&str; 5] = [r"\p{Cs}", r"\x{D800}", "a(?i)*", "a(?i){2}", r"\pL{1000}"];

    fn compile(pattern: &str) -> Result<Regex, String> {
        let translated = translate(pattern)?;
        let mut builder = regex::RegexBuilder::new(&translated);
        builder.size_limit(super::super::regexes::REGEX_SIZE_LIMIT).build().map_err(|error| error.to_string())
    }

    /// What the pattern finds in the text: the whole of the first match.
    fn find<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
        let regex = compile(pattern).unwrap_or_else(|reason| panic!("{pattern}: {reason}"));
        regex.find(text).map(|found| found.as_str())
    }

    #[test]
    fn a_pattern_means_what_it_means_in_re2() {
        for (pattern, text, found) in MEANINGS {
            assert_eq!(find(pattern, text), *found, "{pattern} in {text:?}");
        }
    }

    #[test]
    fn what_re2_refuses_is_refused() {
        for pattern in REFUSED.split_whitespace() {
            let verdict = compile(pattern);
            assert!(verdict.is_err(), "{pattern} was read as {verdict:?}");
        }
    }

    #[test]
    fn go_reads_each_pattern_in_the_same_way() {
        let facts: Vec<Vec<Option<String>>> =
            FACTS.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        // The facts of a pattern follow each other, so that it is compiled once.
        for facts in facts.chunk_by(|a, b| a[0] == b[0]) {
            let pattern = facts[0][0].as_deref().expect("a pattern");
            let regex = compile(pattern);
            for fact in facts {
                match &fact[1..] {
                    [] => assert!(regex.is_err(), "Go refuses {pattern}"),
                    [text, expected] => {
                        let regex = regex.as_ref().unwrap_or_else(|reason| panic!("{pattern}: {reason}"));
                        let text = text.as_deref().expect("a text");
                        let found = regex.find(text).map(|found| found.as_str());
                        assert_eq!(found, expected.as_deref(), "{pattern} in {text:?}");
                    }
                    _ => panic!("{fact:?} is no fact"),
                }
            }
        }
        assert!(facts.len() > 900, "{} facts", facts.len());
    }

    #[test]
    fn what_cannot_be_read_as_re2_reads_it_is_refused() {
        for pattern in REFUSED_HERE {
            assert!(compile(pattern).is_err(), "{pattern} is read");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_translation_panic(
            pattern in r"[a-z\\\[\](){}?*+|^$.:<>,\-&~#PQEbdpxiU0-9é]{0,24}",
        ) {
            let _ = translate(&pattern).map(|translated| Regex::new(&translated));
        }

        #[test]
        fn a_quoted_text_finds_itself(text in r"[^\\]{0,24}") {
            let regex = Regex::new(&translate(&format!(r"\Q{text}\E")).unwrap()).unwrap();
            proptest::prop_assert_eq!(regex.find(&text).map(|found| found.as_str()), Some(text.as_str()));
        }
    }
}
