//! The limits of a pod template.

/// Values in a template: objects, lists, texts, numbers. They bound the memory of a decoded template.
pub const MAX_VALUES: usize = 50_000;
/// Objects in a template: each becomes a map when it is rendered, and a struct when it is checked.
pub const MAX_OBJECTS: usize = 5_000;
/// Containers and init containers. With the variables that each gets, 1,000 take more than a megabyte.
pub const MAX_CONTAINERS: usize = 1_000;
/// Placeholders such as `{{FC_POD_NAME}}`: each may become a name of 253 bytes.
pub const MAX_PLACEHOLDERS: usize = 10_000;
/// Objects and lists within each other; a Pod of Kubernetes has about a dozen.
pub const MAX_DEPTH: usize = 64;

/// The limit that a template exceeds. No Pod is made of it: it counts as a Pod that the API server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the template has more than {most} {of}, which is the limit")]
pub struct Excess {
    /// The limit.
    pub most: usize,
    /// The noun that is limited.
    pub of: &'static str,
}

impl Excess {
    pub(super) fn unless(is_within: bool, most: usize, of: &'static str) -> Result<(), Self> {
        if is_within { Ok(()) } else { Err(Self { most, of }) }
    }
}
