//! The Helm chart, rendered, linted and installed by Helm itself. `tests/repo/drift/chart.rs` generates it.
//!
//! The gate compiles this program and does not run it: to build Helm takes about five minutes of processor
//! time. `cargo xtask soak chart` runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use framework_api::config::Config;
use framework_programs::{Binaries, Program};
use framework_testcluster::{Cluster, Options};
use serde_json::Value;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");

/// The parts that a value switches on or off: the value, and the folder of the component.
const COMPONENTS: [(&str, &str); 5] = [
    ("epoch", "epoch"),
    ("jobKinds", "job-kinds"),
    ("monitoring", "monitoring"),
    ("networkPolicy", "network-policy"),
    ("trainJobs", "train-jobs"),
];

/// The objects that kustomize renders of a folder.
fn kustomize(folder: &Path) -> String {
    let programs = Binaries::with(&[Program::Kubectl], &framework_programs::say).expect("kubectl is there");
    let mut kubectl = Command::new(programs.path(Program::Kubectl));
    succeeds(kubectl.arg("kustomize").arg(folder).output().expect("kubectl runs"))
}

fn succeeds(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// The hash that kustomize puts after the name of the ConfigMap.
fn hash(text: &str) -> String {
    let name = text.split("configMap:\n          name: frameworkcontroller-").nth(1).expect("a ConfigMap");
    name.lines().next().expect("a line").to_owned()
}

fn helm(arguments: &[&str]) -> Output {
    let helm = Binaries::tool(Program::Helm, &framework_programs::say).expect("Helm is there, or is built");
    let home = tempfile::tempdir().expect("a directory");
    let mut helm = Command::new(helm);
    // Without a cluster, and without the settings of a user.
    helm.args(arguments).env("HOME", home.path()).env("KUBECONFIG", home.path().join("none"));
    helm.current_dir(Path::new(DEPLOY)).output().expect("Helm runs")
}

/// The objects that Helm renders with these arguments, by kind and name.
fn rendered(arguments: &[&str]) -> BTreeMap<String, Value> {
    let template = ["template", "frameworkcontroller", "chart", "--include-crds"];
    by_name(&succeeds(helm(&[&template, arguments].concat())))
}

fn by_name(text: &str) -> BTreeMap<String, Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let count = objects.iter().filter(|object| !object.is_null()).count();
    let named = objects.into_iter().filter(|object| !object.is_null()).map(|object| {
        let metadata = &object["metadata"];
        let is_moved = object["kind"] == "RoleBinding" && metadata["namespace"] == "frameworks";
        let place = if is_moved { " moved" } else { "" };
        (format!("{} {} {}{place}", object["apiVersion"], object["kind"], metadata["name"]), object)
    });
    let named: BTreeMap<String, Value> = named.collect();
    assert_eq!(named.len(), count, "each object is there once");
    named
}

/// The objects that kustomize renders, in the form of the chart: without the namespace, and without a hash in
/// a name.
fn kustomized(folder: &Path) -> BTreeMap<String, Value> {
    let text = kustomize(folder);
    let name = format!("frameworkcontroller-{}", hash(&text));
    let mut objects = by_name(&text.replace(&name, "frameworkcontroller"));
    objects.remove("\"v1\" \"Namespace\" \"frameworkcontroller\"").expect("the namespace");
    objects
}

/// Takes the checksum out, which only the chart has: kustomize has a hash in the name instead.
fn without_checksum(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let deployment =
        objects.get_mut("\"apps/v1\" \"Deployment\" \"frameworkcontroller\"").expect("a Deployment");
    let metadata = deployment["spec"]["template"]["metadata"].as_object_mut().expect("metadata");
    let annotations = metadata.remove("annotations").expect("a checksum");
    assert_eq!(annotations["checksum/config"].as_str().map(str::len), Some(64));
    objects
}

/// Compares object by object, so that a difference is short.
fn same(helm: &BTreeMap<String, Value>, kustomize: &BTreeMap<String, Value>) {
    assert_eq!(helm.keys().collect::<Vec<_>>(), kustomize.keys().collect::<Vec<_>>());
    for (name, object) in helm {
        assert_eq!(object, &kustomize[name], "{name}");
    }
}

#[test]
fn the_chart_renders_object_by_object_what_kustomize_does() {
    let chart = without_checksum(rendered(&["--namespace=frameworkcontroller"]));
    assert!(chart.len() > 25, "{:?}", chart.keys());
    same(&chart, &kustomized(Path::new(DEPLOY)));
}

#[test]
fn each_switch_adds_what_the_component_of_kustomize_adds() {
    let overlay = tempfile::tempdir().expect("a directory");
    let up = "../".repeat(overlay.path().components().count() - 1);
    let path = |folder: &str| format!("{up}{DEPLOY}/{folder}");
    let folders: Vec<String> = COMPONENTS.iter().map(|(_, folder)| path(folder)).collect();
    let text = format!("resources: ['{}']\ncomponents: {folders:?}\n", path(""));
    std::fs::write(overlay.path().join("kustomization.yaml"), text).expect("the overlay is written");
    let switches: Vec<String> = COMPONENTS.iter().map(|(value, _)| format!("--set={value}=true")).collect();
    let mut arguments: Vec<&str> = switches.iter().map(String::as_str).collect();
    arguments.push("--namespace=frameworkcontroller");
    same(&without_checksum(rendered(&arguments)), &kustomized(overlay.path()));
}

#[test]
fn the_values_that_narrow_rights_do_what_their_components_do() {
    let overlay = tempfile::tempdir().expect("a directory");
    let up = "../".repeat(overlay.path().components().count() - 1);
    let path = |folder: &str| format!("{up}{DEPLOY}/{folder}");
    // The last one moves the bindings of those before it.
    let components = ["without-queues", "job-kinds", "train-jobs", "namespaced"].map(path);
    let text = format!("resources: ['{}']\ncomponents: {components:?}\n", path(""));
    std::fs::write(overlay.path().join("kustomization.yaml"), text).expect("the overlay is written");
    let mut kustomized = kustomized(overlay.path());
    for labels in kustomized.values_mut().filter_map(|object| object["metadata"].as_object_mut()) {
        // Only kustomize needs this label, to find the objects that an overlay moves.
        let is_empty = labels.get_mut("labels").and_then(Value::as_object_mut).is_some_and(|labels| {
            labels.remove("app.kubernetes.io/component");
            labels.is_empty()
        });
        if is_empty {
            labels.remove("labels");
        }
    }
    let narrow = ["--set=queues=false,namespace=frameworks,jobKinds=true,trainJobs=true"];
    let chart = rendered(&[&narrow[..], &["--namespace=frameworkcontroller"]].concat());
    same(&without_checksum(chart), &kustomized);
}

/// The values of the fields that name namespaces.
fn namespaces(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => {
            let named = fields.iter().flat_map(|(key, value)| match (key.as_str(), value) {
                ("namespace", _) => vec![value],
                ("namespaces", Value::Array(names)) => names.iter().collect(),
                _ => namespaces(value),
            });
            named.collect()
        }
        Value::Array(items) => items.iter().flat_map(namespaces).collect(),
        _ => Vec::new(),
    }
}

/// The API server refuses a number there.
#[test]
fn a_namespace_of_digits_is_a_string_in_every_object() {
    let switches = COMPONENTS.map(|(value, _)| format!("--set={value}=true"));
    let mut arguments = vec!["template", "frameworkcontroller", "chart"];
    arguments.extend(["--namespace=12", "--set-string=namespace=34"]);
    arguments.extend(switches.iter().map(String::as_str));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&succeeds(helm(&arguments))).expect("YAML");
    let names: BTreeSet<String> = objects.iter().flat_map(namespaces).map(Value::to_string).collect();
    assert_eq!(Vec::from_iter(names), [r#""*""#, r#""12""#, r#""34""#]);
}

#[test]
fn values_change_what_they_name_and_nothing_else() {
    let usual = rendered(&["--namespace=frameworkcontroller"]);
    let changed = rendered(&[
        "--namespace=batch",
        "--set=image.repository=registry.example.com/fc,image.tag=0.1,image.pullPolicy=Always",
        "--set=image.pullSecrets[0].name=key,replicas=5,resources.limits.memory=4Gi",
        "--set=config.kubeClientQps=300,config.logObjectSnapshot.redactEnv=true,policies=false",
    ]);
    for (name, object) in &changed {
        let is_in_it = namespaces(object).iter().all(|name| **name != "frameworkcontroller");
        assert!(is_in_it, "{name} is partly in another namespace: {object:#}");
    }
    let pod = &changed["\"apps/v1\" \"Deployment\" \"frameworkcontroller\""]["spec"];
    assert_eq!(pod["replicas"], 5);
    let pod = &pod["template"];
    assert_eq!(pod["spec"]["imagePullSecrets"][0]["name"], "key");
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["imagePullPolicy"]),
        (&"registry.example.com/fc:0.1".into(), &"Always".into())
    );
    assert_eq!(container["resources"]["limits"]["memory"], "4Gi");
    assert_eq!(container["resources"]["requests"]["memory"], "256Mi", "the others stay");
    let config = |objects: &BTreeMap<String, Value>| {
        let map =
            &objects["\"v1\" \"ConfigMap\" \"frameworkcontroller\""]["data"]["frameworkcontroller.yaml"];
        Config::parse(map.as_str().expect("a file")).expect("the controller takes it")
    };
    let mut expected = config(&usual);
    expected.kube_client_qps = 300.0;
    expected.log_object_snapshot.redact_env = true;
    assert_eq!(config(&changed), expected);
    let checksum = |objects: &BTreeMap<String, Value>| {
        let deployment = &objects["\"apps/v1\" \"Deployment\" \"frameworkcontroller\""];
        deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    assert_ne!(checksum(&changed), checksum(&usual), "another config file restarts the controller");
    let kept = usual.into_keys().filter(|name| !name.contains("ValidatingAdmissionPolicy"));
    assert_eq!(changed.into_keys().collect::<Vec<_>>(), kept.collect::<Vec<_>>());
}

#[test]
fn helm_finds_no_fault_in_the_chart_and_refuses_unknown_values() {
    succeeds(helm(&["lint", "--strict", "chart"]));
    for value in [
        "replica=3",
        "replicas=257",
        "image.name=x",
        "image.pullPolicy=Sometimes",
        "namespace=A",
        "config=3",
        "config.sharding=false",
        // The probes of the Pod, its Service and the NetworkPolicy go to the usual ports.
        "config.metricsAddress=0.0.0.0:9090",
        "config.probeAddress=0.0.0.0:8080",
    ] {
        let refused = helm(&["template", "frameworkcontroller", "chart", "--set", value]);
        let complaint = String::from_utf8_lossy(&refused.stderr);
        let key = value.split(['=', '.']).next().expect("a key");
        assert!(!refused.status.success() && complaint.contains(key), "{value}: {complaint}");
    }
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = cluster.kubectl(arguments).expect("kubectl runs");
    assert!(output.status.success(), "{arguments:?}: {}", output.stderr);
    output.stdout
}

#[test]
fn helm_installs_changes_and_removes_a_release_on_a_real_api_server() {
    let cluster = Cluster::start(Options::default()).expect("a cluster of its own");
    let helm = |line: &str| {
        let helm =
            Binaries::tool(Program::Helm, &framework_programs::say).expect("Helm is there, or is built");
        let mut helm = Command::new(helm);
        helm.args(line.split_whitespace()).current_dir(env!("CARGO_MANIFEST_DIR"));
        helm.env("KUBECONFIG", cluster.kubeconfig_path()).env("HOME", cluster.dir());
        succeeds(helm.output().expect("Helm runs"))
    };
    let readme = include_str!("../../README.md");
    let install = readme.lines().find_map(|line| line.strip_prefix("helm install ")).expect("a command");
    let notes = helm(&format!("install {install}"));
    assert!(notes.contains("kubectl -n frameworkcontroller rollout status"), "{notes}");
    let image = "-o=jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}";
    let deployment = ["-n=frameworkcontroller", "get", "deployment/frameworkcontroller", image];
    assert_eq!(kubectl(&cluster, &deployment), "2 registry.example.com/frameworkcontroller:0.1");
    let switches: String = COMPONENTS
        .iter()
        // The API server does not know the kinds of the operator.
        .filter(|(value, _)| *value != "monitoring")
        .map(|(value, _)| format!(" --set={value}=true"))
        .collect();
    let upgrade = "upgrade frameworkcontroller deploy/chart -n frameworkcontroller --reuse-values";
    helm(&format!("{upgrade} --set replicas=3{switches}"));
    assert_eq!(kubectl(&cluster, &deployment), "3 registry.example.com/frameworkcontroller:0.1");
    let policies = ["get", "networkpolicies", "-n=frameworkcontroller", "-o=name"];
    assert_eq!(kubectl(&cluster, &policies), "networkpolicy.networking.k8s.io/frameworkcontroller\n");
    helm("uninstall frameworkcontroller -n frameworkcontroller");
    let crds = kubectl(&cluster, &["get", "crds", "-o=name"]);
    assert_eq!(crds.lines().count(), 3, "the Frameworks of users stay: {crds}");
    assert_eq!(
        kubectl(
            &cluster,
            &[
                "get",
                "deployments,clusterroles",
                "-n=frameworkcontroller",
                "-l=app.kubernetes.io/part-of=frameworkcontroller",
                "-o=name"
            ]
        ),
        ""
    );
}
