//! The cluster that a command is about: the client, and the namespace.

use std::time::Duration;

use framework_access::proxy::Variables;
use framework_access::{Directions, client};
use jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, ListParams};
use kube::config::AuthInfo;
use kube::core::{NamespaceResourceScope, ObjectList, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::Global;
use crate::error::Error;

/// Objects in one answer of the API server.
const PAGE: u32 = 500;

/// The cluster, and the namespace of the command.
pub struct Cluster {
    /// The client.
    pub client: kube::Client,
    /// The namespace.
    pub namespace: String,
    /// How long a request may take; zero: without a limit.
    request_timeout: Duration,
}

impl Cluster {
    /// Finds the cluster as kubectl does: the option, `KUBECONFIG`, the user's own kubeconfig.
    pub async fn connect(global: &Global) -> Result<Cluster, Error> {
        let kubeconfig = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
        if let (None, Some(files)) = (&global.kubeconfig, &kubeconfig)
            && !std::env::split_paths(files).any(|file| file.try_exists().unwrap_or(true))
        {
            return Err(Error::NoKubeconfig { files: files.to_string_lossy().into_owned() });
        }
        let home = std::env::home_dir();
        let has_own = home.as_ref().is_some_and(|home| home.join(".kube/config").exists());
        let has_file = global.kubeconfig.is_some() || kubeconfig.is_some() || has_own;
        if let Some(context) = global.context.clone().filter(|_| !has_file) {
            return Err(Error::NoContext { context });
        }
        let directions = Directions {
            address: None,
            kubeconfig_file: global.kubeconfig.clone(),
            kubeconfig,
            context: global.context.clone(),
            home,
            proxies: Variables::of_this_process(),
        };
        let mut config = framework_access::find(&directions).await.map_err(|error| match error {
            framework_access::Error::Nowhere(cause) => Error::Nowhere(cause),
            error => Error::Access(error),
        })?;
        impersonate(&mut config.auth_info, global)?;
        let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let agent = concat!("kubectl-framework/", env!("CARGO_PKG_VERSION"));
        let request_timeout = global.request_timeout;
        Ok(Cluster { client: client::connect(config, agent)?, namespace, request_timeout })
    }

    /// The objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The answer to a request. Fails if it takes longer than `--request-timeout` allows.
    pub async fn request<T>(&self, request: http::Request<Vec<u8>>) -> Result<T, kube::Error>
    where
        T: DeserializeOwned,
    {
        let (limit, answer) = (self.request_timeout, self.client.request::<T>(request));
        if limit.is_zero() {
            return answer.await;
        }
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(kube::Error::Service(format!("no answer within {limit:?} (--request-timeout)").into()))
        })
    }

    /// All objects of a kind with these labels. Fails if one of them cannot be decoded.
    pub async fn list<K>(&self, api: &Api<K>, labels: Option<&str>, what: &str) -> Result<Vec<K>, Error>
    where
        K: DeserializeOwned + Resource,
    {
        let read = |object| decode(object).map_err(|error| failed(what, kube::Error::SerdeError(error)));
        self.each(api, with_labels(labels), what, read).await?.into_iter().collect()
    }

    /// All selected objects of a kind, each as `read` returns it, page by page.
    pub async fn each<K: Resource, T>(
        &self,
        api: &Api<K>,
        asked: ListParams,
        what: &str,
        read: impl Fn(Value) -> T,
    ) -> Result<Vec<T>, Error> {
        let requests = Request::new(api.resource_url());
        let mut asked = asked.limit(PAGE);
        let mut all = Vec::new();
        loop {
            let request =
                requests.list(&asked).map_err(|error| failed(what, kube::Error::BuildRequest(error)))?;
            let page: ObjectList<Value> = self.request(request).await.map_err(|error| failed(what, error))?;
            all.extend(page.items.into_iter().map(&read));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => asked = asked.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}

/// Makes requests act as the user and the groups of the options. As for kubectl, each of the two replaces
/// that of the kubeconfig.
fn impersonate(account: &mut AuthInfo, global: &Global) -> Result<(), Error> {
    if let Some(user) = &global.as_user {
        account.impersonate = Some(user.clone());
    }
    if !global.as_group.is_empty() {
        if account.impersonate.is_none() {
            return Err(Error::NoUser);
        }
        account.impersonate_groups = Some(global.as_group.clone());
    }
    Ok(())
}

/// A selection by labels.
pub fn with_labels(labels: Option<&str>) -> ListParams {
    labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels))
}

fn failed(what: &str, source: kube::Error) -> Error {
    Error::Request { action: format!("list {what}"), source: Box::new(source) }
}

/// Whether a list was refused because its kind is not installed.
pub fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// An object as its type holds it. The API server stores times that no type of ours holds. An object that
/// cannot be decoded is decoded without `managedFields`, and is deleted at the latest time that there is.
pub fn decode<K: DeserializeOwned>(mut object: Value) -> Result<K, serde_json::Error> {
    let read: Result<K, serde_json::Error> = serde::Deserialize::deserialize(&object);
    if read.is_ok() {
        return read;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let at = metadata.get_mut("deletionTimestamp");
        if let Some(at) = at.filter(|at| at.as_str().is_some_and(|at| at.parse::<Timestamp>().is_err())) {
            *at = Timestamp::MAX.to_string().into();
        }
    }
    serde_json::from_value(object)
}
