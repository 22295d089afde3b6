//! Every command of README.md, run as it stands there or checked as far as a test can, and every link of the
//! documents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use framework_api::Framework;
use framework_image::{Image, Release};
use serde_json::{Value, json};

use crate::cluster;
use crate::cluster::with_controller;
use crate::shell::Shell;

const README: &str = include_str!("../../README.md");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How a command of the README is held.
enum Held {
    /// It is run, and its output contains this.
    Run(&'static str),
    /// It is run in another test file, in which these words stand.
    There(&'static str, &'static [&'static str]),
    /// It cannot be run here, for this reason; something less is checked.
    Less(&'static str, fn()),
}

use Held::{Less, Run, There};

/// Every command, in the order of the README.
const COMMANDS: [(&str, Held); 21] = [
    (
        "cargo xtask demo",
        There("crates/demo/tests/demo.rs", &["CARGO_BIN_EXE_framework-demo", ".arg(\"demo\")"]),
    ),
    ("cargo xtask test", Less("it runs this test", the_gate_can_be_asked_for)),
    (
        "export KUBECONFIG=\"$(cargo xtask cluster up)\"",
        There("crates/demo/tests/cluster.rs", &["home.cluster(\"up\")", "last_line(&first)"]),
    ),
    ("cargo run --release", Less("the tests run the same program, built for tests", there_is_one_program)),
    (
        "kubectl apply -f examples/flaky.yaml",
        Run("framework.frameworkcontroller.microsoft.com/flaky created"),
    ),
    ("kubectl get frameworks", Run("flaky")),
    ("kubectl wait --for=condition=Complete fw/flaky --timeout=60s", Run("condition met")),
    ("kubectl describe fw flaky", Run("worker-1 is retried after attempt 0")),
    ("kubectl delete fw flaky --cascade=foreground", Run("deleted")),
    ("cargo xtask cluster down", There("crates/demo/tests/cluster.rs", &["home.cluster(\"down\")"])),
    ("cargo xtask image", Less("an optimised build takes minutes", the_images_of_the_tests_are_started)),
    (
        "crane push target/image/frameworkcontroller-0.1.0-amd64.tar \
         registry.example.com/frameworkcontroller:0.1",
        Less("that registry does not exist", the_overlay_names_the_image),
    ),
    (
        "helm install frameworkcontroller deploy/chart --namespace frameworkcontroller --create-namespace \
         --set image.repository=registry.example.com/frameworkcontroller,image.tag=0.1",
        There("tests/chart/main.rs", &["README", "\"helm install \"", "split_whitespace"]),
    ),
    (
        "sed 's#frameworkcontroller:dev#registry.example.com/frameworkcontroller:0.1#' deploy/install.yaml | \
         kubectl apply --server-side -f -",
        Run("deployment.apps/frameworkcontroller serverside-applied"),
    ),
    (
        "kubectl -n frameworkcontroller rollout status deployment/frameworkcontroller --timeout=120s",
        Less("nothing makes Pods of Deployments on the test cluster", the_deployment_is_there),
    ),
    ("kubectl apply --server-side -k overlay", Run("deployment.apps/frameworkcontroller serverside-applied")),
    ("kubectl apply -f hello.yaml", Run("framework.frameworkcontroller.microsoft.com/hello created")),
    ("kubectl get fw", Run("hello")),
    ("kubectl wait --for=condition=Complete fw/hello --timeout=5m", Run("condition met")),
    (
        "kubectl get fw hello -o jsonpath='{.status.attemptStatus.completionStatus}'",
        Run("\"phrase\":\"Succeeded\""),
    ),
    ("kubectl delete fw hello --cascade=foreground", Run("deleted")),
];

/// The blocks of a language in the README.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    let openings = README.match_indices(&opening).map(|(at, _)| at + opening.len());
    openings.map(|start| README[start..].split("```").next().expect("there is a first part")).collect()
}

/// A directory with the files that the README's commands expect.
fn place() -> Shell {
    let cluster = with_controller();
    let shell = Shell::new(cluster.kubeconfig_path(), cluster::plugin::search_path());
    shell.copy("deploy");
    shell.copy("examples");
    let [overlay, hello] = blocks("yaml")[..] else { panic!("the README has an overlay and a Framework") };
    shell.write("overlay/kustomization.yaml", overlay);
    let mut hello: Value = serde_saphyr::from_str(hello).expect("hello.yaml is YAML");
    // Its containers end by themselves, but on kwok's nodes there are none.
    let pod = &mut hello["spec"]["taskRoles"][0]["task"]["pod"];
    pod["metadata"]["annotations"] = json!({format!("{}/run-duration", cluster::TEST): "1s"});
    shell.write("hello.yaml", &hello.to_string());
    shell
}

#[test]
fn every_command_has_its_check_and_every_check_its_command() {
    let lines: Vec<&str> = blocks("sh").into_iter().flat_map(str::lines).collect();
    let commands: Vec<&str> = COMMANDS.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, commands);
    assert_eq!(
        README.matches("```").count(),
        2 * (blocks("sh").len() + blocks("yaml").len()),
        "other blocks"
    );
}

#[test]
fn every_command_does_what_the_readme_says() {
    let place = place();
    for (line, held) in &COMMANDS {
        match held {
            Run(expected) => {
                let output = place.run(line, "");
                let said = String::from_utf8_lossy(&output.stdout);
                let complaint = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{line}: {complaint}");
                assert!(said.contains(expected), "{line} does not say {expected:?} but\n{said}\n{complaint}");
            }
            There(file, words) => {
                let text = read(file);
                for word in *words {
                    assert!(text.contains(word), "{line}: {file} has no {word}");
                }
            }
            Less(reason, check) => {
                println!("{line} is not run: {reason}");
                check();
            }
        }
    }
    let deployment = "kubectl -n frameworkcontroller get deployment frameworkcontroller -o yaml";
    let image = place.run(deployment, "").stdout;
    let image = String::from_utf8_lossy(&image);
    assert!(image.contains("image: registry.example.com/frameworkcontroller:0.1"), "{image}");
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn the_gate_can_be_asked_for() {
    // A cargo within a test would compile half of the tree again, so that the test does not even ask for its
    // help.
    assert!(read(".cargo/config.toml").contains("xtask = \"run --quiet --package xtask --\""));
    let gate = read("xtask/tests/gate.rs");
    assert!(gate.contains("env!(\"CARGO_BIN_EXE_xtask\")") && gate.contains("        .args([\"test\","));
    assert!(read(".ci/run").contains("\nexec cargo xtask test "), "what builds run");
}

fn there_is_one_program() {
    // `cargo run` without a name wants exactly one.
    assert!(Path::new(ROOT).join("src/main.rs").is_file());
    let manifest = read("Cargo.toml");
    assert!(!manifest.contains("[[bin]]") && !Path::new(ROOT).join("src/bin").exists());
}

fn the_images_of_the_tests_are_started() {
    // They are written by the same code, from the same programs without optimisation.
    let test = read("tests/e2e/image.rs");
    assert!(test.contains("fn the_image_of_the_controller_runs_as_the_deployment_starts_it()"));
    assert!(test.contains("image.write(release, &link(image, directory), &base, &path)"));
    assert!(read("xtask/src/image.rs").contains(".write(release, &programs.join(image.name),"));
}

fn the_overlay_names_the_image() {
    let overlay: Value = serde_saphyr::from_str(blocks("yaml")[0]).expect("the overlay is YAML");
    let image = &overlay["images"][0];
    let named = format!("{}:{}", image["newName"].as_str().unwrap(), image["newTag"].as_str().unwrap());
    let pushed = COMMANDS.iter().find_map(|(line, _)| line.strip_prefix("crane push "));
    let (file, pushed) = pushed.and_then(|words| words.split_once(' ')).expect("a file and a name");
    assert_eq!(pushed, named);
    let release = Release { version: env!("CARGO_PKG_VERSION"), revision: None, architecture: "amd64" };
    assert_eq!(file, format!("target/image/{}", Image::CONTROLLER.file_name(release)));
}

fn the_deployment_is_there() {
    let pod = ["get", "deployment/frameworkcontroller", "--namespace=frameworkcontroller", "--output=yaml"];
    let pod = cluster::kubectl(&pod);
    assert!(pod.contains("image: registry.example.com/frameworkcontroller:0.1"), "{pod}");
    let get = ["get", "deployment/frameworkcontroller", "--namespace=frameworkcontroller", "--output=name"];
    assert_eq!(cluster::kubectl(&get), "deployment.apps/frameworkcontroller\n");
}

#[test]
fn the_framework_of_the_readme_is_one() {
    let hello: Value = serde_saphyr::from_str(blocks("yaml")[1]).expect("YAML");
    let hello: Framework = serde_json::from_value(hello).expect("a Framework");
    assert_eq!(hello.spec.task_number(), 2);
}

/// The documents, from the root.
fn documents() -> Vec<PathBuf> {
    let mut documents = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(Path::new(ROOT).join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if Path::new(ROOT).join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    documents
}

#[test]
fn every_link_leads_somewhere() {
    let (mut dead, mut seen) = (BTreeSet::new(), 0);
    for document in documents() {
        let text = read(document.to_str().expect("a path in UTF-8"));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap_or_default();
            seen += 1;
            if !Path::new(ROOT).join(&document).with_file_name(file).exists() {
                dead.insert(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(seen > 10, "{seen} links");
    assert!(dead.is_empty(), "{dead:#?}");
}
