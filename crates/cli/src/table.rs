//! Tables as kubectl prints them: columns of words, three blanks apart. A cell never breaks its line.

use crate::visible::visible;

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles.
    pub fn new(titles: &[&str]) -> Table {
        Table { rows: vec![titles.iter().map(|title| (*title).to_owned()).collect()] }
    }

    /// Adds a row. Control characters in its cells are escaped.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| visible(cell)).collect());
    }

    /// The text, with or without the titles, each cell as `paint` renders it. The width of a cell is that of
    /// its words alone. No line ends in blanks.
    pub fn render(&self, titles: bool, paint: impl Fn(&str) -> String) -> String {
        let rows = self.rows.get(usize::from(!titles)..).unwrap_or_default();
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let widest = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or_default()).collect();
        let mut text = String::new();
        for row in rows {
            let last = row.iter().rposition(|cell| !cell.is_empty());
            let cells = row.iter().zip(&widths).take(last.map_or(0, |last| last + 1)).enumerate();
            for (at, (cell, width)) in cells {
                text.push_str(&paint(cell));
                if Some(at) != last {
                    let blanks = width.saturating_sub(cell.chars().count()) + 3;
                    text.extend(std::iter::repeat_n(' ', blanks));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_move_columns_and_no_line_ends_in_blanks() {
        let mut table = Table::new(&["NAME", "THE STATE", "END"]);
        table.row(vec!["a".into(), "Läuft".into(), "y".into()]);
        table.row(vec!["longer".into(), String::new(), "x".into()]);
        let paint = |cell: &str| if cell == "Läuft" { format!("<{cell}>") } else { cell.to_owned() };
        let expected = "NAME     THE STATE   END\na        <Läuft>       y\nlonger               x\n";
        assert_eq!(table.render(true, paint), expected);
        let without_titles = "a        <Läuft>   y\nlonger           x\n";
        assert_eq!(table.render(false, paint), without_titles);
    }

    #[test]
    fn a_cell_forges_no_row_and_its_controls_stay_visible() {
        let mut table = Table::new(&["NOTE", "END"]);
        table.row(vec!["pulled\nforged\x1b[8m".into(), "x".into()]);
        let expected = "NOTE                  END\n<pulled\\nforged^[[8m>   x\n";
        let paint = |cell: &str| if cell.contains("forged") { format!("<{cell}>") } else { cell.to_owned() };
        assert_eq!(table.render(true, paint), expected);
    }
}
