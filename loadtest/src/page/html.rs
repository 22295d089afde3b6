//! Markup whose text is always escaped: there is no other way to make it.

use std::fmt::Display;

/// A piece of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Html(String);

/// Attributes of an element.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Html {
    /// The markup.
    pub fn into_markup(self) -> String {
        self.0
    }

    /// Whether it has no markup at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<T: IntoIterator<Item = Html>>(pieces: T) -> Html {
        Html(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

/// Escaped text.
pub fn text(text: impl Display) -> Html {
    Html(escaped(&text.to_string()))
}

/// An element around pieces.
pub fn tag(name: &'static str, attributes: Attributes, pieces: impl IntoIterator<Item = Html>) -> Html {
    let attributes: String =
        attributes.iter().map(|(key, value)| format!(" {key}=\"{}\"", escaped(value))).collect();
    let inside: Html = pieces.into_iter().collect();
    Html(format!("<{name}{attributes}>{}</{name}>", inside.0))
}

/// An element of a class around pieces.
pub fn of_class(name: &'static str, class: &str, pieces: impl IntoIterator<Item = Html>) -> Html {
    tag(name, &[("class", class)], pieces)
}

/// An element with text alone.
pub fn plain(name: &'static str, words: impl Display) -> Html {
    tag(name, &[], [text(words)])
}

/// A cell of a table.
pub struct Cell(&'static str, Html);

impl Cell {
    /// Text. Long words may break anywhere, so that the table is not wider than the page.
    pub fn words(words: impl Display) -> Cell {
        let words = words.to_string();
        Cell(breakable(&words), text(words))
    }

    /// A number, aligned to the right.
    pub fn number(shown: impl Display) -> Cell {
        Cell("n", text(shown))
    }

    /// A number that needs attention.
    pub fn alarm(shown: impl Display) -> Cell {
        Cell("n bad", text(shown))
    }

    /// A number with its ratio to another.
    pub fn ratio(shown: impl Display, ratio: impl Display) -> Cell {
        let ratio = of_class("small", "remark", [text(ratio)]);
        Cell("n ratio", [text(shown), text(" "), ratio].into_iter().collect())
    }

    /// A number with a remark below it.
    pub fn remarked(shown: impl Display, remark: impl Display) -> Cell {
        Cell("n", [text(shown), of_class("small", "remark", [text(remark)])].into_iter().collect())
    }

    /// Text with a remark below it.
    pub fn named(words: impl Display, remark: impl Display) -> Cell {
        let (words, remark) = (words.to_string(), remark.to_string());
        let class = if breakable(&words) == LONG { LONG } else { breakable(&remark) };
        Cell(class, [text(words), of_class("small", "remark", [text(remark)])].into_iter().collect())
    }

    /// Markup of a class.
    pub fn of_class(class: &'static str, content: Html) -> Cell {
        Cell(class, content)
    }
}

/// The class of cells with long words.
const LONG: &str = "long";

fn breakable(words: &str) -> &'static str {
    if words.split_whitespace().any(|word| word.chars().count() > 18) { LONG } else { "" }
}

/// A table whose first cells are row headers. Without rows it is empty.
pub fn table(titles: &[&str], rows: Vec<Vec<Cell>>) -> Html {
    let Some(first) = rows.first() else { return Html::default() };
    // A title is aligned as the numbers below it.
    let side = |at: usize| if first.get(at).is_some_and(|cell| cell.0.starts_with('n')) { "n" } else { "" };
    let class = |at, title| [side(at), breakable(title)].join(" ");
    let heads = titles
        .iter()
        .enumerate()
        .map(|(at, title)| tag("th", &[("scope", "col"), ("class", class(at, title).trim())], [text(title)]));
    let untitled = titles.iter().all(|title| title.is_empty());
    let head = if untitled { Html::default() } else { tag("thead", &[], [tag("tr", &[], heads)]) };
    let body = rows.into_iter().map(|cells| {
        tag(
            "tr",
            &[],
            cells.into_iter().enumerate().map(|(at, Cell(class, content))| match at {
                0 => tag("th", &[("scope", "row"), ("class", class)], [content]),
                _ => tag("td", &[("class", class)], [content]),
            }),
        )
    });
    let body = tag("tbody", &[], body);
    of_class("div", "wide", [tag("table", &[], [head, body])])
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML allows no other control characters.
            _ if letter.is_control() && !letter.is_whitespace() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let made = tag("p", &[("title", "a\"b'<")], [text("<b>&\u{0}")]).into_markup();
        assert_eq!(made, "<p title=\"a&quot;b&#39;&lt;\">&lt;b&gt;&amp;\u{fffd}</p>");
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        assert!(table(&["a"], Vec::new()).is_empty());
        let made = table(&["a", "b"], vec![vec![Cell::words("x"), Cell::number(1)]]).into_markup();
        assert!(made.contains("<th scope=\"col\" class=\"n\">b</th>"), "{made}");
        assert!(made.contains("<th scope=\"row\" class=\"\">x</th><td class=\"n\">1</td>"), "{made}");
    }
}
