//! The text of the page.

use framework_loadtest::page::page;

use crate::sample;

fn assert_says(page: &str, words: &[&str]) {
    for words in words {
        assert!(page.contains(words), "the page does not say {words:?}");
    }
}

#[test]
fn a_page_says_first_whether_the_levels_are_met() {
    let page = page(&sample::report());
    let head = &page[page.find("<h1>").expect("a title")..page.find("Over time").expect("plots")];
    assert_says(
        head,
        &["burst", "frameworkcontroller", "All 2 levels are met.", "write efficiency", "0.969"],
    );
    let floors = "10,200 of 10,529; 0.912 against 2n + 8; 0.893 against 2n + 7";
    assert_says(head, &[floors, "shared 2 processors"]);
    assert!(!head.contains("verdict bad"));
}

#[test]
fn a_page_says_how_long_frameworks_were_in_each_state() {
    let mut report = sample::report();
    let made = page(&report);
    let section = made.split("<h3>Time in each state</h3>").nth(1).and_then(|rest| rest.split("<h3>").next());
    assert_says(section.expect("a section"), &["AttemptPreparing", "AttemptRunning", "1.23 s"]);
    report.runs[0].totals.states.clear();
    assert!(!page(&report).contains("Time in each state"), "older reports and other jobs have none");
}

#[test]
fn a_page_names_every_problem() {
    let page = page(&sample::odd_report());
    assert_says(
        &page,
        &[
            "2 of 3 levels are missed: writeEfficiency is 0.812, not ≥ 0.95; controllerPeakMebibytes",
            "(≤ 128) could not be measured.",
            "Given up after 93 s: after 900 s 17 jobs had not ended.",
            "The figures below are those until then.",
            "17 of 200 jobs did not end.",
            "3 own requests were refused.",
            "The controller counted 2 requests fewer than the audit log.",
            "Requests are not known",
            "latencies are of fewer than 100 jobs",
            "<td class=\"n\">not measured</td>",
            "<td class=\"bad\">missed</td>",
            "(2.2 s)",
            "<td class=\"n\">2.48 s</td><td class=\"n\">(4.34 s)</td><td class=\"n\">(6.82 s)</td>",
        ],
    );
}

#[test]
fn a_report_that_lacks_something_is_not_met_and_its_page_says_why() {
    let mut report = sample::report();
    assert!(report.is_met());
    report.runs[0].totals.problems.push("reading /metrics: it answers 503".into());
    assert!(!report.is_met());
    assert_says(&page(&report), &["class=\"verdict bad\"", "Problem: reading /metrics: it answers 503."]);
}

#[test]
fn a_page_of_a_rate_that_is_not_known_says_so() {
    let mut report = sample::queue_report();
    report.runs[0].queue.as_mut().expect("it has releases").releases_per_second = None;
    assert_says(&page(&report), &["<dt>releases/s</dt><dd>not known<small>200 units"]);
}

#[test]
fn a_page_has_a_row_for_each_of_several_replicas() {
    let mut report = sample::report();
    report.runs[0].used.replicas = vec![sample::replica()];
    assert!(!page(&report).contains("<h3>Replicas</h3>"), "one replica is the controller");
    report.runs[0].used.replicas = vec![sample::replica(); 3];
    report.runs[0].used.replicas[2].process = None;
    let page = page(&report);
    assert_says(&page, &["<h3>Replicas</h3>", "replica 3", "2,600", "11.8 MiB", "not known"]);
    assert_says(&page, &["bytes that the controller received", "35.3 MiB"]);
}

#[test]
fn a_page_shows_no_number_of_pods_that_were_not_counted() {
    let mut report = sample::report();
    assert_says(&page(&report), &["4,000 Tasks, 4,000 Pods"]);
    report.runs[0].requests.source = "none".into();
    report.runs[0].totals.pods = 0;
    let page = page(&report);
    assert_says(&page, &["4,000 Tasks</small>"]);
    let row = page.split("Pods, retries included").nth(1).and_then(|rest| rest.split("</tr>").next());
    assert!(row.is_some_and(|row| row.contains("not known")), "{row:?}");
}

#[test]
fn a_page_holds_no_markup_of_its_report() {
    let page = page(&sample::odd_report());
    assert!(!page.contains("<script"), "text became markup");
    assert_says(
        &page,
        &["burst-&lt;script&gt;alert(&#39;never&#39;)&lt;/script&gt;", "defaults &amp; &quot;quotes&quot;"],
    );
}

#[test]
fn a_page_of_queues_counts_releases_and_those_beyond_the_quota() {
    let page = page(&sample::queue_report());
    assert_says(
        &page,
        &[
            "releases/s",
            "beyond the quota: 1",
            "More was released than the quota allows; the first case: small7 in namespace 1 at",
            "no Pod: asks for cpu 5, priority 7, runs 0.5 s",
            "own requests on QueueUnits",
        ],
    );
}

#[test]
fn several_systems_stand_side_by_side_with_their_ratio_to_the_first() {
    let page = page(&sample::odd_report());
    let beside =
        &page[page.find("Side by side").expect("a comparison")..page.find("Over time").expect("plots")];
    assert_says(beside, &["floor client", "batch/v1 Job", "×0.8", "×3.1", "the controller: peak memory"]);
    assert_says(beside, &["objects that the API server allocated for each Task", "40,000"]);
    assert!(!page_of_one().contains("Side by side"));
}

fn page_of_one() -> String {
    page(&sample::report())
}

#[test]
fn a_trimmed_report_is_a_page_without_plots() {
    let page = page(&framework_loadtest::saved::trimmed(sample::report()));
    assert!(!page.contains("<svg"));
    assert_says(&page, &["This report has no course over time", "creation → first Task running"]);
}

#[test]
fn too_many_lines_of_a_plot_are_counted_instead_of_drawn() {
    assert_says(&page(&sample::odd_report()), &["and 6 smaller, not drawn", "no data", "a plot of tomorrow"]);
}
