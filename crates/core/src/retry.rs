//! Whether a completed attempt is followed by another, and how much later. The same rules serve Frameworks
//! and Tasks.

use framework_api::code::{Attribute, Code, CompletionType};
use framework_api::status::RetryPolicyStatus;
use framework_api::{FrameworkStatus, RetryPolicy, Time};

/// The step after a completed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No further attempt.
    Stop,
    /// Another attempt.
    Retry {
        /// Whether it counts against `maxRetryCount`.
        accountable: bool,
        /// Whether it waits a random time first, because others competed for the same resources.
        conflict: bool,
    },
}

/// The rule of the retry policy that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The code allows no retry under any policy: a stop, a deadline, the end of the Framework's attempt.
    Final,
    /// `fancyRetryPolicy` retries a transient failure, and does not count it.
    Transient,
    /// `fancyRetryPolicy` does not retry a permanent failure.
    Permanent,
    /// `maxRetryCount` is -2: every attempt is retried.
    Always,
    /// The attempt succeeded.
    Succeeded,
    /// `maxRetryCount` is -1: every failure is retried.
    EveryFailure,
    /// Fewer retries count so far than `maxRetryCount` allows.
    Within,
    /// No retry is left of `maxRetryCount`.
    Exhausted,
}

/// The rule that decides, by the policy, the number of retries, and the end of the attempt.
pub fn rule(policy: RetryPolicy, retried: RetryPolicyStatus, code: i32, end: &CompletionType) -> Rule {
    if Code::forbids_retry(code) {
        return Rule::Final;
    }
    if policy.fancy_retry_policy && end.is_failed() {
        if end.has(Attribute::Transient) {
            return Rule::Transient;
        }
        if end.has(Attribute::Permanent) {
            return Rule::Permanent;
        }
    }
    match policy.max_retry_count {
        -2 => Rule::Always,
        _ if !end.is_failed() => Rule::Succeeded,
        -1 => Rule::EveryFailure,
        most if retried.accountable_retried_count < most => Rule::Within,
        _ => Rule::Exhausted,
    }
}

/// Decides by the [`rule`].
pub fn decide(policy: RetryPolicy, retried: RetryPolicyStatus, code: i32, end: &CompletionType) -> Decision {
    match rule(policy, retried, code, end) {
        Rule::Final | Rule::Permanent | Rule::Succeeded | Rule::Exhausted => Decision::Stop,
        Rule::Transient => Decision::Retry { accountable: false, conflict: end.has(Attribute::Conflict) },
        Rule::Always | Rule::EveryFailure | Rule::Within => {
            Decision::Retry { accountable: true, conflict: false }
        }
    }
}

/// When a decided retry starts. `changed`: when the state last changed, in case the end of the attempt has no
/// time.
pub fn due(completed: Option<Time>, changed: Time, retried: RetryPolicyStatus) -> Time {
    completed.unwrap_or(changed).plus_seconds(retried.retry_delay_sec.unwrap_or(0))
}

/// Short runs in a row that are retried without delay.
const FREE_SHORT_RUNS: i32 = 5;

/// Delays of retries after attempts that ended at once: a Task that fails immediately and is retried without
/// limit would otherwise make Pods as fast as the request budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// An attempt that ran for less is a short run; 0: no attempt is.
    pub short_run_sec: i64,
    /// The greatest delay; 0: nothing is delayed.
    pub max_delay_sec: i64,
}

impl Backoff {
    /// The delay of the retry after the current attempt, which ran from `run` (if ever) to `completed`.
    ///
    /// The sixth short run in a row delays the next attempt by 1 s. Each further one doubles the delay.
    pub fn delay(self, retried: RetryPolicyStatus, run: Option<Time>, completed: Time) -> i64 {
        if !self.is_short(run, completed) {
            return 0;
        }
        let from = retried.short_runs_from.unwrap_or(0);
        let short_runs = retried.total_retried_count.saturating_sub(from).saturating_add(1);
        if short_runs <= FREE_SHORT_RUNS {
            return 0;
        }
        let doublings = u32::try_from(short_runs - FREE_SHORT_RUNS - 1).unwrap_or(0).min(62);
        (1_i64 << doublings).min(self.max_delay_sec)
    }

    /// Whether this delay is new to the user: neither the delay of the retry before, nor none. So a row of
    /// short runs is reported a few times, however long it is.
    pub fn is_step(self, retried: RetryPolicyStatus, delay: i64) -> bool {
        let count = retried.total_retried_count.saturating_sub(1);
        let before = RetryPolicyStatus { total_retried_count: count, ..retried };
        let at = Time::floor(jiff::Timestamp::UNIX_EPOCH);
        delay > 0 && delay != self.delay(before, None, at)
    }

    /// The counts after a retry of the current attempt.
    pub fn retried(
        self,
        mut retried: RetryPolicyStatus,
        accountable: bool,
        run: Option<Time>,
        completed: Time,
    ) -> RetryPolicyStatus {
        // Another client may have written any number into the status.
        retried.total_retried_count = retried.total_retried_count.saturating_add(1);
        retried.accountable_retried_count =
            retried.accountable_retried_count.saturating_add(i32::from(accountable));
        retried.retry_delay_sec = None;
        if self.is_on() && !self.is_short(run, completed) {
            retried.short_runs_from = Some(retried.total_retried_count);
        }
        retried
    }

    fn is_on(self) -> bool {
        self.short_run_sec > 0 && self.max_delay_sec > 0
    }

    /// An attempt that was never seen running ran for no time.
    fn is_short(self, run: Option<Time>, completed: Time) -> bool {
        self.is_on() && run.is_none_or(|run| completed < run.plus_seconds(self.short_run_sec))
    }
}

/// Lets no earlier attempt of a Framework and its Tasks count as a short run, unless a row is counted.
pub(crate) fn forget_runs(status: &mut FrameworkStatus, backoff: Backoff) {
    if !backoff.is_on() {
        return;
    }
    let forget = |counts: &mut RetryPolicyStatus| {
        counts.short_runs_from.get_or_insert(counts.total_retried_count);
    };
    let was_retried = |counts: &RetryPolicyStatus| counts.total_retried_count > 0;
    if was_retried(&status.retry_policy_status) {
        forget(&mut status.retry_policy_status);
    }
    let roles = status.attempt_status.task_role_statuses.iter_mut().flatten();
    let tasks = roles.flat_map(|role| &mut role.task_statuses);
    for task in tasks.filter(|task| was_retried(&task.retry_policy_status)) {
        forget(&mut task.to_mut().retry_policy_status);
    }
}

/// A delay in `[least, most]` seconds, drawn from `seed`.
pub fn random_delay(least: i64, most: i64, seed: u128) -> i64 {
    let choices = u128::try_from(most.saturating_sub(least).saturating_add(1)).unwrap_or(1).max(1);
    least.saturating_add(i64::try_from(mix(seed) % choices).unwrap_or(0))
}

/// Spreads the bits of a seed, so that neighbouring seeds give unrelated draws (SplitMix64's finaliser).
fn mix(seed: u128) -> u128 {
    let mut z = (seed as u64) ^ ((seed >> 64) as u64);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    u128::from(z ^ (z >> 31))
}
