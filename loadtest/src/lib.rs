//! Load tests of a Framework controller: work that scenario files describe, what it takes, and what a cluster
//! needs for more of it.
//!
//! [`scenario`] says what is done and promised, [`report`] what was found. [`run`] does it: the generator
//! creates jobs, the tracker follows them by a watch, the sampler looks at processes, and the API server's
//! audit log tells what was asked. From reports in files ([`saved`]) come a page to read
//! ([`page`](mod@page)), what changed from one to another ([`compare`]), and what more of the same would
//! take ([`plan`]).

pub mod admission;
pub mod compare;
pub mod exposition;
pub mod figure;
pub mod floor;
pub mod follow;
pub mod generator;
pub mod job;
pub mod levels;
pub mod machine;
pub mod namespace;
pub mod number;
pub mod output;
pub mod own;
pub mod page;
pub mod partial_status;
pub mod performance;
pub mod plan;
pub mod process;
pub mod render;
pub mod report;
pub mod requests;
pub mod run;
pub mod sampler;
pub mod saved;
pub mod scenario;
pub mod start;
pub mod status_cost;
pub mod system;
pub mod tracker;
