//! The version of an image.

/// The version of an image.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// The commit that it was built from, if it is known.
    pub revision: Option<&'a str>,
    /// The architecture, in the words of OCI.
    pub architecture: &'a str,
}
