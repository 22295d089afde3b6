//! Load tests of a Framework controller, their reports, and capacity plans.
//!
//! A [`scenario`] describes jobs and service levels, a [`report`] the results. [`run`] runs a scenario: the
//! generator creates jobs, the tracker follows them with a watch, the sampler reads processes, and the API
//! server's audit log has the requests. From saved reports ([`saved`]) come a page to read
//! ([`page`](mod@page)), a comparison of two reports ([`compare`]), and a capacity plan ([`plan`]).

pub mod admission;
pub mod compare;
mod cost;
mod counters;
pub mod exposition;
pub mod fake_nodes;
pub mod figure;
pub mod floor;
pub mod follow;
pub mod form_cost;
pub mod generator;
pub mod job;
pub mod kills;
pub mod levels;
pub mod lives;
pub mod machine;
pub mod metrics;
pub mod namespace;
pub mod number;
pub mod output;
pub mod own;
pub mod page;
pub mod partial_status;
pub mod performance;
pub mod phase_names;
pub mod plan;
pub mod process;
mod received;
pub mod render;
pub mod report;
pub mod request_cost;
pub mod requests;
pub mod run;
pub mod sampler;
pub mod saved;
pub mod scenario;
pub mod selector_cost;
pub mod start;
pub mod status_cost;
pub mod system;
pub mod terminal;
pub mod tracker;
pub mod watch_cost;
