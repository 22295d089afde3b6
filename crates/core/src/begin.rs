//! The first step of a Framework that has no status yet.
//!
//! The spec alone permits the ConfigMap of the first attempt, if the Framework is to be started and waits for
//! nothing (rule A11). So its first status records that ConfigMap. A write before it would only announce it.
//! After a crash, a ConfigMap of this Framework is taken over as long as there is no status. Later it is an
//! orphan, as any object that a status does not record.

use framework_api::{ExecutionType, FrameworkStatus};

use crate::first_attempt::{FIRST, permits};
use crate::framework::{Step, init};
use crate::lifetime;
use crate::observed::{Moment, Observed, Outcome, Policy};
use crate::plan::Action;

/// The first step.
pub(crate) enum First {
    /// The ConfigMap is created, before there is a status.
    Create(Action),
    /// The ConfigMap is being created.
    Await,
    /// This is the first status.
    Write(Box<FrameworkStatus>),
}

/// Decides the first step. `is_held`: the attempt may not begin.
pub(crate) fn first(o: &Observed<'_>, m: &Moment, policy: &Policy, is_held: bool) -> First {
    let create = Action::CreateConfigMap { instance: FIRST };
    let begins = !is_held && !is_late(o, m) && permits(o.framework, &create, policy);
    // Somebody may have removed the status of a Framework that runs. It ends as it would have, Pods first.
    let ends = !is_held && ends(o, m);
    let map = match first_map(o) {
        FirstMap::Created(uid) if begins || ends => FirstMap::Created(uid),
        map if begins => map,
        _ => FirstMap::Prevented,
    };
    match map {
        FirstMap::Absent => First::Create(create),
        FirstMap::InFlight => First::Await,
        FirstMap::Created(uid) => {
            let mut next = init(o, m, policy);
            Step { o, m, policy }.begun(&mut next, uid);
            First::Write(Box::new(next))
        }
        FirstMap::Prevented => First::Write(Box::new(init(o, m, policy))),
    }
}

/// Whether the Framework is to end, or may be: it is stopped, or its deadline has passed.
pub(crate) fn ends(o: &Observed<'_>, m: &Moment) -> bool {
    is_late(o, m) || o.framework.spec.execution_type == ExecutionType::Stop
}

fn is_late(o: &Observed<'_>, m: &Moment) -> bool {
    lifetime::may_be_over(o, m) || lifetime::is_over(o, m)
}

/// The ConfigMap of the first attempt, while there is no status.
enum FirstMap {
    /// It is to be created.
    Absent,
    /// It is being created.
    InFlight,
    /// It has this UID.
    Created(String),
    /// The create was refused, or another object has the name: a status is to say so.
    Prevented,
}

fn first_map(o: &Observed<'_>) -> FirstMap {
    let create = o.objects.config_map_create.as_ref().map(|create| &create.outcome);
    if let Some(Outcome::Acknowledged { uid }) = create {
        return FirstMap::Created(uid.clone());
    }
    match (&o.objects.config_map, create) {
        (Some(map), _) if map.is_of(o.framework) && !map.deleting => FirstMap::Created(map.uid.clone()),
        (Some(_), _) => FirstMap::Prevented,
        (None, None) => FirstMap::Absent,
        (None, Some(Outcome::InFlight)) => FirstMap::InFlight,
        (None, Some(_)) => FirstMap::Prevented,
    }
}
