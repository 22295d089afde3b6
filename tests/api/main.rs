//! The API server's treatment of our CRDs, policies, rights and requests. One control plane with everything
//! of `deploy/` installed serves all tests; no controller runs.

mod cluster;
mod cost;
mod crd;
mod deploy;
mod lifetime;
mod namespace;
mod policies;
mod queue;
mod requests;
mod selectors;
mod train_jobs;
mod units;
