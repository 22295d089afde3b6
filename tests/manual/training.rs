//! The manual's page on distributed training: the addresses that its containers see are those of the Pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, Pod, Service};
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use crate::cluster::{apply, block_on, client, delete, namespace, pods, running};
use crate::page::blocks;

const PAGE: &str = include_str!("../../docs/manual/training.md");

/// The Pods of an example while all its Tasks run, and its Service.
fn example(name: &str, tasks: i32) -> (BTreeMap<String, Pod>, Service) {
    let ns = namespace(&format!("training-{name}"));
    let all = blocks(PAGE).expect("the page is sound");
    let is_of = |document: &Value| document["kind"] == "Framework" && document["metadata"]["name"] == *name;
    let documents = all.iter().map(|block| block.documents().expect("it is YAML"));
    let documents = documents.into_iter().find(|all| all.iter().any(is_of)).expect("the page shows it");
    documents.iter().for_each(|document| apply(&ns, &document.to_string()));
    running(&ns, name, tasks);
    let found = block_on(pods(&ns).list(&ListParams::default())).expect("a list").items;
    let found = found.into_iter().map(|pod| (pod.metadata.name.clone().expect("a name"), pod)).collect();
    let service = block_on(Api::<Service>::namespaced(client(), &ns).get(name)).expect("it is there");
    delete(&ns, name);
    (found, service)
}

/// The variables of the first container, with the references replaced as the kubelet does: by variables that
/// stand before.
fn environment(pod: &Pod) -> BTreeMap<String, String> {
    let container = &pod.spec.as_ref().expect("a spec").containers[0];
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for EnvVar { name, value, .. } in container.env.iter().flatten() {
        let mut value = value.clone().unwrap_or_default();
        for (before, text) in &seen {
            value = value.replace(&format!("$({before})"), text);
        }
        seen.insert(name.clone(), value);
    }
    seen
}

/// Asserts that a host is the DNS name of a Pod: its name, and the Service that is its subdomain.
fn assert_is_a_pod(host: &str, (pods, service): &(BTreeMap<String, Pod>, Service)) {
    let (name, subdomain) = host.split_once('.').expect("a Pod and a Service");
    let pod = pods.get(name).unwrap_or_else(|| panic!("no Pod {name} among {:?}", pods.keys()));
    let spec = pod.spec.as_ref().expect("a spec");
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (None, Some(subdomain)));
    assert_eq!(service.metadata.name.as_deref(), Some(subdomain));
    let rules = service.spec.as_ref().expect("a spec");
    assert_eq!((rules.cluster_ip.as_deref(), rules.publish_not_ready_addresses), (Some("None"), Some(true)));
    let labels = pod.metadata.labels.as_ref().expect("labels");
    let mut selector = rules.selector.iter().flatten();
    assert!(selector.all(|(label, value)| labels.get(label) == Some(value)), "{selector:?} {labels:?}");
}

#[test]
fn ddp_processes_know_the_first_one_and_their_ranks() {
    let seen = example("ddp", 4);
    let mut ranks = Vec::new();
    for pod in seen.0.values() {
        let environment = environment(pod);
        assert_is_a_pod(&environment["MASTER_ADDR"], &seen);
        assert_eq!(environment["WORLD_SIZE"], seen.0.len().to_string());
        ranks.push(environment["RANK"].clone());
    }
    assert_eq!(ranks, ["0", "1", "2", "3"]);
}

#[test]
fn elastic_nodes_meet_at_the_first_one() {
    let seen = example("elastic", 3);
    for pod in seen.0.values() {
        let arguments = pod.spec.as_ref().expect("a spec").containers[0].args.clone().expect("arguments");
        let value = |of: &str| arguments.iter().find_map(|argument| argument.strip_prefix(of));
        assert_is_a_pod(
            value("--rdzv-endpoint=").and_then(|at| at.strip_suffix(":29400")).expect(":29400"),
            &seen,
        );
        assert_eq!(value("--rdzv-id="), Some("elastic"));
    }
}

#[test]
fn tensorflow_tasks_read_their_own_role_and_all_hosts() {
    let seen = example("tf", 3);
    for (name, pod) in &seen.0 {
        let config: Value = serde_json::from_str(&environment(pod)["TF_CONFIG"]).expect("it is JSON");
        let task = &config["task"];
        assert_eq!(*name, format!("tf-{}-{}", task["type"].as_str().expect("a role"), task["index"]));
        let hosts = config["cluster"].as_object().expect("roles").iter().flat_map(|(role, hosts)| {
            let hosts = hosts.as_array().expect("hosts").iter().enumerate();
            hosts.map(move |(index, host)| {
                (format!("tf-{role}-{index}.tf:2222"), host.as_str().expect("a host"))
            })
        });
        let mut count = 0;
        for (expected, host) in hosts {
            assert_eq!(host, expected);
            assert_is_a_pod(host.strip_suffix(":2222").expect("a port"), &seen);
            count += 1;
        }
        assert_eq!(count, seen.0.len());
    }
}

#[test]
fn the_mpi_launcher_knows_all_workers() {
    let seen = example("mpi", 3);
    let hosts = environment(&seen.0["mpi-launcher-0"])["MPI_HOSTS"].clone();
    let hosts: Vec<&str> = hosts.split(',').filter_map(|host| host.strip_suffix(":2")).collect();
    assert_eq!(hosts.len(), seen.0.len() - 1);
    hosts.iter().for_each(|host| assert_is_a_pod(host, &seen));
}

#[test]
fn ray_workers_know_the_head() {
    let seen = example("ray", 4);
    let workers: Vec<&Pod> =
        seen.0.iter().filter(|(name, _)| *name != "ray-head-0").map(|(_, pod)| pod).collect();
    assert_eq!(workers.len(), 3);
    for pod in workers {
        assert_is_a_pod(environment(pod)["RAY_ADDRESS"].strip_suffix(":6379").expect("a port"), &seen);
    }
}
