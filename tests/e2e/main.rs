//! The controller on a real API server, in the configuration that each test asks for.
//!
//! One control plane serves all tests. A controller acts on every Framework of the cluster, so that only one
//! runs at a time. Tests that ask for the same controller share it; others wait for it to end.

mod access;
mod barrier;
#[path = "../cluster/mod.rs"]
mod cluster;
mod compression;
mod dashboard;
#[path = "../dashboard/mod.rs"]
mod dashboard_life;
mod deadline;
#[path = "../finished/mod.rs"]
mod finished;
mod floor;
mod history;
mod history_slow;
mod image;
mod job_crds;
mod job_kinds;
mod job_rows;
mod job_units;
mod large;
mod large_failures;
mod life_requests;
#[path = "../lifetime/mod.rs"]
mod lifetime;
mod loadtest;
mod narrow;
mod plugin;
mod poison;
mod program;
mod queue;
mod queue_history;
mod queue_order;
mod queue_replay;
mod replicas;
mod rescale;
mod restart;
mod restored;
mod rules;
mod scenarios;
mod smoke;
mod startup;
mod take_over;
mod tenants;
mod traces;
mod train_jobs;
mod ttl;
mod wave;
mod wave_figures;
