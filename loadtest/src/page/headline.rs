//! The head of the page: the work, the verdict, the doubts, and the figures that matter most.

use crate::number::{count, rate, short, size, time, whole};
use crate::phase_names::{COMPLETED, DEQUEUED, ENQUEUED, RUNNING};
use crate::report::{Level, Report, Run};

use super::html::{Html, of_class, plain, tag, text};

/// With fewer samples than this, a p99 is only the slowest one.
pub const FEW: usize = 100;

/// The transitions that users notice.
const TRANSITIONS: [&str; 4] = [RUNNING, COMPLETED, ENQUEUED, DEQUEUED];

/// Title, verdict, doubts and the figures that matter most.
pub fn headline(report: &Report) -> Html {
    let scenario = &report.scenario;
    let Some(first) = report.runs.first() else {
        return of_class("p", "verdict bad", [text("This report has no run.")]);
    };
    let against: Vec<String> = report.runs.iter().skip(1).map(|run| report.name_of(run)).collect();
    let beside = if against.is_empty() { String::new() } else { format!(" beside {}", against.join(", ")) };
    let on = format!(" on {}{beside}", report.name_of(first));
    let begun = first.started_at.strftime("%Y-%m-%d %H:%M UTC");
    [
        of_class("p", "kicker", [text(format!("Load test report, {begun}"))]),
        tag("h1", &[], [text(&scenario.name), plain("small", on)]),
        plain("p", &scenario.description),
        verdicts(report),
        cards(first),
        notes(report),
    ]
    .into_iter()
    .collect()
}

/// One verdict for each run.
fn verdicts(report: &Report) -> Html {
    let several = report.runs.len() > 1;
    report
        .runs
        .iter()
        .map(|run| {
            let (good, words) = verdict(run);
            let words = if several { format!("{}: {words}", report.name_of(run)) } else { words };
            of_class("p", if good { "verdict" } else { "verdict bad" }, [text(words)])
        })
        .collect()
}

fn verdict(run: &Run) -> (bool, String) {
    let missed: Vec<&Level> = run.levels.iter().filter(|level| !level.met).collect();
    let mut words = Vec::new();
    if let Some(why) = &run.given_up {
        words.push(format!(
            "Given up after {}: {why}. The figures below are those until then.",
            time(run.elapsed_seconds)
        ));
    }
    match (missed.len(), run.levels.len()) {
        // A level that is met so far may still be missed.
        (0, _) if run.given_up.is_some() => {}
        (0, 0) => words.push("The scenario has no levels.".into()),
        (0, 1) => words.push("Its level is met.".into()),
        (0, all) => words.push(format!("All {all} levels are met.")),
        (some, all) => {
            let named: Vec<String> = missed.iter().map(|level| shortfall(level)).collect();
            words.push(format!(
                "{some} of {all} levels {} missed: {}.",
                if some == 1 { "is" } else { "are" },
                named.join("; ")
            ));
        }
    }
    let problems = &run.totals.problems;
    words.extend(problems.iter().map(|problem| format!("Problem: {problem}.")));
    (run.given_up.is_none() && problems.is_empty() && missed.is_empty(), words.join(" "))
}

fn shortfall(level: &Level) -> String {
    match level.measured {
        Some(measured) => format!("{} is {}, not {}", level.name, short(measured), level.bound),
        None => format!("{} ({}) could not be measured", level.name, level.bound),
    }
}

fn cards(run: &Run) -> Html {
    let totals = &run.totals;
    let mut all = vec![
        card(
            "write efficiency",
            run.requests.write_efficiency.map_or("not known".into(), short),
            efficiency(run),
        ),
        card(
            "jobs",
            whole(totals.jobs),
            [Some(count(totals.tasks, "Task")), run.pods().map(|pods| count(pods, "Pod"))]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        ),
        card(
            "Tasks/s",
            short(run.throughput.tasks_per_second),
            format!("{}, {} in all", rate(run.throughput.jobs_per_second, "job"), time(run.elapsed_seconds)),
        ),
    ];
    if let Some(queue) = &run.queue {
        let over = queue.over_admitted.map_or("not known".into(), whole);
        all.push(card(
            "releases/s",
            queue.releases_per_second.map_or("not known".into(), short),
            format!("{}; beyond the quota: {over}", count(queue.releases, "unit")),
        ));
    }
    let known = |wanted: &str| run.latencies.iter().find(|latency| latency.transition == wanted);
    all.extend(TRANSITIONS.iter().filter_map(|wanted| known(wanted)).map(|latency| {
        let few = if latency.count < FEW { format!(", of only {}", latency.count) } else { String::new() };
        let below = format!("p99{few}; p50 {} ({})", time(latency.p50), latency.group);
        card(&latency.transition, time(latency.p99), below)
    }));
    if run.requests.source != "none" {
        let below = format!("{} for each job", short(run.requests.per_job));
        all.push(card("own requests for each Task", short(run.requests.per_task), below));
    }
    if let Some(controller) = run.controller() {
        let below = format!("peak; {} before", size(controller.rss_before_bytes as f64));
        all.push(card("memory of the controller", size(controller.rss_peak_bytes as f64), below));
    }
    for (name, process) in
        [("the controller", run.controller()), ("the API server", run.process("kube-apiserver"))]
    {
        let Some(process) = process else { continue };
        let below = format!("for each Task; {} in all", time(process.cpu_seconds));
        let each = time(process.cpu_milliseconds_per_task / 1000.0);
        all.push(card(&format!("processor time of {name}"), each, below));
    }
    if let Some(bytes) = run.bytes.api_server_allocated_per_task {
        let below = "for each Task, freed memory included".to_owned();
        all.push(card("memory allocated by the API server", size(bytes), below));
    }
    of_class("dl", "cards", all)
}

fn efficiency(run: &Run) -> String {
    let requests = &run.requests;
    let floor = requests.floor.map(|floor| format!("{} of {}", whole(floor), whole(requests.own)));
    let strict = requests.write_efficiency_strict.map(|share| format!("{} against 2n + 8", short(share)));
    let least = requests.write_efficiency_least.map(|share| format!("{} against 2n + 7", short(share)));
    [floor, strict, least].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn card(title: &str, figure: String, remark: String) -> Html {
    of_class("div", "card", [plain("dt", title), tag("dd", &[], [text(figure), plain("small", remark)])])
}

/// The doubts that a reader has to know before the figures.
fn notes(report: &Report) -> Html {
    let several = report.runs.len() > 1;
    let mut all = Vec::new();
    for run in &report.runs {
        let start = if several { format!("{}: ", report.name_of(run)) } else { String::new() };
        all.extend(doubts(run).into_iter().map(|doubt| format!("{start}{doubt}")));
    }
    if report.machine.shared_with_cluster {
        let processors = report.machine.processors;
        let processors = count(processors, "processor");
        all.push(format!("API server, controller and load test shared {processors}."));
    }
    match all.is_empty() {
        true => Html::default(),
        false => of_class("ul", "notes", all.into_iter().map(|note| plain("li", note))),
    }
}

fn doubts(run: &Run) -> Vec<String> {
    let mut all = Vec::new();
    let requests = &run.requests;
    let unfinished = run.totals.outcomes.get("Unfinished").copied().unwrap_or_default();
    if unfinished > 0 {
        all.push(format!("{} of {} did not end.", whole(unfinished), count(run.totals.jobs, "job")));
    }
    if requests.source == "none" {
        all.push("Requests are not known: the audit log of the API server could not be read.".into());
    }
    if requests.refused > 0 {
        let verb = if requests.refused == 1 { "was" } else { "were" };
        all.push(format!("{} {verb} refused.", count(requests.refused, "own request")));
    }
    if let Some(difference) = requests.unreconciled.filter(|difference| *difference != 0) {
        let apart = usize::try_from(difference.unsigned_abs()).unwrap_or(usize::MAX);
        let (apart, what) = (count(apart, "request"), if difference > 0 { "more" } else { "fewer" });
        all.push(format!("The controller counted {apart} {what} than the {}.", requests.source));
    }
    if let Some(first) = run.queue.as_ref().and_then(|queue| queue.first_over_admission.as_ref()) {
        all.push(format!("More was released than the quota allows; the first case: {first}."));
    }
    let few = run.latencies.iter().filter(|latency| latency.count < FEW).count();
    if few > 0 {
        all.push(format!(
            "{few} of {} latencies are of fewer than {FEW} jobs: their p99 is only the slowest job, and \
             stands in parentheses below.",
            run.latencies.len()
        ));
    }
    all
}
