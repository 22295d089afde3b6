//! What the desk says to who asks.

use super::super::counts::Gauges;
use super::super::inquiry::Whereabouts;
use super::Desk;
use crate::event::Key;

impl Desk {
    /// Where a unit stands; `None`: there is none of that name.
    pub fn whereabouts(&self, key: &Key) -> Option<Whereabouts> {
        let unit = self.units.get(key)?;
        let space = self.spaces.get(&key.namespace);
        let position = space.and_then(|space| space.schedule.position(&unit.uid));
        let before = position.as_ref().and_then(|position| position.directly_before.as_ref());
        let name = before.and_then(|uid| space?.names.get(uid));
        Some(Whereabouts {
            queue: unit.queue.to_string(),
            phase: unit.standing.phase,
            reason: unit.standing.reason.map(|reason| reason.to_string()),
            message: unit.standing.message.clone(),
            place: position.as_ref().map(|position| position.place),
            before: position.as_ref().map(|position| position.before),
            directly_before: name.map(|name| name.to_string()),
        })
    }

    /// How many units wait, and how many hold something.
    pub fn gauges(&self) -> &Gauges {
        self.counts.gauges()
    }
}
