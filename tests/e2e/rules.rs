//! A controller runs with each kind of `podFailureSpec` that an administrator may write. One is the whole
//! file that the original ships, with its examples switched on. Others are lists that are reordered,
//! overridden or short.

use framework_api::code::Attribute;
use framework_api::pod_failure::{PodFailureRule, default_rules};
use serde_json::json;

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{Manifest, completed, manifest};

/// The settings and rules that the original's default file shows as comments, in our own words.
const EXAMPLES: &str = include_str!("../data/original_examples.yaml");

/// The codes that the original's default list does not have.
const OURS: std::ops::RangeInclusive<i32> = -1213..=-1210;

/// A Framework of one Task, how its Pod ends, and the completion that follows.
struct Case {
    name: &'static str,
    annotations: &'static [(&'static str, &'static str)],
    code: i32,
    phrase: &'static str,
    attributes: &'static [Attribute],
}

impl Case {
    /// A Pod with a second container, which succeeds unless an annotation names it.
    fn framework(&self) -> Manifest {
        let side = json!({ "name": "side", "image": "busybox" });
        manifest(self.name).role("a", 1, self.annotations).last_role(|role| {
            role["task"]["pod"]["spec"]["containers"].as_array_mut().expect("a list").push(side);
        })
    }

    fn assert_holds(&self, namespace: &str) {
        let framework = completed(namespace, self.name);
        let end = framework.status.expect("a status").attempt_status.completion_status.expect("it ended");
        let (phrase, attributes) = (end.phrase.as_str(), &end.r#type.attributes[..]);
        assert_eq!(
            (end.code, phrase, attributes),
            (self.code, self.phrase, self.attributes),
            "{}",
            self.name
        );
    }
}

const fn case(
    name: &'static str,
    annotations: &'static [(&'static str, &'static str)],
    code: i32,
    phrase: &'static str,
    attributes: &'static [Attribute],
) -> Case {
    Case { name, annotations, code, phrase, attributes }
}

/// Runs the cases with a controller that has this config file.
fn check(alone: &Alone, controller: &'static str, config: &str, cases: &[Case]) {
    let _controller = alone.start(controller, config);
    let namespace = namespace(controller);
    for case in cases {
        case.framework().create(&namespace);
    }
    for case in cases {
        case.assert_holds(&namespace);
    }
}

/// The original's file with all its examples switched on.
fn original() -> String {
    let is_original =
        |rule: &PodFailureRule| !OURS.contains(&rule.code) && ![-1007, -1008].contains(&rule.code);
    let rules: Vec<PodFailureRule> = default_rules().into_iter().filter(is_original).collect();
    let rules = json!(rules).to_string();
    let (settings, examples) = EXAMPLES.split_once("podFailureSpec:\n").expect("the examples have rules");
    let rules: Vec<String> = serde_json::from_str::<Vec<serde_json::Value>>(&rules)
        .expect("a list")
        .iter()
        .map(|rule| format!("- {rule}\n"))
        .collect();
    format!("{settings}podFailureSpec:\n{}{examples}", rules.concat())
}

#[test]
fn a_controller_runs_with_the_originals_whole_file() {
    let alone = Alone::wait();
    let cases = [
        case("forwarded", &[("exit-code", "220")], 220, "Container220Failed", &[Attribute::Permanent]),
        case(
            "tensorflow",
            &[("exit-code", "1"), ("message", "first\nTensorFlow: ResourceExhaustedError\nOOM when")],
            221,
            "ContainerTensorflowOOMKilled",
            &[Attribute::Permanent],
        ),
        case(
            "mpi",
            &[("exit-code", "1"), ("message", "signal code: address not mapped (1)")],
            222,
            "ContainerMPISegvFault",
            &[Attribute::Permanent],
        ),
        case(
            "cuda",
            &[("exit-code.side", "9"), ("message.side", "CUDA_ERROR_ECC_UNCORRECTABLE")],
            223,
            "ContainerCudaUncorrectableECCError",
            &[Attribute::Transient],
        ),
        case("unknown", &[("exit-code", "77")], 255, "ContainerUnknownFailed", &[]),
        case("evicted", &[("pod-reason", "Evicted")], -1000, "PodEvicted", &[Attribute::Transient]),
        case("predefined", &[("exit-code", "210")], 210, "ContainerPermanentFailed", &[Attribute::Permanent]),
        case(
            "both",
            &[("exit-code", "143"), ("exit-code.side", "139")],
            139,
            "ContainerSigSegvReceived",
            &[Attribute::Permanent],
        ),
    ];
    check(&alone, "rules-original", &original(), &cases);
}

#[test]
fn a_controller_runs_with_reordered_overridden_and_short_lists() {
    let alone = Alone::wait();
    let of = |code: i32, rest: &str| {
        format!("- code: {code}\n  phrase: Mine{code}\n  podPatterns: [{{containers: [{rest}]}}]\n")
    };
    let exit = |code: i32| of(code, &format!("{{codeRange: {{min: {code}, max: {code}}}}}"));
    let both = &[("exit-code", "143"), ("exit-code.side", "139")];
    let reordered = format!("podFailureSpec:\n{}{}", exit(143), exit(139));
    check(&alone, "rules-reordered", &reordered, &[case("both", both, 143, "Mine143", &[])]);

    let overridden = "podFailureSpec:\n- code: 137\n  phrase: Killed\n  type: {attributes: [Permanent]}\n  \
                      podPatterns: [{containers: [{codeRange: {min: 137, max: 137}}]}]\n";
    let killed = case("killed", &[("exit-code", "137")], 137, "Killed", &[Attribute::Permanent]);
    check(&alone, "rules-overridden", overridden, &[killed]);

    let signal = format!("podFailureSpec:\n{}", of(50, "{signalRange: {min: 9, max: 11}}"));
    let signals = [
        case("signal", &[("signal", "9")], 50, "Mine50", &[]),
        case("another", &[("signal", "15")], 143, "ContainerUnrecognizedFailed", &[]),
        case("none", &[("exit-code", "9")], 9, "ContainerUnrecognizedFailed", &[]),
    ];
    check(&alone, "rules-signal", &signal, &signals);

    let short = format!("podFailureSpec:\n{}", exit(7));
    let unmatched = [
        case("unmatched", &[("exit-code", "143")], 143, "ContainerUnrecognizedFailed", &[]),
        case("evicted", &[("pod-reason", "Evicted")], -300, "PodFailedWithoutFailedContainer", &[]),
        case("matched", &[("exit-code", "7")], 7, "Mine7", &[]),
    ];
    check(&alone, "rules-short", &short, &unmatched);
}
