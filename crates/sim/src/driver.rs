//! Time: the task that sleeps until the next deed is due, and does it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use crate::deed::Deed;
use crate::world::World;
use crate::{collector, kubelet, network, quota};

/// Does everything that is due by now.
fn run_due(world: &mut World) {
    while let Some(deed) = world.agenda.take_due(world.clock.elapsed()) {
        match deed {
            Deed::Arrive(parcel) => network::arrive(world, parcel),
            Deed::Deliver { call, reply, answer } => network::deliver(world, call, reply, *answer),
            Deed::Pump(id) => world.with_watches(|watches, around| watches.pump(id, around)),
            Deed::Bookmark(id) => world.with_watches(|watches, around| watches.bookmark(id, around)),
            Deed::Freeze(id, time) => {
                world.with_watches(|watches, around| watches.freeze(id, time, around));
            }
            Deed::Close(id, ending) => {
                world.with_watches(|watches, around| watches.close(id, ending, around))
            }
            Deed::Pod(pod, step) => kubelet::step(world, &pod, step),
            Deed::Collect(item) => collector::run(world, item),
            Deed::Count(namespace) => quota::count(world, &namespace),
        }
    }
}

/// Lets time drive the world: sleeps until the next deed is due, for as long as the world exists.
pub(crate) async fn drive(world: Weak<Mutex<World>>, wake: Arc<Notify>) {
    loop {
        let Some(strong) = world.upgrade() else { return };
        let (due, clock) = {
            let mut world = strong.lock().unwrap_or_else(PoisonError::into_inner);
            run_due(&mut world);
            (world.agenda.next(), world.clock.clone())
        };
        drop(strong);
        match due {
            Some(due) => {
                let _ = tokio::time::timeout_at(clock.instant(due), wake.notified()).await;
            }
            None => wake.notified().await,
        }
    }
}
