//! Follows the Frameworks until all have completed, and stops the one that is to be stopped.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use framework_api::Framework;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

use super::chronicle::Chronicle;
use super::example::Turn;
use super::place::Place;
use super::screen::{Row, Screen};

/// How long all of them may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the one that is to be stopped is first seen running.
const MIDWAY: Duration = Duration::from_secs(2);
/// How often ages on the screen, and the controller, are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// What the watch shows.
pub(crate) type Events = BoxStream<'static, watcher::Result<Event<Framework>>>;

/// A watch that shows all that happens from now on.
pub(crate) async fn watch(api: &Api<Framework>) -> Result<Events> {
    let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
    while !matches!(events.next().await.context("the watch ended")??, Event::InitDone) {}
    Ok(events)
}

/// Watches, shows and stops; an error if not all complete in time, or if the controller ends before.
pub(crate) async fn follow(
    api: &Api<Framework>,
    events: &mut Events,
    chronicles: &mut [Chronicle],
    screen: &mut Screen,
    place: &Place,
) -> Result<()> {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = Instant::now() + PATIENCE;
    let mut stop_at = None;
    loop {
        tokio::select! {
            // The check first: events may come faster than they are shown.
            biased;
            _ = ticks.tick() => place.check()?,
            event = events.next() => match event.context("the watch ended")? {
                Ok(Event::Apply(framework) | Event::InitApply(framework)) => see(chronicles, framework),
                Ok(_) => continue,
                // The watcher tries again by itself; `check` notices if the API server is gone for good.
                Err(error) => eprintln!("the watch was interrupted: {error}"),
            },
        }
        screen.show(&chronicles.iter().map(Row::of).collect::<Vec<_>>())?;
        if chronicles.iter().all(Chronicle::is_over) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("not all Frameworks completed within {} s", PATIENCE.as_secs());
        }
        stop(api, chronicles, &mut stop_at).await?;
    }
}

fn see(chronicles: &mut [Chronicle], framework: Framework) {
    let name = framework.metadata.name.as_deref();
    if let Some(chronicle) = chronicles.iter_mut().find(|chronicle| Some(chronicle.name()) == name) {
        chronicle.see(framework);
    }
}

/// Stops the Framework that is to be stopped, some time after all its Tasks were first seen running.
async fn stop(api: &Api<Framework>, chronicles: &[Chronicle], at: &mut Option<Instant>) -> Result<()> {
    let to_stop = |chronicle: &&Chronicle| matches!(chronicle.example.turn, Turn::Stopped);
    let running = |chronicle: &&Chronicle| chronicle.is_in_full_swing();
    let Some(chronicle) = chronicles.iter().filter(to_stop).find(running) else { return Ok(()) };
    let now = Instant::now();
    if now < *at.get_or_insert(now + MIDWAY) {
        return Ok(());
    }
    let stopped = Patch::Merge(json!({"spec": {"executionType": "Stop"}}));
    api.patch(chronicle.name(), &PatchParams::default(), &stopped).await.context("stopping a Framework")?;
    Ok(())
}
