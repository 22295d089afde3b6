//! The classes of requests.

use framework_core::Action;

/// A class of requests, in the order in which classes are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Status writes and reads: everything else waits for them.
    Record,
    /// Deletes: they free the resources that creates need.
    Delete,
    /// Creates.
    Create,
}

impl Class {
    /// All classes, the first to be served first.
    pub const ALL: [Class; 3] = [Class::Record, Class::Delete, Class::Create];

    /// The class of an act.
    pub fn of(action: &Action) -> Self {
        match action {
            Action::ConfirmConfigMap { .. } | Action::ConfirmPod { .. } => Class::Record,
            Action::DeleteConfigMap { .. } | Action::DeletePod { .. } | Action::DeleteFramework => {
                Class::Delete
            }
            Action::CreateConfigMap { .. } | Action::CreatePod { .. } => Class::Create,
        }
    }
}
