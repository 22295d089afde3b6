//! The label selector of a watch. That of a kind which is divided into slots changes while the watch runs.
//!
//! Of the Pods and ConfigMaps in queues, those of Frameworks name the slot of their namespace. Users label
//! the Pods of other jobs with the queue alone, and earlier builds made objects without the slot: every
//! replica needs these. A selector has no "or", and `notin` selects both: the objects that name none of the
//! slots of others. So there is one watch, and no order between two streams is needed when a label is edited.

use framework_api::name::SLOT_LABEL;
use framework_api::queue::{NAMESPACE_SLOT_LABEL, QUEUE_NAME_LABEL};
use framework_message::{SlotSelection, Slots};
use tokio::sync::watch;

use crate::wire::{Division, Wire};

/// The label selector of a watch.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The selector of the kind; `None`: all objects are watched.
    kind: Option<&'static str>,
    division: Division,
    /// The selection that is watched; `None`: all of it, for ever.
    selection: Option<watch::Receiver<SlotSelection>>,
}

impl Selector {
    /// The selector of a kind, which never changes.
    pub fn of<T: Wire>() -> Self {
        Selector { kind: T::RESOURCE.selector, division: T::RESOURCE.division, selection: None }
    }

    /// The same, for the part of all objects that the receiver shows. After a change, slots that were added
    /// are listed.
    #[must_use]
    pub fn within(self, selection: watch::Receiver<SlotSelection>) -> Self {
        Selector { selection: Some(selection), ..self }
    }

    /// The selection as it is now, if it can change.
    pub(super) fn selection(&mut self) -> Option<SlotSelection> {
        self.selection.as_mut().map(|selection| *selection.borrow_and_update())
    }

    /// The labels of a selection.
    pub(super) fn labels(&self, selection: Option<SlotSelection>) -> Option<String> {
        match selection {
            Some(SlotSelection { slots, .. }) if slots != Slots::ALL => Some(match self.division {
                Division::ByFramework => within(self.division, slots),
                Division::ByNamespace => {
                    let others = values(Slots::ALL.without(slots));
                    format!("{QUEUE_NAME_LABEL},{NAMESPACE_SLOT_LABEL} notin ({others})")
                }
            }),
            _ => self.kind.map(str::to_owned),
        }
    }

    /// Whether a selection has no objects.
    pub(super) fn is_empty(&self, selection: Option<SlotSelection>) -> bool {
        self.division == Division::ByFramework
            && selection.is_some_and(|selection| selection.slots.is_empty())
    }

    /// Waits until the selection is another one than [`Selector::selection`] gave last.
    pub(super) async fn changed(&mut self) {
        let is_changed = match &mut self.selection {
            Some(selection) => selection.changed().await.is_ok(),
            None => false,
        };
        if !is_changed {
            std::future::pending().await
        }
    }
}

/// The objects that name one of these slots.
pub(super) fn within(division: Division, slots: Slots) -> String {
    let slots = values(slots);
    match division {
        Division::ByFramework => format!("{SLOT_LABEL} in ({slots})"),
        Division::ByNamespace => format!("{QUEUE_NAME_LABEL},{NAMESPACE_SLOT_LABEL} in ({slots})"),
    }
}

fn values(slots: Slots) -> String {
    let slots: Vec<String> = slots.iter().map(|slot| slot.to_string()).collect();
    slots.join(",")
}

#[cfg(test)]
mod tests {
    use framework_engine::object::PodObject;
    use framework_message::Slot;
    use framework_queueing::PodUse;

    use super::*;
    use crate::wire::{AttemptObject, FrameworkText};

    #[test]
    fn a_share_is_selected_by_its_slots_and_the_whole_as_without_shares() {
        let labels = |selector: &Selector, slots| selector.labels(Some(SlotSelection::whole(1, slots)));
        let (pods, frameworks) = (Selector::of::<PodObject>(), Selector::of::<FrameworkText>());
        assert_eq!(labels(&pods, Slots::ALL).as_deref(), Some(SLOT_LABEL));
        assert_eq!(labels(&frameworks, Slots::ALL), None);
        let some = [Slot(3), Slot(12)].into_iter().collect();
        let expected = "frameworkcontroller.microsoft.com/slot in (3,12)";
        assert_eq!([&pods, &frameworks].map(|kind| labels(kind, some).unwrap()), [expected; 2]);
    }

    #[test]
    fn a_share_of_the_objects_in_queues_has_those_that_name_no_slot_of_others() {
        let [pods, maps] = [Selector::of::<PodUse>(), Selector::of::<AttemptObject>()];
        let labels = |slots| {
            let selection = Some(SlotSelection::whole(1, slots));
            assert_eq!(pods.labels(selection), maps.labels(selection));
            assert!(!pods.is_empty(selection), "of objects without the label each replica has all");
            pods.labels(selection).unwrap()
        };
        assert_eq!(labels(Slots::ALL), QUEUE_NAME_LABEL, "also of objects that an earlier build made");
        let others: Slots = [Slot(3), Slot(12)].into_iter().collect();
        let queue = "frameworkcontroller.microsoft.com/queue-name";
        let slot = "frameworkcontroller.microsoft.com/namespace-slot";
        assert_eq!(labels(Slots::ALL.without(others)), format!("{queue},{slot} notin (3,12)"));
        assert!(labels(Slots::NONE).ends_with(",254,255)"), "before the first grant");
        assert_eq!(within(Division::ByNamespace, others), format!("{queue},{slot} in (3,12)"));
    }
}
