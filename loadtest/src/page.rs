//! A report as one page of HTML that needs nothing else: no network, no script.
//!
//! - All text is escaped (`page/html.rs`), and the page forbids itself to load anything.
//! - What is wrong is said in words above everything else: runs that were given up, missed levels, figures
//!   that stand on few samples.

mod axis;
mod beside;
mod headline;
mod html;
mod plot;
mod setting;
mod tables;

use crate::report::Report;
use html::{Html, plain};

/// Allows what the page itself consists of.
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
