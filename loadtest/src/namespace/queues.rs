//! Namespaces with Queues and a ResourceQuota, for QueueUnits without Pods.

use anyhow::{Context, Result, ensure};
use framework_api::queue::{self, QUEUE_KIND, QueueUnit};
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::{self as core, ResourceQuota};
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{EVERY, Namespace, PATIENCE, selected};
use crate::job::RUN_LABEL;
use crate::scenario::{QueueIndex, Queues};

/// Namespaces that are created at a time.
const AT_ONCE: usize = 16;

impl Namespace {
    /// The name of the n-th namespace with Queues.
    fn nth_name(&self, nth: usize) -> String {
        format!("{}-{nth}", self.name)
    }

    /// The QueueUnits in the n-th namespace.
    pub fn units(&self, nth: usize) -> Api<DynamicObject> {
        let units = ApiResource::erase::<QueueUnit>(&());
        Api::namespaced_with(self.client.clone(), &self.nth_name(nth), &units)
    }

    /// Counts the namespaces with Queues of load tests.
    pub async fn queues_left(&self) -> kube::Result<usize> {
        Ok(self.namespaces().list_metadata(&selected(None)).await?.items.len())
    }

    /// Creates the namespaces of a run, and waits until all their quotas are in force.
    pub async fn make_queues(&self, queues: &Queues, run: &str) -> Result<()> {
        let makings = (0..queues.namespaces).map(|nth| self.make_one(queues, nth, run));
        let made: Vec<Result<()>> = stream::iter(makings).buffer_unordered(AT_ONCE).collect().await;
        made.into_iter().collect()
    }

    /// Removes the namespaces of load tests, or of one run, and waits until they are gone.
    pub async fn clear_queues(&self, run: Option<&str>) -> Result<()> {
        let all = self.namespaces();
        let of = selected(run);
        for namespace in all.list_metadata(&of).await.context("listing namespaces")?.items {
            let name = namespace.metadata.name.unwrap_or_default();
            all.delete(&name, &DeleteParams::default()).await.context("deleting a namespace")?;
        }
        let deadline = Instant::now() + PATIENCE;
        while !all.list_metadata(&of).await?.items.is_empty() {
            ensure!(
                Instant::now() < deadline,
                "the namespaces of the load test still exist after {} s",
                PATIENCE.as_secs()
            );
            sleep(EVERY).await;
        }
        Ok(())
    }

    fn namespaces(&self) -> Api<core::Namespace> {
        Api::all(self.client.clone())
    }

    async fn make_one(&self, queues: &Queues, nth: usize, run: &str) -> Result<()> {
        let (name, post) = (self.nth_name(nth), PostParams::default());
        let mut namespace = core::Namespace::default();
        namespace.metadata.name = Some(name.clone());
        namespace.metadata.labels = Some([(RUN_LABEL.to_owned(), run.to_owned())].into());
        self.namespaces()
            .create(&post, &namespace)
            .await
            .with_context(|| format!("creating namespace {name}"))?;
        let hard: serde_json::Map<_, _> =
            queues.quota.iter().map(|(key, limit)| (key.clone(), json!(limit.to_string()))).collect();
        let quota = json!({"metadata": {"name": "room"}, "spec": {"hard": hard}});
        let quota: ResourceQuota = serde_json::from_value(quota)?;
        let quotas = Api::<ResourceQuota>::namespaced(self.client.clone(), &name);
        quotas.create(&post, &quota).await.with_context(|| format!("creating a quota in {name}"))?;
        let kind = ApiResource::erase::<queue::Queue>(&());
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), &name, &kind);
        for number in 0..queues.queues {
            let queue = QueueIndex { namespace: nth, queue: number };
            let object = json!({
                "apiVersion": queue::API_VERSION, "kind": QUEUE_KIND,
                "metadata": {"name": queue.queue_name()}, "spec": {},
            });
            let object: DynamicObject = serde_json::from_value(object)?;
            api.create(&post, &object).await.with_context(|| format!("creating a Queue in {name}"))?;
        }
        let deadline = Instant::now() + PATIENCE;
        // Until the quota controller has set `status.hard`, the quota counts nothing.
        while quotas.get("room").await?.status.and_then(|status| status.hard).is_none() {
            ensure!(Instant::now() < deadline, "the ResourceQuota of namespace {name} is not in force");
            sleep(EVERY).await;
        }
        Ok(())
    }
}
