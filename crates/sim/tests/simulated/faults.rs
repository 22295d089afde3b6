//! Scripted faults have exactly the stated effect, on exactly the request that they are for.

use std::time::Duration;

use framework_sim::{Cut, Ending, Fault, Options, Rates, Rule, SimCluster, Verb, run};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(10);

fn steady_state() -> Options {
    Options { rates: Rates::none(), ..Options::default() }
}

fn maps(cluster: &SimCluster) -> Api<ConfigMap> {
    Api::default_namespaced(cluster.client("controller"))
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn pod(name: &str) -> Pod {
    let spec = json!({ "containers": [{ "name": "main", "image": "x" }] });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

async fn create(cluster: &SimCluster, name: &str) -> String {
    let maps = maps(cluster);
    match tokio::time::timeout(PATIENCE, maps.create(&PostParams::default(), &map(name))).await {
        Err(_) => "silence".to_owned(),
        Ok(Ok(_)) => "created".to_owned(),
        Ok(Err(kube::Error::Api(status))) => format!("{} {}", status.code, status.reason),
        Ok(Err(_)) => "broken".to_owned(),
    }
}

#[test]
fn the_third_create_is_applied_and_its_reply_lost() {
    run(1, steady_state(), |cluster| async move {
        let rule =
            Rule::new(Fault::LoseReply).who("controller").verb(Verb::Create).plural("configmaps").nth(3);
        cluster.faults(|faults| faults.script(rule));
        let mut answers = Vec::new();
        for name in ["a", "b", "c", "d"] {
            answers.push(create(&cluster, name).await);
        }
        assert_eq!(answers, ["created", "created", "broken", "created"]);
        assert!(cluster.user().get("configmaps", "c").is_some());
        assert_eq!(create(&cluster, "c").await, "409 AlreadyExists");
        let lost = &cluster.history().exchanges[2];
        assert_eq!((lost.code, lost.answered), (Some(201), None));
    });
}

#[test]
fn each_fault_shows_its_own_face() {
    let faces = [
        (Fault::RefuseConnection, "broken", false),
        (Fault::LoseReply, "broken", true),
        (Fault::Hang(None), "silence", false),
        (Fault::Hang(Some(Duration::from_secs(5))), "silence", true),
        (Fault::Delay(Duration::from_secs(5)), "created", true),
        (Fault::InternalError, "500 InternalError", false),
        (Fault::Unavailable, "503 ServiceUnavailable", false),
        (Fault::Timeout { applied: true }, "504 Timeout", true),
        (Fault::Timeout { applied: false }, "504 Timeout", false),
        (Fault::Forbidden, "403 Forbidden", false),
        (Fault::Invalid, "422 Invalid", false),
    ];
    for (fault, face, applied) in faces {
        run(1, steady_state(), |cluster| async move {
            cluster.faults(|faults| faults.script(Rule::new(fault.clone())));
            assert_eq!(create(&cluster, "m").await, face, "{fault:?}");
            assert_eq!(cluster.user().get("configmaps", "m").is_some(), applied, "{fault:?}");
        });
    }
}

#[test]
fn a_hanging_request_lands_after_the_client_gave_up() {
    run(1, steady_state(), |cluster| async move {
        let late = Fault::Hang(Some(Duration::from_secs(300)));
        cluster.faults(|faults| faults.script(Rule::new(late)));
        assert_eq!(create(&cluster, "m").await, "silence");
        assert!(cluster.user().get("configmaps", "m").is_none());
        let landed = cluster.until(Duration::from_secs(600), |user| user.get("configmaps", "m").is_some());
        assert!(landed.await);
        assert_eq!(cluster.clock().elapsed(), Duration::from_secs(300));
    });
}

#[test]
fn a_full_namespace_refuses_pods_until_one_ends() {
    run(1, steady_state(), |cluster| async move {
        cluster.faults(|faults| faults.quota("default", Some(1)));
        let pods: Api<Pod> = Api::default_namespaced(cluster.client("controller"));
        pods.create(&PostParams::default(), &pod("a")).await.unwrap();
        let kube::Error::Api(refusal) = pods.create(&PostParams::default(), &pod("b")).await.unwrap_err()
        else {
            panic!("not refused by the server")
        };
        assert_eq!((refusal.code, &*refusal.reason), (403, "Forbidden"));
        assert!(refusal.message.contains("exceeded quota"), "{}", refusal.message);
        cluster.settle(Duration::from_secs(5), Duration::from_secs(60)).await;
        pods.create(&PostParams::default(), &pod("b")).await.unwrap();
    });
}

#[test]
fn a_client_that_is_cut_off_fails_alone_and_is_mended() {
    run(1, steady_state(), |cluster| async move {
        cluster.faults(|faults| faults.cut("controller", Cut::Refused));
        assert_eq!(create(&cluster, "a").await, "broken");
        cluster.faults(|faults| faults.cut("controller", Cut::Silent));
        assert_eq!(create(&cluster, "a").await, "silence");
        let other: Api<ConfigMap> = Api::default_namespaced(cluster.client("other"));
        assert!(other.list(&ListParams::default()).await.unwrap().items.is_empty());
        cluster.faults(|faults| faults.mend("controller"));
        assert_eq!(create(&cluster, "a").await, "created");
    });
}

#[test]
fn watches_freeze_lag_and_end_as_requested() {
    run(1, steady_state(), |cluster| async move {
        let user = cluster.user();
        let from = cluster.version().to_string();
        let mut stream = maps(&cluster).watch(&WatchParams::default(), &from).await.unwrap().boxed();
        cluster.freeze_watches("controller", "configmaps", Duration::from_secs(20));
        user.create(serde_json::to_value(with_type(map("a"))).unwrap()).unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert!(matches!(first, WatchEvent::Added(_)));
        assert_eq!(cluster.clock().elapsed(), Duration::from_secs(20));
        cluster.lag_watches("controller", "configmaps", Duration::from_secs(7));
        user.create(serde_json::to_value(with_type(map("b"))).unwrap()).unwrap();
        stream.next().await.unwrap().unwrap();
        assert_eq!(cluster.clock().elapsed(), Duration::from_secs(27));
        cluster.close_watches("controller", "configmaps", Ending::Gone);
        assert!(
            matches!(stream.next().await.unwrap().unwrap(), WatchEvent::Error(status) if status.code == 410)
        );
        assert!(stream.next().await.is_none());
        let mut stream = maps(&cluster).watch(&WatchParams::default(), "0").await.unwrap().boxed();
        stream.next().await.unwrap().unwrap();
        stream.next().await.unwrap().unwrap();
        cluster.close_watches("controller", "configmaps", Ending::Broken);
        assert!(stream.next().await.unwrap().is_err());
    });
}

fn with_type(map: ConfigMap) -> serde_json::Value {
    let mut value = serde_json::to_value(map).unwrap();
    value["apiVersion"] = json!("v1");
    value["kind"] = json!("ConfigMap");
    value
}

#[test]
fn healing_ends_every_fault() {
    run(1, Options { rates: Rates::rough(), ..Options::default() }, |cluster| async move {
        cluster.faults(|faults| faults.script(Rule::new(Fault::InternalError).times(u32::MAX)));
        assert_eq!(create(&cluster, "m").await, "500 InternalError");
        cluster.heal();
        for n in 0..100 {
            assert_eq!(create(&cluster, &format!("m{n}")).await, "created");
        }
    });
}
