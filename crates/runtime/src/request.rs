//! Requests as they go over the wire: the verb, the URL and the body.
//!
//! Every write carries a guard, so that it changes only the object that it was decided from. The guard is the
//! resourceVersion for a status, a UID precondition for a delete, UID and resourceVersion for a label. Every
//! URL carries `timeout=`, after which the API server abandons the request.

pub mod call;
pub mod engine;
mod job_lifetime;
pub mod queueing;
mod resume;
