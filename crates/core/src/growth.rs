//! The QueueUnits that request the Tasks of a Framework that a queue has released.
//!
//! The first unit of a Framework requests the Tasks that the Framework was released with. New Tasks are
//! stored with the generation of the spec that added them. Another unit, whose name has that generation,
//! requests them: they get no Pod until it is released.
//!
//! Guarantees: the stored generation of a Task never changes, also through retries. A Task that is being
//! removed gives its share back permanently, and the Task that replaces it is requested again. So the demand
//! of a unit never grows once all its Tasks are stored.

use std::collections::BTreeMap;

use framework_api::job_kind::unit_name;
use framework_api::name::KIND;
use framework_api::queue::growth_unit_name;
use framework_api::status::{TaskRoleStatus, TaskStatus};
use framework_api::{FrameworkSpec, FrameworkStatus, Time};

use crate::event_reason::EventReason;
use crate::observed::{Observed, Policy};
use crate::plan::Report;
use crate::queue::{self, Stage};

/// The Tasks that one unit requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitDemand {
    /// The generation in the unit's name; `None`: the first unit.
    pub generation: Option<i64>,
    /// When the first of these Tasks was added; `None`: none is stored yet.
    pub since: Option<Time>,
    /// The number of Tasks of each TaskRole of the spec, in its order.
    pub tasks: Vec<u64>,
    /// The number of Tasks of each TaskRole that the unit is still needed for: with those that are being
    /// removed, whose Pods may remain.
    pub held: Vec<u64>,
    /// Whether Tasks of a removed TaskRole remain, which are in none of these numbers.
    pub lingers: bool,
}

/// The demands of all units, that of the first unit first. Costs O(Tasks log generations).
pub fn unit_demands(o: &Observed<'_>, policy: &Policy) -> Vec<UnitDemand> {
    let (framework, spec) = (o.framework, &o.framework.spec);
    let roles = o.status.map_or(&[][..], FrameworkStatus::task_roles);
    let mut first = UnitDemand::new(None, spec);
    let is_tagged = |task: &TaskStatus| task.queue_unit_generation.is_some();
    if queue::stage_now(o, policy) == Stage::Waiting
        && !roles.iter().flat_map(TaskRoleStatus::tasks).any(is_tagged)
    {
        // Its Tasks follow its spec, and no attempt of it has begun.
        let numbers = spec.task_roles.iter().map(|role| u64::try_from(role.task_number).unwrap_or(0));
        first.tasks = numbers.collect();
        first.held.clone_from(&first.tasks);
        return vec![first];
    }
    let current = framework.metadata.generation;
    let mut demands = Demands { spec, by_generation: BTreeMap::from([(None, first)]) };
    for role in roles {
        let Some(position) = spec.task_roles.iter().position(|wanted| wanted.name == role.name) else {
            role.tasks().for_each(|task| demands.of(task.queue_unit_generation).lingers = true);
            continue;
        };
        let number = spec.task_roles.get(position).map_or(0, |role| role.task_count());
        for (index, task) in role.tasks().enumerate() {
            if !task.deletion_pending {
                demands.of(task.queue_unit_generation).store(position, task.start_time);
                continue;
            }
            demands.of(task.queue_unit_generation).hold(position);
            // Another Task takes the place of one that goes: it is part of the growth that asks for it.
            if index < number && current.is_some() {
                demands.of(current).count(position);
            }
        }
    }
    let is_needed =
        |demand: &UnitDemand| demand.generation.is_none() || demand.since.is_some() || demand.is_held();
    demands.by_generation.into_values().filter(is_needed).collect()
}

/// The demands by the generations in the names of their units. The first unit comes first.
struct Demands<'a> {
    spec: &'a FrameworkSpec,
    by_generation: BTreeMap<Option<i64>, UnitDemand>,
}

impl Demands<'_> {
    /// The demand of a unit. Tasks of all generations may alternate: a linear search for each is too slow.
    fn of(&mut self, generation: Option<i64>) -> &mut UnitDemand {
        self.by_generation.entry(generation).or_insert_with(|| UnitDemand::new(generation, self.spec))
    }
}

impl UnitDemand {
    fn new(generation: Option<i64>, spec: &FrameworkSpec) -> Self {
        let none = vec![0; spec.task_roles.len()];
        UnitDemand { generation, since: None, tasks: none.clone(), held: none, lingers: false }
    }

    fn is_held(&self) -> bool {
        self.lingers || self.held.iter().any(|held| *held > 0)
    }

    /// Counts a stored Task that stays.
    fn store(&mut self, position: usize, start: Time) {
        self.count(position);
        self.since = Some(self.since.map_or(start, |since| since.min(start)));
    }

    /// Counts a Task that the unit requests.
    fn count(&mut self, position: usize) {
        if let Some(count) = self.tasks.get_mut(position) {
            *count += 1;
        }
        self.hold(position);
    }

    /// Counts a Task that the unit is still needed for.
    fn hold(&mut self, position: usize) {
        if let Some(held) = self.held.get_mut(position) {
            *held += 1;
        }
    }
}

/// The unit that requests the Tasks that are added now.
#[derive(Clone, Copy)]
pub(crate) struct Adding<'a> {
    /// The TaskRoles of the attempt that a new one follows.
    before: &'a [TaskRoleStatus],
    generation: Option<i64>,
}

impl<'a> Adding<'a> {
    /// Tasks added to the attempt with this status.
    pub fn to(status: &FrameworkStatus, o: &Observed<'_>, policy: &Policy) -> Self {
        let grows = policy.queueing && queue::is_through(status, o, policy);
        Adding { before: &[], generation: o.framework.metadata.generation.filter(|_| grows) }
    }

    /// Tasks of the attempt after the one with this status; `None`: of the first one.
    pub fn after(status: Option<&'a FrameworkStatus>, o: &Observed<'_>, policy: &Policy) -> Self {
        let Some(status) = status else { return Adding { before: &[], generation: None } };
        Adding { before: status.task_roles(), ..Self::to(status, o, policy) }
    }

    /// The generation that is stored with the Task.
    pub fn tag(&self, role: &str, index: i32) -> Option<i64> {
        let before = self.before.iter().find(|before| before.name == role);
        let before = before.and_then(|role| role.task_statuses.get(usize::try_from(index).ok()?));
        match before.filter(|before| !before.deletion_pending) {
            Some(before) => before.queue_unit_generation,
            None => self.generation,
        }
    }
}

/// Whether the unit that requests a Task has not been released yet.
pub(crate) fn waits(task: &TaskStatus, o: &Observed<'_>, policy: &Policy) -> bool {
    policy.queueing
        && task.queue_unit_generation.is_some_and(|generation| o.growths.binary_search(&generation).is_err())
}

/// The report about Tasks that are first stored with `next`, and wait.
pub(crate) fn report(status: &FrameworkStatus, next: &FrameworkStatus, o: &Observed<'_>) -> Option<Report> {
    let generation = o.framework.metadata.generation?;
    let is_of_it = |task: &TaskStatus| task.queue_unit_generation == Some(generation);
    if status.all_tasks().any(is_of_it) || !next.all_tasks().any(is_of_it) {
        return None;
    }
    let queue = queue::is_queued(o.framework, Some(next)).unwrap_or_default();
    let first = unit_name(KIND, o.framework.metadata.name.as_deref().unwrap_or_default());
    let unit = growth_unit_name(&first, generation);
    let note = format!("the new Tasks wait in queue {queue} until the QueueUnit {unit} is released");
    Some(Report::normal(EventReason::GrowthQueued, note))
}
