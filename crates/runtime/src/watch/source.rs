//! The LISTs and the watches of one kind, as a sequence of events.
//!
//! [`kube::runtime::watcher()`] does the same with a selector that never changes. This one goes on with other
//! slots: it lists only those that were granted. The watch begins at the version up to which it had shown the
//! others, so that these are not sent again. Events that the LIST has shown already are left out.
//!
//! A page that fails is asked for again. Otherwise no LIST of thousands of pages would end while the API
//! server is busy.

use std::time::Duration;

use framework_message::{Slot, SlotSelection, Slots};
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;
use kube::runtime::watcher::{Error, Event};
use kube::{Api, ResourceExt};
use tokio::time::timeout;

use super::kind::Kind;
use super::selector::{Selector, within};
use crate::pace::TooLarge;
use crate::wire::{Division, Resource, Watched};

/// How long the API server keeps a watch open.
const WATCH_SECONDS: u32 = 290;

/// A watch without any event for so long has lost its connection.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// How often in a row a page is asked for before the LIST begins again.
pub(super) const TRIES: u32 = 5;

type Changes<T> = BoxStream<'static, kube::Result<WatchEvent<Watched<T>>>>;

/// The LISTs and the watches of one kind.
pub struct Source<T> {
    api: Api<Watched<T>>,
    /// Objects in one page of a LIST: half as many after a page that was too large, twice as many after a
    /// LIST.
    page: u32,
    /// Objects in a page while none is too large.
    whole_page: u32,
    /// How often in a row the page that is asked for has failed.
    failures: u32,
    /// How the kind is divided into slots.
    division: Division,
    /// The label selector of the watch.
    labels: Option<String>,
    /// The slots that are listed while the others stay as they are; `None`: everything is listed.
    part: Option<Slots>,
    /// The selection, if the kind is divided into slots.
    selection: Option<SlotSelection>,
    /// The version up to which the events have shown everything; `None`: nothing was listed.
    version: Option<String>,
    /// The highest version that was shown.
    highest: u128,
    /// The highest version, and a lower one of a LIST that began after it was shown.
    went_back: Option<(u128, u128)>,
    /// Slots that were listed alone, with the version of their LIST: the watch began before it.
    floors: Vec<(Slots, u128)>,
    step: Step<T>,
}

/// The next action.
enum Step<T> {
    /// A LIST is to begin.
    Begin,
    /// This page is to be asked for.
    List { token: Option<String> },
    /// These objects are to be shown; then come other pages, or the watch from this version.
    Listed { objects: std::vec::IntoIter<Watched<T>>, token: Option<String>, version: Option<String> },
    /// The watch is to be opened.
    Open,
    /// The watch is open.
    Watch(Changes<T>),
}

impl<T: Kind> Source<T> {
    /// A source that is to [begin](Source::begin).
    pub fn new(client: kube::Client, resource: Resource, namespace: Option<&str>) -> Self {
        Source {
            api: resource.api(client, namespace),
            page: resource.page,
            whole_page: resource.page,
            failures: 0,
            division: resource.division,
            labels: None,
            part: None,
            selection: None,
            version: None,
            highest: 0,
            went_back: None,
            floors: Vec::new(),
            step: Step::Begin,
        }
    }

    /// Begins a LIST of the selection, or of those slots of it that are not known.
    pub fn begin(&mut self, selector: &Selector, selection: Option<SlotSelection>) {
        self.labels = selector.labels(selection);
        self.part = self.part_of(selection);
        self.selection = selection;
        self.begin_again();
    }

    /// The selection is empty: nothing is watched, and nothing is known any more.
    pub fn pause(&mut self) {
        self.version = None;
        self.step = Step::Begin;
    }

    /// The slots to list, if the other ones can stay as they are.
    fn part_of(&self, selection: Option<SlotSelection>) -> Option<Slots> {
        let (before, now) = (self.selection?.slots, selection?);
        let shows_alike = match self.division {
            // The selector of all slots shows objects without a label too.
            Division::ByFramework => [before, now.slots].iter().all(|slots| *slots != Slots::ALL),
            // Each selector shows them.
            Division::ByNamespace => true,
        };
        let part = now.slots.without(before).or(now.list.and(now.slots));
        // A LIST of every slot is one of everything, and shows the objects without a label too.
        let is_known = shows_alike && part != Slots::ALL && self.version.is_some();
        is_known.then_some(part)
    }

    /// The selection whose LIST has begun. One that also shows objects which name no slot lists every slot.
    pub fn selection(&self) -> Option<SlotSelection> {
        let whole = |selection: SlotSelection| match self.division {
            Division::ByFramework => selection.slots,
            Division::ByNamespace => Slots::ALL,
        };
        self.selection.map(|selection| SlotSelection {
            list: self.part.unwrap_or_else(|| whole(selection)),
            ..selection
        })
    }

    /// The slots that are not listed because they were shown before.
    pub fn kept(&self) -> Slots {
        match (self.selection, self.part) {
            (Some(selection), Some(part)) => selection.slots.without(part),
            _ => Slots::NONE,
        }
    }

    /// The version that was shown, and the version of a later LIST, if that is lower. LISTs are consistent:
    /// the store was restored to an older state then. Returns them once.
    pub fn went_back(&mut self) -> Option<(u128, u128)> {
        self.went_back.take()
    }

    /// Whether the watch is open, so that changes are shown.
    pub fn is_open(&self) -> bool {
        matches!(self.step, Step::Watch(_))
    }

    /// Takes a step. Returns its event, if it has one; the caller waits after an error. The future may be
    /// dropped at every time.
    pub async fn next(&mut self) -> Result<Option<Event<Watched<T>>>, Error> {
        match &mut self.step {
            Step::Begin => {
                self.step = match self.part {
                    Some(Slots::NONE) => {
                        Step::Listed { objects: Vec::new().into_iter(), token: None, version: None }
                    }
                    _ => Step::List { token: None },
                };
                Ok(Some(Event::Init))
            }
            Step::List { token } => {
                let token = token.clone();
                let params = self.list_params(token);
                match self.api.list(&params).await {
                    Ok(list) => self.take(list),
                    Err(error) => {
                        self.page_failed(&error);
                        Err(Error::InitialListFailed(error))
                    }
                }
            }
            Step::Listed { objects, token, version } => match objects.next() {
                Some(object) => Ok(Some(Event::InitApply(object))),
                None if token.is_some() => {
                    self.step = Step::List { token: token.take() };
                    Ok(None)
                }
                None => {
                    let version = version.take();
                    Ok(self.listed(version).then_some(Event::InitDone))
                }
            },
            Step::Open => {
                let version = self.version.clone().unwrap_or_default();
                let mut params = WatchParams::default().timeout(WATCH_SECONDS);
                params.label_selector.clone_from(&self.labels);
                match self.api.watch(&params, &version).await {
                    Ok(changes) => self.step = Step::Watch(changes.boxed()),
                    Err(kube::Error::Api(status)) if status.code == 410 => {
                        self.list_all();
                        return Err(Error::WatchError(status));
                    }
                    Err(error) => return Err(Error::WatchStartFailed(error)),
                }
                Ok(None)
            }
            Step::Watch(changes) => match timeout(SILENCE, changes.next()).await {
                Ok(Some(change)) => self.changed(change),
                Ok(None) | Err(_) => {
                    self.step = Step::Open;
                    Ok(None)
                }
            },
        }
    }

    fn list_params(&self, token: Option<String>) -> ListParams {
        let labels = match self.part {
            Some(part) => Some(within(self.division, part)),
            None => self.labels.clone(),
        };
        ListParams {
            label_selector: labels,
            limit: Some(self.page),
            continue_token: token,
            ..ListParams::default()
        }
    }

    /// The LIST goes on with the page that failed. It begins again if that is its first page, or has expired,
    /// or fails for long: a store that was restored to an older state never has the page.
    fn page_failed(&mut self, error: &kube::Error) {
        if matches!(error, kube::Error::Service(cause) if cause.is::<TooLarge>()) {
            self.page = (self.page / 2).max(1);
        }
        self.failures += 1;
        let has_expired = matches!(error, kube::Error::Api(status) if status.code == 410);
        let is_first = matches!(self.step, Step::List { token: None });
        if is_first || has_expired || self.failures >= TRIES {
            self.begin_again();
        }
    }

    fn take(&mut self, list: ObjectList<Watched<T>>) -> Result<Option<Event<Watched<T>>>, Error> {
        self.failures = 0;
        let is_set = |text: &String| !text.is_empty();
        let token = list.metadata.continue_.filter(is_set);
        let version = list.metadata.resource_version.filter(is_set);
        if token.is_none() && version.is_none() {
            self.begin_again();
            return Err(Error::NoResourceVersion);
        }
        if let Some(listed) = number(version.as_deref()) {
            self.went_back = (listed < self.highest).then_some((self.highest, listed));
            self.highest = listed;
        }
        self.step = Step::Listed { objects: list.items.into_iter(), token, version };
        Ok(None)
    }

    /// The LIST is complete, at this version. Returns whether the watch can follow.
    fn listed(&mut self, version: Option<String>) -> bool {
        match (self.part, version) {
            // There was nothing to list.
            (Some(_), None) => {}
            (Some(part), Some(version)) => {
                let [known, listed] = [self.version.as_deref(), Some(&*version)].map(number);
                let Some(floor) = listed.filter(|listed| known.is_some_and(|known| known <= *listed)) else {
                    self.list_all();
                    return false;
                };
                self.floors.push((part, floor));
            }
            (None, version) => {
                self.version = version;
                self.floors.clear();
            }
        }
        self.page = (self.page * 2).min(self.whole_page);
        self.step = Step::Open;
        true
    }

    fn changed(
        &mut self,
        change: kube::Result<WatchEvent<Watched<T>>>,
    ) -> Result<Option<Event<Watched<T>>>, Error> {
        let event = match change {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Event::Apply(object),
            Ok(WatchEvent::Deleted(object)) => Event::Delete(object),
            Ok(WatchEvent::Bookmark(bookmark)) => {
                self.shown(bookmark.metadata.resource_version);
                return Ok(None);
            }
            Ok(WatchEvent::Error(status)) => {
                if status.code == 410 {
                    self.list_all();
                }
                return Err(Error::WatchError(status));
            }
            Err(error) => return Err(Error::WatchFailed(error)),
        };
        let (Event::Apply(object) | Event::Delete(object)) = &event else { return Ok(Some(event)) };
        let Some(version) = object.resource_version().filter(|version| !version.is_empty()) else {
            self.list_all();
            return Err(Error::NoResourceVersion);
        };
        // An object that named no slot of the LIST may have been shown before it came to one and was deleted.
        let is_shown_always = self.division == Division::ByNamespace && matches!(event, Event::Delete(_));
        let is_repeated = !is_shown_always && self.is_repeated(object.slot, &version);
        self.shown(version);
        Ok((!is_repeated).then_some(event))
    }

    /// Whether the LIST of the object's slot was of this version, or of a newer one.
    fn is_repeated(&self, slot: Option<Slot>, version: &str) -> bool {
        let (Some(slot), Some(version)) = (slot, number(Some(version))) else { return false };
        self.floors.iter().any(|(slots, floor)| slots.contains(slot) && version <= *floor)
    }

    /// The watch has shown everything up to this version.
    fn shown(&mut self, version: String) {
        let number = number(Some(&version)).unwrap_or_default();
        self.highest = self.highest.max(number);
        if !self.floors.is_empty() {
            self.floors.retain(|(_, floor)| number < *floor);
        }
        self.version = Some(version);
    }

    fn list_all(&mut self) {
        self.part = None;
        self.begin_again();
    }

    fn begin_again(&mut self) {
        self.failures = 0;
        if self.part.is_none() {
            self.version = None;
            self.floors.clear();
        }
        self.step = Step::Begin;
    }
}

/// The number that a resourceVersion is.
fn number(version: Option<&str>) -> Option<u128> {
    version?.parse().ok()
}
