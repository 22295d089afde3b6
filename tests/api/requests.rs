//! Our requests on the real API server, sent as the controller's account and under the policies of `deploy/`.
//! The tests cover the requests that it accepts, the objects that it stores, and how we read its answers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use framework_api::{ExecutionType, Framework, FrameworkStatus, name};
use framework_core::classify::Classifier;
use framework_core::observed::{Moment, Objects, Observed};
use framework_core::size::SizeLimits;
use framework_core::{Action, Policy};
use framework_engine::object::{ConfigMapObject, FrameworkObject, Object, Reply};
use framework_engine::request::Request;
use framework_message::{Key, Slot};
use framework_runtime::body_room::BodyRoom;
use framework_runtime::metrics::Metrics;
use framework_runtime::send::{Fence, send};
use framework_testcluster::Cluster;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::cluster::{installed, kubectl};

/// The write of a status that is stored as it is.
fn put(framework: Arc<Framework>, resource_version: u128, status: Arc<FrameworkStatus>) -> Request {
    let room = SizeLimits::default();
    Request::PutStatus { framework, resource_version, status, compressed: false, room }
}

/// A namespace with one Framework.
struct Fixture {
    client: kube::Client,
    key: Key,
}

impl Fixture {
    async fn new(namespace: &str) -> Self {
        let cluster = installed();
        cluster.namespace(namespace).await.expect("a namespace");
        let template = json!({"spec": {"containers": [{"name": "main", "image": "none"}]}});
        let framework = json!({
            "apiVersion": name::API_VERSION,
            "kind": name::KIND,
            "metadata": {"name": "job", "namespace": namespace, "annotations": {"of": "the user"}},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": template}}]},
        });
        apply(&framework.to_string());
        Fixture { client: as_the_account(cluster).await, key: Key::new(namespace, "job") }
    }

    async fn send(&self, request: Request) -> Reply {
        let (reply, _) = send(
            self.client.clone(),
            request,
            Metrics::new(),
            Arc::default(),
            BodyRoom::default(),
            Fence::open(),
        )
        .await;
        reply
    }

    async fn get(&self) -> FrameworkObject {
        match self.send(Request::GetFramework { key: self.key.clone() }).await {
            Reply::Object(Object::Framework(object)) => object,
            other => panic!("{other:?}"),
        }
    }

    /// Writes the status that the core wants first.
    async fn persist(&self) -> FrameworkObject {
        let object = self.get().await;
        let (framework, _) = object.content.clone().expect("it is good");
        let status = first_status(&framework);
        let resource_version = object.resource_version;
        match self.send(put(framework, resource_version, status)).await {
            Reply::Object(Object::Framework(object)) => object,
            other => panic!("{other:?}"),
        }
    }

    async fn act(&self, object: &FrameworkObject, action: Action) -> Reply {
        let (framework, status) = parts(object);
        self.send(Request::Act { framework, status, action }).await
    }

    async fn create_config_map(&self, object: &FrameworkObject) -> Reply {
        let (framework, status) = parts(object);
        let plan = plan(&framework, Some(&status));
        let create = plan.act.iter().find(|action| matches!(action, Action::CreateConfigMap { .. }));
        self.act(object, create.expect("the first act").clone()).await
    }
}

/// A client with the rights of the controller's account, under the admission policies that are shipped.
async fn as_the_account(cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig_path()).expect("it is written");
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("it is good");
    config.auth_info.impersonate =
        Some("system:serviceaccount:frameworkcontroller:frameworkcontroller".to_owned());
    kube::Client::try_from(config).expect("a client")
}

fn apply(manifest: &str) {
    kubectl(&["apply", "--server-side", "-f=-"], manifest).expect("it is accepted");
}

fn parts(object: &FrameworkObject) -> (Arc<Framework>, Arc<FrameworkStatus>) {
    let (framework, status) = object.content.clone().expect("it is good");
    (framework, status.expect("a status was written"))
}

fn plan(framework: &Framework, status: Option<&FrameworkStatus>) -> framework_core::Plan {
    let objects = Objects::default();
    let observed = Observed {
        framework,
        stored_bytes: 1000,
        status,
        server_date: None,
        admission: None,
        growths: &[],
        objects: &objects,
    };
    let moment = Moment { now: "2026-01-01T00:00:00Z".parse().unwrap(), server: None, seed: 1 << 100 };
    let policy = Policy::new(Classifier::new(&[]).expect("no rules are good rules"));
    framework_core::sync(&observed, moment, &policy)
}

fn first_status(framework: &Framework) -> Arc<FrameworkStatus> {
    let mut held = framework.clone();
    held.spec.execution_type = ExecutionType::Create;
    Arc::from(plan(&held, None).persist.expect("a first status"))
}

fn refused(reply: &Reply) -> (u16, &str) {
    match reply {
        Reply::Refused(rejection) => (rejection.code, &rejection.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_status_write_without_a_spec_changes_the_status_alone() {
    let fixture = Fixture::new("statuswrite").await;
    let before = fixture.get().await;
    let acknowledged = fixture.persist().await;
    let after = fixture.get().await;
    assert!(acknowledged.resource_version > before.resource_version);
    assert_eq!(acknowledged.resource_version, after.resource_version);
    // The acknowledged object is put together from the request and the reply: it must equal the stored one.
    assert_eq!(acknowledged.content, after.content);
    let (framework, status) = parts(&after);
    assert_eq!(framework.spec, before.content.unwrap().0.spec);
    assert_eq!(framework.metadata.annotations.as_ref().unwrap()["of"], "the user");
    assert_eq!(status.task_roles()[0].task_statuses.len(), 2);
}

#[tokio::test]
async fn a_status_write_on_an_old_version_or_another_object_is_refused() {
    let fixture = Fixture::new("staleness").await;
    let before = fixture.get().await;
    let now = fixture.persist().await;
    let (framework, status) = parts(&now);
    let stale = put(Arc::clone(&framework), before.resource_version, Arc::clone(&status));
    assert_eq!(refused(&fixture.send(stale).await), (409, "Conflict"));
    let mut other = Framework::clone(&framework);
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".into());
    let write = put(Arc::new(other), now.resource_version, status);
    assert_eq!(refused(&fixture.send(write).await), (409, "Conflict"));
}

#[tokio::test]
async fn a_config_map_is_created_once_and_deleted_by_its_uid_without_waiting() {
    let fixture = Fixture::new("configmaps").await;
    let object = fixture.persist().await;
    let created = fixture.create_config_map(&object).await;
    let Reply::Object(Object::ConfigMap(ConfigMapObject { facts, key, label, .. })) = created else {
        panic!("{created:?}")
    };
    let slot = Some(Slot::of(&object.uid));
    assert_eq!((&key, label, facts.framework_uid.as_deref()), (&fixture.key, slot, Some(&*object.uid)));
    assert_eq!(refused(&fixture.create_config_map(&object).await), (409, "AlreadyExists"));

    let wrong = Action::DeleteConfigMap { uid: "00000000-0000-4000-8000-000000000000".into() };
    assert_eq!(refused(&fixture.act(&object, wrong).await), (409, "Conflict"));
    let confirm = || Action::ConfirmConfigMap { uid: facts.uid.clone() };
    let alive = fixture.act(&object, confirm()).await;
    assert!(matches!(&alive, Reply::Object(Object::ConfigMap(map)) if !map.facts.deleting), "{alive:?}");

    let delete = fixture.act(&object, Action::DeleteConfigMap { uid: facts.uid.clone() }).await;
    assert!(matches!(delete, Reply::Done), "{delete:?}");
    // Its finalizer is for other deleters: ours leaves nothing to the garbage collector.
    assert_eq!(refused(&fixture.act(&object, confirm()).await), (404, "NotFound"));
}

#[tokio::test]
async fn a_stripped_label_is_restored_on_the_version_that_was_seen() {
    let fixture = Fixture::new("labels").await;
    let object = fixture.persist().await;
    let created = fixture.create_config_map(&object).await;
    let Reply::Object(Object::ConfigMap(map)) = created else { panic!("{created:?}") };
    let strip = ["label", "configmap", "job-attempt", "-n=labels", "frameworkcontroller.microsoft.com/slot-"];
    kubectl(&strip, "").expect("it is stripped");

    let confirm = Action::ConfirmConfigMap { uid: map.facts.uid.clone() };
    let seen = fixture.act(&object, confirm).await;
    let Reply::Object(Object::ConfigMap(seen)) = seen else { panic!("{seen:?}") };
    assert_eq!(seen.label, None);
    let restore = |resource_version| Request::RestoreLabel {
        framework: parts(&object).0,
        pod: None,
        uid: map.facts.uid.clone(),
        resource_version,
    };
    assert_eq!(refused(&fixture.send(restore(map.resource_version)).await), (409, "Conflict"));
    let restored = fixture.send(restore(seen.resource_version)).await;
    let Reply::Object(Object::ConfigMap(restored)) = restored else { panic!("{restored:?}") };
    assert_eq!(restored.label, map.label);
}

#[tokio::test]
async fn a_foreign_pod_is_named_as_the_holder_of_the_name() {
    let fixture = Fixture::new("holders").await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "job-worker-0", "namespace": "holders"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    });
    apply(&pod.to_string());
    let instance = framework_core::observed::Instance::FrameworkAttempt { attempt_id: 0 };
    let action = Action::CreatePod {
        name: "job-worker-0".into(),
        task_role: "worker".into(),
        task_index: 0,
        instance,
    };
    let reply = fixture.send(Request::GetHolder { key: fixture.key.clone(), action }).await;
    let Reply::Foreign(words) = reply else { panic!("{reply:?}") };
    assert_eq!(words, "the name is taken by Pod job-worker-0, which nothing controls");
}

#[tokio::test]
async fn the_servers_time_comes_with_every_reply() {
    let fixture = Fixture::new("times").await;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let before = now();
    let (reply, server) = send(
        fixture.client.clone(),
        Request::AskTime,
        Metrics::new(),
        Arc::default(),
        BodyRoom::default(),
        Fence::open(),
    )
    .await;
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    let server = server.expect("a Date").unix();
    // The server runs on this machine, and rounds its Date down, as we do.
    assert!((before..=now()).contains(&server), "{before}, {server}");
}

#[tokio::test]
async fn a_framework_is_deleted_by_its_uid() {
    let fixture = Fixture::new("retention").await;
    let object = fixture.persist().await;
    let (framework, status) = parts(&object);
    let mut other = Framework::clone(&framework);
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".into());
    let delete =
        |framework| Request::Act { framework, status: Arc::clone(&status), action: Action::DeleteFramework };
    assert_eq!(refused(&fixture.send(delete(Arc::new(other))).await), (409, "Conflict"));
    assert!(matches!(fixture.send(delete(framework)).await, Reply::Done));
    // Foreground: it goes when the garbage collector has seen that nothing is left of it.
    match fixture.send(Request::GetFramework { key: fixture.key.clone() }).await {
        Reply::Refused(rejection) => assert_eq!(rejection.code, 404),
        Reply::Object(Object::Framework(object)) => {
            assert!(object.content.unwrap().0.metadata.deletion_timestamp.is_some())
        }
        other => panic!("{other:?}"),
    }
}
