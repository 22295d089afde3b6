//! One life of a replica.

use std::fmt;
use std::sync::Arc;

/// One life of a replica: the name of its Lease, and a part that differs at each start and each rejoin.
///
/// A replica that lost its Lease never acts under the same incarnation again, so an owner that is written in
/// the map is either this life or nobody.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(Arc<str>);

impl Incarnation {
    /// The life of that name of the replica whose Lease is `lease`.
    pub fn new(lease: &str, life: &str) -> Self {
        Incarnation(format!("{lease}/{life}").into())
    }

    /// Reads the text that [`fmt::Display`] wrote. The name of a Lease has no slash.
    pub fn parse(text: &str) -> Option<Self> {
        let (lease, life) = text.split_once('/')?;
        (!lease.is_empty() && !life.is_empty()).then(|| Incarnation(text.into()))
    }

    /// The name of its Lease.
    pub fn lease(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(lease, _)| lease)
    }
}

/// The form that stands in `holderIdentity` and in the map.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A life that is proved gone: it sends nothing any more, and never will.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gone(pub Incarnation);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incarnation_is_read_as_it_was_written() {
        let one = Incarnation::new("member-a", "x7");
        assert_eq!((one.lease(), one.to_string().as_str()), ("member-a", "member-a/x7"));
        assert_eq!(Incarnation::parse("member-a/x7"), Some(one));
        assert_eq!(["", "a", "/x", "a/"].map(Incarnation::parse), [const { None }; 4]);
    }
}
