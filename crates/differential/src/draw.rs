//! Draws a plan from a seed: the spec of a Framework, and the steps.
//!
//! Must never draw a plan that may legally end in more than one way. Examples are two Tasks whose completions
//! decide the same thing within a second, or a Task that fails by itself while others start. Another is a
//! change that the user undoes before the controller has seen it.

use fastrand::Rng;
use framework_api::{CompletionPolicy, ExecutionType, FrameworkSpec, RetryPolicy, TaskRole, TaskSpec};
use serde_json::{Map, Value, json};

use crate::ending::{any, conflict, one, success};
use crate::example::Example;
use crate::plan::{CONTAINERS, HANGING, HELD, Plan, REFUSED, Step, is_marked};

/// Pods are bound to this node, which does not exist: the kubelets of the cluster leave them alone.
pub(crate) const NODE: &str = "differential";
/// Names of TaskRoles.
const ROLES: &[&str] = &["ps", "worker", "eval", "chief"];

/// Draws a plan; the same seed gives the same plan.
pub(crate) fn plan(seed: u64) -> Plan {
    let mut rng = generator(seed);
    let spec = spec(&mut rng);
    let mut steps = Vec::new();
    if spec.execution_type == ExecutionType::Create {
        let early = rng.u8(..8);
        if early < 3 {
            steps.push(Step::Rescale { task_roles: rescaled(&mut rng, &spec.task_roles) });
        }
        steps.push(if early == 7 { Step::Stop } else { Step::Start });
    }
    let mut roles = match steps.first() {
        Some(Step::Rescale { task_roles }) => task_roles.clone(),
        _ => spec.task_roles.clone(),
    };
    for _ in 0..rng.usize(4..=10) {
        steps.push(step(&mut rng, &mut roles));
    }
    Plan { seed, name: format!("seed{seed}"), manifest: None, spec, steps, foreground: rng.bool() }
}

/// Draws the events of an example: with seed 0 its patches, and each Pod succeeds; else its patches and
/// anything else.
pub(crate) fn fate(example: &Example, seed: u64) -> Plan {
    let mut rng = generator(seed);
    let mut steps: Vec<Step> = Vec::new();
    for patch in &example.patches {
        steps.push(Step::End { pick: rng.usize(..1000), ending: success() });
        steps.push(Step::Patch { patch: patch.clone() });
    }
    if seed == 0 {
        let enough = example.spec.task_number() + 4;
        steps.extend((0..enough).map(|_| Step::End { pick: rng.usize(..1000), ending: success() }));
    } else {
        let mut roles = example.spec.task_roles.clone();
        for _ in 0..rng.usize(4..=10) {
            steps.push(step(&mut rng, &mut roles));
        }
    }
    Plan {
        seed,
        name: example.name.clone(),
        manifest: Some(example.manifest.clone()),
        spec: example.spec.clone(),
        steps,
        // The next fate begins when nothing is left of this one.
        foreground: true,
    }
}

/// Neighbouring seeds have nothing in common.
fn generator(seed: u64) -> Rng {
    Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED)
}

fn step(rng: &mut Rng, roles: &mut Vec<TaskRole>) -> Step {
    let pick = rng.usize(..1000);
    match rng.u8(..100) {
        0..=52 => Step::End { pick, ending: any(rng) },
        53..=58 => Step::Burst { endings: (0..4).map(|_| any(rng)).collect() },
        59..=68 => Step::DeletePod { pick },
        69..=72 => Step::DeleteConfigMap,
        73..=87 => {
            *roles = rescaled(rng, roles);
            Step::Rescale { task_roles: roles.clone() }
        }
        88..=92 => {
            let down = rescaled(rng, roles);
            *roles = rescaled(rng, &down);
            Step::Bounce { down, up: roles.clone() }
        }
        93..=96 => Step::EndThenStop { pick, ending: conflict() },
        97 => Step::Stop,
        _ => Step::End { pick, ending: conflict() },
    }
}

fn spec(rng: &mut Rng) -> FrameworkSpec {
    let mut names = ROLES.to_vec();
    rng.shuffle(&mut names);
    names.truncate(one(rng, &[1, 1, 2, 2, 3]));
    let mut task_roles: Vec<TaskRole> = names.into_iter().map(|name| role(rng, name)).collect();
    let mut retry_policy = retry(rng);
    if rng.u8(..12) == 0 {
        retry_policy.max_retry_count = retry_policy.max_retry_count.clamp(0, 1);
        task_roles[0] = refused(rng, task_roles[0].clone());
    }
    let execution_type = if rng.u8(..5) == 0 { ExecutionType::Create } else { ExecutionType::Start };
    FrameworkSpec {
        description: None,
        execution_type,
        retry_policy,
        active_deadline_seconds: None,
        ttl_seconds_after_finished: None,
        task_roles,
    }
}

fn retry(rng: &mut Rng) -> RetryPolicy {
    let max_retry_count = one(rng, &[0, 0, 0, 1, 1, 2, 3, -1, -2]);
    RetryPolicy { fancy_retry_policy: rng.bool(), max_retry_count }
}

fn policy(rng: &mut Rng) -> CompletionPolicy {
    CompletionPolicy {
        min_failed_task_count: one(rng, &[1, 1, 2, 2, 3, -1]),
        min_succeeded_task_count: one(rng, &[-1, -1, 1, 2, 3]),
    }
}

fn role(rng: &mut Rng, name: &str) -> TaskRole {
    let always = RetryPolicy { fancy_retry_policy: false, max_retry_count: -2 };
    let hanging = rng.u8(..8) == 0;
    let held = rng.u8(..10) == 0;
    let timeout = if hanging { Some(rng.i64(0..=2)) } else { one(rng, &[None, None, Some(600)]) };
    TaskRole {
        name: name.to_owned(),
        task_number: one(rng, &[0, 1, 1, 2, 2, 3, 4]),
        framework_attempt_completion_policy: policy(rng),
        task: TaskSpec {
            retry_policy: if rng.u8(..8) == 0 { always } else { retry(rng) },
            pod_graceful_deletion_timeout_sec: timeout,
            pod: template(hanging, held).into(),
        },
    }
}

/// A pod template. Placeholders are in it because every manifest may have them.
fn template(hanging: bool, held: bool) -> Value {
    let mut annotations = Map::new();
    for (mark, is) in [(HANGING, hanging), (HELD, held)] {
        if is {
            annotations.insert(mark.into(), "true".into());
        }
    }
    let container =
        |name: &str| json!({"name": name, "image": "image:{{FC_TASKROLE_NAME}}-{{FC_TASK_INDEX}}"});
    json!({
        "metadata": {"annotations": annotations},
        "spec": {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "initContainers": [container("first")],
            "containers": CONTAINERS.map(container),
        },
    })
}

/// A TaskRole whose only Pod the API server refuses. Nothing that it decides may hurry: others still start.
fn refused(rng: &mut Rng, mut role: TaskRole) -> TaskRole {
    role.task_number = 1;
    role.framework_attempt_completion_policy =
        CompletionPolicy { min_failed_task_count: -1, ..Default::default() };
    role.task.retry_policy.max_retry_count = rng.i32(0..=2);
    let mut pod = role.task.pod.read().expect("a small template");
    pod["metadata"]["annotations"][REFUSED] = "true".into();
    let spec = &mut pod["spec"];
    if rng.bool() {
        spec["serviceAccountName"] = "nobody".into();
    } else {
        spec["containers"][0]["name"] = "Not A Name".into();
    }
    role.task.pod = pod.into();
    role
}

/// The TaskRoles with something changed, at least one of them left.
fn rescaled(rng: &mut Rng, roles: &[TaskRole]) -> Vec<TaskRole> {
    let mut roles = roles.to_vec();
    let at = rng.usize(..roles.len());
    if is_marked(&roles[at], REFUSED) {
        return roles;
    }
    match rng.u8(..12) {
        0..=5 => roles[at].task_number = rng.i32(0..=4),
        6 => {
            let free = ROLES.iter().find(|name| roles.iter().all(|role| role.name != **name));
            roles.extend(free.map(|name| role(rng, name)));
        }
        7 if roles.len() > 1 => drop(roles.remove(at)),
        8 | 9 => roles[at].framework_attempt_completion_policy = policy(rng),
        10 => roles[at].task.retry_policy.max_retry_count = rng.i32(0..=2),
        _ => roles[at].task.pod_graceful_deletion_timeout_sec = Some(rng.i64(0..=2)),
    }
    roles
}
