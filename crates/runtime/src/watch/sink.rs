//! The way of the changes that a watch sees.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::mislabelled::Mislabelled;
use crate::compression::Compressor;
use crate::event::Event;
use crate::metrics::Metrics;
use crate::wire::{DeclaredKind, Resource, Wire};

/// Takes the changes that a watch sees.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Takes the events; when it is full, the watch waits.
    pub events: mpsc::Sender<Event>,
    /// Counts starts and failures.
    pub metrics: Arc<Metrics>,
    /// Opens compressed statuses.
    pub compressor: Arc<Compressor>,
    /// Frameworks with a wrong slot label.
    pub mislabelled: Arc<Mislabelled>,
    /// The only namespace whose objects are watched.
    pub namespace: Option<Arc<str>>,
    /// The kind that is watched, if it has no code of its own.
    pub declared: Option<Arc<DeclaredKind>>,
}

impl Sink {
    /// A sink whose watches have shown nothing.
    pub fn new(events: mpsc::Sender<Event>, metrics: Arc<Metrics>, compressor: Arc<Compressor>) -> Self {
        Sink { events, metrics, compressor, mislabelled: Arc::default(), namespace: None, declared: None }
    }

    /// The same, for watches of one namespace, if it is named.
    #[must_use]
    pub fn within(self, namespace: Option<&str>) -> Self {
        Sink { namespace: namespace.map(Arc::from), ..self }
    }

    /// The same, for the watch of a declared kind.
    #[must_use]
    pub fn of_kind(self, kind: Arc<DeclaredKind>) -> Self {
        Sink { declared: Some(kind), ..self }
    }

    /// The kind as URLs name it.
    pub fn resource<T: Wire>(&self) -> Resource {
        self.declared.as_ref().map_or(T::RESOURCE, |declared| declared.resource)
    }
}
