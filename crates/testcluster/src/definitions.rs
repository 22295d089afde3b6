//! CustomResourceDefinitions: installed from their manifests, without kubectl.

use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};

use crate::error::Error;

/// The field manager of the applied fields.
const FIELD_MANAGER: &str = "testcluster";

/// The manifests of a directory, in order of their names; none if there is no such directory.
pub(crate) fn files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io(format!("listing {}", dir.display())))?,
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

/// Applies the CustomResourceDefinition of a file, and returns its name.
pub(crate) async fn apply(client: kube::Client, file: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::io(format!("reading {}", file.display())))?;
    let bad = |problem: String| Error::BadManifest { file: file.to_owned(), problem };
    let definition: serde_json::Value =
        serde_saphyr::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let name = definition["metadata"]["name"].as_str().ok_or_else(|| bad("it has no name".into()))?;
    let api = Api::<CustomResourceDefinition>::all(client);
    // As the file has it: a typed object would drop fields that the types do not know.
    let applied = api.patch(name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(&definition)).await;
    applied.map_err(Error::request(format!("applying {}", file.display())))?;
    Ok(name.to_owned())
}

/// Whether a CustomResourceDefinition is established, so that its objects can be created.
pub(crate) async fn established(client: kube::Client, name: &str) -> Result<(), String> {
    let definition = Api::<CustomResourceDefinition>::all(client).get(name).await;
    let status = definition.map_err(|error| error.to_string())?.status;
    let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
    match conditions.iter().find(|condition| condition.type_ == "Established") {
        Some(condition) if condition.status == "True" => Ok(()),
        Some(condition) => Err(condition.message.clone().unwrap_or_default()),
        None => Err("it has no condition Established".into()),
    }
}
