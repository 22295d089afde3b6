//! Follows the Frameworks until all have completed, and stops the one whose example asks for it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use framework_api::Framework;
use framework_programs::output::note;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

use crate::example::Expectation;
use crate::history::History;
use crate::screen::{Row, Screen};
use crate::testbed::Testbed;

/// How long all Frameworks together may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the Framework that is stopped runs before.
const RUN_BEFORE_STOP: Duration = Duration::from_secs(2);
/// How often the ages on the screen are updated, and the controller is checked.
const EVERY: Duration = Duration::from_millis(250);

/// The events of the watch.
pub(crate) type Events = BoxStream<'static, watcher::Result<Event<Framework>>>;

/// A watch of everything that happens from now on.
pub(crate) async fn watch(api: &Api<Framework>) -> Result<Events> {
    let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
    while !matches!(events.next().await.context("the watch ended")??, Event::InitDone) {}
    Ok(events)
}

/// Watches, shows and stops; an error if not all complete in time, or if the controller ends before.
pub(crate) async fn follow(
    api: &Api<Framework>,
    events: &mut Events,
    histories: &mut [History],
    screen: &mut Screen,
    testbed: &Testbed,
) -> Result<()> {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = Instant::now() + PATIENCE;
    let mut stop_at = None;
    loop {
        tokio::select! {
            // The check first: events may come faster than they are shown.
            biased;
            _ = ticks.tick() => testbed.check()?,
            event = events.next() => match event.context("the watch ended")? {
                Ok(Event::Apply(framework) | Event::InitApply(framework)) => record(histories, framework),
                Ok(_) => continue,
                // The watcher tries again by itself; `check` notices if the API server is gone for good.
                Err(error) => note(format_args!("the watch was interrupted: {error}")),
            },
        }
        screen.show(&histories.iter().map(Row::of).collect::<Vec<_>>())?;
        if histories.iter().all(History::is_completed) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("not all Frameworks completed within {} s", PATIENCE.as_secs());
        }
        stop(api, histories, &mut stop_at).await?;
    }
}

fn record(histories: &mut [History], framework: Framework) {
    let name = framework.metadata.name.as_deref();
    if let Some(history) = histories.iter_mut().find(|history| Some(history.name()) == name) {
        history.record(framework);
    }
}

/// Stops the Framework whose example asks for it, some time after all its Tasks run.
async fn stop(api: &Api<Framework>, histories: &[History], at: &mut Option<Instant>) -> Result<()> {
    let to_stop = |history: &&History| matches!(history.example.expectation, Expectation::Stopped);
    let running = |history: &&History| history.all_tasks_run();
    let Some(history) = histories.iter().filter(to_stop).find(running) else { return Ok(()) };
    let now = Instant::now();
    if now < *at.get_or_insert(now + RUN_BEFORE_STOP) {
        return Ok(());
    }
    let stopped = Patch::Merge(json!({"spec": {"executionType": "Stop"}}));
    api.patch(history.name(), &PatchParams::default(), &stopped).await.context("stopping a Framework")?;
    Ok(())
}
