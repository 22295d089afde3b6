//! Load tests of a Framework controller: work that scenario files describe, what it takes, and what a cluster
//! needs for more of it.
//!
//! [`scenario`] says what is done and promised, [`report`] what was found. From reports in files ([`saved`])
//! come a page to read ([`page`](mod@page)), what changed from one to another ([`compare`]), and what more of
//! the same would take ([`plan`]).

pub mod compare;
pub mod figure;
pub mod number;
pub mod own;
pub mod page;
pub mod plan;
pub mod render;
pub mod report;
pub mod saved;
pub mod scenario;
