//! The cost of single requests for the API server, on a control plane that nothing else uses.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_api::crd;
use framework_programs::output::note;
use framework_programs::workspace::root;
use framework_testcluster::{Cluster, Component, Options};

use super::control_plane::options;
use super::programs::Programs;

/// The gate of `shardSelector`: alpha in Kubernetes 1.36 (KEP-5866).
const SHARDED: &str = "ShardedListAndWatch";

/// The measurement that takes the place of scenarios, if one is chosen.
#[derive(clap::Args)]
#[group(id = "cost", multiple = false, conflicts_with = "scenario")]
pub(super) struct Arguments {
    /// Measure the cost of a status write for the API server instead, by its size and form.
    #[arg(long)]
    status_cost: bool,
    /// Measure the cost of each other request of a life for the API server instead.
    #[arg(long)]
    request_cost: bool,
    /// Measure what other forms of a status write and of the creation of a Pod cost the API server instead:
    /// the whole object, shorter messages, protobuf.
    #[arg(long)]
    form_cost: bool,
    /// Measure status writes for variants of the schema of `status`, for Frameworks of 1 and of 20 Tasks.
    #[arg(long)]
    crd_cost: bool,
    /// Measure what it costs the API server to select the Frameworks of each of five replicas, by labels and
    /// by `shardSelector`.
    #[arg(long)]
    selector_cost: bool,
    /// Measure what it costs the API server to send the changes of Pods to one and to five replicas, as JSON
    /// and as protobuf.
    #[arg(long)]
    watch_cost: bool,
}

impl Arguments {
    /// Whether one is chosen.
    pub(super) fn chosen(&self) -> bool {
        self.crd_cost || self.of_requests().next().is_some()
    }

    /// The chosen measurements of the shipped schema.
    fn of_requests(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.status_cost, "status-cost"),
            (self.request_cost, "request-cost"),
            (self.form_cost, "form-cost"),
            (self.selector_cost, "selector-cost"),
            (self.watch_cost, "watch-cost"),
        ];
        all.into_iter().filter_map(|(chosen, measurement)| chosen.then_some(measurement))
    }

    /// Prints the table of each chosen measurement.
    pub(super) fn run(&self, programs: &Programs) -> Result<()> {
        for measurement in self.of_requests() {
            measure(measurement, programs, &root().join("deploy/crds"), &[])?;
        }
        if self.crd_cost {
            of_schemas(programs)?;
        }
        Ok(())
    }
}

/// Prints a table of the cost of status writes for each variant of the schema.
fn of_schemas(programs: &Programs) -> Result<()> {
    for variant in crd::StatusSchema::ALL {
        let name = format!("{variant:?}").to_lowercase();
        let crds = programs.loadtest.with_file_name(format!("crd-{name}"));
        fs::create_dir_all(&crds).with_context(|| format!("creating {}", crds.display()))?;
        let file = crds.join("frameworks.yaml");
        fs::write(&file, crd::manifest_with(variant))
            .with_context(|| format!("writing {}", file.display()))?;
        measure("status-cost", programs, &crds, &["--tasks", "1,20", "--variant", &name])?;
    }
    Ok(())
}

/// Prints the table of a measurement of the load test with these CustomResourceDefinitions.
fn measure(measurement: &str, programs: &Programs, crds: &Path, arguments: &[&str]) -> Result<()> {
    note("starting a control plane");
    let feature_gates = if measurement == "selector-cost" { vec![SHARDED.to_owned()] } else { vec![] };
    let cluster = Cluster::start(Options { nodes: 1, feature_gates, ..options() })?;
    cluster.install(crds)?;
    let mut command = Command::new(&programs.loadtest);
    command.arg(measurement).arg("--kubeconfig").arg(cluster.kubeconfig_path());
    command.arg("--api-server").arg(cluster.pid(Component::Apiserver)?.to_string()).args(arguments);
    ensure!(command.status().context("starting the load test")?.success(), "it could not be measured");
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: super::super::Arguments,
    }

    #[test]
    fn a_measurement_takes_the_place_of_a_scenario() {
        let chosen = |line: &str| Line::try_parse_from(line.split(' ')).map(|line| line.bench.cost.chosen());
        for cost in ["status", "request", "form", "crd", "selector", "watch"] {
            let measurement = format!("--{cost}-cost");
            assert!(chosen(&format!("bench {measurement}")).unwrap());
            chosen(&format!("bench {measurement} --scenario burst")).unwrap_err();
        }
        assert!(!chosen("bench --scenario burst").unwrap());
        chosen("bench --status-cost --crd-cost").unwrap_err();
    }

    #[test]
    fn a_run_of_several_systems_sets_the_workers_of_kwok() {
        let line = "bench --scenario burst-large --as framework,recommended,job --kwok-workers 16";
        let bench = Line::parse_from(line.split(' ')).bench;
        assert_eq!((bench.systems.len(), bench.kwok_workers), (3, Some(16)));
    }

    #[test]
    fn the_lives_of_a_group_are_shown_after_a_run() {
        let line = "bench --scenario mixed-sizes --qps 40 --kwok-workers 64 --lives small";
        let bench = Line::parse_from(line.split(' ')).bench;
        assert_eq!((bench.qps, bench.lives.as_deref()), (40, Some("small")));
        assert!(Line::try_parse_from("bench --lives small".split(' ')).is_err(), "it is about one scenario");
    }

    #[test]
    fn a_run_of_several_numbers_of_replicas_sets_the_workers_of_kwok() {
        let line = "bench --scenario replicas --replicas 1,2,3,5 --kwok-workers 64";
        let bench = Line::parse_from(line.split(' ')).bench;
        assert_eq!((bench.replicas, bench.kwok_workers), (vec![1, 2, 3, 5], Some(64)));
    }
}
