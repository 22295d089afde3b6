//! The figures of several runs side by side, each with its ratio to the first run.

use crate::figure::{Figure, figures};
use crate::number::ratio;
use crate::report::Report;

use super::html::{Cell, Html, plain, table};

/// The comparison; empty for a report of one run.
pub fn beside(report: &Report) -> Html {
    if report.runs.len() < 2 {
        return Html::default();
    }
    let all: Vec<Vec<Figure>> = report.runs.iter().map(figures).collect();
    let mut names: Vec<&str> = Vec::new();
    for figure in all.iter().flatten().filter(|figure| figure.short) {
        if !names.contains(&&*figure.name) {
            names.push(&figure.name);
        }
    }
    let systems: Vec<String> = report.runs.iter().map(|run| report.name_of(run)).collect();
    let titles: Vec<&str> = [""].into_iter().chain(systems.iter().map(String::as_str)).collect();
    let rows = names.into_iter().map(|name| row(name, &all)).collect();
    [
        plain("h2", "Side by side"),
        plain("p", "The same work, one system after another; ratios are to the first system."),
        table(&titles, rows),
    ]
    .into_iter()
    .collect()
}

fn row(name: &str, all: &[Vec<Figure>]) -> Vec<Cell> {
    let found: Vec<Option<&Figure>> =
        all.iter().map(|figures| figures.iter().find(|figure| figure.name == name)).collect();
    let first = found.first().copied().flatten();
    let cells = found.iter().enumerate().map(|(at, figure)| match (figure, first) {
        (None, _) => Cell::ratio("–", ""),
        (Some(figure), Some(first)) if at > 0 => {
            Cell::ratio(figure.shown(), ratio(first.value, figure.value))
        }
        (Some(figure), _) => Cell::ratio(figure.shown(), ""),
    });
    [Cell::words(name)].into_iter().chain(cells).collect()
}
