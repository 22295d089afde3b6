//! A timer that outlives the wait for it.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer of the loop. A timer that is made for each wait is registered each time. If it is the earliest
/// one, that wakes the thread which waits for it, only to wait for another time.
pub struct Alarm {
    sleep: Pin<Box<Sleep>>,
    at: Instant,
}

impl Alarm {
    /// A timer that nobody waits for yet.
    pub fn new() -> Self {
        let at = Instant::now();
        Alarm { sleep: Box::pin(sleep_until(at)), at }
    }

    /// Waits until then, or for ever. The future may be dropped at every time.
    pub async fn at(&mut self, instant: Option<Instant>) {
        let Some(at) = instant else { return std::future::pending().await };
        if at != self.at {
            self.sleep.as_mut().reset(at);
            self.at = at;
        }
        self.sleep.as_mut().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_time_that_was_asked_for_last() {
        let begun = Instant::now();
        let after = |seconds| Some(begun + Duration::from_secs(seconds));
        let mut alarm = Alarm::new();
        assert!(alarm.at(after(9)).now_or_never().is_none());
        assert!(alarm.at(after(2)).now_or_never().is_none(), "sooner");
        assert!(alarm.at(None).now_or_never().is_none(), "not at all");
        alarm.at(after(5)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5), "later");
        assert!(alarm.at(after(5)).now_or_never().is_some(), "that time has come");
        assert!(alarm.at(after(1)).now_or_never().is_some(), "a time in the past");
        alarm.at(after(6)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(6));
    }
}
