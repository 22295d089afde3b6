//! Requests as they go over the wire: the verb, the URL and the body.
//!
//! Every write of an existing object carries a precondition, so that it changes only the object that it was
//! decided from. That is the resourceVersion for a status, the UID for a delete, both for a label. A create
//! carries the epoch of its slot instead. Every URL carries `timeout=`, after which the API server abandons
//! the request.

pub mod call;
pub mod engine;
mod job_lifetime;
pub mod queueing;
mod resume;
