//! Plots of the course of the runs, as SVG. Only lines are drawn in SVG; all text around them is HTML, so
//! that it keeps its size on a narrow page.
//!
//! The same plot of several runs has the same axes and colours.

use crate::number::{fitting, short, size};
use crate::report::{Report, Run, Series};

use super::axis::Axis;
use super::html::{Html, of_class, plain, tag, text};

/// The plots in the order in which they are read, and their titles.
const TITLES: [(&str, &str); 5] = [
    ("jobs", "Jobs by state"),
    ("latency", "Latency"),
    ("requests", "Requests"),
    ("processors", "Processors"),
    ("memory", "Memory"),
];

/// The most lines of one plot. The legend counts the smaller lines that are left out.
const LINES: usize = 8;

/// Processes and clients that have the same colour in all plots.
const KNOWN: [&str; 4] = ["frameworkcontroller", "kube-apiserver", "etcd", "kwok"];

/// A line has at most twice so many points: the least and the largest of each stretch.
const STRETCHES: usize = 300;

/// One pair of axes: the series of one plot and unit, over all runs.
struct Plot<'a> {
    title: String,
    unit: &'a str,
    /// The lines that are drawn, and their colours.
    lines: Vec<(&'a str, usize)>,
    left_out: usize,
    across: Axis,
    up: Axis,
}

/// All plots of all runs.
pub fn over_time(report: &Report) -> Html {
    let plots = plots(report);
    if plots.is_empty() {
        return of_class("p", "quiet", [text("This report has no course over time: it was trimmed.")]);
    }
    let several = report.runs.len() > 1;
    let panels =
        |plot: &Plot| -> Vec<Html> { report.runs.iter().map(|run| panel(plot, run, several)).collect() };
    match several {
        // The panels of the runs stand side by side.
        true => plots.iter().map(|plot| of_class("div", "panels", panels(plot))).collect(),
        false => of_class("div", "panels", plots.iter().flat_map(panels)),
    }
}

fn plots(report: &Report) -> Vec<Plot<'_>> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for series in report.runs.iter().flat_map(|run| &run.series) {
        let kind = (&*series.plot, &*series.unit);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    // A stable sort: unknown plots keep their order after the known ones.
    kinds.sort_by_key(|(plot, _)| TITLES.iter().position(|(known, _)| known == plot).unwrap_or(TITLES.len()));
    kinds.into_iter().map(|(plot, unit)| Plot::of(report, plot, unit)).collect()
}

impl<'a> Plot<'a> {
    fn of(report: &'a Report, plot: &'a str, unit: &'a str) -> Plot<'a> {
        let all: Vec<&Series> = report.runs.iter().flat_map(|run| of_kind(run, plot, unit)).collect();
        let mut names: Vec<&str> = Vec::new();
        for series in &all {
            if !names.contains(&&*series.name) {
                names.push(&series.name);
            }
        }
        let largest_of = |name: &str| {
            all.iter().filter(|one| one.name == name).map(|one| largest(one)).fold(0.0, f64::max)
        };
        let mut by_size = names.clone();
        by_size.sort_by(|a, b| largest_of(b).total_cmp(&largest_of(a)));
        let left_out = by_size.split_off(by_size.len().min(LINES));
        names.retain(|name| !left_out.contains(name));
        let points = || all.iter().flat_map(|one| finite(one));
        Plot {
            title: title_of(plot).to_owned(),
            unit,
            left_out: left_out.len(),
            across: Axis::of_time(points().map(|point| point.0).fold(0.0, f64::max)),
            up: Axis::of(unit, points().map(|point| point.1).fold(0.0, f64::max)),
            lines: coloured(names),
        }
    }
}

/// Gives each name a colour: known names their own, others a free one.
fn coloured(names: Vec<&str>) -> Vec<(&str, usize)> {
    let own = |name: &str| KNOWN.iter().position(|known| *known == name);
    let taken: Vec<usize> = names.iter().filter_map(|name| own(name)).collect();
    // Unknown names do not take the colours of known names, whether all of those are present or not.
    let first = if taken.is_empty() { 0 } else { KNOWN.len() };
    let mut free = (first..LINES).chain(0..first).filter(|colour| !taken.contains(colour));
    names.into_iter().filter_map(|name| Some((name, own(name).or_else(|| free.next())?))).collect()
}

fn of_kind<'a>(run: &'a Run, plot: &str, unit: &str) -> impl Iterator<Item = &'a Series> {
    run.series.iter().filter(move |series| series.plot == plot && series.unit == unit)
}

fn finite(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    series.points.iter().copied().filter(|(at, number)| at.is_finite() && number.is_finite())
}

fn largest(series: &Series) -> f64 {
    finite(series).map(|(_, number)| number).fold(0.0, f64::max)
}

fn panel(plot: &Plot, run: &Run, several: bool) -> Html {
    let drawn: Vec<(usize, &Series)> = plot
        .lines
        .iter()
        .filter_map(|(name, colour)| {
            let mut all =
                run.series.iter().filter(|one| one.unit == plot.unit && title_of(&one.plot) == plot.title);
            Some((*colour, all.find(|one| one.name == *name)?))
        })
        .collect();
    let whose = if several { run.title() } else { String::new() };
    let units = format!("{} over {} since the start", plot.up.unit, plot.across.unit);
    let caption = tag(
        "figcaption",
        &[],
        [
            plain("b", &plot.title),
            of_class("small", "units", [text(units)]),
            if several { of_class("small", "whose", [text(whose)]) } else { Html::default() },
        ],
    );
    let legend = of_class(
        "ul",
        "legend",
        drawn.iter().map(|(colour, series)| entry(plot, *colour, series)).chain(rest(plot, drawn.len())),
    );
    of_class("figure", "panel", [caption, area(plot, &drawn), legend])
}

fn title_of(plot: &str) -> &str {
    TITLES.iter().find(|(known, _)| *known == plot).map_or(plot, |(_, title)| title)
}

fn entry(plot: &Plot, colour: usize, series: &Series) -> Html {
    let key = of_class("i", &format!("key c{colour}"), []);
    let most = match finite(series).next() {
        Some(_) => format!("at most {}", in_unit(plot, largest(series))),
        None => "no data".into(),
    };
    tag("li", &[], [key, text(&series.name), of_class("small", "most", [text(most)])])
}

/// The remarks below the lines of the legend.
fn rest(plot: &Plot, drawn: usize) -> Option<Html> {
    if drawn == 0 {
        return Some(plain("li", "not measured"));
    }
    (plot.left_out > 0).then(|| tag("li", &[], [text(format!("and {} smaller, not drawn", plot.left_out))]))
}

/// A number in the unit of the axis, or for bytes in the one that fits.
fn in_unit(plot: &Plot, number: f64) -> String {
    if plot.unit == "bytes" {
        return size(number);
    }
    let (divisor, unit) = fitting(plot.unit, plot.up.end);
    format!("{} {unit}", short(number / divisor))
}

fn area(plot: &Plot, drawn: &[(usize, &Series)]) -> Html {
    let longest = plot.up.ticks.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(1);
    let width = format!("width:{}ch", longest + 1);
    let up = plot.up.ticks.iter().map(|(share, name)| {
        tag("span", &[("style", &format!("top:{}%", percent(1.0 - share)))], [text(name)])
    });
    let across =
        plot.across.ticks.iter().map(|(share, name)| {
            tag("span", &[("style", &format!("left:{}%", percent(*share)))], [text(name)])
        });
    let said: Vec<String> = drawn
        .iter()
        .map(|(_, one)| format!("{} at most {}", one.name, in_unit(plot, largest(one))))
        .collect();
    let label = format!("{}: {}", plot.title, said.join(", "));
    let lines = drawn.iter().map(|(colour, series)| {
        let class = format!("line c{colour}");
        tag("path", &[("class", &class), ("d", &path(plot, series))], [])
    });
    let grid = tag("path", &[("class", "grid"), ("d", &grid(plot))], []);
    let attributes = [
        ("viewBox", "0 0 1000 1000"),
        ("preserveAspectRatio", "none"),
        ("role", "img"),
        ("aria-label", &label),
    ];
    let svg = tag("svg", &attributes, [grid].into_iter().chain(lines));
    of_class(
        "div",
        "plot",
        [tag("div", &[("class", "up"), ("style", &width)], up), svg, of_class("div", "across", across)],
    )
}

fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

fn grid(plot: &Plot) -> String {
    let level = |(share, _): &(f64, String)| format!("M0 {:.1}H1000", (1.0 - share) * 1000.0);
    let moment = |(share, _): &(f64, String)| format!("M{:.1} 0V1000", share * 1000.0);
    plot.up.ticks.iter().map(level).chain(plot.across.ticks.iter().map(moment)).collect()
}

fn path(plot: &Plot, series: &Series) -> String {
    let place = |(at, number): (f64, f64)| {
        format!("{:.1} {:.1}", plot.across.share(at) * 1000.0, (1.0 - plot.up.share(number)) * 1000.0)
    };
    let points = thinned(finite(series).collect());
    match points[..] {
        // A stroke without length is a dot, because its ends are round.
        [only] => format!("M{}h0", place(only)),
        _ => points
            .into_iter()
            .enumerate()
            .map(|(at, point)| format!("{}{}", if at == 0 { "M" } else { "L" }, place(point)))
            .collect(),
    }
}

/// At most two points of each stretch: its least and its largest, in their order.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= 2 * STRETCHES {
        return points;
    }
    let length = points.len().div_ceil(STRETCHES);
    points.chunks(length).flat_map(extremes).collect()
}

fn extremes(stretch: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let by_number = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
    let both = [stretch.iter().min_by(by_number), stretch.iter().max_by(by_number)];
    let mut both: Vec<(f64, f64)> = both.into_iter().flatten().copied().collect();
    both.sort_by(|a, b| a.0.total_cmp(&b.0));
    both.dedup();
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_colour_in_all_plots_and_no_two_lines_share_one() {
        assert_eq!(coloured(vec!["stored", "completed"]), [("stored", 0), ("completed", 1)]);
        assert_eq!(
            coloured(vec!["etcd", "x", "kube-apiserver"]),
            [("etcd", 2), ("x", 4), ("kube-apiserver", 1)]
        );
        let many = coloured(vec!["a", "b", "c", "d", "e", "f", "g", "kwok"]);
        let mut colours: Vec<usize> = many.iter().map(|(_, colour)| *colour).collect();
        colours.sort_unstable();
        assert_eq!(colours, (0..LINES).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_series_keeps_its_peak_and_its_ends() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at), 1.0)).collect();
        points[70_001].1 = 9.0;
        let thin = thinned(points);
        assert!(thin.len() <= 2 * STRETCHES, "{}", thin.len());
        assert!(thin.contains(&(70_001.0, 9.0)));
        assert!(thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
