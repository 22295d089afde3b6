//! FrameworkController, a Kubernetes controller that runs batch and AI jobs.

fn main() {}
