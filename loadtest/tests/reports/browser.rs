//! Pages in a real browser: all elements are drawn inside their boxes, and the page loads and logs nothing.
//!
//! `measure.js` measures the page in frames of two widths, from the page around them.

use std::path::Path;
use std::process::{Command, Stdio};

use framework_loadtest::page::page;
use serde::Deserialize;

use crate::sample;

const BROWSER: &str = "chromium";
const INSTALL: &str = "apt-get install -y --no-install-recommends chromium";

/// A wide window, and a narrow one.
const WIDTHS: [u32; 2] = [1280, 400];

/// The measurements of a page at one width.
#[derive(Debug, Deserialize)]
struct Seen {
    width: u32,
    /// Of each plot, how many lines are drawn.
    lines: Vec<usize>,
    texts: usize,
    wrong: Vec<String>,
    asked: Vec<String>,
}

/// The measurements of pages at each width, and the browser's console.
fn look(pages: &[&str], dark: bool) -> (Vec<[Seen; 2]>, Vec<String>) {
    let home = tempfile::tempdir().expect("a directory");
    let mut frames = String::new();
    for page in pages {
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        for width in WIDTHS {
            let style = format!("border:0;width:{width}px;height:900px");
            frames += &format!("<iframe style=\"{style}\" srcdoc=\"{page}\"></iframe>");
        }
    }
    let script = include_str!("measure.js");
    let around = format!(
        "<!doctype html><meta charset=\"utf-8\"><pre id=\"found\"></pre>{frames}<script>{script}</script>"
    );
    let file = home.path().join("around.html");
    std::fs::write(&file, around).expect("the page is written");
    let output = browser(home.path(), dark, &file);
    let dom = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let found = dom.split_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let seen: Option<Vec<Seen>> = found.and_then(|(found, _)| serde_json::from_str(found).ok());
    let mut seen = seen.unwrap_or_else(|| panic!("the browser did not get as far: {said}")).into_iter();
    let mut pairs = Vec::new();
    while let (Some(wide), Some(narrow)) = (seen.next(), seen.next()) {
        assert_eq!([wide.width, narrow.width], WIDTHS);
        pairs.push([wide, narrow]);
    }
    assert_eq!(pairs.len(), pages.len());
    (pairs, said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect())
}

fn browser(home: &Path, dark: bool, file: &Path) -> std::process::Output {
    let mut browser = Command::new("timeout");
    browser.args(["300", BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"]);
    browser.args(["--window-size=1300,2000", "--virtual-time-budget=10000", "--dump-dom"]);
    browser.arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }));
    browser.arg(format!("--user-data-dir={}", home.join("profile").display()));
    browser.arg(format!("file://{}", file.display())).env("HOME", home);
    let output = browser.stdin(Stdio::null()).output().expect("timeout of coreutils runs the browser");
    assert!(output.status.code() != Some(127), "no {BROWSER}: {INSTALL}");
    output
}

/// Asserts that the page has no fault, and this number of plots and lines.
fn assert_whole(seen: &[Seen; 2], plots: usize, lines: usize) {
    for seen in seen {
        assert!(seen.wrong.is_empty(), "at {} px: {:#?}", seen.width, seen.wrong);
        assert_eq!(seen.asked, Vec::<String>::new());
        assert_eq!((seen.lines.len(), seen.lines.iter().sum::<usize>()), (plots, lines));
        assert!(seen.texts > 100, "only {} texts were found", seen.texts);
    }
}

#[test]
fn a_page_is_drawn_whole_at_any_width_and_loads_nothing() {
    let (odd, plain) = (page(&sample::odd_report()), page(&sample::report()));
    let (seen, console) = look(&[&odd, &plain], false);
    assert_whole(&seen[0], 18, 44);
    assert_whole(&seen[1], 5, 12);
    assert_eq!(console, Vec::<String>::new());
    let (seen, console) = look(&[&odd], true);
    assert_whole(&seen[0], 18, 44);
    assert_eq!(console, Vec::<String>::new());
}

#[test]
fn every_fault_of_a_page_is_noticed() {
    let good = page(&sample::report());
    let bad = good
        .replacen(
            "</h1>",
            "</h1><p style=\"white-space:nowrap\">one line that is longer than the window</p>",
            1,
        )
        .replacen("<h2>", "<p style=\"color:#ccc\">pale</p><h2>", 1)
        .replace("nowrap\">one", "nowrap;font-size:2rem\">one")
        .replace(".plot svg {", ".plot svg { max-height: 3rem;")
        .replace("left:0.00%", "left:16.00%")
        .replacen("class=\"line c1\"", "class=\"line\"", 1)
        .replace("class=\"line c0\" d=\"M", "class=\"line c0\" d=\"M2000 0L");
    let loading = good.replace("</h1>", "</h1><img src=\"http://127.0.0.1:9/x.png\">");
    let free = loading.replace("Content-Security-Policy", "x");
    let (seen, console) = look(&[&bad, &loading, &free], false);
    let wrong = seen[0][1].wrong.join("\n");
    for expected in [
        "text leaves its place",
        "a contrast of",
        "a plot of",
        "a line leaves its plot",
        "a line that is not seen",
        "ticks cover one another",
        "the page is wider than its window",
    ] {
        assert!(wrong.contains(expected), "{expected:?} is not noticed: {wrong}");
    }
    assert!(console.iter().any(|line| line.contains("Content Security Policy")), "{console:?}");
    assert_eq!(seen[2][0].asked, ["http://127.0.0.1:9/x.png"]);
}
