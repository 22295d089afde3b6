//! On what and with what the runs were made, and the scenario itself.

use crate::number::{size, whole};
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
        ("the cluster".into(), place(machine.shared_with_cluster).into()),
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

fn place(shared: bool) -> &'static str {
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
    let rate = group.per_second.map_or("all at once".to_owned(), |rate| format!("{rate}/s"));
    if group.start_seconds > 0.0 { format!("{rate}, after {} s", group.start_seconds) } else { rate }
}

fn fates(group: &Group) -> Vec<String> {
    let roles = group.task_roles.iter().map(|role| {
        let retries = if role.retries == 0 { String::new() } else { format!(", {} retries", role.retries) };
        let (tasks, name, seconds) = (role.task_number, &role.name, role.run_seconds);
        format!("{tasks} × {name}: run {seconds} s, exit {}{retries}", role.exit_code)
    });
    let sizes = group
        .rescale
        .iter()
        .map(|rescale| format!("{} Tasks after {} s", rescale.task_number, rescale.after_seconds));
    let unit = group.unit.iter().map(|unit| {
        let asked: Vec<String> =
            unit.resource.iter().map(|(resource, amount)| format!("{resource} {amount}")).collect();
        let since = if unit.until_all_wait { " once all others wait" } else { "" };
        let (asked, priority) = (asked.join(", "), unit.priority);
        format!("no Pod: asks for {asked}, priority {priority}, runs {} s{since}", unit.run_seconds)
    });
    roles.chain(sizes).chain(unit).collect()
}

fn file(report: &Report) -> Html {
    // A scenario that was read from a file can be written to one.
    let yaml = serde_saphyr::to_string(&report.scenario);
    tag("pre", &[], [text(yaml.unwrap_or_else(|error| format!("it cannot be shown: {error}")))])
}
