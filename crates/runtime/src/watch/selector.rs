//! The label selector of a watch. That of a kind which is divided into slots changes while the watch runs.

use framework_api::name::SLOT_LABEL;
use framework_message::{Selection, Slots};
use tokio::sync::watch;

use crate::wire::Wire;

/// The label selector of a watch.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The selector of the kind; `None`: all objects are watched.
    kind: Option<&'static str>,
    /// The share that is watched; `None`: all of it, for ever.
    share: Option<watch::Receiver<Selection>>,
}

impl Selector {
    /// The selector of a kind, which never changes.
    pub fn of<T: Wire>() -> Self {
        Selector { kind: T::RESOURCE.selector, share: None }
    }

    /// The same, for the share of all objects that the receiver shows. After a change, slots that were added
    /// are listed.
    #[must_use]
    pub fn within(self, share: watch::Receiver<Selection>) -> Self {
        Selector { share: Some(share), ..self }
    }

    /// The share as it is now, if it can change.
    pub(super) fn share(&mut self) -> Option<Selection> {
        self.share.as_mut().map(|share| *share.borrow_and_update())
    }

    /// The labels of a share.
    pub(super) fn labels(&self, share: Option<Selection>) -> Option<String> {
        match share {
            Some(Selection { slots, .. }) if slots != Slots::ALL => Some(within(slots)),
            _ => self.kind.map(str::to_owned),
        }
    }

    /// Waits until the share is another one than [`Selector::share`] gave last.
    pub(super) async fn changed(&mut self) {
        let is_changed = match &mut self.share {
            Some(share) => share.changed().await.is_ok(),
            None => false,
        };
        if !is_changed {
            std::future::pending().await
        }
    }
}

/// The objects of these slots.
pub(super) fn within(slots: Slots) -> String {
    let slots: Vec<String> = slots.iter().map(|slot| slot.to_string()).collect();
    format!("{SLOT_LABEL} in ({})", slots.join(","))
}

#[cfg(test)]
mod tests {
    use framework_engine::object::PodObject;
    use framework_message::Slot;

    use super::*;
    use crate::wire::FrameworkText;

    #[test]
    fn a_share_is_selected_by_its_slots_and_the_whole_as_without_shares() {
        let labels = |selector: &Selector, slots| selector.labels(Some(Selection::whole(1, slots)));
        let (pods, frameworks) = (Selector::of::<PodObject>(), Selector::of::<FrameworkText>());
        assert_eq!(labels(&pods, Slots::ALL).as_deref(), Some(SLOT_LABEL));
        assert_eq!(labels(&frameworks, Slots::ALL), None);
        let some = [Slot(3), Slot(12)].into_iter().collect();
        let expected = "frameworkcontroller.microsoft.com/slot in (3,12)";
        assert_eq!([&pods, &frameworks].map(|kind| labels(kind, some).unwrap()), [expected; 2]);
    }
}
