//! Texts of others on a terminal.

/// The text on one line, with escapes for characters that control a terminal: tenants write text that an
/// administrator reads. Escape first and colour later, or the colours are escaped, too.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            // As kubectl shows it.
            '\x1b' => shown.push_str("^["),
            _ if is_control(one) => shown.extend(one.escape_default()),
            _ => shown.push(one),
        }
    }
    shown
}

/// JSON with escapes for the control characters that JSON takes as they are. They stand in strings alone.
pub fn visible_json(text: String) -> String {
    let is_plain = |one: char| one < '\u{7f}' || !is_control(one);
    if text.chars().all(is_plain) {
        return text;
    }
    let escaped = |one: char| format!("\\u{:04x}", u32::from(one));
    text.chars().map(|one| if is_plain(one) { one.to_string() } else { escaped(one) }).collect()
}

/// Whether a character controls a terminal, ends a line, or changes the direction of the text after it.
fn is_control(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_meaning_and_controls_no_terminal() {
        let value = serde_json::json!({"a": "\u{9b}2J\u{7f}\u{202e}", "b": "Läuft\n\x1b"});
        let text = visible_json(serde_json::to_string_pretty(&value).unwrap());
        assert!(text.contains("\\u009b2J\\u007f\\u202e") && text.contains("Läuft\\n\\u001b"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert_eq!(visible_json("{\n}".to_owned()), "{\n}");
    }

    #[test]
    fn control_characters_are_shown_and_other_text_stays() {
        for (text, shown) in [
            ("\x1b[2J", "^[[2J"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{7}\u{7f}\u{9b}", "\\u{7}\\u{7f}\\u{9b}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}", "\\u{202a}\\u{202e}\\u{2066}\\u{2069}"),
            ("Läuft \"so\" └─\\n", "Läuft \"so\" └─\\n"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
