//! The tar of an image: an OCI image layout, and beside it the index that `docker save` writes, which older
//! versions of `docker load` and crane read.

use std::io::{self, Write};

use serde_json::{Value, json};
use tar::EntryType;

use crate::layer::{Blob, Layer, header};
use crate::release::Release;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A tar that is being written.
pub(crate) struct Archive<W: Write> {
    tar: tar::Builder<W>,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Archive<W> {
        Archive { tar: tar::Builder::new(out) }
    }

    /// Adds content under its digest.
    pub(crate) fn blob(&mut self, blob: &Blob) -> io::Result<()> {
        self.file(&path(blob), &blob.bytes)
    }

    /// Adds config, manifest and indexes, and ends the tar.
    pub(crate) fn finish(
        mut self,
        config: &Value,
        layers: &[Layer],
        release: Release<'_>,
        annotations: &Value,
        reference: &str,
    ) -> io::Result<()> {
        let config = Blob::of(config.to_string().into_bytes());
        let blobs: Vec<&Blob> = layers.iter().map(|layer| &layer.blob).collect();
        let layers = blobs.iter().map(|blob| descriptor("application/vnd.oci.image.layer.v1.tar+gzip", blob));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": layers.collect::<Vec<_>>(),
            "annotations": annotations,
        });
        let manifest = Blob::of(manifest.to_string().into_bytes());
        let mut entry = descriptor(MANIFEST, &manifest);
        entry["platform"] = json!({"architecture": release.architecture, "os": "linux"});
        entry["annotations"] = json!({
            "io.containerd.image.name": reference,
            "org.opencontainers.image.ref.name": release.version,
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [entry],
        });
        let docker = json!([{
            "Config": path(&config),
            "RepoTags": [reference],
            "Layers": blobs.iter().map(|blob| path(blob)).collect::<Vec<_>>(),
        }]);
        self.blob(&config)?;
        self.blob(&manifest)?;
        self.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        self.file("index.json", index.to_string().as_bytes())?;
        self.file("manifest.json", docker.to_string().as_bytes())?;
        self.tar.into_inner()?.flush()
    }

    fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = header(EntryType::Regular, 0o644, bytes);
        self.tar.append_data(&mut header, path, bytes)
    }
}

fn path(blob: &Blob) -> String {
    format!("blobs/sha256/{}", blob.digest)
}

fn descriptor(media_type: &str, blob: &Blob) -> Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{}", blob.digest), "size": blob.bytes.len()})
}
