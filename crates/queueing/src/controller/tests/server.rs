//! The API server that the controller meets.

use super::*;
use crate::consumer::NamedKind;
use crate::object::{Page, UnitNotes};

/// The stored objects, and counts of the requests.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) version: u128,
    pub(super) units: BTreeMap<Key, UnitObject>,
    /// The changes that the watch will show.
    pub(super) news: VecDeque<Change<UnitObject>>,
    /// The same for the side of the Frameworks, whose watch is another one.
    pub(super) framework_news: VecDeque<Change<UnitObject>>,
    /// Jobs, with their stage and their requests.
    pub(super) jobs: BTreeMap<Key, (Stage, u64)>,
    /// Their growths by generation: the second of the change, and the requests.
    pub(super) growths: BTreeMap<Key, BTreeMap<i64, (u64, u64)>>,
    pub(super) limit: u64,
    /// By name and UID: a new unit of the same name is another one.
    pub(super) releases: BTreeMap<(Key, Arc<str>), usize>,
    /// The generation of the spec of jobs that were changed.
    pub(super) generations: BTreeMap<Key, i64>,
    /// In which second jobs were created.
    pub(super) created: BTreeMap<Key, u64>,
    pub(super) refused: usize,
    pub(super) patches: usize,
    /// The written counts of the Queue, with the second.
    pub(super) queue_writes: Vec<(u64, QueueCounts)>,
    pub(super) second: u64,
}

impl Server {
    pub(super) fn stamp(&mut self) -> u128 {
        self.version += 1;
        self.version
    }

    pub(super) fn changed(&mut self, name: &Key) {
        let version = self.stamp();
        let unit = self.units.get_mut(name).unwrap();
        unit.resource_version = version;
        if unit.deleting && !unit.finalizers.has_ours() {
            let unit = self.units.remove(name).unwrap();
            self.framework_news.push_back(Change::Deleted(unit.clone()));
            self.news.push_back(Change::Deleted(unit));
        } else {
            let unit = unit.clone();
            self.framework_news.push_back(Change::Applied(unit.clone()));
            self.news.push_back(Change::Applied(unit));
        }
    }

    /// A user changes a priority: refused once the unit is released, as the CRD's rule says.
    pub(super) fn set_priority(&mut self, name: &Key, priority: i32) {
        let Some(unit) = self.units.get_mut(name) else { return };
        if unit.status.phase == Some(Phase::Dequeued) {
            return;
        }
        self.patches += 1;
        unit.priority = Some(priority);
        self.changed(name);
    }

    pub(super) fn refuse(&mut self, code: u16) -> Reply {
        self.refused += 1;
        let rejection = Rejection { code, reason: String::new(), message: String::new(), retry_after: None };
        Reply::Refused(rejection)
    }

    pub(super) fn guarded(&self, name: &Key, uid: &str, version: Option<u128>) -> Result<(), u16> {
        let unit = self.units.get(name).ok_or(404_u16)?;
        let same = *unit.uid == *uid && version.is_none_or(|version| version == unit.resource_version);
        if same { Ok(()) } else { Err(409) }
    }

    pub(super) fn take(&mut self, request: &QueueRequest) -> Reply {
        let checked = match request {
            QueueRequest::PutStatus { unit, uid, resource_version, .. }
            | QueueRequest::ReturnCapacity { unit, uid, resource_version, .. }
            | QueueRequest::BindUnit { unit, uid, resource_version, .. }
            | QueueRequest::RemoveFinalizer { unit, uid, resource_version, .. } => {
                self.guarded(unit, uid, Some(*resource_version))
            }
            QueueRequest::DeleteUnit { unit, uid } => self.guarded(unit, uid, None),
            QueueRequest::GetUnit { unit } if !self.units.contains_key(unit) => Err(404),
            QueueRequest::CreateUnit(creation) if self.units.contains_key(&creation.unit) => Err(409),
            _ => Ok(()),
        };
        if let Err(code) = checked {
            return self.refuse(code);
        }
        let name = match request {
            QueueRequest::CreateUnit(creation) => self.create(creation),
            QueueRequest::PutStatus { unit, uid, status, .. } => {
                self.store_status(unit, uid, status);
                unit.clone()
            }
            QueueRequest::ReturnCapacity { unit, held, .. } => {
                self.units.get_mut(unit).unwrap().notes.held = Some(held.clone());
                unit.clone()
            }
            QueueRequest::BindUnit { unit, framework, .. } => {
                self.units.get_mut(unit).unwrap().notes.bound_to = Some(Arc::clone(framework));
                unit.clone()
            }
            QueueRequest::DeleteUnit { unit, .. } => {
                self.units.get_mut(unit).unwrap().deleting = true;
                self.changed(unit);
                return Reply::Done;
            }
            QueueRequest::RemoveFinalizer { unit, finalizers, .. } => {
                self.units.get_mut(unit).unwrap().finalizers = finalizers.others().collect();
                self.changed(unit);
                return Reply::Done;
            }
            QueueRequest::GetUnit { unit } => {
                return Reply::Object(Object::Unit(Box::new(self.units[unit].clone())));
            }
            QueueRequest::PatchQueue { counts, .. } => {
                self.queue_writes.push((self.second, *counts));
                return Reply::Done;
            }
            QueueRequest::ListUnits { after, .. } => {
                let rest = self
                    .units
                    .values()
                    .filter(|unit| after.as_ref().is_none_or(|last| unit.key.name > *last));
                let units: Vec<UnitObject> = rest.take(3).cloned().collect();
                let after = units.last().filter(|_| units.len() == 3).map(|unit| unit.key.name.to_string());
                return Reply::Object(Object::Page(Page { units, after }));
            }
            // The job shows it later.
            QueueRequest::ResumeJob { .. } | QueueRequest::LabelTemplates { .. } => return Reply::Done,
            QueueRequest::GetFramework { framework } if self.jobs.contains_key(framework) => {
                return Reply::Object(Object::Framework(format!("uid-{}", framework.name).into()));
            }
            QueueRequest::GetFramework { .. } => return self.refuse(404),
            QueueRequest::DeleteJob { .. } | QueueRequest::GetChild { .. } | QueueRequest::Fail { .. } => {
                unreachable!("another part sends these")
            }
        };
        self.changed(&name);
        self.check();
        Reply::Object(Object::Unit(Box::new(self.units[&name].clone())))
    }

    fn store_status(&mut self, unit: &Key, uid: &Arc<str>, status: &UnitStatus) {
        let stored = &mut self.units.get_mut(unit).unwrap().status;
        assert_ne!(stored.phase, Some(Phase::Dequeued), "{unit} is written after its release");
        let order = [None, Some(Phase::Enqueued), Some(Phase::Dequeued)];
        let place = |phase| order.iter().position(|known| *known == phase).unwrap();
        assert!(place(status.phase).abs_diff(place(stored.phase)) <= 1, "{stored:?} {status:?}");
        stored.clone_from(status);
        if status.phase == Some(Phase::Dequeued) {
            *self.releases.entry((unit.clone(), Arc::clone(uid))).or_default() += 1;
        }
    }

    pub(super) fn create(&mut self, creation: &UnitCreation) -> Key {
        let UnitCreation { unit, kind, job, uid, queue, priority, requests, enqueued, .. } = creation;
        let (name, version) = (unit.clone(), self.stamp());
        let unit = UnitObject {
            key: name.clone(),
            uid: format!("unit-{version}").into(),
            resource_version: version,
            created: at(self.second),
            deleting: false,
            finalizers: [FINALIZER].into_iter().collect(),
            owner: Some(Arc::clone(uid)),
            consumer: ConsumerKey {
                kind: match kind {
                    NamedKind::Framework => JobKind::Framework,
                    NamedKind::Declared(row) => JobKind::declared(row),
                },
                key: job.clone(),
            },
            notes: UnitNotes { enqueued: Some(*enqueued), ..UnitNotes::default() },
            consumer_uid: Some(Arc::clone(uid)),
            queue: Arc::clone(queue),
            priority: *priority,
            class: None,
            requests: Ok(requests.clone()),
            status: UnitStatus::default(),
        };
        self.units.insert(name.clone(), unit);
        name
    }

    /// Checks that the released units fit, and that no job runs with more than was released for it.
    pub(super) fn check(&self) {
        let mut sum = Amount::ZERO;
        for unit in self.units.values().filter(|unit| unit.status.phase == Some(Phase::Dequeued)) {
            if unit.is_by_hand() {
                sum = sum.plus(unit.reserved().get("cpu"));
                continue;
            }
            let job = &unit.consumer.key;
            let (stage, asks) = self.jobs[job];
            let growth = unit.consumer.generation_of(&unit.key);
            let grown = |generation| self.growths.get(job).and_then(|growths| growths.get(&generation));
            let asks = growth.map_or(asks, |generation| grown(generation).map_or(0, |grown| grown.1));
            let given = unit.requests.clone().unwrap_or_default();
            sum = match stage {
                Stage::Waiting if growth.is_none() => sum.plus(given.get("cpu")),
                Stage::Waiting | Stage::Started => sum.plus(cpu(asks).get("cpu")),
                Stage::Finished => sum,
            };
        }
        assert!(sum <= cpu(self.limit).get("cpu"), "{sum} of {} are released: {:#?}", self.limit, self.units);
        for (job, (_, asks)) in self.jobs.iter().filter(|(_, (stage, _))| *stage == Stage::Started) {
            let unit = self.units.get(&key(&format!("framework-{}", job.name)));
            let released = unit.filter(|unit| unit.status.phase == Some(Phase::Dequeued));
            let given = released.and_then(|unit| unit.requests.clone().ok()).unwrap_or_default();
            assert!(cpu(*asks).get("cpu") <= given.get("cpu"), "{job} runs with {given}, and asks {asks}");
        }
        let twice = self.releases.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None, "released twice");
    }
}
