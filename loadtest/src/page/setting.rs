//! The machine, the versions, and the scenario.

use crate::number::{count, short, size, whole};
use crate::report::Report;
use crate::scenario::Group;

use super::html::{Cell, Html, plain, table, tag, text};

/// Machine, versions, scenario.
pub fn setting(report: &Report) -> Html {
    let machine = &report.machine;
    let mut rows = vec![
        ("processor".to_owned(), format!("{} × {}", machine.processors, machine.processor)),
        ("memory".into(), size(machine.memory_bytes as f64)),
        ("kernel".into(), machine.kernel.clone()),
        ("the cluster".into(), location(machine.shared_with_cluster).into()),
    ];
    rows.extend(report.versions.iter().map(|(what, version)| (what.clone(), version.clone())));
    let row = |(name, value): (String, String)| vec![Cell::words(name), Cell::words(value)];
    [
        plain("h2", "Machine and versions"),
        table(&["", ""], rows.into_iter().map(row).collect()),
        plain("h2", "Scenario"),
        plain("p", &report.scenario.description),
        groups(report),
        tag("details", &[], [plain("summary", "The scenario as a file"), file(report)]),
    ]
    .into_iter()
    .collect()
}

fn location(shared: bool) -> &'static str {
    if shared { "on this machine, together with the load test" } else { "elsewhere" }
}

fn groups(report: &Report) -> Html {
    let row = |group: &Group| {
        vec![
            Cell::words(&group.name),
            Cell::number(whole(group.jobs)),
            Cell::number(whole(group.tasks())),
            Cell::words(arrival(group)),
            Cell::of_class("", text(fates(group).join("; "))),
            Cell::words(&group.outcome),
        ]
    };
    let titles = ["group", "jobs", "Tasks each", "created", "Pods", "has to be"];
    table(&titles, report.scenario.groups.iter().map(row).collect())
}

fn arrival(group: &Group) -> String {
    let rate = group.per_second.map_or("all at once".to_owned(), |rate| format!("{}/s", short(rate)));
    let start = group.start_seconds;
    if start > 0.0 { format!("{rate}, after {} s", short(start)) } else { rate }
}

fn fates(group: &Group) -> Vec<String> {
    let roles = group.task_roles.iter().map(|role| {
        let retries = match role.retries {
            0 => String::new(),
            1 => ", 1 retry".into(),
            many => format!(", {many} retries"),
        };
        let (tasks, name, seconds) = (whole(role.task_number), &role.name, short(role.run_seconds));
        format!("{tasks} × {name}: run {seconds} s, exit {}{retries}", role.exit_code)
    });
    let sizes = group
        .rescale
        .iter()
        .map(|size| format!("{} after {} s", count(size.task_number, "Task"), short(size.after_seconds)));
    let unit = group.unit.iter().map(|unit| {
        let asked: Vec<String> =
            unit.resource.iter().map(|(resource, amount)| format!("{resource} {amount}")).collect();
        let since = if unit.until_all_wait { " after all others wait" } else { "" };
        let (asked, priority) = (asked.join(", "), unit.priority);
        format!("no Pod: asks for {asked}, priority {priority}, runs {} s{since}", short(unit.run_seconds))
    });
    roles.chain(sizes).chain(unit).collect()
}

fn file(report: &Report) -> Html {
    // A scenario that was read can also be written.
    let yaml = serde_saphyr::to_string(&report.scenario);
    tag("pre", &[], [text(yaml.unwrap_or_else(|error| format!("the scenario cannot be shown: {error}")))])
}
