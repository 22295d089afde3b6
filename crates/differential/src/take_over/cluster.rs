//! Requests of a take-over: they are repeated while the API server changes to another definition.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use framework_api::Framework;
use kube::api::{Api, ListParams};

/// How long a group of Frameworks may take to get where it is expected: most of it are the delays of
/// the phases.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// The Frameworks of the cluster by name, their statuses decompressed.
pub(super) type Frameworks = BTreeMap<String, Framework>;
/// The UIDs of Pods, by name.
pub(super) type Uids = BTreeMap<String, String>;

/// The Frameworks of a namespace.
pub(super) async fn list(frameworks: &Api<Framework>) -> Result<Frameworks> {
    let mut all = Frameworks::new();
    let parameters = ListParams::default();
    for mut framework in patiently(|| frameworks.list(&parameters)).await?.items {
        if let Some(status) = &mut framework.status {
            status.decompress().map_err(|error| anyhow::anyhow!("a status in gzip: {error}"))?;
        }
        all.insert(framework.metadata.name.clone().unwrap_or_default(), framework);
    }
    Ok(all)
}

/// Repeats a request while the API server gets ready for a definition that was just replaced.
pub(super) async fn patiently<T, F: Future<Output = kube::Result<T>>>(
    request: impl Fn() -> F,
) -> kube::Result<T> {
    let began = Instant::now();
    loop {
        match request().await {
            Err(kube::Error::Api(status)) if status.code == 429 && began.elapsed() < PATIENCE => {
                tokio::time::sleep(EVERY).await;
            }
            answer => return answer,
        }
    }
}
