//! Tables in Markdown.

/// A row of a table; `|` and line breaks in a cell are escaped.
pub fn row(cells: &[String]) -> String {
    let cells: Vec<String> =
        cells.iter().map(|cell| cell.replace('|', "\\|").replace(['\n', '\r'], " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}
