//! Tests that disturb the control plane itself: the API server is paused or killed, watches lag, the CRD is
//! replaced, controllers die.
//!
//! A program of its own, because all other tests need a control plane that answers. Within it one test at a
//! time has the cluster.

mod caches;
#[path = "../cluster/mod.rs"]
mod cluster;
mod deleted_map;
mod disturbance;
mod epoch;
mod guarantees;
mod jobs;
mod kills;
#[path = "../lifetime/mod.rs"]
mod lifetime;
mod outage;
mod replicas;
mod rescale;
mod skew;
mod storm;
mod takeover;
