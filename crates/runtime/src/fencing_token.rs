//! The fencing token of a create, and the refusal of a create whose token is over.
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

/// A slot, and the epoch under which it was granted: it rises with each owner (M. Kleppmann, "How to do
/// distributed locking", 2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencingToken {
    slot: Slot,
    epoch: u64,
}

impl FencingToken {
    /// That of the last grant of a slot; `None`: no map granted it.
    pub fn of(ownership: &Ownership, slot: Slot) -> Option<FencingToken> {
        Some(FencingToken { slot, epoch: ownership.epoch(slot)? })
    }

    /// Lets a create carry it.
    pub fn stamp(self, call: &mut Call) {
        let FencingToken { slot, epoch } = self;
        call.uri.push_str(&format!("&fieldManager=frameworkcontroller-slot-{slot}-epoch-{epoch}"));
    }
}

/// Whether a refusal says that a token is over. It is no refusal of the object.
pub fn is_over(message: &str) -> bool {
    message.contains(POLICY)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_create_carries_the_slot_and_its_epoch() {
        let ownership = Ownership::none();
        assert_eq!(FencingToken::of(&ownership, Slot(7)), None, "it runs alone");
        ownership.grant(Slot(7), 1_790_000_000_000);
        let mut call = Call {
            method: Method::POST,
            uri: "/api/v1/namespaces/n/pods?timeout=5s".to_owned(),
            content_type: "application/json",
            body: Vec::new(),
            verb: "create",
            resource: "pods",
        };
        FencingToken::of(&ownership, Slot(7)).unwrap().stamp(&mut call);
        let manager = "frameworkcontroller-slot-7-epoch-1790000000000";
        assert_eq!(call.uri, format!("/api/v1/namespaces/n/pods?timeout=5s&fieldManager={manager}"));
    }
}
