//! How many requests may be in flight: as many as the API server answers without delay.
//!
//! A busy API server does not serve more if more are sent. They wait there, in an order that is not ours, and
//! a status is out of date when its turn comes; its watches fall behind. So the limit follows the *gradient*
//! of latencies: the lowest one over those of now, as in the gradient limits of service meshes. Requests
//! beyond it wait in the dispatch, where changes gather and urgent ones overtake. It begins with its lower
//! bound, so that a burst is not sent before the first latencies are known.
//!
//! Limit and bounds are those of all replicas together. Each uses the part that goes with its slots, and
//! judges by its own latencies: the replies to one replica are a sample of those to all.

use std::time::Duration;

/// Latencies may be so many times the lowest one before the limit falls.
const TOLERANCE: f64 = 2.0;
/// The limit changes once for so many replies.
const REPLIES: u32 = 32;
/// A larger multiple of the lowest latency counts as this one: one pause of the API server has little effect.
const SLOWEST: f64 = 10.0;
/// Lower latencies are alike: clocks and schedulers explain them.
const QUICKEST: Duration = Duration::from_millis(1);
/// How long a lowest latency counts, at least. After twice this time it is forgotten: a cluster may have
/// become slower for good.
const REMEMBERED: Duration = Duration::from_secs(300);

/// A kind of requests whose latencies are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyClass {
    /// The create of a Pod.
    Create,
    /// The delete of a Pod.
    Delete,
}

/// The lowest latency of a kind, in two periods of [`REMEMBERED`].
#[derive(Clone, Copy, Debug, Default)]
struct Lowest {
    before: Option<Duration>,
    now: Option<Duration>,
    since: Duration,
}

impl Lowest {
    /// Takes in a latency, and says how many times the lowest one it is.
    fn ratio(&mut self, now: Duration, latency: Duration) -> f64 {
        if now.saturating_sub(self.since) >= REMEMBERED {
            (self.before, self.now, self.since) = (self.now, None, now);
        }
        let latency = latency.max(QUICKEST);
        let lowest = self.now.map_or(latency, |lowest| lowest.min(latency));
        self.now = Some(lowest);
        let lowest = self.before.map_or(lowest, |before| before.min(lowest));
        latency.as_secs_f64() / lowest.as_secs_f64()
    }
}

/// A limit of requests in flight that follows the latencies of the API server.
#[derive(Clone, Debug)]
pub struct Concurrency {
    least: usize,
    most: usize,
    limit: f64,
    /// The part of the limit that may be used.
    share: f64,
    creates: Lowest,
    deletes: Lowest,
    /// The sum of ratios since the last change of the limit, and their number.
    ratios: f64,
    replies: u32,
    /// The most requests in flight since then.
    used: usize,
}

impl Concurrency {
    /// A limit between these bounds. It begins with the lower one.
    pub fn new(least: usize, most: usize) -> Self {
        let (creates, deletes) = (Lowest::default(), Lowest::default());
        let (least, most) = (least.max(1), most.max(1));
        // The upper bound holds also below the lower one.
        let (least, limit) = (least.min(most), as_f64(least.min(most)));
        Concurrency { least, most, limit, share: 1.0, creates, deletes, ratios: 0.0, replies: 0, used: 0 }
    }

    /// From now on, this part of the limit may be used: at least one request.
    pub fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// How many requests this replica may have in flight now.
    pub fn limit(&self) -> usize {
        // Between 1 and `most`, so the cast is exact.
        (self.limit * self.share).ceil().max(1.0) as usize
    }

    /// So many requests are in flight.
    pub fn in_flight(&mut self, requests: usize) {
        self.used = self.used.max(requests);
    }

    /// A request of this kind took so long.
    pub fn took(&mut self, now: Duration, kind: LatencyClass, latency: Duration) {
        let lowest = match kind {
            LatencyClass::Create => &mut self.creates,
            LatencyClass::Delete => &mut self.deletes,
        };
        self.ratios += lowest.ratio(now, latency).min(SLOWEST);
        self.replies += 1;
        if self.replies < REPLIES {
            return;
        }
        let ratio = self.ratios / f64::from(self.replies);
        let gradient = (TOLERANCE / ratio).clamp(0.5, 1.0);
        // The root is the number of requests that may queue at the API server, so that the limit can grow.
        let next = self.limit * gradient + self.limit.sqrt();
        // A limit that is not used says nothing about a larger one. Half of it counts, since the parts of the
        // budget share it.
        if next <= self.limit || self.used * 2 >= self.limit() {
            self.limit = next.clamp(as_f64(self.least), as_f64(self.most));
        }
        (self.ratios, self.replies, self.used) = (0.0, 0, 0);
    }
}

/// Exact below 2^52, and more requests are never in flight.
fn as_f64(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const LEAST: usize = 16;

    /// An API server that serves `rate` requests a second and takes `least` for each: those beyond wait.
    /// Returns the limit after so many rounds of as many requests as the limit allows.
    fn settle(concurrency: &mut Concurrency, rate: u64, least: Duration, rounds: u32) -> usize {
        for round in 0..rounds {
            let in_flight = concurrency.limit();
            concurrency.in_flight(in_flight);
            let queued = Duration::from_micros(in_flight as u64 * 1_000_000 / rate);
            for _ in 0..in_flight {
                concurrency.took(Duration::from_secs(round.into()), LatencyClass::Create, least.max(queued));
            }
        }
        concurrency.limit()
    }

    #[test]
    fn a_quick_api_server_gets_as_many_as_are_allowed() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        assert_eq!(settle(&mut concurrency, 1_000_000, ms(5), 50), 200);
    }

    #[test]
    fn a_busy_api_server_gets_the_requests_it_answers_without_delay() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        assert_eq!(settle(&mut concurrency, 1_000_000, ms(5), 50), 200);
        assert_eq!(settle(&mut concurrency, 150, ms(5), 20), LEAST);
        // 4,000 a second with 20 ms each are 80 at a time; twice that may queue.
        let mut concurrency = Concurrency::new(LEAST, 1000);
        concurrency.took(ms(0), LatencyClass::Create, ms(20));
        let settled = settle(&mut concurrency, 4000, ms(20), 200);
        assert!((80..=250).contains(&settled), "{settled}");
    }

    #[test]
    fn the_limit_grows_again_when_the_api_server_is_quick() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        concurrency.took(ms(0), LatencyClass::Create, ms(5));
        assert_eq!(settle(&mut concurrency, 150, ms(5), 20), LEAST);
        assert_eq!(settle(&mut concurrency, 1_000_000, ms(5), 100), 200);
    }

    #[test]
    fn a_limit_that_is_not_used_does_not_grow() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        concurrency.took(ms(0), LatencyClass::Create, ms(5));
        settle(&mut concurrency, 150, ms(5), 20);
        for _ in 0..1000 {
            concurrency.in_flight(LEAST / 2 - 1);
            concurrency.took(ms(0), LatencyClass::Create, ms(5));
        }
        assert_eq!(concurrency.limit(), LEAST);
        (0..1000).for_each(|_| {
            concurrency.in_flight(concurrency.limit().div_ceil(2));
            concurrency.took(ms(0), LatencyClass::Create, ms(5));
        });
        assert_eq!(concurrency.limit(), 200, "half of the limit is what bulk may use");
    }

    #[test]
    fn deletes_that_always_take_longer_do_not_lower_it() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        for at in 0..2000 {
            concurrency.in_flight(200);
            concurrency.took(ms(at), LatencyClass::Create, ms(5));
            concurrency.took(ms(at), LatencyClass::Delete, ms(40));
        }
        assert_eq!(concurrency.limit(), 200);
    }

    #[test]
    fn a_cluster_that_became_slower_for_good_gets_its_limit_back() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        concurrency.took(ms(0), LatencyClass::Create, ms(5));
        let mut slow = |from: u64| {
            for at in from..from + 300 {
                concurrency.in_flight(200);
                (0..10).for_each(|_| concurrency.took(Duration::from_secs(at), LatencyClass::Create, ms(50)));
            }
            concurrency.limit()
        };
        assert_eq!(slow(0), LEAST);
        slow(300);
        assert_eq!(slow(600), 200, "what was quick is forgotten");
    }

    #[test]
    fn an_upper_bound_below_the_lower_one_holds() {
        assert_eq!(Concurrency::new(LEAST, 3).limit(), 3);
        assert_eq!(Concurrency::new(LEAST, 0).limit(), 1);
    }

    #[test]
    fn replicas_together_have_as_many_in_flight_as_one() {
        let mut concurrency = Concurrency::new(LEAST, 200);
        concurrency.set_share(0.0);
        assert_eq!(concurrency.limit(), 1, "a replica without slots still labels");
        concurrency.set_share(0.25);
        assert_eq!(concurrency.limit(), LEAST / 4);
        assert_eq!(settle(&mut concurrency, 1_000_000, ms(5), 1000), 50);
        concurrency.set_share(1.0);
        assert_eq!(concurrency.limit(), 200, "what was learned about the API server stays");
        concurrency.set_share(0.25);
        assert_eq!(settle(&mut concurrency, 30, ms(5), 1000), LEAST / 4);
    }
}
