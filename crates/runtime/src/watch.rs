//! The watches: changes of Frameworks, ConfigMaps, Pods and the objects of queueing, as [`Event`]s.
//!
//! Guarantees: LISTs start in the order Frameworks, ConfigMaps, Pods, each consistent; in the other order,
//! objects would seem to have vanished. No event is dropped: a full channel holds the watch up. A watch that
//! ends is resumed from its last resourceVersion; if that is too old, the objects are listed again. Errors
//! are followed by a back-off, which ends when slots come or go: then the API server answers. That of
//! QueueUnits lasts until they were listed.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher;
use tokio::sync::oneshot;
use tracing::warn;

use framework_engine::event as engine;
use framework_engine::object::UnownedPod;
use framework_message::Change;

use crate::event::Event;
use crate::metrics::Metrics;
use crate::pace::paced;
use crate::wire::{Unreadable, Watched, Wire};

mod kind;
mod mislabelled;
mod outage;
mod selector;
mod sink;
mod source;

pub use kind::Kind;
pub use mislabelled::{Mislabelled, Wrong};
use outage::Outage;
pub(crate) use outage::has_expired;
pub use selector::Selector;
pub use sink::Sink;
use source::Source;

/// Failures without a whole LIST between them after which the watches that wait for the jobs of a kind begin
/// without them. Units of those jobs go on waiting; without Jobs, which every cluster has, all units do.
const WAITED_FOR: u32 = 4;

/// When a watch may begin, and the watch that may begin after its first LIST.
#[derive(Debug, Default)]
pub struct Turn {
    /// The watch begins when this is done.
    pub after: Option<oneshot::Receiver<()>>,
    /// Sent after the first LIST, or once the jobs of a kind have failed to be listed for long.
    pub then: Option<oneshot::Sender<()>>,
}

impl Turn {
    /// Turns for `N` watches, each after the first LIST of the one before.
    pub fn chain<const N: usize>() -> [Turn; N] {
        let mut after = None;
        std::array::from_fn(|_| {
            let (then, next) = oneshot::channel();
            Turn { after: after.replace(next), then: Some(then) }
        })
    }

    /// Waits until the watch may begin. Returns whether it may: otherwise the program is ending.
    pub async fn comes(&mut self) -> bool {
        match self.after.take() {
            Some(after) => after.await.is_ok(),
            None => true,
        }
    }

    /// Lets the next watch begin.
    pub fn pass(&mut self) {
        if let Some(then) = self.then.take() {
            // The receiver is gone if no watch waits, or the program is ending.
            let _ = then.send(());
        }
    }
}

/// Watches the objects of one kind that `selector` selects, until the receiver of the events is gone.
pub async fn watch<T: Kind>(
    client: kube::Client,
    selector: Selector,
    sink: Sink,
    mut turn: Turn,
    rng: fastrand::Rng,
) {
    watch_while_served::<T>(client, selector, sink, &mut turn, rng).await;
}

/// The same; the watch of a kind that has a row ends, too, when its resource is not served any more.
pub async fn watch_while_served<T: Kind>(
    client: kube::Client,
    mut selector: Selector,
    sink: Sink,
    turn: &mut Turn,
    rng: fastrand::Rng,
) {
    if !turn.comes().await {
        return;
    }
    let metrics = Arc::clone(&sink.metrics);
    let resource = sink.resource::<T>();
    let client = paced(client, move || metrics.watch_started(resource.plural));
    let mut backoff = Backoff::new(rng);
    let mut source = Source::<T>::new(client, resource, sink.namespace.as_deref());
    if !begin(&mut source, &mut selector, &sink).await {
        return;
    }
    let mut outage = Outage::new(resource.plural);
    let (mut delay, mut was_open) = (None, None);
    loop {
        outage.watched(source.is_open());
        let is_open = source.is_open() && delay.is_none();
        let news = if was_open.replace(is_open) == Some(is_open) { None } else { T::watched(is_open) };
        if !send(news, &sink).await {
            return;
        }
        let seen = tokio::select! {
            biased;
            () = selector.changed() => {
                delay = None;
                if !begin(&mut source, &mut selector, &sink).await {
                    return;
                }
                continue;
            }
            seen = next(&mut source, &mut delay) => seen,
        };
        let Some(seen) = seen.transpose() else { continue };
        let went_back = source.went_back().map(|(seen, found)| Event::StoreWentBack { seen, found });
        if !send(went_back, &sink).await {
            return;
        }
        let synced = matches!(seen, Ok(watcher::Event::InitDone));
        let event = match seen {
            Ok(event) => {
                if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                    backoff.reset();
                }
                left_out(resource.plural, &event, &sink.metrics);
                if matches!(event, watcher::Event::Init) && !send(begins(&source, &sink), &sink).await {
                    return;
                }
                to_event::<T>(event, &sink)
            }
            Err(error) => {
                sink.metrics.watch_failed(resource.plural);
                if sink.declared.is_some() && is_not_served(&error) {
                    return;
                }
                outage.failed(&error, *delay.insert(backoff.delay_after(&error)));
                // One job that the API server cannot read must not keep all Frameworks waiting.
                if sink.declared.is_some() && backoff.failures >= WAITED_FOR {
                    turn.pass();
                }
                continue;
            }
        };
        let Some(event) = event else { continue };
        if sink.events.send(event).await.is_err() {
            return;
        }
        if synced {
            turn.pass();
        }
    }
}

/// The next step of the source, after the delay. A call that is cut short begins the delay again.
async fn next<T: Kind>(
    source: &mut Source<T>,
    delay: &mut Option<Duration>,
) -> Result<Option<watcher::Event<Watched<T>>>, watcher::Error> {
    if let Some(wait) = *delay {
        tokio::time::sleep(wait).await;
        *delay = None;
        return Ok(None);
    }
    source.next().await
}

/// Begins with the selection that is wanted now, once there is one. Returns whether events are taken.
async fn begin<T: Kind>(source: &mut Source<T>, selector: &mut Selector, sink: &Sink) -> bool {
    let mut selection = selector.selection();
    while selector.is_empty(selection) {
        source.pause();
        tokio::select! {
            biased;
            () = selector.changed() => selection = selector.selection(),
            () = sink.events.closed() => return false,
        }
    }
    source.begin(selector, selection);
    true
}

/// Sends an event, if there is one. Returns whether events are taken.
async fn send(event: Option<Event>, sink: &Sink) -> bool {
    match event {
        Some(event) => sink.events.send(event).await.is_ok(),
        None => true,
    }
}

/// A LIST begins. Returns the event that says which slots it shows, if the kind is divided into slots.
fn begins<T: Kind>(source: &Source<T>, sink: &Sink) -> Option<Event> {
    T::begins(source.kept(), &sink.mislabelled);
    source.selection().and_then(T::selected)
}

/// Whether a watch failed because its resource is gone, or because the rights for it are.
fn is_not_served(error: &watcher::Error) -> bool {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
        watcher::Error::WatchError(status) => status.code,
        _ => return false,
    };
    code == 404 || code == 403
}

fn to_event<T: Kind>(event: watcher::Event<Watched<T>>, sink: &Sink) -> Option<Event> {
    let change = match event {
        watcher::Event::Init => Change::Restarted,
        watcher::Event::InitApply(watched) => Change::Listed(alive(watched.object?)),
        watcher::Event::InitDone => Change::Synced,
        watcher::Event::Apply(Watched { object: Some(object), .. }) => Change::Applied(alive(object)),
        watcher::Event::Delete(Watched { object: Some(object), .. }) => Change::Deleted(object),
        watcher::Event::Apply(watched) => {
            return Some(unowned(UnownedPod { last: None, ..watched.unowned? }));
        }
        watcher::Event::Delete(watched) => return Some(unowned(watched.unowned?)),
    };
    T::note(&change, &sink.mislabelled);
    T::event(change, sink)
}

/// Counts an object that cannot be decoded. It hides no other, and the watch goes on after it.
fn left_out<T: Wire>(resource: &str, event: &watcher::Event<Watched<T>>, metrics: &Metrics) {
    let (watcher::Event::InitApply(watched)
    | watcher::Event::Apply(watched)
    | watcher::Event::Delete(watched)) = event
    else {
        return;
    };
    if let Some(Unreadable { key, error }) = &watched.unreadable {
        metrics.object_left_out(resource);
        warn!(resource, object = %key, %error, "an object cannot be decoded and is left out");
    }
}

fn unowned(pod: UnownedPod) -> Event {
    Event::Engine(engine::Event::UnownedPod(pod))
}

/// The object without the data that only its deletion needs.
fn alive<T: Wire>(mut object: T) -> T {
    object.forget_last();
    object
}

/// Exponential, with jitter from its own generator, so that it replays.
struct Backoff {
    rng: fastrand::Rng,
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(800);
    /// After an outage of the API server, a replica acts again within seconds: its watches must not lag.
    const LAST: Duration = Duration::from_secs(5);

    fn new(rng: fastrand::Rng) -> Self {
        Backoff { rng, failures: 0 }
    }

    fn reset(&mut self) {
        self.failures = 0;
    }

    fn delay_after(&mut self, error: &watcher::Error) -> Duration {
        if has_expired(error) {
            // The API server served this watch, so that earlier failures are over.
            self.reset();
        }
        let base = Self::FIRST.saturating_mul(1 << self.failures.min(10)).min(Self::LAST);
        self.failures += 1;
        base.mul_f64(0.75 + self.rng.f64() / 2.0)
    }
}

#[cfg(test)]
mod tests;
