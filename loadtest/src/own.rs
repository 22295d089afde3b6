//! The names of runs, and which requests and which process belong to the system of a run.

use crate::report::{Process, Report, RequestRow, Run};

impl Run {
    /// Requests on jobs, ConfigMaps, Pods and QueueUnits that the system itself made; watches aside, of which
    /// there are as many as were cut off.
    pub fn own_rows(&self) -> impl Iterator<Item = &RequestRow> {
        const COUNTED: [&str; 5] = ["frameworks", "jobs", "configmaps", "pods", "queueunits"];
        self.requests.rows.iter().filter(|row| {
            let resource = row.resource.split('/').next().unwrap_or_default();
            self.is_own(row) && row.verb != "watch" && COUNTED.contains(&resource)
        })
    }

    /// Whether the system asked that.
    pub fn is_own(&self, row: &RequestRow) -> bool {
        row.client
            == match self.system.as_str() {
                "batch/v1 Job" => "kube-controller-manager",
                "floor client" => "loadtest-floor",
                // Whatever a controller of Frameworks is called in the report, it calls itself so.
                _ => "frameworkcontroller",
            }
    }

    /// The process that did the work.
    pub fn controller(&self) -> Option<&Process> {
        self.process(match self.system.as_str() {
            "batch/v1 Job" => "kube-controller-manager",
            "floor client" => "loadtest",
            _ => "frameworkcontroller",
        })
    }

    /// The process of this name.
    pub fn process(&self, name: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.name == name)
    }

    /// The system and how it was set.
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
