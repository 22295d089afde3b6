//! Truncates texts of others to a length that the status can hold.
//!
//! The weight of a text is about its contribution to a compressed status: its bytes, and more for each
//! character that JSON escapes. Such a character does not compress with its copy in the diagnostics, which is
//! JSON inside JSON, and the uncompressed copy in the Framework's own status is escaped. Both ends of a text
//! are kept: the end of a log shows the error.

use std::borrow::Cow;

/// A text of at most this weight is a word: it is not counted and never truncated.
pub const WORD: usize = 10;

/// The bytes that a text may add to a compressed status.
pub fn weight(text: &str) -> usize {
    text.chars().map(weigh).sum()
}

fn weigh(c: char) -> usize {
    c.len_utf8()
        + match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 1,
            // The API server stores these in six bytes, in any encoding that was sent.
            '<' | '>' | '&' => 5,
            '\u{2028}' | '\u{2029}' => 3,
            c if c.is_ascii_control() => 3,
            _ => 0,
        }
}

/// The text, if it weighs at most `limit`. Otherwise its two ends, which together weigh at most that, with
/// a note about the missing bytes between them.
pub fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if weight(text) <= limit.max(WORD) {
        return Cow::Borrowed(text);
    }
    let head: usize = fitting(text.chars(), limit / 3);
    let tail = fitting(text.chars().rev(), limit - limit / 3);
    let missing = text.len().saturating_sub(head + tail);
    let note = format!("[{missing} bytes cut]");
    let ends = text.get(..head).zip(text.get(text.len() - tail..));
    match ends {
        Some((head, tail)) if missing > note.len() => Cow::Owned(format!("{head}{note}{tail}")),
        // The note would take more than it saves.
        _ => Cow::Borrowed(text),
    }
}

/// Length of the first characters that together weigh at most `limit`.
fn fitting(chars: impl Iterator<Item = char>, limit: usize) -> usize {
    let mut left = limit;
    chars
        .map_while(|c| {
            left = left.checked_sub(weigh(c))?;
            Some(c.len_utf8())
        })
        .sum()
}

/// The largest weight that each text may have so that together they weigh at most `budget`. Light texts
/// leave their rest to heavy ones. `usize::MAX` if none has to be truncated.
pub(crate) fn level(mut weights: Vec<usize>, budget: usize) -> usize {
    weights.sort_unstable();
    let mut left = budget;
    for (position, weight) in weights.iter().enumerate() {
        let share = left / (weights.len() - position);
        if *weight > share {
            return share;
        }
        left -= weight;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ends_are_kept_and_the_note_says_how_much_is_missing() {
        let text = format!("first{}last words", "x".repeat(100));
        assert_eq!(truncate(&text, 15), "first[100 bytes cut]last words");
        assert_eq!(truncate(&text, 0), "[115 bytes cut]");
        assert_eq!(truncate(&text, 115), text);
        assert_eq!(truncate("OOMKilled", 0), "OOMKilled", "a word stays");
        assert_eq!(truncate("not a word, yet", 3), "not a word, yet", "the note would be longer");
    }

    #[test]
    fn characters_that_json_escapes_weigh_more() {
        for (text, expected) in
            [("abc", 3), ("a\"b", 4), ("\n", 2), ("\u{1}", 4), ("<&>", 18), ("\u{2028}", 6), ("\u{1f600}", 4)]
        {
            assert_eq!(weight(text), expected, "{text:?}");
        }
    }

    #[test]
    fn light_texts_leave_room_for_heavy_ones() {
        assert_eq!(level(vec![10, 20, 30], 60), usize::MAX);
        assert_eq!(level(vec![100, 10, 100], 70), 30);
        assert_eq!(level(vec![100, 100], 0), 0);
        assert_eq!(level(Vec::new(), 0), usize::MAX);
    }

    proptest! {
        #[test]
        fn a_cut_text_keeps_the_limit_and_its_characters(text in ".{0,300}", limit in 0..400usize) {
            let cut = truncate(&text, limit);
            if let Cow::Owned(cut) = &cut {
                let (head, rest) = cut.split_once('[').map_or(("", ""), |(head, rest)| (head, rest));
                prop_assert!(text.contains('[') || text.starts_with(head), "{}", rest);
                let note = cut.len() - text.len().min(cut.len());
                prop_assert!(note < 20);
                prop_assert!(weight(cut) <= limit + 20);
                prop_assert!(cut.len() < text.len());
            } else {
                prop_assert!(weight(&text) <= limit.max(WORD) + 4 * 20);
            }
        }
    }
}
