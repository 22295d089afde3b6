//! The names of runs, and which requests and which process belong to the system of a run.

use crate::report::{Process, Report, RequestRow, Run};

impl Run {
    /// The system's own requests on jobs, ConfigMaps, Pods and QueueUnits. Watches are left out: their number
    /// depends on how often they were interrupted.
    pub fn own_rows(&self) -> impl Iterator<Item = &RequestRow> {
        const COUNTED: [&str; 5] = ["frameworks", "jobs", "configmaps", "pods", "queueunits"];
        self.requests.rows.iter().filter(|row| {
            let resource = row.resource.split('/').next().unwrap_or_default();
            self.is_own(row) && row.verb != "watch" && COUNTED.contains(&resource)
        })
    }

    /// Whether the system itself made this request.
    pub fn is_own(&self, row: &RequestRow) -> bool {
        row.client
            == match self.system.as_str() {
                "batch/v1 Job" => "kube-controller-manager",
                "floor client" => "loadtest-floor",
                // Every controller of Frameworks has this user agent, under any name in the report.
                _ => "frameworkcontroller",
            }
    }

    /// The process of the system; the sum of several replicas.
    pub fn controller(&self) -> Option<&Process> {
        self.process(match self.system.as_str() {
            "batch/v1 Job" => "kube-controller-manager",
            "floor client" => "loadtest",
            _ => "frameworkcontroller",
        })
    }

    /// The number of replicas of the controller: 1 if it is not known.
    pub fn replica_count(&self) -> usize {
        self.used.replicas.len().max(1)
    }

    /// The bytes that all replicas received; `None` if one of them is not known.
    pub fn received(&self) -> Option<f64> {
        let each = self.used.replicas.iter().map(|replica| replica.received_bytes.map(|bytes| bytes as f64));
        each.reduce(|one, other| Some(one? + other?)).flatten()
    }

    /// The process of this name.
    pub fn process(&self, name: &str) -> Option<&Process> {
        self.used.processes.iter().find(|process| process.name == name)
    }

    /// The system and its profile.
    pub fn title(&self) -> String {
        if self.profile.is_empty() {
            self.system.clone()
        } else {
            format!("{}, {}", self.system, self.profile)
        }
    }
}

impl Report {
    /// The system of a run; with its profile if several runs are of that system.
    pub fn name_of(&self, run: &Run) -> String {
        let same = self.runs.iter().filter(|other| other.system == run.system).count() > 1;
        if same { run.title() } else { run.system.clone() }
    }
}
