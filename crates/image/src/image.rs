//! The promises of an image, and its description in the terms of OCI.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::archive::Archive;
use crate::layer::{Entry, Layer};
use crate::release::Release;

/// The user and the group of every image, as the Deployment has them. They need no right on any file.
pub const USER: &str = "65532:65532";

/// An image of one program.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// The name of the program, of its file in the root directory, and of the image.
    pub name: &'static str,
    /// The package of the program.
    pub package: &'static str,
    /// Its purpose, in a sentence.
    pub description: &'static str,
    /// The TCP ports that it listens on.
    pub ports: &'static [u16],
    /// Its working directory.
    pub working_dir: &'static str,
}

impl Image {
    /// The controller.
    pub const CONTROLLER: Image = Image {
        name: "frameworkcontroller",
        package: "frameworkcontroller",
        description: "A Kubernetes controller that runs batch and AI jobs",
        ports: &[8080, 8081],
        working_dir: "/",
    };

    /// The init container that waits for the IPs of all Tasks.
    pub const BARRIER: Image = Image {
        name: "frameworkbarrier",
        package: "framework-barrier",
        description: "An init container that waits until every Task of its Framework has an IP",
        ports: &[],
        // The Pod mounts a volume here. The program writes into its working directory and into this one; as
        // they are the same, it writes once.
        working_dir: "/mnt/frameworkbarrier",
    };

    /// Every image.
    pub const ALL: [Image; 2] = [Image::CONTROLLER, Image::BARRIER];

    /// The architecture of a target of rustc, in the words of OCI; `None`: the images are for another one, or
    /// for no Linux.
    pub fn architecture(target: &str) -> Option<&'static str> {
        let machine = ["-linux-gnu", "-linux-musl"].iter().find_map(|end| target.strip_suffix(end))?;
        match machine.split('-').next()? {
            "x86_64" => Some("amd64"),
            "aarch64" => Some("arm64"),
            _ => None,
        }
    }

    /// The labels of the image, which are also annotations of its manifest.
    pub fn labels(&self, release: Release<'_>) -> BTreeMap<&'static str, String> {
        let mut labels = BTreeMap::from([
            ("org.opencontainers.image.title", self.name.to_owned()),
            ("org.opencontainers.image.description", self.description.to_owned()),
            ("org.opencontainers.image.version", release.version.to_owned()),
            ("org.opencontainers.image.licenses", "MIT".to_owned()),
        ]);
        let revision = release.revision.map(str::to_owned);
        labels.extend(revision.map(|revision| ("org.opencontainers.image.revision", revision)));
        labels
    }

    /// The name of the file of the image.
    pub fn file_name(&self, release: Release<'_>) -> String {
        format!("{}-{}-{}.tar", self.name, release.version, release.architecture)
    }

    /// Writes the image of a static program. The files of `base` make the first layer, which rarely changes.
    pub fn write(&self, release: Release<'_>, program: &Path, base: &Path, out: &Path) -> io::Result<()> {
        let mut own: Vec<Entry> = directories(self.working_dir);
        own.push(Entry::program(self.name, std::fs::read(program)?));
        let layers = [Layer::of(&Entry::all_of(base)?)?, Layer::of(&own)?];
        let mut archive = Archive::new(File::create(out)?);
        for layer in &layers {
            archive.blob(&layer.blob)?;
        }
        let config = self.config(release, &layers);
        let labels = self.labels(release);
        archive.finish(
            &config,
            &layers,
            release,
            &json!(labels),
            &format!("{}:{}", self.name, release.version),
        )
    }

    fn config(&self, release: Release<'_>, layers: &[Layer]) -> Value {
        let ports: BTreeMap<String, Value> =
            self.ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
        let differences: Vec<&str> = layers.iter().map(|layer| layer.difference.as_str()).collect();
        let mut config = json!({
            "architecture": release.architecture,
            "os": "linux",
            "config": {
                "User": USER,
                "Entrypoint": [format!("/{}", self.name)],
                "WorkingDir": self.working_dir,
                "Labels": self.labels(release),
            },
            "rootfs": {"type": "layers", "diff_ids": differences},
            "history": [{"created_by": "files that rarely change"}, {"created_by": "the program"}],
        });
        if !ports.is_empty() {
            config["config"]["ExposedPorts"] = json!(ports);
        }
        config
    }
}

/// The directories on the way to an absolute path, outermost first.
fn directories(path: &str) -> Vec<Entry> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    (1..=parts.len()).map(|depth| Entry::directory(&parts[..depth].join("/"))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use super::*;

    const RELEASE: Release<'_> = Release { version: "1.2.3", revision: Some("abc"), architecture: "amd64" };

    #[test]
    fn images_are_for_linux_on_two_architectures() {
        let targets = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu"];
        assert_eq!(targets.map(Image::architecture), [Some("amd64"), Some("arm64")]);
        for other in
            ["aarch64-apple-darwin", "aarch64-linux-android", "riscv64gc-unknown-linux-gnu", "x86_64"]
        {
            assert_eq!(Image::architecture(other), None, "{other}");
        }
    }

    /// Writes an image of a program of this text, in a directory of its own; returns the bytes.
    fn written(image: &Image, text: &str) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let (program, base) = (directory.path().join("program"), directory.path().join("base"));
        std::fs::write(&program, text).unwrap();
        std::fs::create_dir_all(base.join("etc")).unwrap();
        std::fs::write(base.join("etc/passwd"), "nonroot").unwrap();
        let out = directory.path().join("out.tar");
        image.write(RELEASE, &program, &base, &out).unwrap();
        std::fs::read(out).unwrap()
    }

    fn entries(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let (uid, gid) = (entry.header().uid().unwrap(), entry.header().gid().unwrap());
            assert_eq!((uid, gid, entry.header().mtime().unwrap()), (0, 0, 0), "nothing of this machine");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    #[test]
    fn the_same_program_gives_the_same_bytes() {
        for image in &Image::ALL {
            assert_eq!(written(image, "a program"), written(image, "a program"));
            assert_ne!(written(image, "a program"), written(image, "another one"));
        }
    }

    #[test]
    fn a_layer_has_the_files_and_the_directories_on_the_way_to_them() {
        let archive = entries(&written(&Image::BARRIER, "a program"));
        let docker: Value = serde_json::from_slice(&archive["manifest.json"]).unwrap();
        let files = |layer: usize| {
            let blob = &archive[docker[0]["Layers"][layer].as_str().unwrap()];
            let mut tar = Vec::new();
            flate2::read::GzDecoder::new(&blob[..]).read_to_end(&mut tar).unwrap();
            entries(&tar)
        };
        assert_eq!(files(0).keys().collect::<Vec<_>>(), ["etc/", "etc/passwd"]);
        let own = files(1);
        assert_eq!(own.keys().collect::<Vec<_>>(), ["frameworkbarrier", "mnt/", "mnt/frameworkbarrier/"]);
        assert_eq!(own["frameworkbarrier"], b"a program");
    }

    #[test]
    fn docker_and_oci_read_the_same_config_and_layers() {
        let archive = entries(&written(&Image::CONTROLLER, "a program"));
        let json = |path: &str| -> Value { serde_json::from_slice(&archive[path]).unwrap() };
        let blob = |descriptor: &Value| descriptor["digest"].as_str().unwrap().replace(':', "/");
        let manifest = json(&format!("blobs/{}", blob(&json("index.json")["manifests"][0])));
        let docker = &json("manifest.json")[0];
        assert_eq!(docker["Config"], format!("blobs/{}", blob(&manifest["config"])));
        for (one, other) in
            manifest["layers"].as_array().unwrap().iter().zip(docker["Layers"].as_array().unwrap())
        {
            assert_eq!(*other, format!("blobs/{}", blob(one)));
        }
        let config = json(docker["Config"].as_str().unwrap());
        assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
        assert_eq!(config["config"]["ExposedPorts"], json!({"8080/tcp": {}, "8081/tcp": {}}));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.revision"], "abc");
        assert_eq!(docker["RepoTags"][0], "frameworkcontroller:1.2.3");
    }
}
