//! The examples of a checkout of the original: every manifest below `example/framework/`, as it is written.
//!
//! A page of Markdown counts as well: its YAML blocks are manifests, its JSON blocks are patches that it has
//! readers apply in turn. Comments that show `kubectl` commands are prerequisites.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use framework_api::{Framework, FrameworkSpec};
use serde_json::Value;

/// The directory of the examples within a checkout.
const EXAMPLES: &str = "example/framework";

/// One example.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Example {
    /// The name of its Framework.
    pub(crate) name: String,
    pub(crate) spec: FrameworkSpec,
    /// The manifest of its Framework.
    pub(crate) manifest: String,
    /// The manifests that it has beside it.
    pub(crate) others: Vec<String>,
    /// The commands that its comments show, each as the arguments of kubectl.
    pub(crate) commands: Vec<Vec<String>>,
    /// The JSON patches of the Framework, in order.
    pub(crate) patches: Vec<String>,
}

/// Reads all examples of a checkout, in the order of their paths.
pub(crate) fn read(checkout: &Path) -> Result<Vec<Example>> {
    let mut files = Vec::new();
    find(&checkout.join(EXAMPLES), &mut files)?;
    files.sort();
    let mut examples = Vec::new();
    for file in files {
        let reading = || format!("reading {}", file.display());
        let text = fs::read_to_string(&file).with_context(reading)?;
        let is_page = file.extension().is_some_and(|extension| extension == "md");
        let example = if is_page { of_page(&text) } else { of_manifest(&text) };
        examples.extend(example.with_context(reading)?);
    }
    ensure!(!examples.is_empty(), "no example below {}", checkout.join(EXAMPLES).display());
    Ok(examples)
}

fn find(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// The example of a file of manifests.
pub(crate) fn of_manifest(text: &str) -> Result<Option<Example>> {
    of_documents(documents(text), text, Vec::new())
}

/// The example of a page; an object with a status is a result and no manifest.
pub(crate) fn of_page(text: &str) -> Result<Option<Example>> {
    let manifests = blocks(text, "yaml").filter(|block| !block.contains("\nstatus:"));
    let documents = manifests.flat_map(|block| documents(&block)).collect();
    of_documents(documents, text, blocks(text, "json").collect())
}

fn of_documents(documents: Vec<String>, text: &str, patches: Vec<String>) -> Result<Option<Example>> {
    let (mut frameworks, mut others) = (Vec::new(), Vec::new());
    for document in documents {
        let object: Value = serde_saphyr::from_str(&document)?;
        match object["kind"].as_str() {
            Some("Framework") => frameworks.push((serde_json::from_value::<Framework>(object)?, document)),
            Some(_) => others.push(document),
            None => {}
        }
    }
    ensure!(frameworks.len() < 2, "several Frameworks in one file");
    Ok(frameworks.pop().map(|(framework, manifest)| Example {
        name: framework.metadata.name.unwrap_or_default(),
        spec: framework.spec,
        manifest,
        others,
        commands: commands(text),
        patches,
    }))
}

fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match documents.last_mut() {
            Some(document) if line != "---" => {
                document.push_str(line);
                document.push('\n');
            }
            _ => documents.push(String::new()),
        }
    }
    documents
}

/// The blocks of a page in this language.
fn blocks(text: &str, language: &str) -> impl Iterator<Item = String> {
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.map(|block| format!("{block}\n")).collect::<Vec<_>>().into_iter()
}

/// The kubectl commands in the comments of a file; a backslash continues a line.
fn commands(text: &str) -> Vec<Vec<String>> {
    let comments = text.lines().map(|line| line.trim_start()).filter_map(|line| line.strip_prefix('#'));
    let joined = comments.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let commands = joined.lines().filter_map(|line| line.trim_start().strip_prefix("kubectl "));
    commands.map(|command| command.split_whitespace().map(str::to_owned).collect()).collect()
}
