//! Follows the jobs of a run with one watch.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use framework_api::queue::QueueUnit;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::job::RUN_LABEL;
use crate::namespace::{Namespace, framework_resource};
use crate::partial_status::{BatchJob, Framework, Observation, Unit};
use crate::system::System;
use crate::tracker::Tracker;

/// The tracker, shared by the watch and the generator.
pub type SharedTracker = Arc<Mutex<Tracker>>;

/// Locks the tracker, also after a panic: every change of it is complete.
pub fn lock(tracked: &SharedTracker) -> MutexGuard<'_, Tracker> {
    tracked.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Watches the jobs of a run. Returns when the watch has begun; dropping the handle ends it.
pub async fn follow(
    namespace: &Namespace,
    system: System,
    run: &str,
    tracked: &SharedTracker,
) -> Result<Following> {
    let config = watcher::Config::default().labels(&format!("{RUN_LABEL}={run}"));
    let (client, namespace) = (namespace.client.clone(), namespace.name.as_str());
    match system {
        System::Framework | System::Floor => {
            let api = Api::<Framework>::namespaced_with(client, namespace, &framework_resource());
            begin(watcher(api, config), Observation::framework, tracked).await
        }
        System::Job => {
            let api = Api::<BatchJob>::namespaced_with(client, namespace, &ApiResource::erase::<Job>(&()));
            begin(watcher(api, config), Observation::batch_job, tracked).await
        }
        System::Queue => {
            let api = Api::<Unit>::all_with(client, &ApiResource::erase::<QueueUnit>(&()));
            begin(watcher(api, config), Observation::unit, tracked).await
        }
    }
}

/// A watch that ends when it is dropped.
#[derive(Debug)]
pub struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn begin<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    observation: fn(&K) -> Option<Observation>,
    tracked: &SharedTracker,
) -> Result<Following>
where
    K: DeserializeOwned + Send + 'static,
{
    let mut events = Box::pin(events);
    loop {
        match events.next().await {
            Some(Ok(Event::InitDone)) => break,
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error).context("watching the jobs"),
            None => bail!("the watch of the jobs ended before it began"),
        }
    }
    let tracked = Arc::clone(tracked);
    Ok(Following(tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let (at, wall) = (Instant::now(), Timestamp::now());
            let mut tracker = lock(&tracked);
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    if let Some(observation) = observation(&object) {
                        tracker.saw(&observation, at, wall);
                    }
                }
                Ok(Event::Delete(object)) => {
                    if let Some(observation) = observation(&object) {
                        tracker.saw(&observation, at, wall);
                        tracker.gone(&observation.name, observation.version, at, wall);
                    }
                }
                // The watcher lists again by itself. Changes in between arrive late, and of several changes
                // of an object only the last one.
                Ok(Event::Init) => tracker.has_gaps(),
                Ok(Event::InitDone) | Err(_) => {}
            }
        }
    })))
}
