//! Rules of retry policies, ends and Tasks in words.

use framework_api::RetryPolicy;
use framework_api::code::CompletionType;
use framework_api::status::RetryPolicyStatus;
use framework_core::retry::{self, Rule};

/// Names that a line lists; of more it gives the number.
pub const NAMES: usize = 5;

/// `3 Tasks (worker-0, worker-1, worker-2)`.
pub fn tasks(names: &[String]) -> String {
    let count = names.len();
    let listed = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    let more = if count > NAMES { ", …" } else { "" };
    format!("{count} {} ({listed}{more})", if count == 1 { "Task" } else { "Tasks" })
}

/// How an attempt ended: `as {phrase} {code}`.
pub fn result(phrase: &str, code: i32) -> String {
    if phrase.is_empty() { format!("as {code}") } else { format!("as {phrase} {code}") }
}

/// The rule in words, with the numbers that it compared.
pub fn words(policy: RetryPolicy, retried: RetryPolicyStatus, code: i32, end: &CompletionType) -> String {
    let most = policy.max_retry_count;
    let count = match retried.accountable_retried_count {
        1 => "1 retry counts".to_owned(),
        count => format!("{count} retries count"),
    };
    match retry::rule(policy, retried, code, end) {
        Rule::Final => format!("code {code} is never retried"),
        Rule::Transient => "fancyRetryPolicy retries a transient failure without counting it".to_owned(),
        Rule::Permanent => "fancyRetryPolicy does not retry a permanent failure".to_owned(),
        Rule::Always => "maxRetryCount is -2, so every attempt is retried".to_owned(),
        Rule::Succeeded => "a success is not retried".to_owned(),
        Rule::EveryFailure => "maxRetryCount is -1, so every failure is retried".to_owned(),
        Rule::Within => format!("retried, because maxRetryCount is {most} and {count} so far"),
        Rule::Exhausted => format!("not retried, because maxRetryCount is {most} and {count}"),
    }
}
