//! The grant of a slot in a create, and the refusal of a create whose grant is over.
//!
//! A create carries no resourceVersion, so that one which is late may run a Task again. The slot and its
//! epoch travel in `fieldManager`, where an admission policy (`deploy/epoch`) compares them with the map of
//! slots.

use framework_message::{Ownership, Slot};

use crate::request::call::Call;

/// The name of the policy, as a refusal has it.
const POLICY: &str = "ValidatingAdmissionPolicy 'frameworkcontroller-epoch'";
/// The reason why a create that the policy refused had no effect.
pub const OVER: &str = "the map of slots has granted its slot to another replica";

/// A slot, and the epoch under which it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    slot: Slot,
    epoch: u64,
}

impl Grant {
    /// The last grant of a slot; `None`: no map granted it.
    pub fn of(ownership: &Ownership, slot: Slot) -> Option<Grant> {
        Some(Grant { slot, epoch: ownership.epoch(slot)? })
    }

    /// Lets a create carry it.
    pub fn stamp(self, call: &mut Call) {
        let Grant { slot, epoch } = self;
        call.uri.push_str(&format!("&fieldManager=frameworkcontroller-slot-{slot}-epoch-{epoch}"));
    }
}

/// Whether a refusal says that a grant is over. It is no refusal of the object.
pub fn is_over(message: &str) -> bool {
    message.contains(POLICY)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_create_carries_the_epoch_of_the_grant() {
        let ownership = Ownership::none();
        assert_eq!(Grant::of(&ownership, Slot(7)), None, "it runs alone");
        ownership.grant(Slot(7), 1_790_000_000_000);
        let mut call = Call {
            method: Method::POST,
            uri: "/api/v1/namespaces/n/pods?timeout=5s".to_owned(),
            content_type: "application/json",
            body: Vec::new(),
            verb: "create",
            resource: "pods",
        };
        Grant::of(&ownership, Slot(7)).unwrap().stamp(&mut call);
        let manager = "frameworkcontroller-slot-7-epoch-1790000000000";
        assert_eq!(call.uri, format!("/api/v1/namespaces/n/pods?timeout=5s&fieldManager={manager}"));
    }
}
