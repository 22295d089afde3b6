//! The namespace that jobs run in: create it, list the objects of load tests in it, remove them.

use anyhow::{Context, Result, ensure};
use framework_api::Framework;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{self as core, Node, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::core::{ApiResource, DynamicObject, NamespaceResourceScope};
use serde::de::DeserializeOwned;
use tokio::time::{Duration, Instant, sleep};

use crate::job::RUN_LABEL;

mod queues;

/// How long Kubernetes may take to prepare a namespace, or to remove deleted objects from it.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long the API server may take to serve a new resource.
const SERVED: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_millis(250);

/// A namespace of a cluster.
#[derive(Clone)]
pub struct Namespace {
    /// The client of its cluster.
    pub client: kube::Client,
    /// Its name.
    pub name: String,
}

/// The API resource of Frameworks.
pub fn framework_resource() -> ApiResource {
    ApiResource::erase::<Framework>(&())
}

impl Namespace {
    /// The Frameworks in it.
    pub fn frameworks(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &framework_resource())
    }

    /// The objects of another kind in it.
    pub fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Creates it if it does not exist, and waits until Pods can be created in it. Returns whether it was
    /// created.
    pub async fn make(&self) -> Result<bool> {
        let mut namespace = core::Namespace::default();
        namespace.metadata.name = Some(self.name.clone());
        let all = Api::<core::Namespace>::all(self.client.clone());
        let made = match all.create(&PostParams::default(), &namespace).await {
            Ok(_) => true,
            Err(kube::Error::Api(error)) if error.code == 409 => false,
            Err(error) => {
                return Err(error).with_context(|| format!("creating namespace {}", self.name));
            }
        };
        let deadline = Instant::now() + PATIENCE;
        // The API server refuses Pods until the ServiceAccount exists.
        while self.all::<ServiceAccount>().get_opt("default").await?.is_none() {
            ensure!(Instant::now() < deadline, "namespace {} has no default ServiceAccount", self.name);
            sleep(EVERY).await;
        }
        Ok(made)
    }

    /// The names of Nodes that are schedulable and not tainted.
    pub async fn nodes(&self) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await;
        let nodes = nodes.context("listing Nodes, to which the scenario binds its Pods")?;
        let is_open = |node: &Node| {
            let spec = node.spec.as_ref();
            let tainted = spec.and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| !taints.is_empty());
            !tainted && spec.and_then(|spec| spec.unschedulable) != Some(true)
        };
        Ok(nodes.items.into_iter().filter(is_open).filter_map(|node| node.metadata.name).collect())
    }

    /// Counts the jobs of load tests in it, or those of one run.
    pub async fn left(&self, run: Option<&str>) -> kube::Result<usize> {
        Ok(count(&self.frameworks(), run).await? + count(&self.all::<Job>(), run).await?)
    }

    /// As [`Self::left`] for all runs, once they can be listed: the API server answers 429 while it fills the
    /// cache of a new resource.
    pub async fn served(&self) -> kube::Result<usize> {
        let deadline = Instant::now() + SERVED;
        loop {
            match self.left(None).await {
                Err(kube::Error::Api(error)) if error.code == 429 && Instant::now() < deadline => {
                    sleep(EVERY).await;
                }
                left => return left,
            }
        }
    }

    /// Removes the jobs of load tests, or of one run, and waits until they and their Pods are gone.
    pub async fn clear(&self, run: Option<&str>) -> Result<()> {
        let foreground = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        let of = selected(run);
        self.frameworks().delete_collection(&foreground, &of).await.context("deleting Frameworks")?;
        self.all::<Job>().delete_collection(&foreground, &of).await.context("deleting Jobs")?;
        let deadline = Instant::now() + PATIENCE;
        let pods = self.all::<Pod>();
        while self.left(run).await? > 0 || count(&pods, run).await? > 0 {
            ensure!(
                Instant::now() < deadline,
                "namespace {} still has objects of the load test after {} s",
                self.name,
                PATIENCE.as_secs()
            );
            sleep(EVERY).await;
        }
        Ok(())
    }

    /// Deletes the namespace.
    pub async fn remove(&self) -> Result<()> {
        let all = Api::<core::Namespace>::all(self.client.clone());
        all.delete(&self.name, &DeleteParams::default()).await.context("deleting the namespace")?;
        Ok(())
    }
}

fn selected(run: Option<&str>) -> ListParams {
    let selector = run.map_or_else(|| RUN_LABEL.to_owned(), |run| format!("{RUN_LABEL}={run}"));
    ListParams::default().labels(&selector)
}

/// Lists and counts: with a selector, the API server does not return `remainingItemCount`.
async fn count<K>(api: &Api<K>, run: Option<&str>) -> kube::Result<usize>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    Ok(api.list_metadata(&selected(run)).await?.items.len())
}
