//! The waiting requests of one Framework, except its status write: by class, in order.

use std::collections::VecDeque;

use framework_core::Action;
use framework_core::observed::Refusal;

use crate::dispatch::Class;

/// A GET of the object that holds the name of a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The create.
    pub action: Action,
    /// The outcome of the create.
    pub why: Why,
}

/// The reason for asking for the holder of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The name was taken.
    Taken,
    /// The create was refused. Holds the end of the attempt if no object of ours has that name, and the API
    /// server's message.
    Refused(Refusal, String),
    /// No reply came, and the create can have no effect any more. The GET shows whether it had one.
    Unanswered,
}

/// A PATCH that makes an object visible to the watch again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Name of the Pod; `None`: the ConfigMap.
    pub pod: Option<String>,
    /// The request applies only to the object with this UID.
    pub uid: String,
    /// The request applies only to this version.
    pub resource_version: u128,
}

/// The waiting requests.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Follow-ups of replies: they stay until they are sent.
    lookups: VecDeque<Lookup>,
    labels: VecDeque<Label>,
    /// The acts of the last plan, by class.
    acts: [VecDeque<Action>; 3],
}

impl Outbox {
    /// Removes the acts that were queued, and queues these.
    pub fn replace(&mut self, acts: impl IntoIterator<Item = Action>) {
        self.drop_acts();
        for act in acts {
            self.acts[Class::of(&act) as usize].push_back(act);
        }
    }

    /// Queues a GET of a name's holder.
    pub fn look_up(&mut self, lookup: Lookup) {
        self.lookups.push_back(lookup);
    }

    /// Queues the return of a label.
    pub fn label(&mut self, label: Label) {
        self.labels.push_back(label);
    }

    /// The next GET of a name's holder.
    pub fn take_lookup(&mut self) -> Option<Lookup> {
        self.lookups.pop_front()
    }

    /// The next label to return.
    pub fn take_label(&mut self) -> Option<Label> {
        self.labels.pop_front()
    }

    /// The next act of a class.
    pub fn take(&mut self, class: Class) -> Option<Action> {
        self.acts[class as usize].pop_front()
    }

    /// Puts back an act that [`Outbox::take`] returned and that has to wait.
    pub fn put_back(&mut self, act: Action) {
        self.acts[Class::of(&act) as usize].push_front(act);
    }

    /// Takes all creates, to put back some of them.
    pub fn take_creates(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.acts[Class::Create as usize]).into()
    }

    /// Puts creates back.
    pub fn put_creates(&mut self, creates: Vec<Action>) {
        self.acts[Class::Create as usize] = creates.into();
    }

    /// The number of requests that wait in a class.
    pub fn len(&self, class: Class) -> usize {
        let follow_ups = if class == Class::Record { self.lookups.len() + self.labels.len() } else { 0 };
        self.acts[class as usize].len() + follow_ups
    }

    /// Drops the acts. The follow-ups of replies stay: no plan brings them back, and a create without its GET
    /// would count as in flight permanently.
    pub fn drop_acts(&mut self) {
        self.acts.iter_mut().for_each(VecDeque::clear);
    }
}
