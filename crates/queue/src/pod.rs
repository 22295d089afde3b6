//! The requests of a Pod, counted as the API server counts them for a ResourceQuota.
//!
//! Containers run together and init containers one after another. A sidecar, which is an init container
//! that is always restarted (KEP-753), runs together with all that come after it. A missing request is
//! replaced by the limit, as the API server does. Requests of the Pod itself (KEP-2837) replace those of
//! its containers. The overhead of its RuntimeClass is added.

use std::collections::BTreeMap;

use framework_api::queue::MAX_RESOURCES;
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amount::Amount;
use crate::requests::{RequestsError, ResourceRequests, read, resource_of};

/// Amounts by resource, with entries of zero. The names stay where they are.
type Amounts<'a> = BTreeMap<&'a str, Amount>;
type List = BTreeMap<String, Quantity>;

impl ResourceRequests {
    /// The requests of a Pod of this spec, and `pods: 1`. Overhead that admission fills in from the
    /// RuntimeClass counts only if it is in the spec.
    ///
    /// More than [`MAX_RESOURCES`] resources are an error, as soon as so many were seen. A container costs as
    /// much as it has entries of its own, however many sidecars come before it.
    pub fn pod(spec: &PodSpec) -> Result<Self, RequestsError> {
        let mut running = Amounts::new();
        for container in &spec.containers {
            add(&mut running, &requests(container)?)?;
        }
        let mut sidecars = Amounts::new();
        let mut starting = Amounts::new();
        for container in spec.init_containers.iter().flatten() {
            let mut now = requests(container)?;
            if container.restart_policy.as_deref() == Some("Always") {
                add(&mut running, &now)?;
                add(&mut sidecars, &now)?;
                continue;
            }
            // The sidecars alone never ask for more than all that run.
            for (resource, amount) in &mut now {
                *amount = amount.plus(sidecars.get(resource).copied().unwrap_or_default());
            }
            raise(&mut starting, now)?;
        }
        raise(&mut running, starting)?;
        if let Some(own) = &spec.resources {
            replace(&mut running, own)?;
        }
        add(&mut running, &amounts(spec.overhead.as_ref())?)?;
        running.insert("pods", Amount::units(1));
        running.into_iter().collect::<Self>().limited()
    }
}

/// The amounts of a list; of two keys for one resource the larger one, and no negative ones.
fn amounts(list: Option<&List>) -> Result<Amounts<'_>, RequestsError> {
    let mut amounts = Amounts::new();
    for (key, quantity) in list.into_iter().flatten() {
        let most = amounts.entry(resource_of(key)).or_default();
        *most = read(key, quantity)?.max(*most);
        limit(&amounts)?;
    }
    Ok(amounts)
}

fn limit(amounts: &Amounts<'_>) -> Result<(), RequestsError> {
    if amounts.len() > MAX_RESOURCES { Err(RequestsError::TooMany) } else { Ok(()) }
}

/// The requests of a container, and its limits where it has no requests.
fn requests(container: &Container) -> Result<Amounts<'_>, RequestsError> {
    let Some(resources) = &container.resources else { return Ok(Amounts::new()) };
    let mut all = amounts(resources.limits.as_ref())?;
    all.extend(amounts(resources.requests.as_ref())?);
    Ok(all)
}

fn add<'a>(to: &mut Amounts<'a>, more: &Amounts<'a>) -> Result<(), RequestsError> {
    for (resource, amount) in more {
        let sum = to.entry(resource).or_default();
        *sum = sum.plus(*amount);
    }
    limit(to)
}

/// Raises each amount to the other one, if that is more.
fn raise<'a>(to: &mut Amounts<'a>, other: Amounts<'a>) -> Result<(), RequestsError> {
    for (resource, amount) in other {
        let most = to.entry(resource).or_default();
        *most = amount.max(*most);
    }
    limit(to)
}

/// Replaces the requests of the containers with those of the Pod; its limits count where neither has a
/// request.
fn replace<'a>(running: &mut Amounts<'a>, own: &'a ResourceRequirements) -> Result<(), RequestsError> {
    let for_pods =
        |(key, _): &(&str, Amount)| matches!(*key, "cpu" | "memory") || key.starts_with("hugepages-");
    for (key, limit) in amounts(own.limits.as_ref())?.into_iter().filter(for_pods) {
        running.entry(key).or_insert(limit);
    }
    running.extend(amounts(own.requests.as_ref())?.into_iter().filter(for_pods));
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn list(entries: &[(&str, &str)]) -> Option<List> {
        let quantity = |text: &str| Quantity(text.to_owned());
        Some(entries.iter().map(|(key, text)| ((*key).to_owned(), quantity(text))).collect())
    }

    fn asks(requests: &[(&str, &str)]) -> Container {
        let resources = ResourceRequirements { requests: list(requests), ..Default::default() };
        Container { resources: Some(resources), ..Default::default() }
    }

    fn sidecar(requests: &[(&str, &str)]) -> Container {
        Container { restart_policy: Some("Always".to_owned()), ..asks(requests) }
    }

    fn pod(init: Vec<Container>, containers: Vec<Container>) -> PodSpec {
        PodSpec { init_containers: Some(init), containers, ..Default::default() }
    }

    fn total(spec: &PodSpec) -> String {
        ResourceRequests::pod(spec).unwrap().to_string()
    }

    #[test]
    fn containers_ask_together() {
        let spec = pod(vec![], vec![asks(&[("cpu", "1")]), asks(&[("cpu", "500m"), ("memory", "1Gi")])]);
        assert_eq!(total(&spec), "cpu: 1500m, memory: 1Gi, pods: 1");
    }

    #[test]
    fn a_pod_that_asks_for_nothing_is_still_a_pod() {
        assert_eq!(total(&pod(vec![], vec![Container::default()])), "pods: 1");
    }

    #[test]
    fn init_containers_ask_one_after_another() {
        let init = vec![asks(&[("cpu", "3"), ("memory", "1Gi")]), asks(&[("cpu", "2"), ("memory", "2Gi")])];
        let spec = pod(init, vec![asks(&[("cpu", "1"), ("memory", "4Gi")])]);
        assert_eq!(total(&spec), "cpu: 3, memory: 4Gi, pods: 1");
    }

    #[test]
    fn a_sidecar_asks_together_with_all_that_come_after_it() {
        let first = asks(&[("cpu", "4")]);
        let last = asks(&[("cpu", "3")]);
        let spec = pod(vec![first, sidecar(&[("cpu", "2")]), last], vec![asks(&[("cpu", "1")])]);
        assert_eq!(total(&spec), "cpu: 5, pods: 1", "the last init container beside the sidecar");
        let spec = pod(vec![sidecar(&[("cpu", "2")])], vec![asks(&[("cpu", "1")])]);
        assert_eq!(total(&spec), "cpu: 3, pods: 1");
        let spec = pod(vec![sidecar(&[("cpu", "2")]), sidecar(&[("cpu", "2")])], vec![]);
        assert_eq!(total(&spec), "cpu: 4, pods: 1");
    }

    /// The formula of Kubernetes, word by word: each init container beside all sidecars before it.
    fn by_the_formula(spec: &PodSpec) -> Result<ResourceRequests, RequestsError> {
        let mut running = Amounts::new();
        for container in &spec.containers {
            add(&mut running, &requests(container)?)?;
        }
        let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
        for container in spec.init_containers.iter().flatten() {
            let mut now = requests(container)?;
            if container.restart_policy.is_some() {
                add(&mut running, &now)?;
                add(&mut sidecars, &now)?;
                now = Amounts::new();
            }
            add(&mut now, &sidecars)?;
            raise(&mut starting, now)?;
        }
        raise(&mut running, starting)?;
        running.insert("pods", Amount::units(1));
        running.into_iter().collect::<ResourceRequests>().limited()
    }

    fn containers() -> impl Strategy<Value = Vec<Container>> {
        let list = btree_map("[a-e]|r[0-3][0-9]", (0..9_u32).prop_map(|units| units.to_string()), 0..13);
        let container = (list, any::<bool>()).prop_map(|(list, restarts)| {
            let entries: Vec<_> = list.iter().map(|(name, amount)| (&**name, &**amount)).collect();
            if restarts { sidecar(&entries) } else { asks(&entries) }
        });
        vec(container, 0..6)
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_the_formula(init in containers(), containers in containers()) {
            let spec = pod(init, containers);
            prop_assert_eq!(ResourceRequests::pod(&spec), by_the_formula(&spec));
        }
    }

    #[test]
    fn a_limit_stands_in_for_a_missing_request() {
        let resources = ResourceRequirements {
            requests: list(&[("cpu", "1")]),
            limits: list(&[("cpu", "2"), ("nvidia.com/gpu", "8")]),
            ..Default::default()
        };
        let container = Container { resources: Some(resources), ..Default::default() };
        assert_eq!(total(&pod(vec![], vec![container])), "cpu: 1, nvidia.com/gpu: 8, pods: 1");
    }

    #[test]
    fn overhead_comes_on_top_of_the_larger_phase() {
        let mut spec = pod(vec![asks(&[("cpu", "3")])], vec![asks(&[("cpu", "1")])]);
        spec.overhead = list(&[("cpu", "250m"), ("memory", "64Mi")]);
        assert_eq!(total(&spec), "cpu: 3250m, memory: 64Mi, pods: 1");
    }

    #[test]
    fn requests_of_the_pod_replace_those_of_its_containers() {
        let mut spec = pod(vec![asks(&[("cpu", "9")])], vec![asks(&[("cpu", "1"), ("gpu", "1")])]);
        spec.overhead = list(&[("cpu", "1")]);
        spec.resources = Some(ResourceRequirements {
            requests: list(&[("cpu", "4"), ("gpu", "5")]),
            limits: list(&[("cpu", "6"), ("memory", "8Gi")]),
            ..Default::default()
        });
        assert_eq!(total(&spec), "cpu: 5, gpu: 1, memory: 8Gi, pods: 1");
    }

    #[test]
    fn a_request_that_cannot_be_read_is_an_error() {
        let error = ResourceRequests::pod(&pod(vec![], vec![asks(&[("cpu", "two")])])).unwrap_err();
        assert!(error.to_string().starts_with("cpu: "), "{error}");
    }

    #[test]
    fn a_pod_of_more_resources_than_a_unit_holds_is_an_error() {
        let names: Vec<_> = (0..31).map(|number| format!("r{number}")).collect();
        let of = |names: &[String]| asks(&names.iter().map(|name| (&**name, "1")).collect::<Vec<_>>());
        let total =
            |init, containers| ResourceRequests::pod(&pod(init, containers)).map(|all| all.iter().count());
        assert_eq!(total(vec![], vec![of(&names[..29])]), Ok(30), "with the Pod itself");
        for (init, containers) in [
            (vec![], vec![of(&names[..30])]),
            (vec![], vec![of(&names[..20]), of(&names[20..])]),
            (vec![of(&names)], vec![]),
            (vec![of(&names[..20]), of(&names[20..])], vec![]),
        ] {
            assert_eq!(total(init, containers), Err(RequestsError::TooMany));
        }
    }

    #[test]
    fn a_request_under_its_name_in_a_quota_is_the_same_request() {
        let total = ResourceRequests::pod(&pod(vec![], vec![asks(&[("requests.cpu", "2")])])).unwrap();
        assert_eq!(total.to_string(), "cpu: 2, pods: 1");
        assert_eq!(ResourceRequests::from_list(&total.to_list()), Ok(total));
    }
}
