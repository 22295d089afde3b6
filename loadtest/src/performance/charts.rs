//! The charts of docs/performance.md, each a file of SVG.

use crate::number::{short, whole};
use crate::page::axis::Axis;
use crate::page::html::{Html, tag, text};
use crate::report::{Report, Run};

/// Scenarios that all systems run, from the one where a Framework costs most beside its Pods.
const COMPARED: [&str; 3] = ["burst-small", "burst", "burst-large"];

/// Scenarios of one Framework each, from the smallest.
const SIZES: [&str; 4] = ["single-100", "single-1000", "burst-large", "large-single"];

/// Sizes in pixels: the area of a panel, the space around it, and the space above both panels.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 50.0;
const BELOW: f64 = 40.0;
const ABOVE: f64 = 70.0;

/// A figure of a run: its name, and how many of its unit.
type Figure = (&'static str, fn(&Run) -> Option<f64>);

const RATE: Figure = ("Tasks/s", |run| Some(run.throughput.tasks_per_second));
const ALLOCATED: Figure =
    ("API server: MB allocated/Task", |run| Some(run.bytes.api_server_allocated_per_task? / 1e6));
const PROCESSOR: Figure =
    ("controller: processor ms/Task", |run| Some(run.controller()?.cpu_milliseconds_per_task));

/// The systems in the order of their bars, with their colours.
const SYSTEMS: [(&str, &str, &str); 5] = [
    ("frameworkcontroller", "drop-in defaults", "#1d4ed8"),
    ("frameworkcontroller", "recommended", "#60a5fa"),
    ("floor client", "", "#9ca3af"),
    ("batch/v1 Job", "", "#15803d"),
    ("the original", "", "#b91c1c"),
];

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The name of its file, without the extension.
    pub name: &'static str,
    /// A description for readers who do not see it.
    pub title: &'static str,
    /// The content of the file.
    pub svg: String,
}

/// The charts that the reports have figures for.
pub fn charts(reports: &[Report]) -> Vec<Chart> {
    let named = |names: &[&str]| -> Vec<&Report> {
        names.iter().filter_map(|name| reports.iter().find(|report| report.scenario.name == *name)).collect()
    };
    let (compared, sizes) = (named(&COMPARED), named(&SIZES));
    let mut charts = Vec::new();
    if !compared.is_empty() {
        let title = "Rates, and memory that the API server allocates, by system";
        let panels = [RATE, ALLOCATED].map(|figure| bars(&compared, figure));
        let svg = document(title, legend(), panels);
        charts.push(Chart { name: "rates-and-costs", title, svg });
    }
    if sizes.len() > 1 {
        let title = "Costs of a Task by the size of its Framework";
        let panels = [ALLOCATED, PROCESSOR].map(|figure| line(&sizes, figure));
        let svg = document(title, Html::default(), panels);
        charts.push(Chart { name: "cost-against-size", title, svg });
    }
    charts
}

/// Two panels beside each other.
fn document(title: &str, legend: Html, panels: [Html; 2]) -> String {
    let (width, height) = (2.0 * (LEFT + WIDTH) + LEFT, ABOVE + HEIGHT + BELOW);
    let view = format!("0 0 {width} {height}");
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("viewBox", &*view),
        ("font-family", "sans-serif"),
        ("font-size", "12"),
        ("role", "img"),
        ("aria-label", title),
    ];
    let background = tag("rect", &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")], []);
    let place = |at: usize, panel: Html| {
        let across = LEFT + at as f64 * (LEFT + WIDTH);
        tag("g", &[("transform", &format!("translate({across} {ABOVE})"))], [panel])
    };
    let [first, second] = panels;
    let pieces = [background, legend, place(0, first), place(1, second)];
    tag("svg", &attributes, pieces).into_markup() + "\n"
}

fn legend() -> Html {
    let entry = |(at, (system, profile, colour)): (usize, &(&str, &str, &str))| {
        let across = LEFT + at as f64 * 175.0;
        let name = name_of(system, profile);
        let key = rectangle([across, 14.0, 12.0, 12.0], colour, name);
        [key, label([across + 18.0, 24.0], "start", name)].into_iter().collect()
    };
    SYSTEMS.iter().enumerate().map(entry).collect()
}

/// A group of bars for each report, one for each system that ran it.
fn bars(reports: &[&Report], (name, figure): Figure) -> Html {
    let known: Vec<(usize, usize, f64)> = reports
        .iter()
        .enumerate()
        .flat_map(|(group, report)| {
            report.runs.iter().filter_map(move |run| Some((group, system_of(run)?, figure(run)?)))
        })
        .collect();
    let axis = Axis::of(name, known.iter().map(|bar| bar.2).fold(0.0, f64::max));
    let group_width = WIDTH / reports.len() as f64;
    let width = 0.8 * group_width / SYSTEMS.len() as f64;
    let bar = |(group, system, number): (usize, usize, f64)| -> Html {
        let across = group as f64 * group_width + 0.1 * group_width + system as f64 * width;
        let height = axis.share(number) * HEIGHT;
        let (owner, profile, colour) = SYSTEMS[system];
        let title = format!("{}: {}", name_of(owner, profile), short(number));
        let area = [across, HEIGHT - height, 0.9 * width, height];
        let above = small_label([across + 0.45 * width, HEIGHT - height - 3.0], &short(number));
        [rectangle(area, colour, &title), above].into_iter().collect()
    };
    let groups = reports.iter().enumerate().map(|(group, report)| {
        let across = (group as f64 + 0.5) * group_width;
        let work = format!("{} × {}", whole(report.scenario.jobs()), tasks_of_each(report));
        let below = label([across, HEIGHT + 32.0], "middle", &work);
        [label([across, HEIGHT + 16.0], "middle", &report.scenario.name), below].into_iter().collect()
    });
    frame(name, &axis).into_iter().chain(known.into_iter().map(bar)).chain(groups).collect()
}

/// The figure of the first run of each report, against the number of its Tasks as a logarithm.
fn line(reports: &[&Report], (name, figure): Figure) -> Html {
    let point = |report: &&Report| {
        let run = report.runs.first()?;
        Some((run.totals.tasks, figure(run)?))
    };
    let points: Vec<(usize, f64)> = reports.iter().filter_map(point).collect();
    let axis = Axis::of(name, points.iter().map(|point| point.1).fold(0.0, f64::max));
    let log = |tasks: usize| (tasks.max(1) as f64).log10();
    let least = points.first().map_or(0.0, |point| log(point.0)) - 0.2;
    let most = points.last().map_or(1.0, |point| log(point.0)) + 0.2;
    let place = |(tasks, number): (usize, f64)| {
        let across = (log(tasks) - least) / (most - least) * WIDTH;
        (across, (1.0 - axis.share(number)) * HEIGHT)
    };
    let colour = SYSTEMS[0].2;
    let path: Vec<String> =
        points.iter().map(|point| place(*point)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let drawn = tag(
        "polyline",
        &[("points", &path.join(" ")), ("fill", "none"), ("stroke", colour), ("stroke-width", "2")],
        [],
    );
    let dots = points.iter().map(|point| {
        let (across, down) = place(*point);
        let dot = rectangle([across - 3.0, down - 3.0, 6.0, 6.0], colour, &short(point.1));
        let below = label([across, HEIGHT + 16.0], "middle", &whole(point.0));
        [dot, label([across, down - 8.0], "middle", &short(point.1)), below].into_iter().collect()
    });
    let unit = label([WIDTH / 2.0, HEIGHT + 32.0], "middle", "Tasks of the Framework, as a logarithm");
    frame(name, &axis).into_iter().chain([drawn]).chain(dots).chain([unit]).collect()
}

/// The title of a panel, and the lines at its ticks.
fn frame(name: &str, axis: &Axis) -> Vec<Html> {
    let title = label([0.0, -14.0], "start", name);
    let ticks = axis.ticks.iter().map(|(share, tick)| {
        let down = format!("{:.1}", (1.0 - share) * HEIGHT);
        let (across, stroke) = (WIDTH.to_string(), "#d1d5db");
        let attributes = [("x2", &*across), ("y1", &*down), ("y2", &*down), ("stroke", stroke)];
        let number = label([-6.0, (1.0 - share) * HEIGHT + 4.0], "end", tick);
        [tag("line", &attributes, []), number].into_iter().collect()
    });
    std::iter::once(title).chain(ticks).collect()
}

/// Our two profiles have names; of the others the system is enough.
fn name_of<'a>(system: &'a str, profile: &'a str) -> &'a str {
    if profile.is_empty() { system } else { profile }
}

fn tasks_of_each(report: &Report) -> String {
    let each = report.scenario.tasks() / report.scenario.jobs().max(1);
    crate::number::count(each, "Task")
}

fn system_of(run: &Run) -> Option<usize> {
    let is_it =
        |(system, profile, _): &(&str, &str, &str)| run.system == *system && run.profile.starts_with(profile);
    SYSTEMS.iter().position(is_it)
}

/// A filled rectangle at x and y, of a width and a height, with a text that a pointer shows.
fn rectangle([x, y, width, height]: [f64; 4], colour: &str, title: &str) -> Html {
    let [x, y, width, height] = [x, y, width, height].map(|number| format!("{number:.1}"));
    let attributes = [("x", &*x), ("y", &y), ("width", &width), ("height", &height), ("fill", colour)];
    tag("rect", &attributes, [tag("title", &[], [text(title)])])
}

fn label(at: [f64; 2], anchor: &str, words: &str) -> Html {
    sized_label(at, anchor, "12", words)
}

fn small_label(at: [f64; 2], words: &str) -> Html {
    sized_label(at, "middle", "9", words)
}

fn sized_label([x, y]: [f64; 2], anchor: &str, size: &str, words: &str) -> Html {
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    let attributes =
        [("x", &*x), ("y", &y), ("text-anchor", anchor), ("font-size", size), ("fill", "#111827")];
    tag("text", &attributes, [text(words)])
}
