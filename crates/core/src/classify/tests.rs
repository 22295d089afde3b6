//! Each default rule matches its failures, and the patterns of users mean the same as in RE2.

use framework_api::Time;
use framework_api::code::{Attribute, table};
use framework_api::pod_failure::{DEFAULT_TABLE, default_rules};
use proptest::prelude::*;

use super::*;

/// A failed Pod named `job-worker-0`.
fn failed(reason: &str) -> TerminatedPod {
    TerminatedPod {
        phase: TerminalPhase::Failed,
        pod_name: "job-worker-0".to_owned(),
        reason: reason.to_owned(),
        message: "of the pod".to_owned(),
        containers: Vec::new(),
    }
}

trait With {
    fn with(self, name: &str, exit_code: i32, reason: &str, message: &str) -> Self;
    fn signal(self, signal: i32) -> Self;
    fn at(self, second: i64) -> Self;
    fn running(self, name: &str) -> Self;
}

impl With for TerminatedPod {
    /// Adds a container that ended.
    fn with(mut self, name: &str, exit_code: i32, reason: &str, message: &str) -> Self {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        let end = ContainerTerminated { reason, message, exit_code, ..ContainerTerminated::default() };
        self.containers.push(ContainerEnd { name: name.to_owned(), terminated: Some(end) });
        self
    }

    /// The last added container ended by this signal.
    fn signal(mut self, signal: i32) -> Self {
        self.containers.last_mut().unwrap().terminated.as_mut().unwrap().signal = signal;
        self
    }

    /// The last added container ended at this second.
    fn at(mut self, second: i64) -> Self {
        let end = self.containers.last_mut().unwrap().terminated.as_mut().unwrap();
        end.finished_at = Some(Time::floor(jiff::Timestamp::from_second(second).unwrap()));
        self
    }

    /// Adds a container that the Pod ended without.
    fn running(mut self, name: &str) -> Self {
        self.containers.push(ContainerEnd { name: name.to_owned(), terminated: None });
        self
    }
}

fn by_default() -> Classifier {
    Classifier::new(&default_rules()).unwrap()
}

fn rules(json: &str) -> Vec<PodFailureRule> {
    serde_json::from_str(json).unwrap()
}

/// Pods, and the code that the contract gives them with the default rules.
fn table_of_pods() -> Vec<(TerminatedPod, i32)> {
    let one = |code, reason: &str, message: &str| failed("").with("main", code, reason, message);
    let cannot_run = |code, message: &str| one(code, "ContainerCannotRun", message);
    let mut rows = vec![
        (failed("Evicted"), -1000),
        (failed("evicted"), -1000),
        (failed("NotEvicted"), -300),
        (failed("NodeLost"), -1001),
        (failed("OutOfcpu"), -1002),
        (failed("OutOf"), -300),
        (failed("OutOf memory"), -300),
        (failed("Preempting"), -1003),
        (failed("DeadlineExceeded"), -1004),
        (failed("Forbidden"), -1005),
        (failed("UnexpectedAdmissionError"), -1006),
        (failed("UnknownReason"), -1006),
        (failed("InvalidNodeInfo"), -1006),
        (failed("UnexpectedPredicateFailureType"), -1006),
        (failed("Terminated"), -1007),
        (failed("NodeShutdown"), -1007),
        (failed("Shutdown"), -1007),
        (failed("DeletionByPodGC"), -1008),
        (failed("Other"), -300),
        (one(137, "OOMKilled", ""), -1200),
        (one(1, "oomkilled", "m"), -1200),
        (one(0, "OOMKilled", ""), -300),
        (one(-1, "OOMKilled", ""), -1),
        (cannot_run(125, "m"), -1201),
        (cannot_run(126, "m"), -1202),
        (cannot_run(127, "m"), -1203),
        (cannot_run(128, "exec: \"x\": executable file\nNOT FOUND in $PATH"), -1203),
        (cannot_run(128, "cannot find x"), -1203),
        (cannot_run(128, "no such file or directory"), -1203),
        (cannot_run(128, "something else"), -1204),
        (cannot_run(124, "not found"), 124),
        (cannot_run(129, "not found"), 129),
        (one(125, "Error", ""), 125),
        (one(126, "Error", ""), 126),
        (one(127, "Error", ""), 127),
        (one(128, "Error", "not found"), 128),
        (one(137, "ContainerStatusUnknown", "could not be located"), -1210),
        (one(128, "StartError", "exec: \"/x\": Permission denied: unknown"), -1211),
        (one(128, "StartError", "exec: \"x\": executable file not found in $PATH"), -1212),
        (one(128, "StartError", "stat /x: no such file or directory"), -1212),
        (one(128, "StartError", "cannot find x"), -1212),
        (one(128, "StartError", "runc create failed"), -1213),
        (one(1, "Error", "permission denied"), 1),
        (one(200, "Error", "m"), 200),
        (one(201, "Error", "m"), 201),
        (one(210, "Error", "m"), 210),
        (one(205, "Error", "m"), 205),
        // The codes that a container reports itself go before all rules, and rules before later ones.
        (failed("Evicted").with("main", 210, "OOMKilled", "m"), 210),
        (failed("Evicted").with("a", 210, "", "").with("b", 200, "", ""), 200),
        (failed("Evicted").with("main", 137, "OOMKilled", ""), -1000),
        (failed("").with("a", 137, "Error", "").with("b", 1, "OOMKilled", ""), -1200),
        (failed("").with("a", 134, "Error", "").with("b", 137, "Error", ""), 134),
        (failed("").with("a", 143, "Error", "").with("b", 139, "Error", ""), 139),
        (failed("").running("a").with("b", 139, "Error", ""), 139),
    ];
    rows.extend(
        [130, 131, 132, 134, 135, 136, 137, 139, 141, 143].map(|code| (one(code, "Error", "m"), code)),
    );
    rows
}

#[test]
fn a_pod_gets_the_code_phrase_and_type_of_the_manual() {
    let mut meaning: BTreeMap<i32, (String, CompletionType)> = table()
        .iter()
        .filter_map(|row| Some((row.code?, (row.phrase.to_owned(), row.r#type.clone()))))
        .collect();
    for line in DEFAULT_TABLE.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let attributes: &[Attribute] = match cells[2] {
            "" => &[],
            "Transient" => &[Attribute::Transient],
            "Permanent" => &[Attribute::Permanent],
            other => panic!("{other}"),
        };
        let of = (cells[1].to_owned(), CompletionType::failed(attributes));
        meaning.insert(cells[0].parse().unwrap(), of);
    }
    let unrecognized = ("ContainerUnrecognizedFailed".to_owned(), CompletionType::failed(&[]));
    let classifier = by_default();
    for (pod, code) in table_of_pods() {
        let status = classifier.classify(&pod);
        let meaning = meaning.get(&code).unwrap_or(&unrecognized).clone();
        assert_eq!((status.code, (status.phrase, status.r#type)), (code, meaning), "{pod:?}");
    }
}

/// Without any one rule, pattern or field of the default rules, the code of some Pod of the table would
/// differ.
#[test]
fn the_table_of_pods_notices_the_loss_of_any_part_of_the_default_rules() {
    let pods = table_of_pods();
    let outcomes = |rules: &[PodFailureRule]| -> Vec<TaskAttemptCompletionStatus> {
        let classifier = Classifier::new(rules).unwrap();
        pods.iter().map(|(pod, _)| classifier.classify(pod)).collect()
    };
    let whole = default_rules();
    let expected = outcomes(&whole);
    let mut lost = 0;
    let mut check = |part: &str, lose: &dyn Fn(&mut Vec<PodFailureRule>)| {
        let mut rules = whole.clone();
        lose(&mut rules);
        rules.retain(|rule| !rule.pod_patterns.is_empty());
        if rules != whole {
            assert!(outcomes(&rules) != expected, "nobody misses {part}");
            lost += 1;
        }
    };
    for (r, rule) in whole.iter().enumerate() {
        let code = rule.code;
        check(&format!("type of {code}"), &|rules| {
            rules[r].r#type = Some(CompletionType::failed(&[Attribute::Conflict]))
        });
        for p in 0..rule.pod_patterns.len() {
            let part = |what: &str| format!("{what} of pattern {p} of {code}");
            check(&part("all"), &|rules| drop(rules[r].pod_patterns.remove(p)));
            check(&part("reason"), &|rules| rules[r].pod_patterns[p].reason_regex = None);
            check(&part("message"), &|rules| rules[r].pod_patterns[p].message_regex = None);
            if rule.pod_patterns[p].containers.is_empty() {
                continue;
            }
            let of = |rules: &mut Vec<PodFailureRule>, lose: fn(&mut ContainerPattern)| {
                lose(&mut rules[r].pod_patterns[p].containers[0]);
            };
            check(&part("container"), &|rules| rules[r].pod_patterns[p].containers.clear());
            check(&part("container name"), &|rules| of(rules, |c| c.name_regex = None));
            check(&part("container reason"), &|rules| of(rules, |c| c.reason_regex = None));
            check(&part("container message"), &|rules| of(rules, |c| c.message_regex = None));
            check(&part("container code"), &|rules| of(rules, |c| c.code_range = None));
        }
    }
    assert!(lost > 150, "only {lost} parts were taken away");
}

#[test]
fn a_match_is_diagnosed_with_the_matching_parts_and_nothing_else() {
    let classifier = Classifier::new(&rules(
        r#"[{"code": 1, "podPatterns": [{
             "nameRegex": "worker-\\d", "reasonRegex": "Od+", "messageRegex": "x*",
             "containers": [
               {"nameRegex": "ma", "reasonRegex": "Err", "messageRegex": "(?s)a.b", "signalRange": {"min": 1},
                "codeRange": {"min": 7, "max": 7}},
               {"nameRegex": "^side$"}, {},
               {"codeRange": {"max": 0}, "signalRange": {}}]}]},
            {"code": 2, "podPatterns": [{}]}]"#,
    ))
    .unwrap();
    let pod =
        failed("Oddd!").running("side").with("main", 7, "Error", "xa\nbx").signal(9).with("last", 0, "", "");
    let status = classifier.classify(&pod);
    assert_eq!(
        status.diagnostics,
        concat!(
            r#"Pod failed: PodPattern matched: "#,
            r#"{"name":"worker-0","reason":"Oddd","containers":["#,
            r#"{"name":"ma","reason":"Err","message":"a\nb","signal":9,"code":7},"#,
            r#"{"name":"side"},{"code":0}]}"#,
        )
    );
    assert_eq!((status.code, status.phrase.as_str(), status.r#type), (1, "", CompletionType::failed(&[])));
    let other = classifier.classify(&failed("Other"));
    assert_eq!((other.code, other.diagnostics.as_str()), (2, "Pod failed: PodPattern matched: {}"));
}

#[test]
fn of_two_exit_codes_with_a_rule_the_first_rule_of_the_contract_decides() {
    let codes = [130, 131, 132, 134, 135, 136, 137, 139, 141, 143];
    for (position, first) in codes.iter().enumerate() {
        for second in &codes[position..] {
            let pod = |a, b| failed("").with("a", a, "Error", "").with("b", b, "Error", "");
            for pod in [pod(*first, *second), pod(*second, *first)] {
                assert_eq!(by_default().classify(&pod).code, *first, "{first} and {second}");
            }
        }
    }
}

/// The main container exits, and the kubelet ends the native sidecar: an init container that is restarted.
#[test]
fn a_sidecar_that_ends_with_its_pod_decides_unless_an_earlier_rule_does() {
    let pod = |sidecar: i32, main: i32| {
        failed("").with("sidecar", sidecar, "Error", "").with("main", main, "Error", "")
    };
    let codes = |rules: &[PodFailureRule], main: i32| {
        let classifier = Classifier::new(rules).unwrap();
        [143, 137, 0].map(|sidecar| classifier.classify(&pod(sidecar, main)).code)
    };
    assert_eq!(codes(&default_rules(), 1), [143, 137, 1], "the exit code 1 has no rule");
    assert_eq!(codes(&default_rules(), 210), [210; 3]);
    let named = r#"[{"code": 221, "podPatterns": [{"containers": [
        {"nameRegex": "^main$", "codeRange": {"min": 1, "max": 1}}]}]}]"#;
    let named: Vec<_> = rules(named).into_iter().chain(default_rules()).collect();
    assert_eq!(codes(&named, 1), [221; 3]);
    let both = by_default().classify(&pod(143, 143)).diagnostics;
    assert!(both.contains(r#""name":"sidecar""#), "init containers come first: {both}");
}

#[test]
fn the_default_rules_show_names_and_messages() {
    let diagnose = |pod: &TerminatedPod| by_default().classify(pod).diagnostics;
    assert_eq!(
        diagnose(&failed("Evicted").with("main", 137, "Error", "m")),
        r#"Pod failed: PodPattern matched: {"reason":"Evicted","message":"of the pod"}"#
    );
    assert_eq!(
        diagnose(&failed("").with("main", 143, "Error", "line 1\nline 2")),
        concat!(
            r#"Pod failed: PodPattern matched: {"containers":["#,
            r#"{"name":"main","message":"line 1\nline 2","code":143}]}"#,
        )
    );
    assert_eq!(
        diagnose(&failed("").with("main", 210, "Error", "give up")),
        r#"Pod failed: PodPattern matched: {"containers":[{"name":"main","message":"give up","code":210}]}"#
    );
    let oom = failed("").with("init", 0, "Completed", "").with("main", 137, "OOMKilled", "");
    assert_eq!(
        diagnose(&oom),
        concat!(
            r#"Pod failed: PodPattern matched: {"containers":["#,
            r#"{"name":"main","reason":"OOMKilled","code":137}]}"#,
        )
    );
}

#[test]
fn an_unmatched_pod_is_diagnosed_with_all_that_it_said() {
    let pod = failed("Odd").with("main", 3, "Error", "m").signal(9).running("side").with("last", 0, "", "");
    let status = by_default().classify(&pod);
    assert_eq!(
        status.diagnostics,
        concat!(
            r#"Pod failed: PodPattern unmatched: "#,
            r#"{"reason":"Odd","message":"of the pod","containers":["#,
            r#"{"name":"main","reason":"Error","message":"m","signal":9,"code":3},"#,
            r#"{"name":"last","code":0}]}"#,
        )
    );
    let facts = status.pod.unwrap();
    assert_eq!(
        status.diagnostics,
        format!("Pod failed: PodPattern unmatched: {}", serde_json::to_string(&facts).unwrap())
    );
    assert_eq!((status.code, facts.containers.len()), (3, 2));
}

#[test]
fn a_succeeded_pod_says_how_its_containers_ended() {
    let mut pod = failed("Evicted").with("main", 0, "Completed", "loss=0.1");
    pod.phase = TerminalPhase::Succeeded;
    let status = by_default().classify(&pod);
    assert_eq!((status.code, status.phrase.as_str()), (0, "Succeeded"));
    assert_eq!((status.r#type, status.diagnostics.as_str()), (CompletionType::succeeded(), "Pod succeeded"));
    assert_eq!(status.pod.unwrap().containers[0].message, "loss=0.1");
}

#[test]
fn an_unmatched_pod_has_the_exit_code_of_the_container_that_failed_last() {
    let code = |pod: &TerminatedPod| Classifier::new(&[]).unwrap().classify(pod).code;
    let two = |first, second| failed("").with("a", 3, "", "").at(first).with("b", 4, "", "").at(second);
    assert_eq!(code(&two(20, 10)), 3);
    assert_eq!(code(&two(10, 20)), 4);
    assert_eq!(code(&two(10, 10)), 3, "the first listed, on a tie");
    assert_eq!(
        code(&two(10, 20).with("c", 0, "", "").at(30)),
        4,
        "a container that succeeded did not fail last"
    );
    assert_eq!(code(&failed("").with("a", 3, "", "").with("b", 4, "", "").at(1)), 4, "a known time is later");
    assert_eq!(code(&failed("").running("a").with("b", 0, "", "")), -300);
    assert_eq!(code(&failed("")), -300);
}

#[test]
fn each_field_of_a_pattern_must_match_if_it_is_given() {
    let pod = || failed("R").with("main", 5, "Why", "What").signal(9).running("side");
    let matches = |pattern: &str| {
        let rules = rules(&format!(r#"[{{"code": 1, "podPatterns": [{pattern}]}}]"#));
        Classifier::new(&rules).unwrap().classify(&pod()).code == 1
    };
    let of_container = |fields: &str| matches(&format!(r#"{{"containers": [{fields}]}}"#));
    assert!(matches(r#"{"nameRegex": "^job", "reasonRegex": "R", "messageRegex": "pod"}"#));
    assert!(!matches(r#"{"nameRegex": "^work"}"#));
    assert!(!matches(r#"{"reasonRegex": "X"}"#));
    assert!(!matches(r#"{"messageRegex": "X"}"#));
    assert!(!matches(r#"{"nameRegex": "^job", "messageRegex": "X"}"#));
    assert!(of_container(r#"{"nameRegex": "main", "reasonRegex": "Why", "messageRegex": "What"}"#));
    assert!(!of_container(r#"{"reasonRegex": "What"}"#));
    assert!(!of_container(r#"{"messageRegex": "Why"}"#));
    assert!(of_container(r#"{"signalRange": {"min": 9, "max": 9}, "codeRange": {"min": 5, "max": 5}}"#));
    assert!(!of_container(r#"{"signalRange": {"min": 10}}"#));
    assert!(!of_container(r#"{"signalRange": {"max": 8}}"#));
    assert!(!of_container(r#"{"codeRange": {"min": 6}}"#));
    assert!(!of_container(r#"{"codeRange": {"max": 4}}"#));
    assert!(of_container(r#"{"nameRegex": "main"}, {"nameRegex": "side"}"#), "each is met by some container");
    assert!(of_container(r#"{"nameRegex": "main"}, {"codeRange": {}}"#), "two may be met by the same one");
    assert!(!of_container(r#"{"nameRegex": "main"}, {"nameRegex": "other"}"#));
    // For a container that did not end, only the name can match, even if a pattern matches any text.
    assert!(of_container(r#"{"nameRegex": "side"}"#));
    for field in ["reasonRegex", "messageRegex"] {
        assert!(!of_container(&format!(r#"{{"nameRegex": "side", "{field}": ".*"}}"#)), "{field}");
    }
    for field in ["signalRange", "codeRange"] {
        assert!(
            of_container(&format!(r#"{{"nameRegex": "side", "{field}": {{}}}}"#)),
            "{field} is not given"
        );
        assert!(!of_container(&format!(r#"{{"nameRegex": "side", "{field}": {{"min": 0}}}}"#)), "{field}");
    }
}

#[test]
fn a_code_matches_if_any_of_its_patterns_does() {
    let classifier = Classifier::new(&rules(
        r#"[{"code": 1, "podPatterns": [{"reasonRegex": "A"}, {"reasonRegex": "B"}]}]"#,
    ));
    let classifier = classifier.unwrap();
    let codes = ["A", "B", "C"].map(|reason| classifier.classify(&failed(reason)).code);
    assert_eq!(codes, [1, 1, -300]);
}

#[test]
fn the_first_container_that_meets_a_pattern_is_shown() {
    let pod = failed("").with("init", 137, "Error", "first").with("main", 137, "Error", "second");
    assert!(by_default().classify(&pod).diagnostics.contains(r#""name":"init","message":"first""#));
}

#[test]
fn a_bad_entry_is_named_with_its_field_and_pattern() {
    let deep = format!("{}a{}", "(".repeat(200), ")".repeat(200));
    let table = [
        (r#"{"code": 219, "podPatterns": [{}]}"#, "podFailureSpec[1].code (code 219): codes from 200 to 219"),
        (r#"{"code": 0, "podPatterns": [{}]}"#, "podFailureSpec[1].code (code 0): codes from 200 to 219"),
        (r#"{"code": -999, "podPatterns": [{}]}"#, "podFailureSpec[1].code (code -999): codes from"),
        (
            r#"{"code": 7, "podPatterns": [{}]}"#,
            "podFailureSpec[1].code (code 7): the code is that of entry 0 too",
        ),
        (r#"{"code": 8, "podPatterns": []}"#, "podFailureSpec[1].podPatterns (code 8): at least one"),
        (r#"{"code": 8}"#, "podFailureSpec[1].podPatterns (code 8): at least one"),
        (
            r#"{"code": 8, "type": {"name": "Succeeded", "attributes": []}, "podPatterns": [{}]}"#,
            "podFailureSpec[1].type.name (code 8): the type of a failure",
        ),
        (
            r#"{"code": 8, "podPatterns": [{}, {"nameRegex": "a("}]}"#,
            "podFailureSpec[1].podPatterns[1].nameRegex (code 8): cannot use the regex `a(`: unclosed group",
        ),
        (
            r#"{"code": 8, "podPatterns": [{"containers": [{}, {"messageRegex": "\\p{Nope}"}]}]}"#,
            "podFailureSpec[1].podPatterns[0].containers[1].messageRegex (code 8): cannot use the regex",
        ),
        (
            r#"{"code": 8, "podPatterns": [{"reasonRegex": "(?x)a"}]}"#,
            "podFailureSpec[1].podPatterns[0].reasonRegex (code 8): cannot use the regex `(?x)a`: the flags",
        ),
        (
            r#"{"code": 8, "podPatterns": [{"reasonRegex": "\\pL{1000}"}]}"#,
            concat!(
                r"podFailureSpec[1].podPatterns[0].reasonRegex (code 8): ",
                r"cannot use the regex `\pL{1000}`: it takes more than 4194304 bytes",
            ),
        ),
        (
            &format!(r#"{{"code": 8, "podPatterns": [{{"reasonRegex": "{deep}"}}]}}"#),
            "podFailureSpec[1].podPatterns[0].reasonRegex (code 8): cannot use the regex",
        ),
    ];
    for (entry, message) in table {
        let rules = rules(&format!(r#"[{{"code": 7, "podPatterns": [{{}}]}}, {entry}]"#));
        let error = Classifier::new(&rules).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\nshould start with {message}");
        assert!(!error.contains('\n'), "{error}");
    }
    for code in [-1000, 1, 199, 220] {
        let fine = rules(&format!(r#"[{{"code": {code}, "podPatterns": [{{}}]}}]"#));
        assert_eq!(Classifier::new(&fine).unwrap().classify(&failed("")).code, code);
    }
}

fn any_container() -> impl Strategy<Value = ContainerEnd> {
    let reason =
        prop_oneof![Just("Error"), Just("OOMKilled"), Just("ContainerCannotRun"), Just("StartError")];
    let code = prop_oneof![Just(0), 1..=255, any::<i32>()];
    let end = (reason, ".{0,8}", 0..=15, code, proptest::option::of(0..9_i64)).prop_map(
        |(reason, message, signal, exit_code, second)| {
            let finished_at = second.map(|s| Time::floor(jiff::Timestamp::from_second(s).unwrap()));
            ContainerTerminated { reason: reason.to_owned(), message, signal, exit_code, finished_at }
        },
    );
    (".{0,4}", proptest::option::of(end)).prop_map(|(name, terminated)| ContainerEnd { name, terminated })
}

proptest! {
    #[test]
    fn the_code_is_zero_if_and_only_if_the_pod_succeeded(
        succeeded: bool,
        reason in prop_oneof!["", "Evicted", "OutOf.{0,4}", ".{0,8}"],
        message in ".{0,16}",
        containers in proptest::collection::vec(any_container(), 0..4),
    ) {
        thread_local!(static CLASSIFIER: Classifier = by_default());
        let phase = if succeeded { TerminalPhase::Succeeded } else { TerminalPhase::Failed };
        let pod = TerminatedPod { phase, pod_name: "p".to_owned(), reason, message, containers };
        let status = CLASSIFIER.with(|classifier| classifier.classify(&pod));
        prop_assert_eq!(status.code == 0, succeeded);
        prop_assert_eq!(status.r#type.is_failed(), !succeeded);
        let ended = pod.containers.iter().filter(|container| container.terminated.is_some()).count();
        prop_assert_eq!(status.pod.map(|facts| facts.containers.len()), Some(ended));
        if !succeeded {
            let json = status.diagnostics.split_once("matched: ").map(|(_, json)| json).unwrap_or_default();
            prop_assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{}", status.diagnostics);
        }
    }
}
