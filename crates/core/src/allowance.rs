//! How much of the texts of a Pod a completion status may show.

/// How much of each text, and how many containers, a completion status may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The weight of each text.
    pub text: usize,
    /// Containers.
    pub containers: usize,
}

impl Allowance {
    /// No limit.
    pub const ALL: Allowance = Allowance { text: usize::MAX, containers: usize::MAX };
}
