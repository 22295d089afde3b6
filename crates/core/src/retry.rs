//! Whether a completed attempt is followed by another. The same rules serve Frameworks and Tasks.

use framework_api::RetryPolicy;
use framework_api::code::{Attribute, Code, CompletionType};
use framework_api::status::RetryPolicyStatus;

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

/// Decides by the policy, the number of retries, and the end of the attempt.
pub fn decide(policy: RetryPolicy, retried: RetryPolicyStatus, code: i32, end: &CompletionType) -> Decision {
    if Code::forbids_retry(code) {
        return Decision::Stop;
    }
    if policy.fancy_retry_policy && end.is_failed() {
        if end.has(Attribute::Transient) {
            return Decision::Retry { accountable: false, conflict: end.has(Attribute::Conflict) };
        }
        if end.has(Attribute::Permanent) {
            return Decision::Stop;
        }
    }
    let within = retried.accountable_retried_count < policy.max_retry_count;
    match policy.max_retry_count {
        -2 => Decision::Retry { accountable: true, conflict: false },
        -1 if end.is_failed() => Decision::Retry { accountable: true, conflict: false },
        _ if end.is_failed() && within => Decision::Retry { accountable: true, conflict: false },
        _ => Decision::Stop,
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
