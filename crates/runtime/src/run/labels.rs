//! Gives Frameworks the label by which replicas select them, once there are several replicas.
//!
//! The API server sets UIDs after admission, so no policy can do it. Every replica watches the metadata of
//! the Frameworks whose label names no slot, and labels those whose slot it owns. A replica that labelled the
//! Frameworks of another one would provoke conflicts. A label that names a wrong slot, such as that of a
//! copy, is put right by the replica that owns the named slot: no other one sees the Framework.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use framework_api::name;
use framework_message::backoff::{NOT_SENT, REFUSED};
use framework_message::{Key, MayAct, Ownership, Rejection, Slot, Slots};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Request;
use http::header::CONTENT_TYPE;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::client::{REPLY_TIMEOUT, SERVER_TIMEOUT};
use crate::clock::Clock;
use crate::metadata_only::metadata_only;
use crate::metrics::{Metrics, RequestResult};
use crate::pace::paced;
use crate::request::call::MERGE_PATCH;
use crate::send;
use crate::watch::{Mislabelled, has_expired};
use crate::wire::{UnlabelledFramework, Unreadable, Watched, Wire};

mod unlabelled;

use unlabelled::{FirstList, Unlabelled};

/// The parts of the task.
pub struct Labeller {
    /// Leads to the API server.
    pub client: kube::Client,
    /// The only namespace whose Frameworks get labels.
    pub namespace: Option<String>,
    /// The slots that this replica owns.
    pub ownership: Ownership,
    /// Shows the time.
    pub clock: Clock,
    /// Counts the requests.
    pub metrics: Arc<Metrics>,
    /// The Frameworks with the label of another slot.
    pub mislabelled: Arc<Mislabelled>,
    /// Whether there are other replicas.
    pub accompanied: watch::Receiver<bool>,
    /// Set while no Framework is awaited that has no label, or a wrong one.
    pub complete: watch::Sender<bool>,
    /// Labels a second, at most, of all replicas together.
    pub per_second: f64,
    /// Whether each replica may set as many.
    pub has_whole_budget: bool,
    /// The namespace of the Framework that was labelled last.
    pub last: Option<Arc<str>>,
    /// The name that was labelled last in each namespace since no Framework waited for its label.
    pub last_names: BTreeMap<Arc<str>, Arc<str>>,
    /// Frameworks whose label is on its way.
    pub in_flight: BTreeSet<Key>,
    /// Frameworks whose label was not set: their UIDs, how often in a row, and until when they wait.
    pub refused: BTreeMap<Key, (Arc<str>, u32, Instant)>,
}

/// The pause after a failure of the watch, and while the Frameworks without a label are of other replicas.
const PAUSE: Duration = Duration::from_secs(1);
/// A watch that has not failed for so long works.
const LASTING: Duration = Duration::from_secs(60);

/// How long a Framework without its label keeps slots where they are, beside the time that those before it
/// take. A Framework that cannot be labelled must not keep a new replica from its share; the next owner of
/// its slot does not see it until it has the label.
const PATIENCE: Duration = Duration::from_secs(60);

/// Labels on their way at a time. One that waits long for its answer delays no other.
const IN_FLIGHT: usize = 32;

/// The same of one namespace, whose webhook may be slow: it delays no other namespace.
const IN_FLIGHT_OF_NAMESPACE: usize = 8;

/// A Framework, the version that was to get the label, and the answer, if there was one in time: a refusal,
/// or none.
type LabelReply = (Key, Unlabelled, Result<kube::Result<Option<Rejection>>, Elapsed>);

/// Labels Frameworks whenever there are several replicas. It ends with the program.
pub async fn run(mut labels: Labeller) {
    loop {
        if labels.accompanied.wait_for(|accompanied| *accompanied).await.is_err() {
            return std::future::pending().await;
        }
        info!("there are several replicas: Frameworks get the label of their slot");
        label(&mut labels).await;
        if labels.accompanied.has_changed().is_err() {
            // The controller ends. Its last value may say that there are others, and would be taken for ever.
            return std::future::pending().await;
        }
        labels.complete.send_replace(false);
    }
}

/// Labels until this replica is alone.
async fn label(labels: &mut Labeller) {
    // A watch that is not answered ends: no other one shows the Frameworks without the label.
    let client = paced(metadata_only(labels.client.clone()), || ());
    let (resource, namespace) = (UnlabelledFramework::RESOURCE, labels.namespace.as_deref());
    let only = watcher::Config::default().labels(&no_slot()).page_size(resource.page);
    let mut shown = watcher(resource.api::<UnlabelledFramework>(client, namespace), only).boxed();
    let mut unlabelled: BTreeMap<Key, Unlabelled> = BTreeMap::new();
    let mut before = BTreeMap::new();
    let mut turns = interval(Duration::from_secs_f64(1.0 / labels.per_second.max(1.0)));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    labels.in_flight.clear();
    let mut in_flight = FuturesUnordered::new();
    let (mut first, mut rests, mut resumes) = (FirstList::default(), false, Instant::now());
    let mut failed_at = None;
    let mut sent_at: Option<Instant> = None;
    while *labels.accompanied.borrow() {
        tokio::select! {
            biased;
            changed = labels.accompanied.changed() => if changed.is_err() { return },
            event = async { sleep_until(resumes).await; shown.next().await } => match event {
                // A list that failed between two pages begins again.
                Some(Ok(watcher::Event::Init)) => before.append(&mut unlabelled),
                Some(Ok(watcher::Event::InitApply(shown) | watcher::Event::Apply(shown))) => {
                    if labels.take_in(shown, &mut unlabelled, &before) && std::mem::take(&mut rests) {
                        turns.reset();
                    }
                }
                Some(Ok(watcher::Event::Delete(object))) => {
                    _ = found(object).and_then(|(key, _)| unlabelled.remove(&key));
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    first.listed(&unlabelled);
                    before.clear();
                }
                Some(Err(error)) => {
                    labels.watch_failed(&error, &mut failed_at);
                    resumes = Instant::now() + PAUSE;
                }
                None => return,
            },
            () = labels.mislabelled.changed() => if std::mem::take(&mut rests) { turns.reset() },
            Some(answer) = in_flight.next() => {
                labels.answered(answer, &mut unlabelled);
                // Its namespace has room again.
                if std::mem::take(&mut rests) { turns.reset() }
            }
            _ = turns.tick(), if in_flight.len() < IN_FLIGHT && labels.has_any(&unlabelled) => {
                // Slots that come meanwhile shorten it.
                let left = sent_at.map_or(Duration::ZERO, |at| labels.period().saturating_sub(at.elapsed()));
                let next = if left.is_zero() { labels.next(&unlabelled) } else { None };
                match next {
                    Some((key, one)) => {
                        in_flight.push(labels.send(key, one));
                        sent_at = Some(Instant::now());
                    }
                    None if !left.is_zero() => turns.reset_after(left.min(PAUSE)),
                    // The rest is of other replicas, until slots come to this one, or is on its way.
                    None => {
                        rests = true;
                        turns.reset_after(PAUSE);
                    }
                }
            }
        }
        if !labels.has_any(&unlabelled) {
            labels.last_names.clear();
        }
        let is_complete = labels.is_complete(&mut first, [&unlabelled, &before]);
        // Each report makes the member take a step, which looks at every slot.
        let is_news = |complete: &mut bool| std::mem::replace(complete, is_complete) != is_complete;
        if labels.complete.send_if_modified(is_news) && is_complete {
            first.warn_of(&unlabelled);
        }
    }
}

/// Selects the Frameworks whose label names no slot, and those without it: `notin` selects both.
fn no_slot() -> String {
    let slots: Vec<String> = Slots::ALL.iter().map(|slot| slot.to_string()).collect();
    format!("{} notin ({})", name::SLOT_LABEL, slots.join(","))
}

/// The least key of a greater namespace: names contain no NUL.
fn behind(namespace: &str) -> Key {
    Key::new(&format!("{namespace}\0"), "")
}

/// A patch, which the API server gives up after [`SERVER_TIMEOUT`]: `kube` has no parameter for that.
fn request(frameworks: &str, name: &str, patch: &Value) -> http::Result<Request<Vec<u8>>> {
    Request::patch(format!("{frameworks}/{name}?timeout={}s", SERVER_TIMEOUT.as_secs()))
        .header(CONTENT_TYPE, MERGE_PATCH)
        .body(patch.to_string().into_bytes())
}

/// The Framework, unless it cannot be decoded.
fn found(shown: Watched<UnlabelledFramework>) -> Option<(Key, Unlabelled)> {
    let UnlabelledFramework { key, uid, resource_version } = shown.object?;
    Some((key, Unlabelled { uid, resource_version, since: Instant::now() }))
}

impl Labeller {
    /// The watch failed, the last time at `before`. Meanwhile a new Framework gets no label, and so no
    /// replica: says so once until it has worked for a while.
    fn watch_failed(&self, error: &watcher::Error, before: &mut Option<Instant>) {
        self.metrics.watch_failed(UnlabelledFramework::RESOURCE.plural);
        let is_news = before.replace(Instant::now()).is_none_or(|at| at.elapsed() > LASTING);
        if is_news && !has_expired(error) {
            warn!(%error, "the watch of Frameworks without a label failed and is restarted");
        }
    }

    /// The watch shows a Framework without the label, maybe one that was shown before. Returns whether this
    /// replica labels it.
    fn take_in(
        &self,
        shown: Watched<UnlabelledFramework>,
        unlabelled: &mut BTreeMap<Key, Unlabelled>,
        before: &BTreeMap<Key, Unlabelled>,
    ) -> bool {
        if let Some(Unreadable { key, error }) = &shown.unreadable {
            self.metrics.object_left_out(UnlabelledFramework::RESOURCE.plural);
            warn!(framework = %key, %error, "the metadata cannot be decoded: the Framework gets no label");
            unlabelled.remove(key);
        }
        let Some((key, mut found)) = found(shown) else { return false };
        let earlier = unlabelled.get(&key).or_else(|| before.get(&key));
        if let Some(earlier) = earlier.filter(|one| one.uid == found.uid) {
            found.since = earlier.since;
        }
        let owned = self.ownership.may_act(Slot::of(&found.uid), self.clock.now());
        unlabelled.insert(key, found);
        owned == MayAct::Yes
    }

    /// The next Framework to label. Namespaces take turns, so that thousands in one delay no other. Within a
    /// namespace they go in the order of names, so that one that changes all the time, or cannot be written,
    /// delays no other.
    fn next(&self, unlabelled: &BTreeMap<Key, Unlabelled>) -> Option<(Key, Unlabelled)> {
        let others = self.last.as_ref().map(|last| behind(last));
        let after = others.as_ref().map_or(Unbounded, Included);
        let first = self.first(unlabelled, after).or_else(|| self.first(unlabelled, Unbounded))?;
        let namespace = &first.0.namespace;
        let Some(name) = self.last_names.get(namespace) else { return Some(first) };
        let last = Key { namespace: Arc::clone(namespace), name: Arc::clone(name) };
        let later = self.first(unlabelled, Excluded(&last)).filter(|(key, _)| key.namespace == *namespace);
        later.or(Some(first))
    }

    /// The namespaces that have as many labels on their way as one may have.
    fn full(&self) -> Vec<&Arc<str>> {
        let keys: Vec<&Key> = self.in_flight.iter().collect();
        keys.chunk_by(|one, other| one.namespace == other.namespace)
            .filter_map(|keys| keys.get(IN_FLIGHT_OF_NAMESPACE - 1).copied())
            .map(|key| &key.namespace)
            .collect()
    }

    /// The first Framework with a greater name that is to be labelled: its slot is owned, or it is seen
    /// because the slot that its label names is.
    fn first(&self, unlabelled: &BTreeMap<Key, Unlabelled>, after: Bound<&Key>) -> Option<(Key, Unlabelled)> {
        let now = self.clock.now();
        let owns = |slot| self.ownership.may_act(slot, now) == MayAct::Yes;
        let is_refused = |key: &Key, uid: &Arc<str>| {
            self.refused.get(key).is_some_and(|(of, _, until)| of == uid && Instant::now() < *until)
        };
        let full = self.full();
        let waits = |key: &Key, uid: &Arc<str>| {
            full.contains(&&key.namespace) || self.in_flight.contains(key) || is_refused(key, uid)
        };
        let mut from = after.cloned();
        let mine = loop {
            let mut later = unlabelled.range((from.as_ref(), Unbounded));
            let found = later.find(|(key, one)| {
                full.contains(&&key.namespace) || owns(Slot::of(&one.uid)) && !waits(key, &one.uid)
            });
            match found {
                // After each answer thousands of its others would be looked at.
                Some((key, _)) if full.contains(&&key.namespace) => from = Included(behind(&key.namespace)),
                found => break found.map(|(key, one)| (key.clone(), one.clone())),
            }
        };
        let wrong = self.mislabelled.first(after, |key, wrong| owns(wrong.label) && !waits(key, &wrong.uid));
        mine.into_iter()
            .chain(wrong.map(|(key, wrong)| (key, wrong.into())))
            .min_by(|(one, _), (other, _)| one.cmp(other))
    }

    /// Whether slots may move: no Framework of the first list is awaited. Later ones wait a moment for the
    /// next owner of their slot, which labels them as well: where Frameworks come all the time, there is
    /// always one without a label. `shown` are those that the watch shows, and during a list those of before.
    fn is_complete(&self, first: &mut FirstList, shown: [&BTreeMap<Key, Unlabelled>; 2]) -> bool {
        let Some(listed_at) = first.at else { return false };
        let count = shown.iter().map(|shown| shown.len()).sum::<usize>().min(first.count);
        let queued = Duration::from_secs_f64(count as f64 / self.per_second.max(1.0));
        let awaited = |since: Instant| since <= listed_at && since.elapsed() <= PATIENCE + queued;
        let since = |key: &Key| shown.iter().find_map(|shown| shown.get(key)).map(|one| one.since);
        !first.has_any(since, awaited)
            && self.mislabelled.first(Unbounded, |_, wrong| awaited(wrong.since)).is_none()
    }

    /// The time between two labels: that of all replicas together, over the part of the slots that this one
    /// owns.
    fn period(&self) -> Duration {
        let now = self.clock.now();
        let is_owned =
            |slot: &Slot| self.has_whole_budget || self.ownership.may_act(*slot, now) == MayAct::Yes;
        let owned = Slots::ALL.iter().filter(is_owned).count().max(1);
        Duration::from_secs_f64(Slot::COUNT as f64 / owned as f64 / self.per_second.max(1.0))
    }

    /// Whether any Framework is to be labelled, by this replica or another one.
    fn has_any(&self, unlabelled: &BTreeMap<Key, Unlabelled>) -> bool {
        !unlabelled.is_empty() || !self.mislabelled.is_empty()
    }

    /// Sends the label of a Framework.
    fn send(&mut self, key: Key, one: Unlabelled) -> impl Future<Output = LabelReply> + use<> {
        self.last = Some(Arc::clone(&key.namespace));
        self.last_names.insert(Arc::clone(&key.namespace), Arc::clone(&key.name));
        self.in_flight.insert(key.clone());
        let patch = json!({"metadata": {
            "uid": &*one.uid,
            "resourceVersion": &*one.resource_version,
            "labels": {name::SLOT_LABEL: Slot::of(&one.uid).to_string()},
        }});
        let client = metadata_only(self.client.clone());
        let resource = UnlabelledFramework::RESOURCE;
        let api = resource.api::<UnlabelledFramework>(client.clone(), Some(&key.namespace));
        let request = request(api.resource_url(), &key.name, &patch);
        let metrics = Arc::clone(&self.metrics);
        async move {
            let begun = Instant::now();
            let labelling = async { send::patch(&client, request.map_err(kube::Error::HttpError)?).await };
            let answer = timeout(REPLY_TIMEOUT, labelling).await;
            let outcome = match &answer {
                Ok(Ok(refusal)) => RequestResult::Code(refusal.as_ref().map_or(200, |refusal| refusal.code)),
                Ok(Err(_)) | Err(_) => RequestResult::NoResponse,
            };
            metrics.request_ended("patch", "frameworks", outcome, begun.elapsed());
            (key, one, answer)
        }
    }

    /// Takes in the answer to a label. If it was not set, the watch shows a newer version, or another turn
    /// tries again.
    fn answered(&mut self, (key, one, answer): LabelReply, unlabelled: &mut BTreeMap<Key, Unlabelled>) {
        self.in_flight.remove(&key);
        let before = self.refused.remove(&key).filter(|(of, ..)| *of == one.uid);
        let failures = before.map_or(1, |(_, failures, _)| failures + 1);
        match answer {
            Ok(Ok(None)) => {
                // The watch may have shown another Framework of the name meanwhile.
                if unlabelled.get(&key).is_some_and(|now| now.uid == one.uid) {
                    unlabelled.remove(&key);
                }
                self.mislabelled.forget(&key, &one.resource_version);
            }
            // Also a 409 or a 404: if it was not true, the watch shows no newer version, and no absence.
            Ok(Ok(Some(refusal))) => {
                let delay = REFUSED.delay(failures, u64::from(refusal.code));
                let delay = delay.max(refusal.pause().unwrap_or_default());
                debug!(framework = %key, reason = refusal.message, retry_in = ?delay, "a label was refused");
                self.put_off(key, one.uid, failures, delay);
            }
            Ok(Err(error)) => {
                let delay = NOT_SENT.delay(failures, 0);
                debug!(framework = %key, %error, retry_in = ?delay, "a label was not set");
                self.put_off(key, one.uid, failures, delay);
            }
            Err(_) => {
                let delay = REFUSED.delay(failures, 0);
                debug!(framework = %key, retry_in = ?delay, "no answer to a label");
                self.put_off(key, one.uid, failures, delay);
            }
        }
    }

    /// The label of a Framework is not tried again before this delay has passed.
    fn put_off(&mut self, key: Key, uid: Arc<str>, failures: u32, delay: Duration) {
        // Those that are gone were not tried again.
        self.refused.retain(|_, (.., until)| until.elapsed() < PATIENCE);
        self.refused.insert(key, (uid, failures, Instant::now() + delay));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::Response;
    use http::header::RETRY_AFTER;
    use kube::client::Body;
    use tower::BoxError;

    use super::*;

    /// The labels of a replica that owns no slot, of which all replicas together set 256 a second.
    fn labels(has_whole_budget: bool) -> Labeller {
        let service = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, BoxError>("there is no API server".into())
        });
        Labeller {
            client: kube::Client::new(service, "default"),
            namespace: None,
            ownership: Ownership::none(),
            clock: Clock::system(),
            metrics: Metrics::new(),
            mislabelled: Arc::default(),
            accompanied: watch::channel(true).1,
            complete: watch::channel(false).0,
            per_second: 256.0,
            has_whole_budget,
            last: None,
            last_names: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            refused: BTreeMap::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slots_wait_a_minute_for_the_frameworks_of_the_first_list() {
        let labels = labels(false);
        let entry = |name: &str| {
            let one = Unlabelled { uid: name.into(), resource_version: "1".into(), since: Instant::now() };
            (Key::new("ns", name), one)
        };
        let none = BTreeMap::new();
        let mut shown = BTreeMap::from([entry("a")]);
        let mut first = FirstList::default();
        assert!(!labels.is_complete(&mut first, [&none, &none]), "nothing was listed");
        first.listed(&shown);
        assert!(!labels.is_complete(&mut first, [&shown, &none]));
        assert!(!labels.is_complete(&mut first, [&none, &shown]), "it is listed again");
        tokio::time::advance(Duration::from_secs(1)).await;
        shown.extend([entry("b")]);
        first.listed(&shown);
        let (key, one) = shown.pop_first().expect("a");
        assert!(labels.is_complete(&mut first, [&shown, &none]), "b came later");
        let mut late = FirstList { at: first.at, count: 1, left: [key.clone()].into() };
        shown.insert(key, one);
        // Those that come later make no difference.
        shown.extend((0..10_000).map(|number| entry(&format!("c{number}"))));
        assert!(!labels.is_complete(&mut late, [&shown, &none]));
        tokio::time::advance(PATIENCE).await;
        assert!(labels.is_complete(&mut late, [&shown, &none]), "it was waited for long enough");
    }

    #[tokio::test(start_paused = true)]
    async fn a_framework_made_again_does_not_wait_for_the_refusals_of_another() {
        let mut labels = labels(false);
        labels.ownership = Ownership::default();
        let one = |uid: &str| {
            let one = Unlabelled { uid: uid.into(), resource_version: "1".into(), since: Instant::now() };
            BTreeMap::from([(Key::new("ns", "job"), one)])
        };
        let (mut before, after) = (one("before"), one("after"));
        for _ in 0..5 {
            let (key, one) = before.first_key_value().map(|(key, one)| (key.clone(), one.clone())).unwrap();
            let (reason, message) = ("Forbidden".to_owned(), "no".to_owned());
            let refusal = Rejection { code: 403, reason, message, retry_after: None };
            labels.answered((key, one, Ok(Ok(Some(refusal)))), &mut before);
        }
        assert!(labels.next(&before).is_none(), "it waits");
        assert_eq!(labels.next(&after).map(|(_, one)| one.uid), Some("after".into()));
    }

    #[tokio::test]
    async fn a_label_says_after_which_time_it_is_given_up() {
        let sent = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            *kept.lock().unwrap() = format!("{} {}", request.method(), request.uri());
            async { Err::<Response<Body>, BoxError>("there is no API server".into()) }
        });
        let mut labels = Labeller { client: kube::Client::new(service, "default"), ..labels(false) };
        let one = Unlabelled { uid: "u".into(), resource_version: "7".into(), since: Instant::now() };
        let (_, _, answer) = labels.send(Key::new("ns", "job"), one).await;
        assert!(answer.is_ok_and(|answer| answer.is_err()));
        let path = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/ns/frameworks/job";
        assert_eq!(*sent.lock().unwrap(), format!("PATCH {path}?timeout=10s"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_label_waits_as_the_api_server_asks() {
        let status = r#"{"kind":"Status","apiVersion":"v1","code":429,"reason":"TooManyRequests"}"#;
        for body in [status, "Too many requests, please try again later."] {
            let service = tower::service_fn(move |_: Request<Body>| {
                let response = Response::builder().status(429).header(RETRY_AFTER, "7");
                let response = response.body(Body::from(body.as_bytes().to_vec()));
                async { response.map_err(BoxError::from) }
            });
            let mut labels = Labeller { client: kube::Client::new(service, "default"), ..labels(false) };
            let one = Unlabelled { uid: "u".into(), resource_version: "7".into(), since: Instant::now() };
            let answer = labels.send(Key::new("ns", "job"), one).await;
            labels.answered(answer, &mut BTreeMap::new());
            let (_, failures, until) = &labels.refused[&Key::new("ns", "job")];
            assert_eq!((*failures, *until - Instant::now()), (1, Duration::from_secs(7)), "{body}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_label_without_an_answer_is_tried_again_ever_more_rarely() {
        let mut labels = Labeller { ownership: Ownership::default(), ..labels(false) };
        let one = Unlabelled { uid: "u".into(), resource_version: "7".into(), since: Instant::now() };
        let mut shown = BTreeMap::from([(Key::new("ns", "job"), one)]);
        let mut delays = Vec::new();
        for is_silent in [false, false, true, true] {
            let (key, one) = labels.next(&shown).expect("its pause is over");
            let (key, one, mut answer) = labels.send(key, one).await;
            if is_silent {
                answer = timeout(Duration::ZERO, std::future::pending()).await;
            }
            labels.answered((key.clone(), one, answer), &mut shown);
            assert!(labels.next(&shown).is_none(), "it waits");
            let (.., until) = &labels.refused[&key];
            delays.push(*until - Instant::now());
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        let expected = [NOT_SENT.delay(1, 0), NOT_SENT.delay(2, 0), REFUSED.delay(3, 0), REFUSED.delay(4, 0)];
        assert_eq!(delays, expected);
    }

    #[tokio::test]
    async fn labels_of_one_namespace_on_their_way_leave_room_for_others() {
        let mut labels = Labeller { ownership: Ownership::default(), ..labels(false) };
        let entry = |namespace: &str, name: &str| {
            let uid = format!("{namespace}/{name}");
            let one = Unlabelled { uid: uid.into(), resource_version: "1".into(), since: Instant::now() };
            (Key::new(namespace, name), one)
        };
        let names = (0..IN_FLIGHT).map(|number| format!("f{number:02}"));
        let mut shown: BTreeMap<_, _> = names.map(|name| entry("slow", &name)).collect();
        let mut on_their_way = Vec::new();
        while let Some((key, one)) = labels.next(&shown) {
            on_their_way.push(labels.send(key, one));
        }
        assert_eq!(on_their_way.len(), IN_FLIGHT_OF_NAMESPACE);
        shown.extend([entry("a", "f"), entry("z", "f")]);
        for namespace in ["z", "a"] {
            let (key, one) = labels.next(&shown).expect("other namespaces have room");
            assert_eq!(&*key.namespace, namespace);
            on_their_way.push(labels.send(key, one));
        }
        assert!(labels.next(&shown).is_none(), "all others wait");
        let answer = on_their_way.remove(0).await;
        labels.answered(answer, &mut shown);
        assert_eq!(labels.next(&shown).map(|(key, _)| key.namespace), Some("slow".into()));
    }

    #[tokio::test]
    async fn a_namespace_that_is_full_is_skipped_whole() {
        let mut labels = Labeller { ownership: Ownership::default(), ..labels(false) };
        let one = || Unlabelled { uid: "u".into(), resource_version: "1".into(), since: Instant::now() };
        let name = |number: usize| format!("f{number:05}");
        let mut shown: BTreeMap<_, _> =
            (0..100_000).map(|number| (Key::new("b", &name(number)), one())).collect();
        shown.insert(Key::new("c", "f"), one());
        labels.in_flight = (0..IN_FLIGHT_OF_NAMESPACE).map(|number| Key::new("b", &name(number))).collect();
        let begun = std::time::Instant::now();
        for _ in 0..1000 {
            let next = labels.next(&shown).map(|(key, _)| key);
            assert_eq!(next, Some(Key::new("c", "f")));
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn the_rate_of_labels_goes_with_the_slots_unless_it_is_per_replica() {
        let periods = [false, true].map(|is_whole| labels(is_whole).period());
        assert_eq!(periods, [Duration::from_secs(1), Duration::from_secs(1) / 256]);
    }
}
