//! How much of the texts of Pods fits into the status of their Framework, and whether its Tasks fit at all.
//!
//! An object has one size limit for metadata, spec and status, and a compressed status has its own limit.
//! Every Task has a fixed share. Half of the rest is divided evenly among the Tasks. Of the other half, a
//! Task that ends may take a sixteenth of the part that its predecessors left. Texts that do not fit are
//! truncated when the completion status is first set, as it never changes later. The same text of a
//! neighbouring Task costs nothing, as compression finds the repetition.
//!
//! There are two halves because neither suffices alone. The message of the first Task that fails often tells
//! why the others do. An even share of 10,000 Tasks would cut it to a few words beside a megabyte of room.
//! Without even shares, the first Tasks that fail would leave nothing for the last ones.
//!
//! The result is a function of the persisted status and the spec, so that it holds after any number of
//! changes. Texts from before a scale-up are counted, and a scale-up that would not fit waits.

use framework_api::status::{TaskAttemptCompletionStatus, TaskStatus};
use framework_api::{FrameworkStatus, Shared, TaskRole};

pub use crate::allowance::Allowance;
use crate::observed::{Observed, Policy};
use crate::size_limits::MOST_PER_TASK;
pub use crate::size_limits::SizeLimits;
use crate::truncate::{self, WORD};

/// The largest texts of a Task: the completion status of the Framework repeats them uncompressed.
const MOST_TEXT: usize = 36_000;
/// An even share below this is not worth dividing.
const LEAST_SHARE: usize = 40;
/// The size of the note about missing bytes.
const NOTE: usize = 20;
/// Bytes of texts that are repetitions, before compression: readers have limits, too.
const REPEATED: usize = 16 << 20;
/// Containers that all Tasks of a Framework may list. Ten a Task are always listed.
const CONTAINERS: usize = 100_000;
/// The largest distance of a repetition: gzip looks back 32 KiB.
const REACH: usize = 24 << 10;
/// The number of Tasks that are searched for the same text.
const NEIGHBOURS: usize = 16;
/// Bytes of a Task's status, texts apart, before compression.
const PLAIN: usize = 900;

/// Tasks that the Framework has or asks for.
fn tasks(o: &Observed<'_>) -> usize {
    let roles = o.status.map_or(&[][..], FrameworkStatus::task_roles);
    let spec = &o.framework.spec;
    let asked = spec.task_roles.iter().map(|role| {
        let known = roles.iter().find(|known| known.name == role.name);
        role.task_count().max(known.map_or(0, |known| known.task_statuses.len()))
    });
    let removed = roles.iter().filter(|known| spec.task_role(&known.name).is_none());
    asked.sum::<usize>() + removed.map(|known| known.task_statuses.len()).sum::<usize>()
}

/// Why the Tasks of the spec could make the object too large; `None`: they fit in any case.
pub(crate) fn excess(o: &Observed<'_>, policy: &Policy) -> Option<String> {
    let tasks = tasks(o);
    let possible = policy.size.possible(o.stored_bytes);
    let needed = MOST_PER_TASK * (tasks + o.framework.spec.task_roles.len());
    if needed <= possible && needed + text_usage(o, LEAST_SHARE).all <= possible {
        return None;
    }
    // In kB, as the metadata changes a little with every write.
    let [status, rest, room] = [needed / 3 * 4, o.stored_bytes, policy.size.object].map(|bytes| bytes / 1000);
    Some(format!(
        "{tasks} Tasks may need {status} kB of status beside {rest} kB of spec and metadata, and an object has \
         room for {room} kB: make the spec smaller, or ask for fewer Tasks"
    ))
}

/// Whether the spec asks for Tasks that the status does not have.
pub(crate) fn grows(o: &Observed<'_>) -> bool {
    let wanted = |role: &TaskRole| {
        let known = o.status.and_then(|status| status.task_roles().iter().find(|r| r.name == role.name));
        role.task_count() > known.map_or(0, |known| known.task_statuses.len())
    };
    o.framework.spec.task_roles.iter().any(wanted)
}

/// Weight of the texts of a Framework's Tasks, without repetitions.
#[derive(Debug, Default)]
struct TextUsage {
    all: usize,
    /// The part of each beyond its even share.
    beyond: usize,
}

fn text_usage(o: &Observed<'_>, even: usize) -> TextUsage {
    let mut text_usage = TextUsage::default();
    for role in o.status.map_or(&[][..], FrameworkStatus::task_roles) {
        for (position, task) in role.task_statuses.iter().enumerate() {
            let Some(end) = &task.attempt_status.completion_status else { continue };
            let weight: usize = texts(end).filter(is_counted).map(truncate::weight).sum();
            let neighbours = Neighbours { before: role.task_statuses.split_at(position).0, after: &[] };
            if weight > 0 && !neighbours.have(end) {
                text_usage.all += weight;
                text_usage.beyond += weight.saturating_sub(even);
            }
        }
    }
    text_usage
}

fn is_counted(text: &&str) -> bool {
    text.len() > WORD
}

/// The texts of others in a completion status, each once.
fn texts(end: &TaskAttemptCompletionStatus) -> impl Iterator<Item = &str> {
    let pod = end.pod.iter().flat_map(|pod| {
        let own = [pod.reason.as_str(), pod.message.as_str()];
        let containers = pod.containers.iter().flat_map(|c| [c.reason.as_str(), c.message.as_str()]);
        own.into_iter().chain(containers)
    });
    // The diagnostics of a Pod's end consist of the Pod's own texts.
    pod.chain(end.pod.is_none().then_some(end.diagnostics.as_str()))
}

/// The Tasks around one, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours<'t> {
    pub before: &'t [Shared<TaskStatus>],
    pub after: &'t [Shared<TaskStatus>],
}

impl Neighbours<'_> {
    /// Whether a neighbouring Task has the same completion status, so that compression removes the
    /// repetition.
    fn have(&self, end: &TaskAttemptCompletionStatus) -> bool {
        Self::found(self.before.iter().rev(), end) || Self::found(self.after.iter(), end)
    }

    fn found<'t>(
        tasks: impl Iterator<Item = &'t Shared<TaskStatus>>,
        end: &TaskAttemptCompletionStatus,
    ) -> bool {
        let mut distance = 0;
        for other in tasks.take(NEIGHBOURS).map(|task| task.attempt_status.completion_status.as_deref()) {
            distance += PLAIN + other.map_or(0, |other| 2 * texts(other).map(str::len).sum::<usize>());
            if distance > REACH {
                return false;
            }
            if other == Some(end) {
                return true;
            }
        }
        false
    }
}

/// The room for texts in the status of one Framework, during one evaluation.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    o: &'a Observed<'a>,
    policy: &'a Policy,
    account: Option<Account>,
}

/// The budget for texts.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// The share of each Task.
    even: usize,
    /// The rest for the Tasks that end first.
    first_come: usize,
    /// The total.
    left: usize,
    /// The share of each Task that repeats another.
    repeated: usize,
    /// The containers of each Task.
    containers: usize,
}

impl Account {
    fn open(o: &Observed<'_>, policy: &Policy) -> Self {
        let tasks = tasks(o).max(1);
        let all = policy.size.texts(o.stored_bytes, tasks);
        let even = Some(all / 2 / tasks).filter(|even| *even >= LEAST_SHARE).unwrap_or(0);
        let text_usage = text_usage(o, even);
        Account {
            even,
            first_come: (all - even * tasks).saturating_sub(text_usage.beyond),
            left: all.saturating_sub(text_usage.all),
            repeated: (REPEATED / 2 / tasks).min(MOST_TEXT),
            containers: (CONTAINERS / tasks).max(10),
        }
    }

    fn budget(&self) -> usize {
        (self.even + self.first_come / 16).min(self.left).min(MOST_TEXT).saturating_sub(NOTE)
    }

    fn spend(&mut self, texts: usize) {
        let weight = texts + NOTE;
        self.left = self.left.saturating_sub(weight);
        self.first_come = self.first_come.saturating_sub(weight.saturating_sub(self.even));
    }
}

impl<'a> Room<'a> {
    pub fn new(o: &'a Observed<'a>, policy: &'a Policy) -> Self {
        Room { o, policy, account: None }
    }

    /// The completion status that `make` returns for as much of these texts as fits.
    pub fn fit<'t>(
        &mut self,
        neighbours: Neighbours<'_>,
        texts: impl Iterator<Item = &'t str>,
        containers: usize,
        make: impl Fn(Allowance) -> TaskAttemptCompletionStatus,
    ) -> TaskAttemptCompletionStatus {
        let weights: Vec<usize> = texts.filter(is_counted).map(truncate::weight).collect();
        // Most Pods have short texts: they need no account.
        if weights.is_empty() && containers <= 10 {
            return make(Allowance::ALL);
        }
        let account = self.account.get_or_insert_with(|| Account::open(self.o, self.policy));
        let all = Allowance { text: usize::MAX, containers: account.containers };
        let whole = make(all);
        // Tasks with the same texts are truncated in the same way.
        let level = truncate::level(weights.clone(), account.repeated);
        let lean = if level == usize::MAX { whole.clone() } else { make(Allowance { text: level, ..all }) };
        if neighbours.have(&lean) {
            return lean;
        }
        let weight = |text: usize| weights.iter().map(|weight| *weight.min(&text)).sum::<usize>();
        let budget = account.budget();
        let (text, end) = if weight(usize::MAX) <= budget {
            (usize::MAX, whole)
        } else if weight(level) <= budget {
            (level, lean)
        } else {
            let text = truncate::level(weights.clone(), budget);
            (text, make(Allowance { text, ..all }))
        };
        account.spend(weight(text));
        end
    }
}
