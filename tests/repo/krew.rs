//! The krew manifest of the plugin agrees with its crate, and has the fields that krew requires.

use std::collections::BTreeSet;

use serde_json::Value;

const MANIFEST: &str = include_str!("../../deploy/krew/framework.yaml");

/// The platforms that have an archive.
const PLATFORMS: [(&str, &str); 4] =
    [("linux", "amd64"), ("linux", "arm64"), ("darwin", "amd64"), ("darwin", "arm64")];

/// The faults of a manifest.
fn faults(manifest: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |is: bool, what: &str| faults.extend((!is).then(|| what.to_owned()));
    expect(manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion");
    expect(manifest["kind"] == "Plugin" && manifest["metadata"]["name"] == "framework", "kind and name");
    let spec = &manifest["spec"];
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    expect(spec["version"] == *version, "version");
    expect(spec["homepage"].is_string() && spec["description"].is_string(), "homepage and description");
    let short = spec["shortDescription"].as_str().unwrap_or_default();
    // A line of `kubectl krew search` has room for so much.
    expect((1..=50).contains(&short.len()) && !short.ends_with('.'), "shortDescription");
    let mut platforms = BTreeSet::new();
    for platform in spec["platforms"].as_array().into_iter().flatten() {
        let label = |name: &str| platform["selector"]["matchLabels"][name].as_str().unwrap_or_default();
        let (os, arch) = (label("os"), label("arch"));
        platforms.insert((os, arch));
        let archive = format!("/{version}/kubectl-framework-{os}-{arch}.tar.gz");
        let uri = platform["uri"].as_str().unwrap_or_default();
        expect(uri.starts_with("https://") && uri.ends_with(&archive), "uri");
        let digest = platform["sha256"].as_str().unwrap_or_default();
        expect(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "sha256");
        expect(platform["bin"] == "kubectl-framework", "bin");
        let files = platform["files"].as_array().into_iter().flatten();
        let files: Vec<&str> = files.filter_map(|file| file["from"].as_str()).collect();
        expect(files == ["kubectl-framework", "LICENSE"], "files");
    }
    expect(platforms == BTreeSet::from(PLATFORMS), "platforms");
    faults
}

fn manifest() -> Value {
    serde_saphyr::from_str(MANIFEST).expect("it is YAML")
}

#[test]
fn the_krew_manifest_names_each_archive_of_this_version() {
    assert_eq!(faults(&manifest()), [""; 0]);
    let cargo = include_str!("../../crates/cli/Cargo.toml");
    assert!(cargo.contains("name = \"kubectl-framework\"") && cargo.contains("version.workspace = true"));
}

#[test]
fn a_krew_manifest_of_another_version_or_without_a_digest_is_noticed() {
    let mut other = manifest();
    other["spec"]["version"] = "v9.9.9".into();
    other["spec"]["platforms"][2]["sha256"] = "?".into();
    other["spec"]["platforms"][3]["selector"]["matchLabels"]["arch"] = "s390x".into();
    assert_eq!(faults(&other), ["version", "sha256", "uri", "platforms"]);
}
