//! The time from the end of a replica until another one writes for its slots, and until one creates there. It
//! comes from the history, where the versions of the map say whose each write was.

use std::fmt;
use std::time::Duration;

use framework_sim::check::owners::{self, Write};
use framework_sim::{History, Verb};
use jiff::Timestamp;

use crate::cluster::replicas::{host_of, owners};

/// A replica that is disturbed, and the slots that it had.
#[derive(Clone, Debug)]
pub struct Taken {
    name: String,
    at: Timestamp,
    /// Each with the incarnation that owned it.
    slots: Vec<(u8, String)>,
}

/// The shortest times of a disturbance; none: no Framework needed it before the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// Until the next owner wrote for one of its Frameworks.
    pub write: Option<Duration>,
    /// Until the next owner created an object for one of them.
    pub create: Option<Duration>,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} slots at {}", self.name, self.slots.len(), self.at)
    }
}

impl Taken {
    /// Notes the slots of a replica, just before it is disturbed.
    pub fn from(name: &str) -> Taken {
        let slots = owners().into_iter().filter(|(_, owner)| host_of(owner) == name).collect();
        Taken { name: name.to_owned(), at: Timestamp::now(), slots }
    }

    /// The times in these histories.
    pub fn first(&self, histories: &[History]) -> First {
        let found = histories.iter().flat_map(|history| self.writes(history));
        let writes: Vec<(bool, Duration)> = found.collect();
        let creates = writes.iter().filter(|(creates, _)| *creates);
        First {
            write: writes.iter().map(|(_, after)| *after).min(),
            create: creates.map(|(_, after)| *after).min(),
        }
    }

    /// The writes of the next owner of each slot, with the time from the disturbance on, and whether they
    /// create.
    fn writes(&self, history: &History) -> Vec<(bool, Duration)> {
        let Ok(tenures) = owners::tenures(history) else { return Vec::new() };
        let is_next = |write: &Write<'_>| {
            let (of_slot, owner) = (tenures.get(&write.slot)?, self.owner(write.slot)?);
            let at = of_slot.iter().rposition(|tenure| tenure.owner == owner)?;
            let next = of_slot.get(at + 1)?;
            let until = of_slot.get(at + 2).map_or(u64::MAX, |after| after.since);
            Some((next.since..until).contains(&write.change.rv) && next.is_of(&write.change.cause.actor))
        };
        let writes = owners::writes(history).filter(|write| is_next(write) == Some(true));
        let after = |write: Write<'_>| {
            let after = write.change.time.duration_since(self.at);
            (write.change.cause.verb == Verb::Create, Duration::try_from(after).unwrap_or_default())
        };
        writes.map(after).collect()
    }

    fn owner(&self, slot: u8) -> Option<&str> {
        self.slots.iter().find(|(of, _)| *of == slot).map(|(_, owner)| owner.as_str())
    }
}
