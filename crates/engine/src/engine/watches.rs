//! Events of the watches enter the cache, and mark the Frameworks concerned dirty.

use std::sync::Arc;

use framework_api::Time;
use framework_core::observed::PodPhase;
use framework_core::snapshot::Trigger;
use tracing::debug;

use super::Engine;
use super::slots::{label_of, slot_of};
use crate::cache::{Entry, Listing, VersionOrder};
use crate::deletions::has_no_time_left;
use crate::event::{Effect, Kind};
use crate::expectations;
use crate::framework_state::FrameworkState;
use crate::history::{Gap, Line};
use crate::last_seen::{LastSeen, LastState};
use crate::object::{ConfigMapObject, FrameworkObject, PodObject, UnownedPod};
use crate::object_cache::Source;
use framework_message::{Change, Key, Now, Slots};

/// The name under which the looks at a Framework without its label are counted.
const LOOK: &str = "look";

/// How many lives of a request there are at most between two looks at it: thousands of Frameworks whose label
/// is refused must not use the request budget up.
const MOST_PAUSES: u32 = 16;

impl Engine {
    pub(super) fn framework_changed(&mut self, now: Now, change: Change<FrameworkObject>) {
        match change {
            Change::Restarted => self.cache.frameworks.list_number += 1,
            // A watch that is to select less still shows objects of lost slots.
            Change::Listed(object) | Change::Applied(object) | Change::Deleted(object)
                if !self.grants.contains(slot_of(&object, &self.policy)) =>
            {
                debug!(framework = %object.key, "the slot of the Framework is not ours");
            }
            Change::Listed(object) | Change::Applied(object) => {
                let key = object.key.clone();
                self.apply_framework(now, object, Source::Watch);
                self.doubt_of_others(now, &key);
            }
            Change::Deleted(object) => self.framework_left(now, &object),
            Change::Synced => {
                let (list_number, covered) = self.covered(Kind::Frameworks);
                let is_missing = |state: &mut FrameworkState| {
                    state.list_number < list_number && covered.contains(state.slot)
                };
                for key in self.cache.keys() {
                    if self.state(&key).is_some_and(is_missing) {
                        debug!(framework = %key, "the Framework is not listed any more");
                        self.framework_missing(now, &key);
                    }
                }
                self.synced(now, Kind::Frameworks, covered);
            }
        }
    }

    /// The watch does not show a Framework any more, and no event has shown why. A LIST by label does not
    /// show a Framework that is yet to get its label, or has lost it. One with a label may have got it after
    /// the LIST.
    fn framework_missing(&mut self, now: Now, key: &Key) {
        let is_whole = self.selects_all_frameworks();
        let Some(entry) = self.cache.get_mut(key) else { return };
        let Some(state) = &mut entry.state else { return };
        let line = state.last_line(key, Some(Gap::FinalStateUnknown));
        // Of one that a reply reported gone, no read is sent.
        if is_whole || state.outgoing.is_lost() {
            entry.close();
            self.write_history(vec![line], None);
        } else {
            state.doubt(0, line);
        }
        self.schedule(now, key);
    }

    /// A Framework whose label names a slot of another replica is missing as soon as the watch selects less.
    /// If the watch selects all Frameworks, a LIST follows.
    pub(super) fn doubt_of_others(&mut self, now: Now, key: &Key) {
        let state = self.cache.get(key).and_then(|entry| entry.state.as_ref());
        let label = state.filter(|state| state.list_number > 0).and_then(label_of);
        if self.is_of_others(label) && !self.selects_all_frameworks() {
            self.framework_missing(now, key);
        }
    }

    /// Whether Frameworks are watched without a label selector.
    fn selects_all_frameworks(&self) -> bool {
        self.cache.frameworks.selection.slots == Slots::ALL
    }

    /// The watch shows that a Framework was deleted, or is no longer selected. Only a Framework that was
    /// waiting for its finalizers, or that a reply reported gone, is certainly deleted (rule A6).
    fn framework_left(&mut self, now: Now, object: &FrameworkObject) {
        let is_proved = self.selects_all_frameworks() || object.is_deleting();
        let line = last_line(object);
        let known = self.cache.get_mut(&object.key);
        let of_it = |state: &FrameworkState| state.uid == object.uid;
        match known.filter(|entry| entry.state.as_ref().is_some_and(of_it)) {
            Some(entry) => match entry.state.as_mut().filter(|state| !is_proved && !state.outgoing.is_lost())
            {
                Some(state) => state.doubt(object.resource_version, line),
                None => {
                    entry.close();
                    self.write_history(vec![line], None);
                }
            },
            None => self.write_history(vec![line], None),
        }
        self.schedule(now, &object.key);
    }

    /// A reply says that a Framework does not exist. If the watch has shown that it left, its end is
    /// reported. Otherwise the watch is yet to show it.
    pub(super) fn framework_gone(&mut self, key: &Key) {
        let is_whole = self.selects_all_frameworks();
        let Some(entry) = self.cache.get_mut(key) else { return };
        let Some(state) = &mut entry.state else { return };
        // No event shows the end of a Framework that the watch does not select.
        let is_unseen = !is_whole && state.is_unwatched();
        let unseen = is_unseen.then(|| state.last_line(key, Some(Gap::FinalStateUnknown)));
        match state.take_last_line().or(unseen) {
            None => state.outgoing.lose(),
            Some(line) => {
                entry.close();
                self.write_history(vec![line], None);
            }
        }
    }

    /// A read has shown a Framework. If the watch does not select it, no event shows its end: it is read
    /// again, ever more rarely while it has no label.
    pub(super) fn look_again(&mut self, now: Now, key: &Key) {
        let (is_whole, pause) = (self.selects_all_frameworks(), self.settings.request_lifetime);
        let Some(state) = self.state(key) else { return };
        if is_whole || !state.is_unwatched() {
            return state.outgoing.succeed(LOOK);
        }
        let looks = state.outgoing.fail(LOOK, true);
        state.look_at(now.steady + pause * looks.min(MOST_PAUSES));
    }

    /// Takes in a version of a Framework that the watch or a reply shows.
    pub(super) fn apply_framework(&mut self, now: Now, object: FrameworkObject, source: Source) {
        let key = object.key.clone();
        let slot = slot_of(&object, &self.policy);
        let list_number = match source {
            Source::Watch => self.cache.frameworks.list_number,
            Source::Reply => 0,
        };
        let order = match source {
            Source::Watch => self.cache.entry(&key).order_of(&object, source),
            // A reply makes no entry.
            Source::Reply => {
                self.cache.get(&key).map_or(VersionOrder::NotNewer, |entry| entry.order_of(&object, source))
            }
        };
        let is_newer = order != VersionOrder::NotNewer;
        let Some(entry) = self.cache.get_mut(&key) else { return };
        let (mut reports, mut lines, mut before) = (Vec::new(), Vec::new(), None);
        let mut was_unread = false;
        match (order, &mut entry.state) {
            (VersionOrder::NotNewer, Some(state)) if source == Source::Watch && state.uid == object.uid => {
                state.list_number = list_number;
                if state.outgoing.find() {
                    state.schedule.mark_dirty(now.steady);
                }
            }
            (VersionOrder::NotNewer, _) => {}
            (VersionOrder::Newer, Some(state)) => {
                state.list_number = state.list_number.max(list_number);
                before = state.status().cloned();
                was_unread = state.persisted.is_none();
                reports = state.advance(object, source, &self.policy);
                // While it cannot be read, it is not known which objects its status records.
                if state.persisted.is_some() {
                    expectations::prune(&mut entry.known.objects, state.status().map(|status| &**status));
                }
                match source {
                    Source::Watch => state.event(now.steady),
                    Source::Reply => state.schedule.mark_dirty(now.steady),
                }
            }
            (VersionOrder::Newer | VersionOrder::AnotherUid, former) => {
                // Another Framework has its name: the one before is gone.
                lines.extend(former.as_mut().map(|state| {
                    let unseen = Some(Gap::FinalStateUnknown);
                    state.take_last_line().unwrap_or_else(|| state.last_line(&key, unseen))
                }));
                entry.close();
                entry.state.insert(FrameworkState::open(object, slot, list_number)).event(now.steady);
                self.inherit(now, &key);
            }
        }
        if was_unread {
            // Its status was not known when its slot was granted.
            self.inherit(now, &key);
        }
        if let Some(before) = before {
            self.status_replaced(&key, &before);
        }
        let Some(entry) = self.cache.get_mut(&key) else { return };
        reports.extend(entry.state.as_mut().and_then(|state| state.reported.ignored()));
        self.write_history(lines, None);
        self.publish(&key, reports);
        // The problems of a known version were reported before, or their reports wait.
        let trouble = |state: &mut FrameworkState| state.quarantine.report(&mut state.reported);
        if let Some((framework, report)) = self.state(&key).filter(|_| is_newer).and_then(trouble) {
            self.effects.push(Effect::Publish { framework, reports: vec![report] });
        }
        self.schedule(now, &key);
    }

    pub(super) fn config_map_changed(&mut self, now: Now, change: Change<ConfigMapObject>) {
        let list_number = self.cache.config_maps.list_number;
        match change {
            Change::Restarted => self.cache.config_maps.list_number += 1,
            Change::Deleted(object)
                if self.is_of_others(object.label) && self.cache.get(&object.key).is_none() => {}
            Change::Listed(object) | Change::Applied(object) if self.is_of_others(object.label) => {
                let entry = self.cache.get_mut(&object.key);
                let news = entry.is_some_and(|entry| entry.known.config_map_relabelled(&object));
                self.mark_dirty(now, &object.key, news);
            }
            Change::Listed(object) | Change::Applied(object) => {
                let key = object.key.clone();
                let news = self.cache.entry(&key).known.apply_config_map(object, Source::Watch, list_number);
                self.mark_dirty(now, &key, news);
            }
            Change::Deleted(object) => {
                let news = self.cache.entry(&object.key).known.delete_config_map(&object);
                self.mark_dirty(now, &object.key, news);
            }
            Change::Synced => {
                let (_, covered) = self.covered(Kind::ConfigMaps);
                for key in self.cache.keys() {
                    let Some(entry) = self.cache.get_mut(&key) else { continue };
                    let listed = entry.listed(list_number, covered);
                    let news = entry.known.sweep_config_map(listed);
                    if news || listed.others {
                        self.mark_dirty(now, &key, news);
                    }
                }
                self.synced(now, Kind::ConfigMaps, covered);
            }
        }
    }

    /// A Pod is not ours, and exists or has just been deleted. If it was ours, another client removed its
    /// ownerReference.
    pub(super) fn pod_released(&mut self, now: Now, pod: UnownedPod) {
        let UnownedPod { key, name, uid, resource_version, last } = pod;
        let was_ours = self.cache.was_ours(&key, &name, &uid, last.is_some());
        if let Some(entry) = self.cache.get_mut(&key) {
            let is_cached = entry.known.holds(Some(&name), &uid);
            let is_awaited = last.is_some() && expectations::forget_conflict(&mut entry.known.objects, &name);
            if is_cached {
                debug!(framework = %key, pod = name, "the Pod lost its owner reference to the ConfigMap");
                entry.known.pod_released(&name, &uid, resource_version);
            }
            if is_cached || is_awaited {
                self.mark_dirty(now, &key, true);
            }
        }
        if let Some(last) = last.filter(|_| was_ours) {
            let pod = LastSeen { name, uid, state: LastState::Whole(last) };
            self.write_history(vec![Line::Pod { key, pod }], None);
        }
    }

    /// The Framework that a Pod is named after has it no more, if another client gave it to the ConfigMap of
    /// another Framework.
    fn taken_by_another(&mut self, now: Now, pod: &PodObject) {
        let Some((named_after, _)) = pod.name.split_once('-').filter(|(name, _)| *name != &*pod.key.name)
        else {
            return;
        };
        let key = Key::new(&pod.key.namespace, named_after);
        let (name, uid, resource_version) = (pod.name.clone(), pod.facts.uid.clone(), pod.resource_version);
        self.pod_released(now, UnownedPod { key, name, uid, resource_version, last: None });
    }

    pub(super) fn pod_changed(&mut self, now: Now, change: Change<PodObject>) {
        let list_number = self.cache.pods.list_number;
        match change {
            Change::Restarted => self.cache.pods.list_number += 1,
            Change::Listed(mut object) | Change::Applied(mut object) => {
                self.taken_by_another(now, &object);
                if self.is_of_others(object.label) {
                    let entry = self.cache.get_mut(&object.key);
                    let news = entry.is_some_and(|entry| entry.known.pod_relabelled(&object));
                    return self.mark_dirty(now, &object.key, news);
                }
                self.note_run(now, &mut object);
                let (key, name) = (object.key.clone(), object.name.clone());
                let Entry { known, state } = self.cache.entry(&key);
                if state.is_none() {
                    known.left_in = known.left_in.or(object.label);
                }
                if known.apply_pod(object, Source::Watch, list_number) {
                    self.pod_moved(now, &key, &name);
                } else {
                    self.mark_dirty(now, &key, false);
                }
            }
            Change::Deleted(object)
                if self.is_of_others(object.label) && self.cache.get(&object.key).is_none() =>
            {
                // The next owner of the slot may list its Pods only now, and would never see this one.
                let PodObject { key, name, facts, last: Some(last), .. } = object else { return };
                if has_no_time_left(&facts) {
                    let pod = LastSeen { name, uid: facts.uid, state: LastState::Whole(last) };
                    self.write_history(vec![Line::Pod { key, pod }], None);
                }
            }
            Change::Deleted(object) => {
                let news = self.cache.entry(&object.key).known.delete_pod(&object);
                self.mark_dirty(now, &object.key, news);
            }
            Change::Synced => {
                let (_, covered) = self.covered(Kind::Pods);
                for key in self.cache.keys() {
                    let Some(entry) = self.cache.get_mut(&key) else { continue };
                    let listed = entry.listed(list_number, covered);
                    let news = entry.known.sweep_pods(listed);
                    if news || listed.others {
                        entry.pods_listed();
                        self.mark_dirty(now, &key, news);
                    }
                }
                self.synced(now, Kind::Pods, covered);
            }
        }
    }

    /// Notes when a Pod is seen Running: it may have ended when its Framework is evaluated.
    fn note_run(&self, now: Now, pod: &mut PodObject) {
        if pod.facts.phase == PodPhase::Running && self.clock.time.is_known() {
            pod.facts.ran_at = Some(Time::floor(self.clock.time.now(now)));
        }
    }

    /// Marks the Framework of an object dirty if the object has changed.
    pub(super) fn mark_dirty(&mut self, now: Now, key: &Key, news: bool) {
        self.write_pod_ends(key);
        let Some(entry) = self.cache.get_mut(key) else { return };
        if let Some(state) = entry.state.as_mut().filter(|_| news) {
            state.event(now.steady);
        }
        if news || entry.state.is_none() {
            self.schedule(now, key);
        }
    }

    /// The number of a kind's last LIST, and the slots that it shows as they were after their grant.
    fn covered(&mut self, kind: Kind) -> (u64, Slots) {
        let Listing { list_number, selection, .. } = *self.cache.listing(kind);
        (list_number, self.grants.covered(selection))
    }

    /// A LIST is complete. Once all kinds are listed, everything is to be evaluated; until then nothing is.
    fn synced(&mut self, now: Now, kind: Kind, covered: Slots) {
        let listing = self.cache.listing(kind);
        listing.synced = listing.synced.or(covered);
        self.report_listed();
        if self.cache.synced().is_empty() {
            return;
        }
        if !self.clock.time.is_known() {
            return self.clock.probe.want();
        }
        self.schedule_all(now);
    }
}

/// The line about the end of a Framework, as the event showed it.
fn last_line(object: &FrameworkObject) -> Line {
    match &object.content {
        Ok((framework, status)) => Line::Framework {
            trigger: Trigger::OnFrameworkDeletion,
            framework: Arc::clone(framework),
            status: status.clone(),
            gap: None,
        },
        Err(_) => Line::Unreadable {
            key: object.key.clone(),
            uid: Arc::clone(&object.uid),
            resource_version: object.resource_version,
        },
    }
}
