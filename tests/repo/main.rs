//! The repository itself: its architecture, its style, its documents, and its generated files. Nothing is
//! started but promtool, which checks the alerts.

mod alerts;
mod api_reference;
mod architecture;
mod circles;
mod documents;
mod drift;
mod fluentd;
mod images;
mod job_kinds;
mod krew;
mod names;
mod operations;
mod reasons;
mod sentences;
mod sizing;
mod source;
mod status_fields;
mod supply;
mod tables;
mod tidy;
mod width;
