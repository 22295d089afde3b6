//! Load tests of a Framework controller: work that scenario files describe, what it takes, and what a cluster
//! needs for more of it.
//!
//! [`scenario`] says what is done and promised, [`report`] what was found.

pub mod report;
pub mod scenario;
