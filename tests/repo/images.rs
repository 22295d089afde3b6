//! Both ways to an image promise the same: `cargo xtask image`, by the crate that writes it, and Docker, by
//! the Dockerfiles. The Deployment relies on these promises.

use std::collections::BTreeMap;

use framework_image::{Image, Release, USER};
use serde_json::{Value, json};

use crate::source;

fn dockerfile(image: &Image) -> String {
    let name = if *image == Image::CONTROLLER { "Dockerfile" } else { "Dockerfile.barrier" };
    std::fs::read_to_string(source::root().join("deploy").join(name)).expect("there is a Dockerfile")
}

/// The last stage of a Dockerfile: its instructions, each with its argument.
fn promises(dockerfile: &str) -> Vec<(&str, &str)> {
    let (_, last) = dockerfile.rsplit_once("\nFROM ").expect("it has stages");
    let instructions = last.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with('#'));
    instructions.map(|line| line.split_once(' ').expect("an instruction and its argument")).collect()
}

/// The values that the last stage gives to an instruction, with its arguments replaced.
fn said(dockerfile: &str, instruction: &str) -> Vec<String> {
    let filled =
        |text: &str| text.replace("${VERSION}", env!("CARGO_PKG_VERSION")).replace("${REVISION}", "abc");
    let promises = promises(dockerfile).into_iter();
    promises.filter(|(name, _)| *name == instruction).map(|(_, argument)| filled(argument)).collect()
}

#[test]
fn a_dockerfile_promises_what_the_image_without_docker_has() {
    let release =
        Release { version: env!("CARGO_PKG_VERSION"), revision: Some("abc"), architecture: "amd64" };
    for image in &Image::ALL {
        let file = dockerfile(image);
        assert_eq!(said(&file, "USER"), [USER]);
        assert_eq!(said(&file, "ENTRYPOINT"), [json!([format!("/{}", image.name)]).to_string()]);
        assert_eq!(said(&file, "WORKDIR"), [image.working_dir]);
        let ports: Vec<String> = image.ports.iter().map(u16::to_string).collect();
        assert_eq!(said(&file, "EXPOSE").concat(), ports.join(" "));
        let version = format!("VERSION={}", env!("CARGO_PKG_VERSION"));
        assert_eq!(said(&file, "ARG"), [version, "REVISION".to_owned()]);
        let labels: BTreeMap<String, String> = said(&file, "LABEL")
            .iter()
            .map(|label| label.split_once('=').expect("a key and a value"))
            .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
            .collect();
        let expected = image.labels(release).into_iter().map(|(key, value)| (key.to_owned(), value));
        assert_eq!(labels, expected.collect());
        let copied = format!("--from=build /{0} /{0}", image.name);
        assert_eq!(said(&file, "COPY"), ["deploy/image /", &*copied]);
        assert!(file.contains(&format!("--locked --package {} &&", image.package)), "{}", image.name);
    }
}

#[test]
fn a_dockerfile_compiles_with_the_rust_of_the_workspace() {
    for image in &Image::ALL {
        let from = format!("FROM rust:{}-slim-bookworm AS build\n", env!("CARGO_PKG_RUST_VERSION"));
        assert!(dockerfile(image).contains(&from), "{}: {from}", image.name);
        assert!(dockerfile(image).contains("\nCOPY . .\n"), "the root of the repository is its context");
    }
}

#[test]
fn a_dockerfile_links_glibc_statically() {
    for image in &Image::ALL {
        let file = dockerfile(image);
        let (_, build) = file.split_once("\n    target=").expect("it names its target");
        assert!(
            build.starts_with("\"$(rustc --print host-tuple)\" && RUSTFLAGS=-Ctarget-feature=+crt-static ")
        );
        assert!(build.contains(" --release --target \"$target\" "), "{}", image.name);
        let copied = format!("cp \"target/$target/release/{0}\" /{0}\n", image.name);
        assert!(build.contains(&copied), "{}", image.name);
    }
}

#[test]
fn the_deployment_runs_the_image_as_its_user_and_names_its_ports() {
    let text = include_str!("../../deploy/base/deployment.yaml");
    let deployment: Value = serde_saphyr::from_str(text).expect("YAML");
    let pod = &deployment["spec"]["template"]["spec"];
    let (user, group) = (&pod["securityContext"]["runAsUser"], &pod["securityContext"]["runAsGroup"]);
    assert_eq!(format!("{user}:{group}"), USER);
    let ports = pod["containers"][0]["ports"].as_array().expect("ports");
    let ports: Vec<u64> = ports.iter().filter_map(|port| port["containerPort"].as_u64()).collect();
    assert_eq!(ports, Image::CONTROLLER.ports.iter().map(|port| u64::from(*port)).collect::<Vec<_>>());
    // The image's entry point is the program; the Deployment adds arguments and no command.
    assert!(pod["containers"][0]["command"].is_null());
}

#[test]
fn the_licence_of_the_labels_is_that_of_the_workspace() {
    let release = Release { version: "1", revision: None, architecture: "amd64" };
    let labels = Image::CONTROLLER.labels(release);
    assert_eq!(labels["org.opencontainers.image.licenses"], env!("CARGO_PKG_LICENSE"));
    assert!(!labels.contains_key("org.opencontainers.image.revision"), "an unknown commit is not named");
}
