//! The bytes of request bodies in flight: a body is rendered when there is room for it, not when its request
//! is decided.
//!
//! Guarantees: the bodies that exist at a time take at most [`MOST`] bytes by their estimates, or are one
//! body. Requests wait in the order in which they came, so that a large one has its turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies in flight.
pub const MOST: usize = 32 << 20;
/// Rooms are counted in these.
const UNIT: usize = 1024;

/// Room for bodies. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyRoom(Arc<Semaphore>);

impl Default for BodyRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST / UNIT)))
    }
}

impl BodyRoom {
    /// Waits for room for a body of about so many bytes. It is free again when the result is dropped.
    pub async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = bytes.div_ceil(UNIT).clamp(1, MOST / UNIT);
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_many_owned(u32::try_from(units).ok()?).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn bodies_wait_for_room_and_the_largest_has_its_turn() {
        let room = BodyRoom::default();
        let small: Vec<_> = (0..3).map(|_| room.room(MOST / 4).now_or_never().unwrap()).collect();
        let mut large = Box::pin(room.room(usize::MAX));
        assert!((&mut large).now_or_never().is_none(), "three others are in flight");
        assert!(room.room(1).now_or_never().is_none(), "none overtakes it");
        drop(small);
        let all = (&mut large).now_or_never().unwrap();
        assert!(all.is_some() && room.room(0).now_or_never().is_none());
        drop(all);
        assert!(room.room(0).now_or_never().is_some());
    }
}
