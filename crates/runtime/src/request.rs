//! Requests as they go over the wire: which verb on which URL with which body.
//!
//! Every write carries what keeps it from hitting anything else than it means: the resourceVersion for a
//! status, a UID precondition for a delete, UID and resourceVersion for a label. Every URL carries
//! `timeout=`, after which the API server gives the request up.

pub mod call;
pub mod engine;
mod job_set;
pub mod queueing;
