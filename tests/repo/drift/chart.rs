//! The Helm chart: generated from the objects that kustomize renders, so that both install the same.
//! `tests/chart` has the tests that need Helm itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use framework_programs::{Binaries, Program};
use serde_json::Value;

use super::check;
use crate::source::root;

/// The parts that a value switches on or off: the value, and the folder of the component.
const COMPONENTS: [(&str, &str); 5] = [
    ("epoch", "epoch"),
    ("jobKinds", "job-kinds"),
    ("monitoring", "monitoring"),
    ("networkPolicy", "network-policy"),
    ("trainJobs", "train-jobs"),
];

/// The values that narrow the controller's rights, and the component of each.
const NARROWER: [(&str, &str); 2] = [("namespace", "namespaced"), ("queues", "without-queues")];

/// The ClusterRoles and their bindings that only queues need.
const OF_QUEUES: [&str; 2] = ["frameworkcontroller-priorities", "frameworkcontroller-queues"];

/// The bindings that stay in the cluster when one namespace is served: their objects are in no namespace.
const OF_THE_CLUSTER: [&str; 3] =
    ["frameworkcontroller-priorities", "frameworkcontroller-reviews", "frameworkcontroller-scraper"];

/// Stands above each generated template.
const HEAD: &str =
    "{{- /* Generated from deploy/ by `UPDATE=1 cargo test --test repo drift`; do not edit. */ -}}\n";

/// The objects that kustomize renders of a folder.
fn kustomize(folder: &Path) -> String {
    let programs = Binaries::with(&[Program::Kubectl], &framework_programs::say).expect("kubectl is there");
    let mut kubectl = Command::new(programs.path(Program::Kubectl));
    succeeds(kubectl.arg("kustomize").arg(folder).output().expect("kubectl runs"))
}

fn succeeds(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("YAML is UTF-8")
}

/// The text with `from`, which it has so many times, replaced.
fn replaced(text: &str, times: usize, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), times, "{from}");
    text.replace(from, to)
}

/// The namespace of the release. Without quotes, YAML reads the name `123` as a number.
const NAMESPACE: &str = "{{ .Release.Namespace | quote }}";

/// The line that begins an action, if a value is set, and the one that ends it.
fn given(value: &str, text: &str) -> String {
    format!("{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n")
}

/// The name of an object, as kustomize renders it.
fn name(object: &str) -> &str {
    let (_, metadata) = object.split_once("\nmetadata:\n").expect("an object has metadata");
    metadata.lines().find_map(|line| line.strip_prefix("  name: ")).expect("an object has a name")
}

/// An object that a value leaves out, or moves into the namespace that a value names.
fn narrowed(object: &str) -> String {
    const BINDING: &str = "kind: ClusterRoleBinding\nmetadata:\n";
    const INSTEAD: &str = "{{- if .Values.namespace }}
kind: RoleBinding
metadata:
  namespace: {{ .Values.namespace | quote }}
{{- else }}
kind: ClusterRoleBinding
metadata:
{{- end }}
";
    let name = name(object);
    let is_moved = object.contains(BINDING) && !OF_THE_CLUSTER.contains(&name);
    let moved = if is_moved { replaced(object, 1, BINDING, INSTEAD) } else { object.to_owned() };
    let is_of_queues = OF_QUEUES.contains(&name) && object.contains("\nkind: ClusterRole");
    if is_of_queues { given("queues", &moved) } else { moved }
}

/// A template of these objects: in the namespace of the release, and with no other action of Helm's language
/// but those that narrow the controller's rights.
fn template(objects: &str) -> String {
    let escaped = objects.replace("{{", "{{ \"{{\" }}");
    let narrowed: Vec<String> = escaped.split("---\n").map(narrowed).collect();
    let escaped = narrowed.join("---\n");
    let line = |line: &str| match line.trim_start() {
        "namespace: frameworkcontroller" => {
            format!("{}\n", line.replace("frameworkcontroller", NAMESPACE))
        }
        _ => format!("{line}\n"),
    };
    escaped.lines().map(line).collect()
}

/// The same, if the value is true.
fn optional(value: &str, objects: &str) -> String {
    format!("{HEAD}{}", given(value, &template(objects)))
}

/// Lines of the objects that are always installed, each there once, and those of the template in their place.
const CHANGES: [(&str, &str); 5] = [
    ("  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n"),
    (
        "  template:\n    metadata:\n",
        "  template:
    metadata:
      annotations:
        checksum/config: {{ include \"frameworkcontroller.config\" . | sha256sum }}
",
    ),
    (
        "        image: frameworkcontroller:dev\n",
        "        image: '{{ .Values.image.repository }}:{{ .Values.image.tag }}'
        {{- with .Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
",
    ),
    (
        "      priorityClassName: frameworkcontroller\n",
        "      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      priorityClassName: frameworkcontroller
",
    ),
    (
        "        resources:\n          limits:\n",
        "        resources:
          {{- toYaml .Values.resources | nindent 10 }}
          limits:
",
    ),
];

/// The arguments of the controller, and those by values after them.
const ARGUMENTS: (&str, &str) = (
    "        - --config=/etc/frameworkcontroller/frameworkcontroller.yaml\n",
    "        - --config=/etc/frameworkcontroller/frameworkcontroller.yaml
        {{- if .Values.namespace }}
        - --namespace={{ .Values.namespace }}
        {{- end }}
        {{- if not .Values.queues }}
        - --queueing=false
        {{- end }}
",
);

/// Replaces the part of a text between two lines, each of which is there once.
fn between(text: &str, first: &str, last: &str, instead: &str) -> String {
    let (before, rest) = text.split_once(first).unwrap_or_else(|| panic!("there is no {first}"));
    let (_, after) = rest.split_once(last).unwrap_or_else(|| panic!("there is no {last}"));
    format!("{before}{first}{instead}{last}{after}")
}

/// The template of everything that is always installed.
fn base(objects: &str) -> String {
    let name = format!("frameworkcontroller-{}", hash(objects));
    let text = replaced(&template(objects), 2, &name, "frameworkcontroller");
    // Leases and the map of slots have a priority of their own.
    let own = "      namespaces:\n      - frameworkcontroller\n";
    let mut text = replaced(&text, 2, own, &own.replace("frameworkcontroller", NAMESPACE));
    for (from, to) in CHANGES.into_iter().chain([ARGUMENTS]) {
        text = replaced(&text, 1, from, to);
    }
    let file = "  frameworkcontroller.yaml: |
    {{- include \"frameworkcontroller.config\" . | nindent 4 }}
";
    let text = between(&text, "\ndata:\n", "kind: ConfigMap\n", file);
    let text = between(&text, "| nindent 10 }}\n", "        securityContext:\n", "");
    format!("{HEAD}{text}")
}

/// The hash that kustomize puts after the name of the ConfigMap.
fn hash(text: &str) -> String {
    let name = text.split("configMap:\n          name: frameworkcontroller-").nth(1).expect("a ConfigMap");
    name.lines().next().expect("a line").to_owned()
}

fn deploy(path: &str) -> PathBuf {
    root().join("deploy").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a component and of its components, one after the other.
fn component(folder: &str) -> String {
    let kustomization: Value =
        serde_saphyr::from_str(&read(&format!("{folder}/kustomization.yaml"))).expect("YAML");
    let named = |key: &str| -> Vec<String> {
        let names = kustomization[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| format!("{folder}/{name}")).collect()
    };
    let files = named("resources").iter().map(|file| read(file)).collect::<Vec<_>>();
    let components = named("components").iter().map(|folder| component(folder)).collect::<Vec<_>>();
    [files, components].concat().join("---\n")
}

const VALUES_HEAD: &str = "\
# Generated from deploy/ by `UPDATE=1 cargo test --test repo drift`; do not edit. Give your own values with --set or --values.

# `frameworkcontroller:dev` is a placeholder: this image is not published. README.md shows how to build it.
image:
  repository: frameworkcontroller
  tag: dev
  # By default that of Kubernetes: Always for the tag latest, else IfNotPresent.
  pullPolicy: \"\"
  # As in a Pod: [{name: my-secret}]
  pullSecrets: []
# docs/capacity.md has the sizes of cluster for which these resources are enough.
replicas: 2
resources:
";

const VALUES_TAIL: &str = "\
# Keys of the config file (docs/operations.md), in place of those of the shipped file: {kubeClientQps: 300}
config: {}
# The admission policies on Frameworks, QueueUnits, labels and the reach of the controller's account (docs/security.md).
policies: true
# The admission policy that refuses late creates of a replica that lost the slot (docs/sharding.md).
epoch: false
# A PodMonitor and alerts for the Prometheus operator (docs/alerts.md).
monitoring: false
# The connections that the controller may accept and make.
networkPolicy: false
# Rights on the built-in kinds of jobs that wait in queues (docs/manual/queue-kinds.md).
jobKinds: false
# TTL and deadline of TrainJobs (docs/manual/ttl-and-deadline.md).
trainJobs: false
# Queues, and the rights on what they need. Without them, a Framework that names a queue starts at once.
queues: true
# The only namespace whose Frameworks are run; the controller has rights on its objects alone. By default all.
namespace: \"\"
";

fn values() -> String {
    let deployment = read("base/deployment.yaml");
    let (_, rest) = deployment.split_once("        resources:\n").expect("one container");
    let resources = rest.lines().take_while(|line| line.starts_with("          "));
    let resources: String = resources.map(|line| format!("{}\n", &line[8..])).collect();
    format!("{VALUES_HEAD}{resources}{VALUES_TAIL}")
}

fn chart_file() -> String {
    format!(
        "# Generated by `UPDATE=1 cargo test --test repo drift`; do not edit.
apiVersion: v2
name: frameworkcontroller
description: {}
type: application
version: {version}
appVersion: {version}
kubeVersion: '>=1.30.0-0'
",
        framework_image::Image::CONTROLLER.description,
        version = env!("CARGO_PKG_VERSION")
    )
}

#[test]
fn the_chart_is_made_from_what_kustomize_renders() {
    if std::env::var_os("UPDATE").is_some() {
        // They are part of it.
        super::the_crds_are_made_from_the_types();
        super::the_installed_config_file_is_the_default_one_with_queues_and_replicas();
        crate::job_kinds::the_rights_on_each_kind_show_no_drift_from_its_row();
    }
    let rendered = kustomize(&deploy("base"));
    let objects = rendered.split("---\n").filter(|object| !object.contains("\nkind: Namespace\n"));
    let is_policy = |object: &&str| object.contains("\nkind: ValidatingAdmissionPolicy");
    let (policies, others): (Vec<&str>, Vec<&str>) = objects.partition(is_policy);
    assert_eq!(policies.len(), 12, "policies and their bindings");
    check("deploy/chart/Chart.yaml", &chart_file());
    check("deploy/chart/values.yaml", &values());
    check("deploy/chart/files/frameworkcontroller.yaml", &read("base/frameworkcontroller.yaml"));
    for file in std::fs::read_dir(deploy("crds")).expect("the folder of CRDs") {
        let name = file.expect("a file").file_name().into_string().expect("UTF-8");
        check(&format!("deploy/chart/crds/{name}"), &read(&format!("crds/{name}")));
    }
    check("deploy/chart/templates/base.yaml", &base(&others.join("---\n")));
    check("deploy/chart/templates/policies.yaml", &optional("policies", &policies.join("---\n")));
    for (value, folder) in COMPONENTS {
        let path = format!("deploy/chart/templates/{folder}.yaml");
        check(&path, &optional(value, &component(folder)));
    }
}

#[test]
fn every_component_is_a_value_of_the_chart() {
    let folders = std::fs::read_dir(deploy(""))
        .expect("deploy")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let components = folders.filter(|folder| {
        let text = std::fs::read_to_string(deploy(folder).join("kustomization.yaml")).unwrap_or_default();
        let is_narrower = NARROWER.iter().any(|(_, narrower)| narrower == folder);
        text.contains("kind: Component") && *folder != "policies" && !is_narrower
    });
    let mut components: Vec<String> = components.collect();
    components.sort();
    assert_eq!(components, COMPONENTS.map(|(_, folder)| folder.to_owned()), "a component has no value");
}

/// The output of Helm for the actions of a template that ask for values, with those that are set.
fn evaluated(text: &str, set: &[(&str, &str)]) -> String {
    let mut kept = vec![true];
    let mut lines = String::new();
    for line in text.lines() {
        let action = line.trim().strip_prefix("{{- ").and_then(|rest| rest.strip_suffix(" }}"));
        let is_set = |value: &str| set.iter().any(|(name, _)| *name == value);
        match action.map(|action| action.split(' ').collect::<Vec<_>>()).as_deref() {
            Some(["if", value]) => kept.push(is_set(value.trim_start_matches(".Values."))),
            Some(["if", "not", value]) => kept.push(!is_set(value.trim_start_matches(".Values."))),
            Some(["else"]) => *kept.last_mut().expect("an if") ^= true,
            Some(["end"]) => assert!(kept.pop().is_some() && !kept.is_empty(), "an if"),
            _ if kept.iter().all(|kept| *kept) => lines.extend([line, "\n"]),
            _ => {}
        }
    }
    set.iter().fold(lines, |text, (name, value)| {
        let text = text.replace(&format!("{{{{ .Values.{name} | quote }}}}"), &format!("\"{value}\""));
        text.replace(&format!("{{{{ .Values.{name} }}}}"), value)
    })
}

/// The output of Helm for a template with these values, as far as it is known without Helm. The changes by
/// other values are undone, and no other action is left.
fn rendered(path: &str, set: &[(&str, &str)]) -> String {
    let mut text = read(path);
    for (from, to) in CHANGES.iter().rev() {
        text = text.replace(to, from);
    }
    evaluated(&text.replace(NAMESPACE, "frameworkcontroller").replace(HEAD, ""), set)
}

/// The chart with these values has every object that kustomize renders with these components, and no other.
fn same(set: &[(&str, &str)], components: &[&str]) {
    if std::env::var_os("UPDATE").is_some() {
        the_chart_is_made_from_what_kustomize_renders();
    }
    let overlay = tempfile::tempdir().expect("a directory");
    // A path relative to the overlay: kustomize takes no other one.
    let up = "../".repeat(overlay.path().components().count() - 1);
    let folders = components.iter().map(|folder| format!("{up}{}", deploy(folder).display()));
    let folders: Vec<String> = folders.collect();
    let text = format!("resources: ['{up}{}']\ncomponents: {folders:?}\n", deploy("base").display());
    std::fs::write(overlay.path().join("kustomization.yaml"), text).expect("the overlay is written");
    let kustomized = kustomize(overlay.path());

    let file = read("chart/files/frameworkcontroller.yaml").replace('\n', "\n    ");
    let include = "    {{- include \"frameworkcontroller.config\" . | nindent 4 }}\n";
    let base = rendered("chart/templates/base.yaml", set);
    let base = base.replace(include, &format!("    {}\n", file.trim_end()));
    let base = base.replace("          {{- toYaml .Values.resources | nindent 10 }}\n", "");
    let chart = format!("{base}---\n{}", rendered("chart/templates/policies.yaml", set));
    assert!(!chart.contains("{{"), "another action");
    let parsed = |text: &str| -> Vec<Value> { serde_saphyr::from_multiple(text).expect("YAML") };
    let name = format!("frameworkcontroller-{}", hash(&kustomized));
    // Only kustomize needs this label, to find the objects that an overlay moves.
    let kustomized = kustomized.replace("    app.kubernetes.io/component: namespace\n", "");
    let mut expected = parsed(&kustomized.replace(&name, "frameworkcontroller"));
    expected.retain(|object| object["kind"] != "Namespace");
    let resources =
        |object: &mut Value| object["spec"]["template"]["spec"]["containers"][0]["resources"].take();
    let values: Value = serde_saphyr::from_str(&values()).expect("YAML");
    for object in expected.iter_mut().filter(|object| object["kind"] == "Deployment") {
        assert_eq!(resources(object), values["resources"], "by default the values are those of the base");
    }
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{} {} {}", object["kind"], metadata["name"], metadata["namespace"])
    };
    let mut chart = parsed(&chart);
    chart.retain(|object| !object.is_null());
    chart.sort_by_key(key);
    expected.sort_by_key(key);
    assert_eq!(chart.iter().map(key).collect::<Vec<_>>(), expected.iter().map(key).collect::<Vec<_>>());
    assert_eq!(chart, expected);
}

#[test]
fn the_chart_has_every_object_that_kustomize_renders() {
    same(&[("policies", "true"), ("queues", "true")], &[]);
}

#[test]
fn the_values_that_narrow_rights_do_what_their_components_do() {
    let [policies, queues] = [("policies", "true"), ("queues", "true")];
    same(&[policies], &["without-queues"]);
    same(&[policies, queues, ("namespace", "frameworks")], &["namespaced"]);
    same(&[policies, ("namespace", "frameworks")], &["without-queues", "namespaced"]);
}
