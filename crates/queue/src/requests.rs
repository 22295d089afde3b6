//! The requests of a job: amounts by resource.
//!
//! Requests are compared, hashed and cloned more often than made. They are one shared slice, sorted by
//! resource, without entries of zero.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use framework_api::queue::MAX_RESOURCES;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amount::{Amount, QuantityError, SHOWN};

/// Requested amounts by resource. `cpu` and `requests.cpu` are one resource, as in Kubernetes.
///
/// The type has no order, so that `min` has one meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceRequests(Amounts);

/// Amounts by resource, sorted.
pub(crate) type Amounts = Arc<[(Arc<str>, Amount)]>;

/// Requests that no QueueUnit can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestsError {
    /// An amount is not a quantity.
    #[error("{resource}: {source}")]
    Quantity {
        /// The resource, at most the first hundred characters of it.
        resource: String,
        /// The problem of the quantity.
        #[source]
        source: QuantityError,
    },
    /// There are more resources than the schema of a QueueUnit allows. A user names the resources of a Pod,
    /// so this bounds the cost of sums, too.
    #[error("more than {MAX_RESOURCES} resources are requested, which is the limit")]
    TooMany,
}

/// The resource that a key of a list or of a quota names: `cpu` for both `cpu` and `requests.cpu`.
pub fn resource_of(key: &str) -> &str {
    key.strip_prefix("requests.").unwrap_or(key)
}

impl ResourceRequests {
    /// The requests in a resource list. A negative amount counts as zero, and of two keys for one resource
    /// the larger amount counts.
    pub fn from_list(list: &BTreeMap<String, Quantity>) -> Result<Self, RequestsError> {
        let amounts = list.iter().map(|(key, quantity)| Ok((resource_of(key), read(key, quantity)?)));
        amounts.collect::<Result<Self, _>>()?.limited()
    }

    /// The requests, if a QueueUnit can hold them.
    pub fn limited(self) -> Result<Self, RequestsError> {
        if self.0.len() > MAX_RESOURCES { Err(RequestsError::TooMany) } else { Ok(self) }
    }

    /// The list, in Kubernetes' canonical form.
    pub fn to_list(&self) -> BTreeMap<String, Quantity> {
        self.iter().map(|(resource, amount)| (resource.to_string(), amount.to_quantity())).collect()
    }

    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The requested amount of a resource.
    pub fn get(&self, resource: &str) -> Amount {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(resource)).ok();
        found.and_then(|at| self.0.get(at)).map_or(Amount::ZERO, |(_, amount)| *amount)
    }

    /// Resources and amounts, sorted by resource.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Amount)> {
        self.0.iter().map(|(resource, amount)| (resource, *amount))
    }

    /// The amounts, as a key that has an order.
    pub(crate) fn key(&self) -> Amounts {
        Arc::clone(&self.0)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = Tally::default();
        sum.add(self);
        sum.add(other);
        sum.0.into_iter().collect()
    }

    /// The requests, `count` times.
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        self.iter().map(|(resource, amount)| (Arc::clone(resource), amount.times(count))).collect()
    }

    /// The smaller amount of each resource.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        self.iter()
            .map(|(resource, amount)| (Arc::clone(resource), amount.min(other.get(resource))))
            .collect()
    }
}

/// The amount under a key of a list.
pub(crate) fn read(key: &str, quantity: &Quantity) -> Result<Amount, RequestsError> {
    let resource = || key.chars().take(SHOWN).collect();
    Amount::of(quantity).map_err(|source| RequestsError::Quantity { resource: resource(), source })
}

impl<N: Into<Arc<str>>> FromIterator<(N, Amount)> for ResourceRequests {
    fn from_iter<I: IntoIterator<Item = (N, Amount)>>(amounts: I) -> Self {
        let mut sorted = BTreeMap::<Arc<str>, Amount>::new();
        for (resource, amount) in amounts.into_iter().filter(|(_, amount)| *amount > Amount::ZERO) {
            let most = sorted.entry(resource.into()).or_default();
            *most = amount.min(Amount::LARGEST).max(*most);
        }
        Self(sorted.into_iter().collect())
    }
}

/// `cpu: 2, pods: 4`.
impl fmt::Display for ResourceRequests {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (resource, amount)) in self.iter().enumerate() {
            write!(to, "{}{resource}: {amount}", if at == 0 { "" } else { ", " })?;
        }
        if self.is_empty() { to.write_str("nothing") } else { Ok(()) }
    }
}

/// A sum of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<Arc<str>, Amount>);

impl Tally {
    pub(crate) fn add(&mut self, requests: &ResourceRequests) {
        for (resource, amount) in requests.iter() {
            // Most resources are there already, and need no copy of the name.
            if let Some(sum) = self.0.get_mut(resource) {
                *sum = sum.plus(amount);
            } else {
                self.0.insert(Arc::clone(resource), amount);
            }
        }
    }

    pub(crate) fn subtract(&mut self, requests: &ResourceRequests) {
        for (resource, amount) in requests.iter() {
            let Some(sum) = self.0.get_mut(resource) else { continue };
            *sum = sum.minus(amount);
            if *sum == Amount::ZERO {
                self.0.remove(resource);
            }
        }
    }

    pub(crate) fn get(&self, resource: &str) -> Amount {
        self.0.get(resource).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
        entries.iter().map(|(key, text)| ((*key).to_owned(), Quantity((*text).to_owned()))).collect()
    }

    fn requests(entries: &[(&str, &str)]) -> ResourceRequests {
        ResourceRequests::from_list(&list(entries)).unwrap()
    }

    #[test]
    fn equal_amounts_in_other_units_are_equal_requests() {
        let one = requests(&[("cpu", "2"), ("memory", "1Gi")]);
        assert_eq!(one, requests(&[("memory", "1024Mi"), ("requests.cpu", "2000m"), ("gpu", "0")]));
        assert_eq!(one.to_list(), list(&[("cpu", "2"), ("memory", "1Gi")]));
        assert_eq!(one.to_string(), "cpu: 2, memory: 1Gi");
        assert_eq!(ResourceRequests::default().to_string(), "nothing");
    }

    #[test]
    fn the_larger_of_two_keys_counts_and_a_negative_amount_is_zero() {
        assert_eq!(requests(&[("cpu", "2"), ("requests.cpu", "3")]), requests(&[("cpu", "3")]));
        assert_eq!(requests(&[("cpu", "-2")]), ResourceRequests::default());
    }

    #[test]
    fn an_invalid_quantity_is_named() {
        let error = ResourceRequests::from_list(&list(&[("cpu", "2"), ("memory", "lots")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "memory: \"lots\" is not a quantity: give one such as 2, 500m or 1.5Gi"
        );
        let long = list(&[(&"r".repeat(5000), &"lots".repeat(5000))]);
        let error = ResourceRequests::from_list(&long).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }

    #[test]
    fn a_list_of_more_resources_than_a_unit_holds_is_refused() {
        let of = |count: usize| {
            let list = (0..count).map(|number| (format!("r{number}"), Quantity("1".to_owned()))).collect();
            ResourceRequests::from_list(&list).map(|requests| requests.iter().count())
        };
        assert_eq!([of(30), of(31)], [Ok(30), Err(RequestsError::TooMany)]);
    }

    #[test]
    fn requests_are_read_from_a_unit_as_they_were_written() {
        let huge = requests(&[("memory", "5E"), ("cpu", "9Ei")]);
        let sums = [huge.times(2), huge.plus(&huge), requests(&[("memory", "5E")]).times(u64::MAX)];
        for sum in sums {
            assert_eq!(ResourceRequests::from_list(&sum.to_list()), Ok(sum));
        }
    }

    #[test]
    fn requests_are_added_multiplied_and_limited_by_resource() {
        let (one, other) =
            (requests(&[("cpu", "2"), ("memory", "1Gi")]), requests(&[("cpu", "1"), ("gpu", "4")]));
        assert_eq!(one.plus(&other), requests(&[("cpu", "3"), ("memory", "1Gi"), ("gpu", "4")]));
        assert_eq!(one.times(3), requests(&[("cpu", "6"), ("memory", "3Gi")]));
        assert_eq!(one.times(0), ResourceRequests::default());
        assert_eq!(one.min(&other), requests(&[("cpu", "1")]));
        assert_eq!(one.get("cpu"), Amount::units(2));
        assert_eq!(one.get("gpu"), Amount::ZERO);
    }

    #[test]
    fn amounts_added_and_subtracted_leave_nothing() {
        let (one, other) = (requests(&[("cpu", "2")]), requests(&[("cpu", "1"), ("gpu", "4")]));
        let mut tally = Tally::default();
        tally.add(&one);
        tally.add(&other);
        assert_eq!(tally.get("cpu"), Amount::units(3));
        tally.subtract(&one);
        tally.subtract(&other);
        assert_eq!(tally, Tally::default());
    }
}
