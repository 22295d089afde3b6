//! The end of a walk. The faults stop, users stop the Frameworks that would never end, and free the Pods that
//! would hang. Then every Framework has to end in bounded time, and no controller may send any further
//! request.

use std::time::Duration;

use framework_sim::check::quiescence;
use framework_sim::{
    Behaviour, DeleteOptions, Exchange, History, Meta, NAMESPACE, Object, User, Verb, check,
};
use jiff::Timestamp;
use serde_json::Value;

use super::SECOND;
use super::draw::Conditions;
use super::manifest::Deeds;
use super::slots;
use super::walk::Stage;

/// How long after the last fault everything may take to end.
const BOUND: u32 = 900;
/// How often users look after the objects that cannot end by themselves.
const ROUND: u32 = 30;
/// So long nothing may change before the cluster counts as quiescent.
const QUIESCENCE: Duration = Duration::from_secs(150);
/// So long after the last change questions may still be asked: a watch that hung is given up after a minute.
const CALM: Duration = Duration::from_secs(90);

/// How a walk ended.
#[derive(Debug)]
pub enum Ended {
    /// Everything ended, and then all was quiet.
    AtRest,
    /// Not everything ended: the objects that did not.
    Never(String),
    /// Everything ended, and changes went on and on.
    Restless,
    /// The controller ended by itself.
    Fell,
}

/// Ends a walk.
pub async fn play(stage: &mut Stage) -> Ended {
    stage.restart();
    heal(stage);
    if let Some(never) = unended(stage).await {
        return Ended::Never(never);
    }
    if !stage.cluster.settle(QUIESCENCE, SECOND * BOUND).await {
        return Ended::Restless;
    }
    let fell = stage.controller.as_ref().is_some_and(super::controller::Controller::has_ended);
    if fell { Ended::Fell } else { Ended::AtRest }
}

/// Ends all faults, and the Frameworks that would never end.
pub fn heal(stage: &mut Stage) {
    stage.cluster.heal();
    stage.cluster.faults(|faults| faults.quota(NAMESPACE, None));
    stage.cluster.behave(|behaviour| *behaviour = Behaviour::default());
    let pods = stage.user.list("pods");
    for pod in pods.iter().filter(|pod| pod.controller().is_none()) {
        // A Pod that others made, or that a user has taken from its owner. Gone by itself is as good.
        let _ = stage.user.delete("pods", pod.name());
    }
    for framework in stage.user.list("frameworks") {
        if framework["spec"]["executionType"] == "Create" {
            let _ = if stage.rng.bool() { stage.user.start(framework.name()) } else { true };
        }
        if runs_for_ever(&framework) && !has_deadline(&framework) {
            stage.stop(framework.name());
        }
    }
}

/// Waits until everything has ended, and names the objects that have not after the longest time.
pub async fn unended(stage: &mut Stage) -> Option<String> {
    let mut rounds = 0;
    while !stage.cluster.until(SECOND * ROUND, |user| all_ended(user) && !any_to_remove(user)).await {
        rounds += 1;
        if rounds > BOUND / ROUND {
            return Some(unended_objects(&stage.user));
        }
        look_after(stage);
        stage.end_trains();
    }
    None
}

/// The broken promise, and its resourceVersion, if any. In `known`, a controller that forgets replies has
/// another name afterwards.
pub fn judge(
    history: &History,
    known: &History,
    ended: Ended,
    conditions: &Conditions,
) -> Option<(String, Option<u64>)> {
    let limit = conditions.setup.policy.expectations_limit;
    let retained = conditions.setup.policy.framework_completed_retain_sec;
    let checks = check::ALWAYS.iter().map(|(name, check)| match *name {
        "record" | "creation" => check(known),
        _ => check(history),
    });
    let first = checks.filter_map(Result::err).min_by_key(|violation| violation.rv);
    let always = first
        .map_or(Ok(()), Err)
        .and_then(|()| check::loss::check(known, limit))
        .and_then(|()| check::lifetime::check(history, retained))
        .and_then(|()| check::rescale::ALWAYS.iter().try_for_each(|(_, check)| check(history)));
    if let Err(violation) = always {
        return Some((violation.to_string(), Some(violation.rv)));
    }
    let unrest = match ended {
        Ended::AtRest => match quiescence::check(history).and_then(|()| quiescence::all_ended(history)) {
            Err(violation) => violation.to_string(),
            Ok(()) => asked_at_rest(history)?,
        },
        Ended::Never(what) => format!("{BOUND} s after the last fault not everything has ended: {what}"),
        Ended::Restless => "everything has ended, and changes go on and on".to_owned(),
        Ended::Fell => "the controller ended by itself".to_owned(),
    };
    Some((unrest, None))
}

fn all_ended(user: &User) -> bool {
    user.list("frameworks").iter().all(|framework| has_ended(framework))
}

/// Whether a Pod terminates, or the garbage collector has a ConfigMap to delete, and then its Pods.
fn any_to_remove(user: &User) -> bool {
    let frameworks = user.list("frameworks");
    let is_orphan = |owner: &Value| !frameworks.iter().any(|framework| owner["uid"] == *framework.uid());
    user.list("pods").iter().any(|pod| pod.deleting())
        || user.list("configmaps").iter().any(|map| map.controller().is_some_and(is_orphan))
}

/// Whether nothing is to happen to it any more: one that is held waits for its deadline, and a completed one
/// for its expiry.
fn has_ended(framework: &Object) -> bool {
    let spec = &framework["spec"];
    let waits = spec["executionType"] == "Create" && !has_deadline(framework);
    let stays = framework["status"]["state"] == "Completed" && spec["ttlSecondsAfterFinished"].is_null();
    (waits || stays) && !framework.deleting()
}

fn has_deadline(framework: &Value) -> bool {
    !framework["spec"]["activeDeadlineSeconds"].is_null()
}

fn unended_objects(user: &User) -> String {
    let frameworks = user.list("frameworks");
    let left = frameworks.iter().filter(|framework| !has_ended(framework));
    let left = left.map(|framework| format!("{} in {}", framework.name(), framework["status"]["state"]));
    let pods = user.list("pods");
    let pods = pods.iter().map(|pod| format!("Pod {} {}", pod.name(), pod["status"]["phase"]));
    left.chain(pods).collect::<Vec<_>>().join(", ")
}

/// Whether a Framework is retried without limit, or has nothing that could end.
fn runs_for_ever(framework: &Value) -> bool {
    let spec = &framework["spec"];
    let no_roles = Vec::new();
    let roles = spec["taskRoles"].as_array().unwrap_or(&no_roles);
    let count = |of: &Value| of["retryPolicy"]["maxRetryCount"].as_i64().unwrap_or(0);
    let error = |role: &Value| {
        role["task"]["pod"]["metadata"]["annotations"]["sim/create-error"].as_str().map(str::to_owned)
    };
    let always = count(spec) == -2 || roles.iter().any(|role| count(&role["task"]) == -2);
    let failing = roles.iter().any(|role| error(role).is_some());
    let until_success = count(spec) == -1 || roles.iter().any(|role| count(&role["task"]) == -1);
    let never_created = roles.iter().any(|role| error(role).as_deref() == Some("unrecognized"));
    let tasks: i64 = roles.iter().map(|role| role["taskNumber"].as_i64().unwrap_or(0)).sum();
    always || failing && until_success || never_created || tasks == 0
}

/// Users delete the Pods that never start or never end. They free those that hang once they are deleted,
/// unless the controller has promised to free them. They do nothing that the controller should.
fn look_after(stage: &mut Stage) {
    let now = stage.cluster.clock().server_now();
    let frameworks = stage.user.list("frameworks");
    for pod in stage.user.list("pods") {
        let framework = framework_of(&pod).and_then(|name| frameworks.iter().find(|one| one.name() == name));
        let role = framework.and_then(|framework| recorded(framework, pod.uid()));
        let old = since(&pod, "creationTimestamp", now) > 20;
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if pod.deleting() {
            // The controller frees a Pod that hangs if its Task is recorded with a time-out.
            let promised = role.is_some_and(|role| role["podGracefulDeletionTimeoutSec"].is_i64());
            if !promised && since(&pod, "deletionTimestamp", now) > 20 {
                let forced = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
                let _ = stage.user.delete_with("pods", pod.name(), &forced);
            }
        } else if role.is_some() && old && !ended {
            let _ = stage.user.delete("pods", pod.name());
        }
    }
}

fn since(object: &Object, field: &str, now: Timestamp) -> i64 {
    let at: Timestamp = object.meta(field).parse().expect("the server writes times");
    now.duration_since(at).as_secs()
}

/// The TaskRole status in which a Framework records a Pod.
pub fn recorded<'a>(framework: &'a Object, uid: &str) -> Option<&'a Value> {
    let roles = framework.opened()["status"]["attemptStatus"]["taskRoleStatuses"].as_array()?;
    roles.iter().find(|role| {
        let tasks = role["taskStatuses"].as_array().into_iter().flatten();
        tasks.into_iter().any(|task| task["attemptStatus"]["podUID"] == uid)
    })
}

/// The name of the Framework that a Pod says it is of.
pub fn framework_of(pod: &Object) -> Option<&str> {
    pod.controller()?["name"].as_str()?.strip_suffix("-attempt")
}

/// Whether anything was asked of the API server while nothing happened.
fn asked_at_rest(history: &History) -> Option<String> {
    let last = slots::changes(history).last()?.at;
    // The time is asked for when a Framework's retention may be over.
    let idle = |verb| matches!(verb, Verb::Watch | Verb::List | Verb::Other);
    let of_members = |one: &Exchange| {
        slots::is_of_members(&one.plural, &one.name) || slots::tells_of_leader(history, one, CALM)
    };
    let mut asked = history.exchanges.iter().filter(|one| one.at > last + CALM && !idle(one.verb));
    let asked = asked.find(|one| !of_members(one))?;
    let (ms, verb, who) = (asked.at.as_millis(), asked.verb, &asked.who);
    Some(format!("at rest, {ms} ms: {who} asks for {verb:?} of {}/{}", asked.plural, asked.name))
}
