//! The label selector of a watch, which may change while the watch runs.

use tokio::sync::watch;

use crate::wire::Wire;

/// The label selector of a watch; `None`: all objects of the kind are watched.
#[derive(Clone, Debug)]
pub struct Selector(watch::Receiver<Option<String>>);

impl Selector {
    /// The selector of a kind, which never changes.
    pub fn of<T: Wire>() -> Self {
        Self::changing(T::RESOURCE.selector.map(str::to_owned)).1
    }

    /// A selector, and the handle that changes it: the watch then lists the objects that the new one selects.
    pub fn changing(labels: Option<String>) -> (watch::Sender<Option<String>>, Self) {
        let (sender, receiver) = watch::channel(labels);
        (sender, Selector(receiver))
    }

    /// The selector as it is now.
    pub(super) fn labels(&mut self) -> Option<String> {
        self.0.borrow_and_update().clone()
    }

    /// Waits until the selector is another one than [`Selector::labels`] gave last.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
