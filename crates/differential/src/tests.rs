//! The generator, the comparison and the definition of quiescence, without a cluster.

use std::collections::{BTreeSet, HashSet};

use framework_api::{CompletionPolicy, ExecutionType, Framework, FrameworkSpec};
use serde_json::{Value, json};

use crate::compare::{Difference, RULES, Record, compare};
use crate::draw;
use crate::example;
use crate::facts::{self, Facts};
use crate::plan::{HANGING, HELD, Plan, REFUSED, Step, is_marked};
use crate::play::{Observation, Timeline};
use crate::quiescence::{Removed, is_delayed, is_quiescent};

/// As many seeds as a campaign plays.
const SEEDS: std::ops::Range<u64> = 0..200;

fn specs(plan: &Plan) -> Vec<FrameworkSpec> {
    let with = |task_roles: &Vec<_>| FrameworkSpec { task_roles: task_roles.clone(), ..plan.spec.clone() };
    let mut specs = vec![plan.spec.clone()];
    for step in &plan.steps {
        match step {
            Step::Rescale { task_roles } => specs.push(with(task_roles)),
            Step::Bounce { down, up } => specs.extend([with(down), with(up)]),
            _ => {}
        }
    }
    specs
}

#[test]
fn a_seed_draws_the_same_plan_again_and_another_seed_another() {
    let mut drawn = BTreeSet::new();
    for seed in SEEDS {
        let plan = draw::plan(seed);
        assert_eq!(plan, draw::plan(seed));
        drawn.insert(format!("{:?} {:?}", plan.spec, plan.steps));
    }
    assert_eq!(drawn.len(), SEEDS.count());
}

#[test]
fn every_spec_is_one_that_both_sides_accept() {
    for plan in SEEDS.map(draw::plan) {
        for spec in specs(&plan) {
            let names: BTreeSet<&String> = spec.task_roles.iter().map(|role| &role.name).collect();
            assert_eq!(names.len(), spec.task_roles.len(), "seed {}: names are unique", plan.seed);
            assert!(!spec.task_roles.is_empty() && spec.task_number() <= 20, "seed {}", plan.seed);
            assert!(spec.execution_type != ExecutionType::Stop && spec.retry_policy.max_retry_count >= -2);
            for role in &spec.task_roles {
                let CompletionPolicy { min_failed_task_count, min_succeeded_task_count } =
                    role.framework_attempt_completion_policy;
                let counts = [min_failed_task_count, min_succeeded_task_count];
                assert!(counts.iter().all(|count| *count == -1 || *count > 0), "seed {}", plan.seed);
                let hanging = is_marked(role, HANGING);
                let timeout = role.task.pod_graceful_deletion_timeout_sec;
                assert!(!hanging || timeout.is_some_and(|sec| sec < 60), "seed {}: for ever", plan.seed);
                let refused = is_marked(role, REFUSED);
                assert!(!refused || role.task_number == 1, "seed {}: refusals race", plan.seed);
                serde_json::from_value::<k8s_openapi::api::core::v1::PodTemplateSpec>(
                    role.task.pod.read().unwrap(),
                )
                .expect("a pod template");
            }
            // Writing and reading it changes nothing.
            let written = serde_json::to_value(Framework::new("a", spec.clone())).unwrap();
            assert_eq!(serde_json::from_value::<Framework>(written).unwrap().spec, spec);
        }
    }
}

/// A feature that a campaign must compare, and whether a plan has it.
type Feature = (&'static str, fn(&Plan) -> bool);

const FEATURES: [Feature; 23] = [
    ("waits for its start", |plan| plan.steps.contains(&Step::Start)),
    ("rescaled before its start", |plan| {
        plan.steps.contains(&Step::Start) && matches!(plan.steps[0], Step::Rescale { .. })
    }),
    ("stopped", |plan| plan.steps.contains(&Step::Stop)),
    ("stopped in a retry delay", |plan| has(plan, |step| matches!(step, Step::EndThenStop { .. }))),
    ("a Pod deleted", |plan| has(plan, |step| matches!(step, Step::DeletePod { .. }))),
    ("the ConfigMap deleted", |plan| plan.steps.contains(&Step::DeleteConfigMap)),
    ("many ends at once", |plan| has(plan, |step| matches!(step, Step::Burst { .. }))),
    ("rescaled and back", |plan| has(plan, |step| matches!(step, Step::Bounce { .. }))),
    ("a TaskRole removed", |plan| roles(plan).is_some_and(|(before, after)| after < before)),
    ("a TaskRole added", |plan| roles(plan).is_some_and(|(before, after)| after > before)),
    ("several TaskRoles", |plan| plan.spec.task_roles.len() > 1),
    ("fancy", |plan| plan.spec.retry_policy.fancy_retry_policy),
    ("not fancy", |plan| !plan.spec.retry_policy.fancy_retry_policy),
    ("retried whatever happens", |plan| plan.spec.retry_policy.max_retry_count == -2),
    ("Tasks retried by count", |plan| {
        plan.spec.task_roles.iter().any(|role| role.task.retry_policy.max_retry_count > 0)
    }),
    ("more than one failure allowed", |plan| {
        plan.spec
            .task_roles
            .iter()
            .any(|role| role.framework_attempt_completion_policy.min_failed_task_count > 1)
    }),
    ("some successes suffice", |plan| {
        plan.spec
            .task_roles
            .iter()
            .any(|role| role.framework_attempt_completion_policy.min_succeeded_task_count > 0)
    }),
    ("Pods that stay Pending", |plan| plan.spec.task_roles.iter().any(|role| is_marked(role, HELD))),
    ("Pods that hang", |plan| plan.spec.task_roles.iter().any(|role| is_marked(role, HANGING))),
    ("Pods that are refused", |plan| plan.spec.task_roles.iter().any(|role| is_marked(role, REFUSED))),
    ("two containers whose codes different rules name", |plan| has(plan, |step| codes(step) == 2)),
    ("three such containers", |plan| has(plan, |step| codes(step) == 3)),
    ("an eviction", |plan| {
        has(plan, |step| matches!(step, Step::End { ending, .. } if ending.reason == "Evicted"))
    }),
];

/// How many containers fail with different codes in a step.
fn codes(step: &Step) -> usize {
    let Step::End { ending, .. } = step else { return 0 };
    let codes: BTreeSet<i32> =
        ending.containers.iter().map(|end| end.code).filter(|code| *code != 0).collect();
    codes.len()
}

fn has(plan: &Plan, is: fn(&Step) -> bool) -> bool {
    plan.steps.iter().any(is)
}

/// How many TaskRoles there are before and after the first rescale.
fn roles(plan: &Plan) -> Option<(usize, usize)> {
    let rescaled = plan.steps.iter().find_map(|step| match step {
        Step::Rescale { task_roles } => Some(task_roles.len()),
        _ => None,
    });
    Some((plan.spec.task_roles.len(), rescaled?))
}

#[test]
fn a_campaign_has_every_feature() {
    let plans: Vec<Plan> = SEEDS.map(draw::plan).collect();
    let missing: Vec<_> =
        FEATURES.iter().filter(|(_, is)| plans.iter().filter(|plan| is(plan)).count() < 2).collect();
    assert!(missing.is_empty(), "{:?}", missing.iter().map(|(name, _)| name).collect::<Vec<_>>());
}

fn facts(pairs: &[(&str, &str)]) -> Facts {
    pairs.iter().map(|(fact, value)| ((*fact).to_owned(), (*value).to_owned())).collect()
}

fn seen(pairs: &[(&str, &str)]) -> Record {
    let observation = Observation { after: "creation".into(), facts: facts(pairs) };
    Record { timeline: Timeline { observations: vec![observation], ..Timeline::default() }, snapshots: None }
}

/// Place and fact of each difference, with the row that explains it.
fn differences(reference: &Record, ours: &Record) -> Vec<(String, String, Option<&'static str>)> {
    let found = compare(reference, ours).into_iter();
    found
        .map(|(Difference { location, fact, .. }, rule)| (location, fact, rule.map(|rule| rule.row)))
        .collect()
}

fn one(reference: &Record, ours: &Record) -> (String, String, Option<&'static str>) {
    let found = differences(reference, ours);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn each_kind_of_difference_is_found() {
    let base = seen(&[("state", "Completed"), ("a-0.retried", "1 in all")]);
    assert_eq!(differences(&base, &base.clone()), []);
    let location = || "step 0, creation".to_owned();
    let changed = seen(&[("state", "Completed"), ("a-0.retried", "2 in all")]);
    assert_eq!(one(&base, &changed), (location(), "a-0.retried".into(), None));
    let fewer = seen(&[("state", "Completed")]);
    assert_eq!(one(&base, &fewer), (location(), "a-0.retried".into(), None));

    let mut other = base.clone();
    other.timeline.observations[0].after = "stop".into();
    assert_eq!(one(&base, &other), (location(), "what was done".into(), None));
    let mut longer = base.clone();
    longer.timeline.observations.push(Observation { after: "stop".into(), facts: Facts::new() });
    assert_eq!(one(&base, &longer), ("step 1, stop".into(), "what was done".into(), None));
    let mut stuck = base.clone();
    stuck.timeline.stuck = Some("never".into());
    assert_eq!(one(&stuck, &stuck.clone()), ("the end".into(), "stuck".into(), None));

    let mut pods = base.clone();
    pods.timeline.pods.insert("Pod x".into(), facts(&[("spec.nodeName", "n")]));
    assert_eq!(one(&base, &pods), ("Pod x".into(), "spec.nodeName".into(), None));

    let logged = |names: &[&str]| Record {
        snapshots: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..base.clone()
    };
    let retry = "OnTaskRetry of x-a-0 attempt 0.1";
    let location = "history snapshots".to_owned();
    assert_eq!(one(&logged(&[retry]), &logged(&[])), (location.clone(), retry.into(), None));
    assert_eq!(one(&logged(&[]), &logged(&[retry])), (location, retry.into(), None));
    assert_eq!(differences(&logged(&[retry]), &base), [], "one side logs none at all");
}

#[test]
fn a_difference_that_follows_from_another_is_not_reported() {
    let mut base = seen(&[("state", "Completed")]);
    base.timeline
        .observations
        .push(Observation { after: "stop".into(), facts: facts(&[("state", "Completed")]) });
    let mut other = base.clone();
    for observation in &mut other.timeline.observations {
        observation.facts = facts(&[("state", "AttemptRunning")]);
    }
    assert_eq!(one(&base, &other).0, "step 0, creation");
}

#[test]
fn an_intended_difference_is_explained_and_a_similar_one_is_not() {
    let text = |json: &str| format!("Pod failed: PodPattern matched: {json}");
    let of = |json: &str| seen(&[("a-0.attempt.end.diagnostics", &text(json))]);
    let row = |reference: &Record, ours: &Record| one(reference, ours).2;
    let escaped = of(r#"{"message":"\u003ca\u003e"}"#);
    assert_eq!(row(&escaped, &of(r#"{"message":"<a>"}"#)), Some("JSON in diagnostics"));
    assert_eq!(row(&escaped, &of(r#"{"message":"<b>"}"#)), None);

    let idle = of(r#"{"containers":[{"name":"a","code":1},{"name":"b","code":0}]}"#);
    let row_of_idle = "containers that never ran, in a Pod's completion status";
    assert_eq!(row(&idle, &of(r#"{"containers":[{"name":"a","code":1}]}"#)), Some(row_of_idle));
    assert_eq!(row(&idle, &of(r#"{"containers":[{"name":"b","code":0}]}"#)), None);
    assert_eq!(row(&of(r#"{"containers":[{"name":"b","code":0}]}"#), &of("{}")), Some(row_of_idle));

    let lost = |end: &str, task: &str| seen(&[("attempt.end", end), ("a-0.attempt.end", task)]);
    let row_of_lost = "Tasks of an attempt whose ConfigMap others delete";
    let ours = lost("-100 Lost", "-220 Completion");
    assert_eq!(row(&lost("-100 Lost", "-101 Deleted"), &ours), Some(row_of_lost));
    assert_eq!(row(&lost("-100 Lost", "0 Succeeded"), &ours), None);
    let stopped = lost("-210 Stop", "-220 Completion");
    assert_eq!(row(&lost("-210 Stop", "-101 Deleted"), &stopped), None);

    let labelled = |label: &str| {
        let mut seen = seen(&[]);
        seen.timeline.pods.insert("Pod x".into(), facts(&[(label, "7")]));
        seen
    };
    let none = labelled("spec.nodeName");
    let slot = format!("metadata.labels.{}", framework_api::name::SLOT_LABEL);
    let mut both = none.clone();
    both.timeline.pods.get_mut("Pod x").unwrap().insert(slot, "200".into());
    assert_eq!(row(&none, &both), Some("labels of ConfigMaps and Pods"));
    assert_eq!(row(&both, &none), None);
}

#[test]
fn tasks_may_leave_before_the_start_on_our_side_alone() {
    let row = Some("Tasks removed before the Framework starts");
    let waiting = |state: &str, removed: &str| {
        seen(&[("state", state), ("a.tasks", "2"), ("a-1.deletionPending", removed), ("a-1.attempt.id", "0")])
    };
    let rows = |reference: &Record, ours: &Record| -> Vec<_> {
        differences(reference, ours).into_iter().map(|(_, _, row)| row).collect()
    };
    let pending = "AttemptCreationPending";
    let left = seen(&[("state", pending), ("a.tasks", "1")]);
    assert_eq!(rows(&waiting(pending, "true"), &left), [row; 3]);
    assert_eq!(rows(&waiting(pending, "false"), &left), [None; 3], "it was not removed");
    assert_eq!(rows(&left, &waiting(pending, "true")), [None; 3], "the other way round");
    let started = seen(&[("state", "AttemptRunning"), ("a.tasks", "1")]);
    assert_eq!(rows(&waiting("AttemptRunning", "true"), &started), [None; 3]);
    let none = seen(&[("state", pending)]);
    assert_eq!(rows(&waiting(pending, "true"), &none), [row, row, None], "one of two was removed");
}

#[test]
fn a_snapshot_of_a_retry_is_explained_only_where_the_config_map_was_lost() {
    let mut lost = seen(&[]);
    lost.timeline.lost.insert(0);
    let retry = |attempt: &str| BTreeSet::from([format!("OnTaskRetry of x-a-0 attempt {attempt}")]);
    let none = Record { snapshots: Some(BTreeSet::new()), ..lost.clone() };
    let row = |attempt| one(&Record { snapshots: Some(retry(attempt)), ..lost.clone() }, &none).2;
    assert_eq!(row("0.1"), Some("Tasks of an attempt whose ConfigMap others delete"));
    assert_eq!(row("1.1"), None);
}

#[test]
fn a_snapshot_of_a_pod_may_be_missing_on_the_originals_side_alone() {
    let logged = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Record { snapshots: Some(names), ..seen(&[]) }
    };
    let (some, none) = (logged(&["OnPodDeletion of x-a-0 attempt 0.0"]), logged(&[]));
    assert_eq!(one(&none, &some).2, Some("history snapshots of deleted Pods"));
    assert_eq!(one(&some, &none).2, None);
    let task = logged(&["OnTaskDeletion of x-a-0 attempt 0.0"]);
    assert_eq!(one(&none, &task).2, None);
}

#[test]
fn every_rule_is_a_row_of_the_compatibility_page() {
    let page = include_str!("../../../docs/compatibility.md");
    let rows: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).collect();
    for rule in RULES {
        assert!(rows.contains(rule.row), "docs/compatibility.md has no row {:?}", rule.row);
    }
}

/// A Framework with one TaskRole of one Task.
fn framework(execution: &str, state: &str, task: Value) -> Framework {
    let time = "2026-11-21T09:00:00Z";
    let retried = json!({"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null});
    let mut whole = json!({
        "index": 0, "instanceUID": "t", "startTime": time, "transitionTime": time,
        "retryPolicyStatus": retried,
        "attemptStatus": {"id": 0, "startTime": time, "podName": "x-a-0", "podUID": "pod"},
    });
    for (name, value) in task.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let statuses = json!([{"name": "a", "instanceUID": "r", "taskStatuses": [whole]}]);
    let roles = json!([{"name": "a", "taskNumber": 1, "task": {"pod": {}}}]);
    serde_json::from_value(json!({
        "metadata": {"name": "x"},
        "spec": {"executionType": execution, "taskRoles": roles},
        "status": {
            "startTime": time, "state": state, "transitionTime": time, "retryPolicyStatus": retried,
            "attemptStatus": {
                "id": 0, "startTime": time, "configMapName": "x-attempt", "taskRoleStatuses": statuses,
            },
        },
    }))
    .unwrap()
}

#[test]
fn a_framework_rests_only_when_nothing_more_can_follow() {
    let rests = |framework: &Framework, ended: &[&str]| {
        let ended: HashSet<String> = ended.iter().map(|uid| (*uid).to_owned()).collect();
        is_quiescent(framework, &ended, Removed::Gone)
    };
    let running = framework("Start", "AttemptRunning", json!({"state": "AttemptRunning"}));
    assert!(rests(&running, &[]));
    assert!(!rests(&running, &["pod"]), "its Pod has ended");
    assert!(!rests(&framework("Stop", "AttemptRunning", json!({"state": "AttemptRunning"})), &[]));
    assert!(
        !rests(&framework("Start", "AttemptRunning", json!({"state": "Completed"})), &[]),
        "all completed"
    );
    assert!(!rests(&framework("Start", "AttemptPreparing", json!({"state": "AttemptPreparing"})), &[]));
    assert!(rests(
        &framework("Create", "AttemptCreationPending", json!({"state": "AttemptCreationPending"})),
        &[]
    ));
    assert!(rests(&framework("Stop", "Completed", json!({"state": "Completed"})), &[]));
    let removed = json!({"state": "AttemptDeleting", "deletionPending": true});
    let mut shrunk = framework("Start", "AttemptPreparing", removed);
    shrunk.spec.task_roles[0].task_number = 0;
    assert!(!rests(&shrunk, &[]));
    assert!(is_quiescent(&shrunk, &HashSet::new(), Removed::Pending));
    let removed = json!({"state": "AttemptCompleted", "deletionPending": true});
    let mut early = framework("Create", "AttemptCreationPending", removed);
    early.spec.task_roles[0].task_number = 0;
    assert!(rests(&early, &[]), "as the original leaves it");
    early.metadata.generation = Some(2);
    early.status.as_mut().unwrap().observed_generation = Some(2);
    assert!(!rests(&early, &[]), "ours is to let it go");
    let mut delayed = framework("Start", "AttemptCompleted", json!({"state": "Completed"}));
    assert!(!is_delayed(&delayed));
    delayed.status.as_mut().unwrap().retry_policy_status.retry_delay_sec = Some(4);
    assert!(is_delayed(&delayed) && !rests(&delayed, &[]));
}

#[test]
fn facts_leave_times_and_uids_out_and_nothing_else() {
    let framework = framework("Start", "AttemptRunning", json!({"state": "AttemptRunning", "runTime": null}));
    let facts = facts::of(&framework);
    assert_eq!(facts["state"], "AttemptRunning");
    assert_eq!(facts["a-0.attempt.podUID"], "set");
    assert_eq!(facts["a-0.runTime"], "unset");
    assert_eq!(facts["a.tasks"], "1");
    assert!(!format!("{facts:?}").contains("2026"));
}

#[test]
fn rules_that_are_comments_are_switched_on_and_other_comments_are_not() {
    let config = "# A sentence.\n#workerNumber: 5\npodFailureSpec:\n- code: 1\n#####\n# [1, 2]: a range\n\
                  #- code: 220\n#  phrase: A\n";
    let expected = "# A sentence.\n#workerNumber: 5\npodFailureSpec:\n- code: 1\n#####\n# [1, 2]: a range\n\
                    - code: 220\n  phrase: A\n";
    assert_eq!(crate::with_comments(config), expected);
}

const PAGE: &str = r##"
# A job
```yaml
apiVersion: v1
kind: Service
metadata: {name: peers}
```
```yaml
kind: Framework
metadata: {name: job}
spec:
  taskRoles:
  - name: server
    # kubectl create role reader \
    #   --verb=get --resource=frameworks
    taskNumber: 2
    task: {pod: {spec: {}}}
```
```json
[{"op": "test", "path": "/spec/taskRoles/0/name", "value": "server"}]
```
```json
[]
```
```yaml
kind: Framework
metadata: {name: job}
spec: {taskRoles: []}
status: null
```
"##;

#[test]
fn an_example_is_its_manifests_commands_and_patches_as_written() {
    let example = example::of_page(PAGE).unwrap().expect("it has a Framework");
    assert_eq!((example.name.as_str(), example.spec.task_number()), ("job", 2));
    assert!(example.manifest.contains("taskNumber: 2\n"), "{}", example.manifest);
    let [service] = &example.others[..] else { panic!("{:?}", example.others) };
    assert!(service.contains("kind: Service"), "{service}");
    let command = ["create", "role", "reader", "--verb=get", "--resource=frameworks"];
    assert_eq!(example.commands, [command]);
    assert_eq!(example.patches.len(), 2);
    assert!(example.patches[0].contains("\"op\": \"test\""));

    let file =
        "# no object\n---\nkind: Framework\nmetadata: {name: a}\nspec: {taskRoles: []}\n---\nkind: Service\n";
    let example = example::of_manifest(file).unwrap().expect("it has a Framework");
    assert_eq!((example.name.as_str(), example.others.len(), example.patches.len()), ("a", 1, 0));
    assert_eq!(example::of_page("# Nothing\n").unwrap(), None);
}

#[test]
fn the_first_fate_of_an_example_is_its_patches_and_success() {
    let example = example::of_page(PAGE).unwrap().expect("it has a Framework");
    for seed in 0..20 {
        let plan = draw::fate(&example, seed);
        assert_eq!(plan, draw::fate(&example, seed));
        assert_eq!((plan.label(), &plan.spec), (format!("job/{seed}"), &example.spec));
        let patches = plan.steps.iter().filter(|step| matches!(step, Step::Patch { .. })).count();
        assert_eq!(patches, 2, "seed {seed}");
        let only_success = plan.steps.iter().all(|step| match step {
            Step::End { ending, .. } => !ending.failed,
            step => matches!(step, Step::Patch { .. }),
        });
        assert!(only_success || seed > 0, "{:?}", plan.steps);
    }
}

#[test]
fn an_earlier_version_brings_the_crds_and_the_config_of_its_source() {
    let file = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let earlier = crate::earlier(file, framework_programs::workspace::root()).expect("both are there");
    assert_eq!(earlier.config, framework_api::pod_failure::DEFAULT_CONFIG);
    assert!(earlier.crds.is_some_and(|crds| crds.ends_with("deploy/crds")));
    assert!(crate::earlier(file, file).is_err(), "another folder is no source of ours");
}
