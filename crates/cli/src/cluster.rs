//! The cluster that a command is about: the client, and the namespace.

use framework_access::proxy::Variables;
use framework_access::{Directions, client};
use kube::api::{Api, ListParams};
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;

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
        let directions = Directions {
            address: None,
            kubeconfig_file: global.kubeconfig.clone(),
            kubeconfig,
            context: global.context.clone(),
            home: std::env::home_dir(),
            proxies: Variables::of_this_process(),
        };
        let config = framework_access::find(&directions).await.map_err(|error| match error {
            framework_access::Error::Nowhere(cause) => Error::Nowhere(cause),
            error => Error::Access(error),
        })?;
        let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let agent = concat!("kubectl-framework/", env!("CARGO_PKG_VERSION"));
        Ok(Cluster { client: client::connect(config, agent)?, namespace })
    }

    /// The objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// All objects of a kind with these labels, page by page.
pub async fn list<K>(api: &Api<K>, labels: Option<&str>, what: &str) -> Result<Vec<K>, Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut asked = ListParams::default().limit(PAGE);
    asked.label_selector = labels.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        let failed = |source| Error::Request { action: format!("list {what}"), source: Box::new(source) };
        let page = api.list(&asked).await.map_err(failed)?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => asked = asked.continue_token(&token),
            None => return Ok(all),
        }
    }
}
