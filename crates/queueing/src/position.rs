//! The position of a unit in its queue, as it is reported on request.

use serde::Serialize;

/// Where a unit stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePosition {
    /// In which queue.
    pub queue: String,
    /// `status.phase`.
    pub phase: Option<framework_api::queue::Phase>,
    /// Why it waits now, if that is known, otherwise as it is stored.
    pub reason: Option<String>,
    /// The same for people, with the numbers of now. Those of the stored message are of the moment when the
    /// reason last changed.
    pub message: String,
    /// How many units of its queue stand before it. Not given of a unit that does not wait for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// How many units of all queues of the namespace would be released before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The name of the last of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directly_before: Option<String>,
}
