//! A user that creates Frameworks, rescales them at random in every way there is, and ends them.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use framework_api::Framework;
use http::header::CONTENT_TYPE;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{last_roles, name, random_framework, random_policy, random_role};
use crate::cluster::{client, frameworks};

/// The longest pause between two rescales of a user.
const PAUSE: u64 = 250;

/// Kinds of patches, each with the query that its request needs.
const JSON: (&str, &str) = ("json-patch+json", "");
const MERGE: (&str, &str) = ("merge-patch+json", "");
const APPLY: (&str, &str) = ("apply-patch+yaml", "?fieldManager=storm&force=true");

/// The counts of users' patches.
#[derive(Debug, Default)]
pub struct Done {
    /// Rescales that were accepted.
    pub rescales: usize,
    /// Patches that did not fit, and were refused.
    pub refused: usize,
}

impl Done {
    /// Both together.
    pub fn with(self, other: Done) -> Done {
        Done { rescales: self.rescales + other.rescales, refused: self.refused + other.refused }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rescales, {} that did not fit and were refused", self.rescales, self.refused)
    }
}

/// A user and its Frameworks, which no other user touches.
pub struct User {
    client: kube::Client,
    api: Api<Framework>,
    rng: Rng,
    frameworks: Vec<usize>,
    specs: Vec<Value>,
    rescales: usize,
    done: Done,
}

impl User {
    /// One of the users of a storm.
    pub fn new(
        namespace: &str,
        seed: u64,
        number: usize,
        frameworks_of: impl Iterator<Item = usize>,
        rescales: usize,
    ) -> User {
        let rng = Rng::with_seed(seed.wrapping_mul(1_000).wrapping_add(number as u64));
        let (api, frameworks) = (frameworks(namespace), frameworks_of.collect());
        let client = client();
        User { client, api, rng, frameworks, specs: Vec::new(), rescales, done: Done::default() }
    }

    /// Whether it has anything to rescale.
    pub fn is_needed(&self) -> bool {
        !self.frameworks.is_empty()
    }

    /// Creates its Frameworks, rescales them, and ends them.
    pub async fn rescale(mut self) -> Done {
        for number in self.frameworks.clone() {
            let manifest = random_framework(&mut self.rng, number);
            let object = serde_json::from_value(manifest).expect("a Framework");
            let created = self.api.create(&PostParams::default(), &object).await.expect("it is accepted");
            self.specs.push(spec_of(&created));
        }
        while self.done.rescales < self.rescales {
            let which = self.rng.usize(..self.frameworks.len());
            self.step(which).await;
            let pause = Duration::from_millis(self.rng.u64(0..PAUSE));
            // Nothing ever comes of this future: only the time-out ends it.
            let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
        }
        for which in 0..self.frameworks.len() {
            let end = match self.rng.bool() {
                true => json!({ "spec": { "executionType": "Stop" } }),
                false => json!({ "spec": { "taskRoles": last_roles() } }),
            };
            self.send(which, MERGE, &end).await.expect("it is accepted");
        }
        self.done
    }

    /// One rescale, or two at once.
    async fn step(&mut self, which: usize) {
        match self.rng.u8(..12) {
            0..5 => self.scale(which).await,
            5 => self.remove(which).await,
            6 => self.add(which).await,
            7 => self.replace_all(which).await,
            8 => self.apply(which).await,
            9 => {
                // Down and up again before the controller can have finished the first.
                self.scale(which).await;
                self.scale(which).await;
            }
            10 => {
                self.remove(which).await;
                self.add(which).await;
            }
            _ => self.miss(which).await,
        }
    }

    async fn scale(&mut self, which: usize) {
        let Some((index, role)) = self.any_role(which) else { return };
        let path = format!("/spec/taskRoles/{index}");
        let number = self.rng.u32(0..=5);
        let mut patch = vec![
            json!({ "op": "test", "path": format!("{path}/name"), "value": role }),
            json!({ "op": "replace", "path": format!("{path}/taskNumber"), "value": number }),
        ];
        if self.rng.u8(..3) == 0 {
            let (path, policy) =
                (format!("{path}/frameworkAttemptCompletionPolicy"), random_policy(&mut self.rng));
            patch.push(json!({ "op": "replace", "path": path, "value": policy }));
        }
        self.json(which, Value::Array(patch)).await;
    }

    async fn remove(&mut self, which: usize) {
        let Some((index, role)) = self.any_role(which) else { return };
        let path = format!("/spec/taskRoles/{index}");
        let is_it = json!({ "op": "test", "path": format!("{path}/name"), "value": role });
        self.json(which, json!([is_it, { "op": "remove", "path": path }])).await;
    }

    async fn add(&mut self, which: usize) {
        let role = format!("r{}", self.rng.u8(..5));
        if self.roles(which).iter().all(|known| known["name"] != *role) {
            let value = random_role(&mut self.rng, &role);
            self.json(which, json!([{ "op": "add", "path": "/spec/taskRoles/-", "value": value }])).await;
        }
    }

    /// A merge patch: the same TaskRoles in another order, some of them changed.
    async fn replace_all(&mut self, which: usize) {
        let mut roles = self.roles(which).to_vec();
        self.rng.shuffle(&mut roles);
        for role in roles.iter_mut().filter(|role| role["name"] != "keeper") {
            if self.rng.bool() {
                role["taskNumber"] = json!(self.rng.u32(0..=4));
            }
        }
        let patch = json!({ "spec": { "taskRoles": roles } });
        self.send(which, MERGE, &patch).await.expect("it is accepted");
        self.done.rescales += 1;
    }

    /// Server-side apply of one TaskRole; one that only an earlier apply made goes with that claim.
    async fn apply(&mut self, which: usize) {
        let role = format!("r{}", self.rng.u8(..5));
        let role = random_role(&mut self.rng, &role);
        let claim = json!({
            "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "spec": { "taskRoles": [role] },
        });
        match self.send(which, APPLY, &claim).await {
            Ok(()) => self.done.rescales += 1,
            // Fields that patches have changed since an apply are no longer its own: it would leave half a
            // TaskRole.
            Err(kube::Error::Api(refusal)) if refusal.code == 422 => self.done.refused += 1,
            Err(error) => panic!("it is forced: {error}"),
        }
    }

    /// A patch for a TaskRole that is not where its author believes.
    async fn miss(&mut self, which: usize) {
        let patch = json!([
            { "op": "test", "path": "/spec/taskRoles/0/name", "value": "nobody" },
            { "op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 0 },
        ]);
        assert!(self.send(which, JSON, &patch).await.is_err(), "a patch whose test fails is refused");
        self.done.refused += 1;
    }

    async fn json(&mut self, which: usize, patch: Value) {
        self.send(which, JSON, &patch).await.expect("it is accepted");
        self.done.rescales += 1;
    }

    /// Sends a patch of a media type, and reads the spec that results.
    async fn send(&mut self, which: usize, (kind, query): (&str, &str), patch: &Value) -> kube::Result<()> {
        let path = format!("{}/{}{query}", self.api.resource_url(), name(self.frameworks[which]));
        let request = http::Request::patch(path).header(CONTENT_TYPE, format!("application/{kind}"));
        let request = request.body(patch.to_string().into_bytes()).expect("a request");
        let now: Framework = self.client.request(request).await?;
        self.specs[which] = spec_of(&now);
        Ok(())
    }

    fn roles(&self, which: usize) -> &[Value] {
        self.specs[which]["taskRoles"].as_array().map_or(&[], Vec::as_slice)
    }

    /// A TaskRole and its index, but not the one that holds the Framework open.
    fn any_role(&mut self, which: usize) -> Option<(usize, String)> {
        let roles = self.roles(which).iter().enumerate();
        let others = roles.filter(|(_, role)| role["name"] != "keeper");
        let others: Vec<(usize, String)> = others
            .map(|(index, role)| (index, role["name"].as_str().unwrap_or_default().to_owned()))
            .collect();
        self.rng.choice(others)
    }
}

fn spec_of(framework: &Framework) -> Value {
    serde_json::to_value(&framework.spec).expect("a spec is plain data")
}
