//! The actions of users and chance in the middle of a walk.

use framework_sim::{Cut, DeleteOptions, Ending, Meta, NAMESPACE};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::controller::AFTERMATH;
use super::draw::one;
use super::endgame::{framework_of, recorded};
use super::manifest::Deeds;
use super::walk::Stage;
use super::{SECOND, pass};

/// One thing happens, or cannot: its object may be gone.
pub async fn step(stage: &mut Stage) {
    if stage.conditions.clock_jumps && stage.rng.u8(..3) == 0 {
        let ms = stage.rng.i64(-90_000..90_000);
        stage.cluster.clock().skew_server(SignedDuration::from_millis(ms));
    }
    match stage.rng.u8(..10) {
        0..3 => _ = users(stage),
        3..6 => _ = neighbours(stage),
        6..8 => network(stage).await,
        _ => processes(stage).await,
    }
}

/// The actions of its users on a Framework. Returns whether they could.
pub fn users(stage: &mut Stage) -> bool {
    let name = stage.any_framework();
    let user = stage.user.clone();
    match stage.rng.u8(..14) {
        0 => user.stop(&name),
        1 => user.start(&name),
        2..9 => rescale(stage, &name),
        9 => {
            let note = stage.rng.u32(..6).to_string();
            user.patch("frameworks", &name, json!({ "metadata": { "annotations": { "note": note } } }))
                .is_ok()
        }
        10..12 => {
            let count = stage.rng.i32(-1..3);
            let policy = json!({ "fancyRetryPolicy": stage.rng.bool(), "maxRetryCount": count });
            user.patch("frameworks", &name, json!({ "spec": { "retryPolicy": policy } })).is_ok()
        }
        12 => user.delete_with("frameworks", &name, &propagation("Foreground")).is_ok(),
        _ => stage.create(&name),
    }
}

/// Tasks and TaskRoles come and go, alone and together with a policy. Says whether they could.
fn rescale(stage: &mut Stage, name: &str) -> bool {
    let (role, number) = (stage.rng.usize(..3), stage.rng.u32(..6));
    let user = stage.user.clone();
    let path = format!("/spec/taskRoles/{role}");
    let patch = |patch: Value| user.json_patch("frameworks", name, patch).is_ok();
    match stage.rng.u8(..10) {
        0..3 => user.scale(name, role, number),
        3 => {
            let minimum = one(&mut stage.rng, &[-1, 1, 2]);
            let policy = json!({ "minFailedTaskCount": minimum, "minSucceededTaskCount": -1 });
            patch(json!([
                { "op": "replace", "path": format!("{path}/taskNumber"), "value": number },
                { "op": "add", "path": format!("{path}/frameworkAttemptCompletionPolicy"), "value": policy },
            ]))
        }
        // Down and up again before the controller can have seen the first.
        4 => user.scale(name, role, 0) && user.scale(name, role, number),
        5 => patch(json!([{ "op": "remove", "path": path }])),
        6 => {
            let Some(framework) = user.get("frameworks", name) else { return false };
            let mut added = super::draw::random_framework(&mut stage.rng, name).value()["spec"].take();
            let added = added["taskRoles"][0].take();
            let roles = framework["spec"]["taskRoles"].as_array().map_or(&[][..], Vec::as_slice);
            let is_new = roles.iter().all(|known| known["name"] != added["name"]);
            is_new && patch(json!([{ "op": "add", "path": "/spec/taskRoles/-", "value": added }]))
        }
        7..9 => {
            // Away, and a moment later back under the same name; or only elsewhere in the order.
            let Some(framework) = user.get("frameworks", name) else { return false };
            let Some(known) = framework["spec"]["taskRoles"].get(role).cloned() else { return false };
            let remove = json!({ "op": "remove", "path": path });
            let add = json!({ "op": "add", "path": "/spec/taskRoles/-", "value": known });
            match stage.rng.bool() {
                true => patch(json!([remove])) && patch(json!([add])),
                false => patch(json!([remove, add])),
            }
        }
        _ => {
            let spec = super::draw::random_framework(&mut stage.rng, name).value()["spec"].clone();
            let roles = spec["taskRoles"].clone();
            patch(json!([{ "op": "replace", "path": "/spec/taskRoles", "value": roles }]))
        }
    }
}

fn propagation(policy: &str) -> DeleteOptions {
    DeleteOptions { propagation: Some(policy.to_owned()), ..DeleteOptions::default() }
}

/// The actions of others on its ConfigMap and Pods. Returns whether they could.
pub fn neighbours(stage: &mut Stage) -> bool {
    let user = stage.user.clone();
    let name = stage.any_framework();
    let map = format!("{name}-attempt");
    match stage.rng.u8(..12) {
        0..4 => {
            let grace = one(&mut stage.rng, &[None, None, Some(0), Some(1)]);
            let options = DeleteOptions { grace, ..DeleteOptions::default() };
            stage.any("pods").is_some_and(|pod| user.delete_with("pods", &pod, &options).is_ok())
        }
        4 => user.delete_with("configmaps", &map, &propagation("Foreground")).is_ok(),
        5 => user.delete_with("configmaps", &map, &propagation("Background")).is_ok(),
        6..9 => strip(stage, &name),
        9 => {
            // Another user takes the name of a Task's Pod, and gives it back in the end.
            let name = format!("{name}-r0-{}", stage.rng.u8(..3));
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name },
                "spec": { "containers": [{ "name": "main", "image": "x" }] },
            });
            user.named("neighbour").create(pod).is_ok()
        }
        10 => {
            let node = format!("node-{}", stage.rng.u8(..3));
            stage.cluster.kill_node(&node, SECOND * stage.rng.u32(..20));
            true
        }
        _ => {
            for node in 0..3 {
                stage.cluster.revive_node(&format!("node-{node}"));
            }
            true
        }
    }
}

/// A user takes the label by which the controller finds a Framework's ConfigMap, or one of its Pods.
///
/// It takes only labels of objects that the status records: a controller that starts now could not know of
/// another.
fn strip(stage: &mut Stage, name: &str) -> bool {
    let Some(framework) = stage.user.get("frameworks", name) else { return false };
    let map = format!("{name}-attempt");
    let is_recorded = |uid: &str| framework["status"]["attemptStatus"]["configMapUID"] == uid;
    if stage.rng.u8(..4) == 0 {
        let found = stage.user.get("configmaps", &map);
        return found.is_some_and(|found| is_recorded(found.uid()) && stage.user.strip("configmaps", &map));
    }
    let pods = stage.user.list("pods");
    let known: Vec<&str> = pods
        .iter()
        .filter(|pod| framework_of(pod) == Some(name) && recorded(&framework, pod.uid()).is_some())
        .map(|pod| pod.name())
        .collect();
    stage.rng.choice(known).is_some_and(|pod| stage.user.strip("pods", pod))
}

/// The faults of the network, the API server and etcd.
pub async fn network(stage: &mut Stage) {
    let Some(who) = stage.controller.as_ref().map(|controller| controller.name.clone()) else { return };
    let plural = one(&mut stage.rng, &["frameworks", "configmaps", "pods"]);
    let cluster = stage.cluster.clone();
    let time = SECOND * stage.rng.u32(1..40);
    match stage.rng.u8(..8) {
        // A watch may be behind by minutes.
        0 => cluster.freeze_watches(&who, plural, time * one(&mut stage.rng, &[1, 1, 10])),
        7 => cluster.repeat_watches(&who, plural, stage.rng.usize(1..20)),
        1 => cluster.lag_watches(&who, plural, time / 4),
        2 => {
            let ending = one(&mut stage.rng, &[Ending::Clean, Ending::Broken, Ending::Gone]);
            cluster.close_watches(&who, plural, ending);
        }
        3 => {
            cluster.compact();
            cluster.close_watches(&who, plural, Ending::Broken);
        }
        4 => {
            let pods = stage.rng.usize(..3);
            cluster.faults(|faults| faults.quota(NAMESPACE, Some(pods)));
        }
        5 => cluster.faults(|faults| faults.quota(NAMESPACE, None)),
        _ => {
            let how = one(&mut stage.rng, &[Cut::Refused, Cut::Silent, Cut::Deaf]);
            cluster.faults(|faults| faults.cut(&who, how));
            pass(time).await;
            cluster.faults(|faults| faults.mend(&who));
        }
    }
}

/// The faults of the controller itself.
pub async fn processes(stage: &mut Stage) {
    match stage.rng.u8(..8) {
        0..4 => {
            if let Some(controller) = stage.controller.take() {
                controller.crash().await;
                stage.mourn().await;
            }
        }
        4 => {
            if let Some(controller) = stage.controller.take() {
                controller.stop().await.expect("a stop is no error");
                stage.wait(5_000).await;
            }
        }
        5 => {
            // It is not started for a while.
            if let Some(controller) = stage.controller.take() {
                controller.crash().await;
                pass(AFTERMATH).await;
            }
        }
        _ => {
            let time = SECOND * stage.rng.u32(1..60);
            if let Some(controller) = &stage.controller {
                controller.pause();
                pass(time).await;
                controller.resume();
            }
        }
    }
    stage.restart();
}
