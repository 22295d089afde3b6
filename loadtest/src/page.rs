//! A report as one self-contained page of HTML, without network access or scripts.
//!
//! - All text is escaped (`page/html.rs`), and the page's policy forbids it to load anything.
//! - Problems come first, in words: runs that were given up, missed levels, figures with few samples.

pub(crate) mod axis;
mod beside;
mod headline;
pub(crate) mod html;
mod plot;
mod setting;
mod tables;

use crate::report::Report;
use html::{Html, plain};

/// Allows the page its own styles and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The page.
pub fn page(report: &Report) -> String {
    let title = plain("title", format!("{}: load test report", report.scenario.name));
    let body: Html = [
        headline::headline(report),
        beside::beside(report),
        plain("h2", "Over time"),
        plot::over_time(report),
        report.runs.iter().map(|run| tables::of_run(report, run)).collect(),
        setting::setting(report),
    ]
    .into_iter()
    .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n{}\n<style>\n{}</style>\n</head>\n\
         <body>\n{}\n</body>\n</html>\n",
        title.into_markup(),
        include_str!("page/style.css"),
        html::tag("main", &[], [body]).into_markup(),
    )
}
