//! What came of the desk's requests.

#[cfg(feature = "defects")]
use framework_core::Defect;
use jiff::Timestamp;
use tracing::{debug, warn};

use super::super::consumer::ConsumerKey;
use super::super::object::UnitObject;
use super::super::unit::Errand;
use super::{Desk, Sent, Work};
use crate::backoff::{NOT_SENT, REFUSED};
use crate::event::{Key, Now, Rejection, Reply, Ticket};

impl Desk {
    /// Whether a ticket is of a request of the desk.
    pub fn sent(&self, ticket: Ticket) -> bool {
        self.in_flight.contains_key(&ticket)
    }

    /// Takes in what came of a request.
    pub fn replied(&mut self, now: Now, time: Timestamp, ticket: Ticket, reply: Reply) {
        let Some(sent) = self.in_flight.remove(&ticket) else { return };
        self.telling.remove(&ticket);
        let jitter = self.seed ^ ticket.0;
        match sent {
            Sent::Unit(key, uid, errand) => {
                let of_it = self.books.get(&key).is_some_and(|book| book.uid.as_ref() == Some(&uid));
                if of_it {
                    self.about(now, time, &key, errand, reply, jitter);
                }
            }
            Sent::Create(job) | Sent::Resume(job) => self.for_this(now, job, &reply, jitter),
            Sent::Queue(queue) => self.filled(now, queue, &reply, jitter),
            Sent::List(namespace) => self.listed(now, namespace, reply, jitter),
        }
    }

    fn about(&mut self, now: Now, time: Timestamp, key: &Key, errand: Errand, reply: Reply, jitter: u64) {
        let before = self.units.get(key).and_then(|unit| unit.standing.reason);
        #[cfg(feature = "defects")]
        let is_forgetful = self.lacks(Defect::ForgetRelease);
        let Some(book) = self.books.get_mut(key) else { return };
        book.errand = None;
        let releases = matches!(errand, Errand::Status { releases: true, .. });
        match reply {
            Reply::Unit(unit) => {
                book.unread = false;
                book.failures = Default::default();
                self.shown(*unit);
                self.announce(key, before, time);
            }
            // Deleted, or let go; the watch says when.
            Reply::Done => {
                book.failures = Default::default();
                book.deleted |= errand == Errand::Delete;
                book.seen_to = Some(book.base);
            }
            Reply::Refused(Rejection { code: 404, .. }) => {
                // The watch says so, too: until then nothing more is sent.
                book.not_before = now.steady + self.settings.request_lifetime;
                book.releasing = None;
                self.stale_units.insert(key.clone());
            }
            Reply::Refused(rejection) => {
                if rejection.code == 409 {
                    // Decided from what is no more. What came first is known already if the watch was faster.
                    let known = self.units.get(key).map_or(0, |unit| unit.resource_version);
                    book.unread = !matches!(errand, Errand::Status { base, .. } if base < known);
                } else {
                    let Rejection { code, message, retry_after, .. } = &rejection;
                    warn!(unit = %key, code, message, "a write of a QueueUnit was refused");
                    let delay = REFUSED.delay(book.failures.another(true), jitter);
                    book.not_before = now.steady + delay.max(retry_after.unwrap_or_default());
                    if releases && !book.unsure {
                        book.releasing = None;
                        self.stale_units.insert(key.clone());
                    }
                }
            }
            Reply::NotSent(reason) => {
                debug!(unit = %key, reason, "a write of a QueueUnit was not sent");
                book.not_before = now.steady + NOT_SENT.delay(book.failures.another(false), jitter);
            }
            reply => {
                debug!(unit = %key, ?reply, "a write of a QueueUnit has an unknown outcome");
                book.unread = true;
                book.unsure |= releases;
                #[cfg(feature = "defects")]
                if is_forgetful && releases {
                    (book.releasing, book.unsure) = (None, false);
                    self.stale_units.insert(key.clone());
                }
                book.not_before = now.steady + REFUSED.delay(book.failures.another(true), jitter);
            }
        }
        self.offer(Work::Unit(key.clone()));
    }

    /// Takes in a unit as a reply shows it. One that a read shows unchanged says nothing of a release whose
    /// reply never came: that is tried again, with the same guard.
    fn shown(&mut self, unit: UnitObject) {
        let key = unit.key.clone();
        if self.units.refresh(unit) {
            self.unit_changed(key);
        }
    }

    fn for_this(&mut self, now: Now, job: ConsumerKey, reply: &Reply, jitter: u64) {
        let Some(book) = self.job_books.get_mut(&job) else { return };
        book.busy = false;
        match reply {
            // The watch shows what came of it. Until then the same is not asked for again.
            Reply::Unit(_) | Reply::Done => {
                book.failures = Default::default();
                book.not_before = now.steady + self.settings.request_lifetime;
            }
            reply => {
                let delay = match reply {
                    Reply::NotSent(_) => NOT_SENT.delay(book.failures.another(false), jitter),
                    reply => {
                        warn!(job = %job.key, ?reply, "a request for a job in a queue did not work");
                        REFUSED.delay(book.failures.another(true), jitter)
                    }
                };
                book.not_before = now.steady + delay;
            }
        }
        self.later.insert((book.not_before, Work::Job(job)));
    }
}
