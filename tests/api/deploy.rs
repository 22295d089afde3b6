//! The objects that `deploy/` installs. The API server accepts them, the Pod is within the restricted
//! security standard, and the controller's account has the rights that it needs and no others.

use std::path::Path;
use std::time::{Duration, Instant};

use framework_api::config::Config;
use framework_testcluster::shared;
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use serde_json::{Value, json};

use crate::cluster::{installed, kubectl};
use crate::units::PATIENCE;

const ACCOUNT: &str = "--as=system:serviceaccount:frameworkcontroller:frameworkcontroller";

/// The objects that a folder of `deploy/` renders to.
fn rendered(folder: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(folder);
    let text = kubectl(&["kustomize", path.to_str().expect("a path in UTF-8")], "").expect("it renders");
    serde_saphyr::from_multiple(&text).expect("kustomize writes YAML")
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn the_api_server_accepts_the_base_and_everything() {
    installed();
    for folder in ["base", ".", "single", "five-replicas"] {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": rendered(folder)}).to_string();
        let strict = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f=-"];
        kubectl(&strict, &list).unwrap_or_else(|refusal| panic!("{folder}: {refusal}"));
    }
    assert_eq!(of_kind(&rendered("."), "CustomResourceDefinition").len(), 3);
    assert!(of_kind(&rendered("base"), "CustomResourceDefinition").is_empty());
}

#[test]
fn two_replicas_share_are_spread_and_are_never_evicted_together() {
    let objects = rendered("base");
    let deployment = of_kind(&objects, "Deployment")[0];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(of_kind(&rendered("five-replicas"), "Deployment")[0]["spec"]["replicas"], 5);
    let single = rendered("single");
    assert_eq!(of_kind(&single, "Deployment")[0]["spec"]["replicas"], 1);
    assert!(of_kind(&single, "PodDisruptionBudget").is_empty());
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let spread = &deployment["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!((&spread["topologyKey"], &spread["maxSkew"]), (&json!("kubernetes.io/hostname"), &json!(1)));
    assert_eq!(spread["matchLabelKeys"], json!(["pod-template-hash"]), "replicas of one version are apart");
    let five = rendered("five-replicas");
    let pods = &of_kind(&five, "Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(&pods["topologySpreadConstraints"][0], spread);
    assert_eq!(of_kind(&five, "PodDisruptionBudget"), of_kind(&objects, "PodDisruptionBudget"));
    let budget = &of_kind(&objects, "PodDisruptionBudget")[0]["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    let class = of_kind(&objects, "PriorityClass")[0];
    assert_eq!(deployment["spec"]["template"]["spec"]["priorityClassName"], class["metadata"]["name"]);
    assert_eq!(class["value"], 1_000_000_000, "the highest that is not the system's");
    for selector in [&spread["labelSelector"], &budget["selector"]] {
        for (key, value) in selector["matchLabels"].as_object().expect("labels") {
            assert_eq!(&labels[key], value);
        }
    }
}

#[test]
fn the_pod_listens_where_the_probes_and_the_network_policy_say() {
    installed();
    let objects = rendered("base");
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let ports =
        json!([{"name": "metrics", "containerPort": 8080}, {"name": "probes", "containerPort": 8081}]);
    assert_eq!(container["ports"], ports);
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "probes");
    }
    assert_eq!(of_kind(&objects, "Service")[0]["spec"]["ports"][0]["targetPort"], "metrics");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/network-policy/network_policy.yaml");
    let text = std::fs::read_to_string(path).expect("the component has it");
    kubectl(&["apply", "--server-side", "--dry-run=server", "-f=-"], &text).expect("it is accepted");
    let policy: Value = serde_saphyr::from_str(&text).expect("YAML");
    for (key, value) in policy["spec"]["podSelector"]["matchLabels"].as_object().expect("labels") {
        assert_eq!(&pod["metadata"]["labels"][key], value);
    }
    assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], "metrics");
}

/// The section on the admission policies in docs/security.md.
fn policies_page() -> &'static str {
    let page = include_str!("../../docs/security.md");
    let section = page.split("## The admission policies\n").nth(1).expect("the section");
    section.split("\n## ").next().expect("its text")
}

#[test]
fn each_policy_fails_as_the_page_says_and_is_asked_about_no_status() {
    let objects = rendered("base");
    let policies = of_kind(&objects, "ValidatingAdmissionPolicy");
    let rows: Vec<&str> = policies_page().lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), policies.len(), "each policy has a row");
    for policy in policies {
        let name = policy["metadata"]["name"].as_str().expect("a name");
        let row = rows.iter().find(|row| row.contains(&format!("`{name}`"))).expect(name);
        let passes = row.contains("the request passes");
        assert_eq!(policy["spec"]["failurePolicy"], if passes { "Ignore" } else { "Fail" }, "{name}");
        let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().expect("rules");
        let resources = rules.iter().flat_map(|rule| rule["resources"].as_array().expect("a list"));
        for resource in resources.map(|resource| resource.as_str().expect("a name")) {
            assert!(!resource.contains(['/', '*']), "{name}: {resource} includes a status");
        }
    }
}

/// The objects of an overlay with these lines; in them `deploy` leads to that folder.
fn overlaid(lines: &str) -> Vec<Value> {
    overlaid_with(lines, &[])
}

/// The same; these files are beside it.
fn overlaid_with(lines: &str, files: &[(&str, &str)]) -> Vec<Value> {
    let overlay = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(overlay.path().join(name), text).expect("the file is written");
    }
    // A path relative to the overlay: kustomize takes no other one.
    let up = "../".repeat(overlay.path().components().count() - 1);
    let deploy = format!("{up}{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").display());
    let text = lines.replace("deploy/", &format!("{deploy}/"));
    std::fs::write(overlay.path().join("kustomization.yaml"), text).expect("the file is written");
    let kustomize = ["kustomize", overlay.path().to_str().expect("a path in UTF-8")];
    serde_saphyr::from_multiple(&kubectl(&kustomize, "").expect("it renders")).expect("YAML")
}

#[test]
fn an_overlay_replaces_the_config_file() {
    let page = include_str!("../../docs/operations.md");
    let block = page.split("an_overlay_replaces_the_config_file -->\n```yaml\n").nth(1).expect("the block");
    let lines = block.split("```").next().expect("its text");
    let file = ("frameworkcontroller.yaml", "kubeClientQps: 7\nsharding: true\n");
    let objects = overlaid_with(&format!("resources: [deploy/base]\n{lines}"), &[file]);
    let map = of_kind(&objects, "ConfigMap")[0];
    assert_eq!(map["data"]["frameworkcontroller.yaml"], file.1);
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    assert!(pod["volumes"].to_string().contains(map["metadata"]["name"].as_str().expect("a name")));
}

#[test]
fn an_overlay_leaves_a_policy_out_by_the_patch_of_the_page() {
    let patch = policies_page().split("```yaml\n").nth(1).and_then(|block| block.split("```").next());
    let objects = overlaid(&format!("resources: [deploy/base]\n{}", patch.expect("a patch")));
    let names = |objects: &[Value]| -> Vec<String> {
        let bindings = of_kind(objects, "ValidatingAdmissionPolicyBinding");
        bindings.iter().map(|binding| binding["metadata"]["name"].to_string()).collect()
    };
    let mut expected = names(&rendered("base"));
    expected.retain(|name| name != "\"frameworkcontroller-framework\"");
    assert_eq!(names(&objects), expected);
    assert!(expected.len() > 2, "{expected:?}");
}

#[test]
fn the_components_are_where_the_controller_is_and_the_scraper_may_read() {
    installed();
    let both = "components: [deploy/network-policy, deploy/monitoring]";
    let objects = overlaid(&format!("resources: [deploy/base]\n{both}\n"));
    let mut added = 0;
    for kind in ["NetworkPolicy", "PodMonitor", "PrometheusRule", "Secret", "ServiceAccount"] {
        for object in of_kind(&objects, kind) {
            assert_eq!(object["metadata"]["namespace"], "frameworkcontroller", "{kind}");
            added += 1;
        }
    }
    assert_eq!(added, 6, "with the account of the controller");
    let monitor = &of_kind(&objects, "PodMonitor")[0]["spec"];
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"];
    for (key, value) in monitor["selector"]["matchLabels"].as_object().expect("labels") {
        assert_eq!(&pod["metadata"]["labels"][key], value);
    }
    let endpoint = &monitor["podMetricsEndpoints"][0];
    assert_eq!(endpoint["port"], pod["spec"]["containers"][0]["ports"][0]["name"]);
    let secret = of_kind(&objects, "Secret")[0];
    assert_eq!(endpoint["authorization"]["credentials"]["name"], secret["metadata"]["name"]);
    // The API server knows all kinds but the operator's.
    let known = objects.iter().filter(|object| object["apiVersion"] != "monitoring.coreos.com/v1");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": known.collect::<Vec<_>>()}).to_string();
    kubectl(&["apply", "--server-side", "-f=-"], &list).expect("they are installed");
    let scraper = "--as=system:serviceaccount:frameworkcontroller:frameworkcontroller-scraper";
    let may = |what: &[&str]| kubectl(&[&["auth", "can-i"], what, &[scraper]].concat(), "").is_ok();
    await_right("the scraper: get /metrics", || may(&["get", "/metrics"]));
    assert!(!may(&["list", "pods", "--all-namespaces"]), "it has that right alone");
}

#[test]
fn the_pod_is_within_the_restricted_standard() {
    installed();
    let objects = rendered("base");
    let template = &of_kind(&objects, "Deployment")[0]["spec"]["template"];
    let pod = |template: &Value| {
        let mut pod = template.clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "frameworkcontroller-0".into();
        kubectl(&["create", "--dry-run=server", "--namespace=frameworkcontroller", "-f=-"], &pod.to_string())
    };
    pod(template).expect("the namespace enforces the standard");
    let mut loose = template.clone();
    loose["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
    let refusal = pod(&loose).expect_err("a Pod outside of the standard");
    assert!(refusal.contains("restricted"), "{refusal}");
}

/// The config file that the argument of the Pod names, in the ConfigMap that the Pod mounts.
fn config_text(objects: &[Value]) -> &str {
    let controllers = of_kind(objects, "StatefulSet").into_iter().chain(of_kind(objects, "Deployment"));
    let [controller] = controllers.collect::<Vec<_>>()[..] else { panic!("one controller") };
    let template = &controller["spec"]["template"]["spec"];
    let config = of_kind(objects, "ConfigMap")[0];
    assert_eq!(template["volumes"][0]["configMap"]["name"], config["metadata"]["name"]);
    let folder = template["containers"][0]["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let argument = template["containers"][0]["args"][0].as_str().unwrap();
    let file = argument.strip_prefix(&format!("--config={folder}/")).expect("a file of that folder");
    config["data"][file].as_str().expect("the ConfigMap has that file")
}

fn config_of(objects: &[Value]) -> Config {
    Config::parse(config_text(objects)).unwrap()
}

#[test]
fn the_pod_finds_its_config_file() {
    // The CRDs of queues are installed beside it.
    let expected = Config { queueing: true, sharding: true, ..Config::default() };
    assert_eq!(config_of(&rendered("base")), expected);
}

/// Waits until an account has a right that it must have: a binding comes into force a little later.
fn await_right(what: &str, may: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !may() {
        assert!(Instant::now() < deadline, "this is not allowed: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether the controller's account may do it, as the API server decides.
fn may(verb: &str, resource: &str) -> bool {
    kubectl(&["auth", "can-i", verb, resource, ACCOUNT, "--namespace=elsewhere"], "").is_ok()
}

#[test]
fn the_controller_has_the_rights_that_it_needs_and_no_others() {
    installed();
    let frameworks = "frameworks.frameworkcontroller.microsoft.com";
    let must: &[(&str, &[&str])] = &[
        (frameworks, &["get", "list", "watch", "patch", "delete"]),
        ("configmaps", &["get", "list", "watch", "create", "patch", "delete"]),
        ("pods", &["get", "list", "watch", "create", "patch", "delete"]),
        ("events.events.k8s.io", &["create", "patch"]),
        ("queueunits.queue.k8s.io", &["get", "list", "watch", "create", "patch", "delete"]),
        ("queues.queue.k8s.io", &["list", "watch"]),
        ("resourcequotas", &["list", "watch"]),
        ("priorityclasses.scheduling.k8s.io", &["list", "watch"]),
        ("jobs.batch", &["list", "watch", "patch"]),
        ("tokenreviews.authentication.k8s.io", &["create"]),
        ("subjectaccessreviews.authorization.k8s.io", &["create"]),
    ];
    for (resource, verbs) in must {
        for verb in *verbs {
            await_right(&format!("{verb} {resource}"), || may(verb, resource));
        }
    }
    for (verb, resource, subresource) in [
        ("update", frameworks, "status"),
        ("update", frameworks, "finalizers"),
        ("update", "configmaps", "finalizers"),
        ("update", "queueunits.queue.k8s.io", "status"),
        ("patch", "queues.queue.k8s.io", "status"),
    ] {
        let subresource = format!("--subresource={subresource}");
        let question = ["auth", "can-i", verb, resource, &subresource, ACCOUNT];
        await_right(&format!("{verb} {resource} {subresource}"), || kubectl(&question, "").is_ok());
    }
    for (verb, resource) in [
        ("get", "secrets"),
        ("list", "secrets"),
        ("create", frameworks),
        ("update", frameworks),
        ("update", "pods"),
        ("deletecollection", "pods"),
        ("deletecollection", frameworks),
        ("create", "customresourcedefinitions.apiextensions.k8s.io"),
        (
            "get",
            "customresourcedefinitions.apiextensions.k8s.io/frameworks.frameworkcontroller.microsoft.com",
        ),
        ("list", "nodes"),
        ("create", "serviceaccounts"),
        ("get", "namespaces"),
        ("create", "queues.queue.k8s.io"),
        ("get", "queues.queue.k8s.io"),
        ("update", "queueunits.queue.k8s.io"),
        ("get", "resourcequotas"),
        ("get", "jobs.batch"),
        ("patch", "resourcequotas"),
        ("create", "jobs.batch"),
        ("delete", "jobs.batch"),
    ] {
        assert!(!may(verb, resource), "may not {verb} {resource}");
    }
}

#[test]
fn the_replicas_may_write_leases_and_the_map_in_their_namespace_alone() {
    installed();
    let may = |verb: &str, resource: &str, namespace: &str| {
        kubectl(&["auth", "can-i", verb, resource, ACCOUNT, "--namespace", namespace], "").is_ok()
    };
    let leases =
        ["list", "watch", "create", "update", "delete"].map(|verb| (verb, "leases.coordination.k8s.io"));
    let others = [
        ("update", "configmaps/frameworkcontroller-slots"),
        ("get", "statefulsets.apps/frameworkcontroller"),
    ];
    for (verb, resource) in leases.into_iter().chain(others) {
        await_right(&format!("{verb} {resource}"), || may(verb, resource, "frameworkcontroller"));
        assert!(!may(verb, resource, "elsewhere"), "may not {verb} {resource} elsewhere");
    }
    for (verb, resource) in [
        ("update", "configmaps"),
        ("list", "statefulsets.apps"),
        ("delete", "statefulsets.apps/frameworkcontroller"),
    ] {
        assert!(!may(verb, resource, "frameworkcontroller"), "may not {verb} {resource}");
    }
}

#[test]
fn users_may_do_with_units_and_queues_what_their_role_says() {
    installed();
    let objects = rendered("base");
    let units = "queueunits.queue.k8s.io";
    let queues = "queues.queue.k8s.io";
    for (role, may, may_not) in [
        ("view", &[("get", units), ("watch", queues)][..], &[("create", units), ("create", queues)][..]),
        ("edit", &[("create", units), ("patch", units), ("list", queues)], &[("create", queues)]),
        ("admin", &[("delete", units), ("create", queues), ("patch", queues)], &[]),
    ] {
        let (name, user) = (format!("{role}-of-units"), format!("--user={role}-of-units"));
        // The rights that the controller manager of a cluster gathers in the roles of Kubernetes.
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
        for ours in of_kind(&objects, "ClusterRole") {
            if ours["metadata"]["labels"][&label] == "true" {
                let ours = ours["metadata"]["name"].as_str().expect("a name");
                let (binding, ours) = (format!("{name}-{ours}"), format!("--clusterrole={ours}"));
                let bind = ["create", "rolebinding", &binding, &ours, &user, "--namespace=default"];
                kubectl(&bind, "").expect("a binding");
            }
        }
        let asks = |verb: &str, resource: &str, subresource: &str| {
            let (user, subresource) = (format!("--as={name}"), format!("--subresource={subresource}"));
            let ask = ["auth", "can-i", verb, resource, &subresource, &user, "--namespace=default"];
            kubectl(&ask, "").is_ok()
        };
        for (verb, resource) in may {
            await_right(&format!("{name}: {verb} {resource}"), || asks(verb, resource, ""));
        }
        for (verb, resource) in may_not {
            assert!(!asks(verb, resource, ""), "{name} may not {verb} {resource}");
        }
        for resource in [units, queues] {
            assert!(!asks("patch", resource, "status"), "{name} may not release {resource}");
        }
    }
}

/// The name of the FlowSchema by which the API server classifies this GET of the controller's account.
async fn flow_schema_of(path: &str) -> String {
    let client = shared().client();
    let account = ACCOUNT.strip_prefix("--as=").expect("an argument");
    let get = http::Request::get(path).header("Impersonate-User", account).body(Body::empty());
    let response = client.send(get.expect("a request")).await.expect("a response");
    assert!(response.status().is_success(), "{path}: {}", response.status());
    let uid = response.headers()["x-kubernetes-pf-flowschema-uid"].to_str().expect("text").to_owned();
    let schemas: Api<FlowSchema> = Api::all(client);
    let all = schemas.list(&ListParams::default()).await.expect("a list").items;
    let found = all.into_iter().find(|schema| schema.metadata.uid.as_ref() == Some(&uid));
    found.and_then(|schema| schema.metadata.name).unwrap_or_default()
}

#[test]
fn work_has_a_level_of_its_own_and_leases_never_wait_for_it() {
    installed();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/frameworkcontroller/leases?limit=1";
    let map = "/api/v1/namespaces/frameworkcontroller/configmaps?limit=1";
    let expected = [
        ("/api/v1/pods?limit=1", "frameworkcontroller"),
        ("/api/v1/configmaps?limit=1", "frameworkcontroller"),
        (map, "frameworkcontroller-leases"),
        ("/apis/frameworkcontroller.microsoft.com/v1/frameworks?limit=1", "frameworkcontroller"),
        (leases, "frameworkcontroller-leases"),
    ];
    // The API server takes new FlowSchemas over after a moment.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = expected.map(|(path, _)| runtime.block_on(flow_schema_of(path)));
        if found == expected.map(|(_, schema)| schema) {
            break;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn no_role_has_a_wildcard() {
    let objects = rendered(".");
    let roles = of_kind(&objects, "ClusterRole");
    assert_eq!(roles.len(), 7);
    for role in roles {
        assert!(!role["rules"].to_string().contains('*'), "{}", role["metadata"]["name"]);
    }
}

/// The objects of the example that docs/compatibility.md gives to those who ran the original.
fn migrated() -> Vec<Value> {
    let page = include_str!("../../docs/compatibility.md");
    let shown = page.split("```yaml\n").nth(1).and_then(|block| block.split("```").next());
    serde_saphyr::from_multiple(shown.expect("the page has an example")).expect("the page has YAML")
}

#[test]
fn the_migrated_example_of_the_original_is_accepted_and_finds_its_config() {
    installed();
    let objects = migrated();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    kubectl(&["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f=-"], &list).unwrap();
    let read = config_of(&objects);
    assert_eq!((read.worker_number, read.kube_client_burst), (500, 300));
    assert!(read.large_framework_compression && read.pod_failure_spec.is_empty());
}
