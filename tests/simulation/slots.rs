//! The owners of the slots over a whole run, by the versions of Leases and map, and the requests of replicas
//! measured against them.
//!
//! It reads the history alone: no replica is asked for the slots it thinks it owns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use framework_message::Slot;
use framework_message::timeout::LANDS_WITHIN;
use framework_sim::{Change, Exchange, History, Object, Verb, check};
use serde_json::Value;

use super::controller::member_of;

/// The ConfigMap that holds the map of slots.
pub const MAP: &str = "frameworkcontroller-slots";
const LEADER: &str = "frameworkcontroller-leader";
/// The kinds that replicas act on for Frameworks.
const ACTED_ON: [&str; 3] = ["frameworks", "configmaps", "pods"];

/// The time in which a slot has one row in the map.
#[derive(Debug)]
struct Tenure {
    from: Duration,
    until: Duration,
    owner: Option<String>,
    epoch: u64,
    unsettled: bool,
}

impl Tenure {
    /// At its ends, either of two neighbours is right: their order within a moment is not known.
    fn includes(&self, at: Duration) -> bool {
        (self.from..=self.until).contains(&at)
    }
}

/// The time in which a life held its Lease.
#[derive(Debug)]
struct Life {
    /// The client of its controller.
    who: String,
    from: Duration,
    until: Duration,
}

/// The owners of the slots over a run.
#[derive(Debug)]
pub struct Owners {
    slots: Vec<Vec<Tenure>>,
    lives: BTreeMap<String, Life>,
    /// The last row of each slot, as it stands in the map.
    rows: BTreeMap<Slot, Value>,
}

/// A time in which a replica stood still.
#[derive(Clone, Debug)]
pub struct Pause {
    /// The client of its controller.
    pub who: String,
    /// When it stopped.
    pub from: Duration,
    /// When it went on. The requests that it had checked before leave at this moment.
    pub until: Duration,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests of replicas for Frameworks.
    pub acts: usize,
    /// Those that a replica had checked before it stood still, and that left afterwards.
    pub held: usize,
    /// Changes of the owner of a slot.
    pub moves: usize,
    /// Those by a replica that was not the owner.
    pub seizures: usize,
    /// Those that were judged by the versions of Leases.
    pub judged: usize,
}

/// Whether an object is of the replicas themselves, and not of a Framework.
pub fn is_of_members(plural: &str, name: &str) -> bool {
    plural == "leases" || plural == "configmaps" && name == MAP
}

/// Whether a request is an Event of a replica that changed the map, or became leader, at most `within`
/// before.
pub fn tells_of_leader(history: &History, one: &Exchange, within: Duration) -> bool {
    let member = member_of(&one.who);
    let is_told = |change: &Arc<Change>| {
        let age = one.at.checked_sub(change.at);
        *change.cause.actor == *member && age.is_some_and(|age| age <= within)
    };
    let maps = history.of("configmaps").filter(|change| change.name == MAP);
    is_of_leader(&one.plural, &one.name) && maps.chain(elections(history)).any(is_told)
}

/// The changes of the leader's Lease that give it another holder, or that come so late that its holder may
/// have become leader again.
fn elections(history: &History) -> impl Iterator<Item = &Arc<Change>> {
    let mut last = Duration::ZERO;
    history.of("leases").filter(|change| change.name == LEADER).filter(move |change| {
        let spec = |lease: &Option<Arc<Object>>| lease.as_ref().map(|lease| lease["spec"].clone());
        let (old, new) = (spec(&change.old).unwrap_or_default(), spec(&change.new).unwrap_or_default());
        let duration = Duration::from_secs(old["leaseDurationSeconds"].as_u64().unwrap_or(0));
        let since = change.at.saturating_sub(std::mem::replace(&mut last, change.at));
        old["holderIdentity"] != new["holderIdentity"] || since > duration / 2
    })
}

/// Whether an object is an Event about the leader's Lease.
fn is_of_leader(plural: &str, name: &str) -> bool {
    plural == "events" && name.starts_with(LEADER)
}

/// The changes but those of Leases and map, which never end, and of the Events about the map.
pub fn changes(history: &History) -> impl Iterator<Item = &Arc<Change>> {
    let of_members = |plural: &str, name: &str| is_of_members(plural, name) || is_of_leader(plural, name);
    history.changes.iter().filter(move |change| !of_members(&change.plural, &change.name))
}

/// The history with another name for a replica in each time in which it had the slot of a create. A replica
/// that lost the slot does not know the reply any more, as after a restart.
pub fn with_name_per_tenure(mut history: History) -> History {
    let owners = owners(&history, &mut Counts::default());
    let frameworks = uids(&history);
    let mut renamed = Vec::new();
    for (index, act) in history.exchanges.iter().enumerate() {
        let Some(uids) = frameworks.get(framework_of(&act.name)).filter(|_| is_act(act)) else { continue };
        // A request that left after a pause may be of a life that ended in the pause.
        let mut ended = uids.iter().filter_map(|uid| owners.granted(&act.who, Slot::of(uid), act.at).next());
        if let Some((tenure, _)) = ended.rfind(|(tenure, _)| tenure.until < Duration::MAX) {
            renamed.push((index, format!("{}-of-{}", act.who, tenure.epoch)));
        }
    }
    for (index, who) in renamed {
        history.exchanges[index].who = who.into();
    }
    history
}

/// The owners in all versions of the map, as far as these are well formed.
fn owners(history: &History, counts: &mut Counts) -> Owners {
    let mut owners = Owners::new(lives(history));
    for change in history.of("configmaps").filter(|change| change.name == MAP) {
        let _ = owners.follow(change, counts);
    }
    owners
}

/// Checks a run: each change of owner is one of the permitted ones, and every replica acts only for slots
/// that it owned when it last looked. An error describes the fault.
///
/// # Errors
/// Beside it is the version by which it happened.
pub fn judge(history: &History, pauses: &[Pause]) -> Result<Counts, (String, u64)> {
    let mut owners = Owners::new(lives(history));
    let mut counts = Counts::default();
    for change in history.of("configmaps").filter(|change| change.name == MAP) {
        owners.follow(change, &mut counts).map_err(|what| (format!("the map: {what}"), change.rv))?;
    }
    let frameworks = uids(history);
    let pause_before = |act: &Exchange| pauses.iter().find(|one| *one.who == *act.who && one.until == act.at);
    for act in history.exchanges.iter().filter(|one| is_act(one)) {
        if pause_before(act).is_some() {
            counts.held += 1;
            continue;
        }
        let Some(uids) = frameworks.get(framework_of(&act.name)) else { continue };
        counts.acts += 1;
        if !uids.iter().any(|uid| owners.owns(&act.who, Slot::of(uid), act.at)) {
            let until = history.changes.partition_point(|change| change.at <= act.at);
            let rv = history.changes[..until].last().map_or(0, |change| change.rv);
            return Err((format!("it acts for a slot that it does not own: {}", described(act)), rv));
        }
    }
    let ends = history.of("frameworks").filter(|change| change.removes());
    let ends: BTreeMap<&str, Duration> = ends.map(|change| (&*change.uid, change.at)).collect();
    for change in history.changes.iter().filter(|change| ACTED_ON.contains(&&*change.plural)) {
        let Some(act) = history.exchange_of(change).filter(|act| is_act(act)) else { continue };
        let Some(uids) = frameworks.get(framework_of(&act.name)) else { continue };
        let [uid] = &uids[..] else { continue };
        // The garbage collector removes objects that land after the end of their Framework.
        if ends.get(uid).is_some_and(|end| *end <= change.at) {
            continue;
        }
        let landed = match pause_before(act) {
            None => owners.landed_well(act, change, Slot::of(uid)),
            Some(pause) => owners.landed_after(pause, act, change, Slot::of(uid)),
        };
        landed.map_err(|what| (what, change.rv))?;
    }
    // The same by versions, which no clock orders.
    let breach = |broken: check::Violation| (broken.to_string(), broken.rv);
    check::owners::check(history).map_err(breach)?;
    counts.judged = check::seizure::check(history).map_err(breach)?.seized;
    Ok(counts)
}

impl Owners {
    fn new(lives: BTreeMap<String, Life>) -> Self {
        Owners { slots: (0..Slot::COUNT).map(|_| Vec::new()).collect(), lives, rows: BTreeMap::new() }
    }

    /// Takes in a version of the map.
    fn follow(&mut self, change: &Change, counts: &mut Counts) -> Result<(), String> {
        let map = change.new.as_ref().ok_or("it was deleted")?;
        for slot in Slot::all() {
            // Most rows are as they were in the version before.
            let text = &map["data"][slot.to_string()];
            if self.rows.get(&slot) == Some(text) {
                continue;
            }
            let row: Row = row(map, slot).ok_or_else(|| format!("slot {slot} has no row"))?;
            let known = &mut self.slots[usize::from(slot.0)];
            let (owner, epoch, unsettled) = row;
            if let Some(last) = known.last_mut() {
                if last.owner == owner && last.unsettled == unsettled && last.epoch == epoch {
                    continue;
                }
                if last.owner != owner {
                    counts.moves += 1;
                    let before = last.owner.as_deref().and_then(|old| self.lives.get(old));
                    let by_owner = before.is_some_and(|old| member_of(&old.who) == *change.cause.actor);
                    if epoch <= last.epoch {
                        return Err(format!(
                            "slot {slot} goes to {owner:?} with epoch {epoch}, not a new one"
                        ));
                    }
                    if let Some(old) = before.filter(|_| !by_owner) {
                        counts.seizures += 1;
                        if old.until > change.at {
                            return Err(format!("slot {slot} is seized from {:?}, which lives", last.owner));
                        }
                        if !unsettled {
                            return Err(format!("slot {slot} is seized, and counts as settled"));
                        }
                    }
                }
                last.until = change.at;
            }
            known.push(Tenure { from: change.at, until: Duration::MAX, owner, epoch, unsettled });
            self.rows.insert(slot, text.clone());
        }
        Ok(())
    }

    /// Whether that replica was the owner of a slot, and held its Lease.
    fn owns(&self, who: &str, slot: Slot, at: Duration) -> bool {
        self.granted(who, slot, at).any(|(_, life)| (life.from..=life.until).contains(&at))
    }

    /// The times in which the map names that replica as the owner of a slot, with the lives that it names.
    fn granted(&self, who: &str, slot: Slot, at: Duration) -> impl Iterator<Item = (&Tenure, &Life)> {
        let tenures = self.slots[usize::from(slot.0)].iter().filter(move |tenure| tenure.includes(at));
        let granted = tenures.filter_map(|tenure| Some((tenure, self.lives.get(tenure.owner.as_deref()?)?)));
        granted.filter(move |(_, life)| life.who == who)
    }

    /// A request that is applied when another replica has the slot was on its way when the slot was lost.
    /// That slot is not settled, and the request has not been on its way for too long.
    fn landed_well(&self, act: &Exchange, change: &Change, slot: Slot) -> Result<(), String> {
        // Deletes and labels are guarded by a UID, and the owner of the slot may find them done.
        if matches!(act.verb, Verb::Delete | Verb::Patch) {
            return Ok(());
        }
        if change.at.saturating_sub(act.at) > LANDS_WITHIN {
            return Err(format!("it lands later than it may: {}", described(act)));
        }
        let meanwhile =
            self.slots[usize::from(slot.0)].iter().filter(|one| one.from > act.at && one.from < change.at);
        let is_other = |tenure: &&Tenure| {
            let life = tenure.owner.as_deref().and_then(|owner| self.lives.get(owner));
            life.is_none_or(|life| *life.who != *act.who)
        };
        match meanwhile.filter(is_other).find(|tenure| !tenure.unsettled) {
            Some(_) => {
                Err(format!("it lands after its slot {slot} was handed over as settled: {}", described(act)))
            }
            None => Ok(()),
        }
    }

    /// No create that left after a pause lands when its slot was granted again meanwhile: the API server
    /// refuses it. All other requests are guarded by a UID or a version.
    fn landed_after(&self, pause: &Pause, act: &Exchange, change: &Change, slot: Slot) -> Result<(), String> {
        let epoch_before = |at: Duration| {
            self.slots[usize::from(slot.0)].iter().rfind(|tenure| tenure.from < at).map(|tenure| tenure.epoch)
        };
        if act.verb == Verb::Create && epoch_before(pause.from) < epoch_before(change.at) {
            return Err(format!(
                "it was held back until its slot {slot} was granted again: {}",
                described(act)
            ));
        }
        Ok(())
    }
}

/// Owner, epoch, and whether it is unsettled.
type Row = (Option<String>, u64, bool);

/// The row of a slot.
pub fn row(map: &Value, slot: Slot) -> Option<Row> {
    let row: Value = serde_json::from_str(map["data"][slot.to_string()].as_str()?).ok()?;
    Some((row["owner"].as_str().map(str::to_owned), row["epoch"].as_u64()?, row["unsettled"] == true))
}

/// The lives of all members, by their Leases.
fn lives(history: &History) -> BTreeMap<String, Life> {
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    let holder = |object: Option<&Arc<framework_sim::Object>>| {
        object.and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned))
    };
    for change in history.of("leases") {
        let (old, new) = (holder(change.old.as_ref()), holder(change.new.as_ref()));
        // Of the leader's Lease a life is no holder in this sense.
        let is_own = |holder: &String| holder.split('/').next() == Some(change.name.as_str());
        if old == new {
            continue;
        }
        if let Some(life) = old.filter(is_own).and_then(|old| lives.get_mut(&old)) {
            life.until = change.at;
        }
        if let (Some(new), Some(who)) = (new.filter(is_own), change.cause.actor.strip_suffix("-member")) {
            lives.insert(new, Life { who: who.to_owned(), from: change.at, until: Duration::MAX });
        }
    }
    lives
}

/// The UIDs of all Frameworks that ever had a name.
fn uids(history: &History) -> BTreeMap<&str, Vec<&str>> {
    let mut uids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for change in history.of("frameworks").filter(|change| change.creates()) {
        uids.entry(&change.name).or_default().push(&change.uid);
    }
    uids
}

/// Whether a request acts for a Framework.
fn is_act(one: &Exchange) -> bool {
    let acts = matches!(
        one.verb,
        Verb::Create | Verb::Update | Verb::UpdateStatus | Verb::Patch | Verb::PatchStatus | Verb::Delete
    );
    acts && one.who.starts_with("controller-")
        && ACTED_ON.contains(&&*one.plural)
        && !is_of_members(&one.plural, &one.name)
}

/// The Framework of an object, by its name: the names of Frameworks have no hyphen here.
fn framework_of(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

fn described(act: &Exchange) -> String {
    format!("{} ms: {} {:?} {}/{}", act.at.as_millis(), act.who, act.verb, act.plural, act.name)
}

/// The owner of a slot by the newest map, as the client of its controller.
pub fn owner(history: &History, slot: Slot) -> Option<String> {
    let map = history.of("configmaps").filter(|change| change.name == MAP).last()?;
    let (owner, ..) = row(map.object(), slot)?;
    Some(lives(history).remove(&owner?)?.who)
}

/// The owners of all slots by the newest map: how many each has, by the client of its controller. An error
/// describes a slot that nobody owns.
pub fn shares(history: &History) -> Result<BTreeMap<String, usize>, String> {
    let lives = lives(history);
    let map = history.of("configmaps").filter(|change| change.name == MAP).last().ok_or("there is no map")?;
    let mut shares: BTreeMap<String, usize> = BTreeMap::new();
    for slot in Slot::all() {
        let (owner, ..) = row(map.object(), slot).ok_or_else(|| format!("slot {slot} has no row"))?;
        let life = owner.as_deref().and_then(|owner| lives.get(owner));
        let life = life.filter(|life| life.until == Duration::MAX);
        let life = life.ok_or_else(|| format!("nobody who lives owns slot {slot}: {owner:?}"))?;
        *shares.entry(life.who.clone()).or_default() += 1;
    }
    Ok(shares)
}
