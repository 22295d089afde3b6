//! How much a `QueueUnit` and a `Queue` may hold, as the API server enforces it.

/// The longest name of a queue, in characters: it must fit in a label.
pub const MAX_QUEUE_NAME: usize = 63;
/// The most resources that a unit may ask for.
pub const MAX_RESOURCES: usize = 30;
/// The longest name of a resource, in characters: a domain, a slash and a name.
pub const MAX_RESOURCE_NAME: usize = 317;
/// The longest quantity, in characters.
pub const MAX_QUANTITY: usize = 40;
/// The most conditions of a unit; two are the controller's.
pub const MAX_CONDITIONS: usize = 16;
