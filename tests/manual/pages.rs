//! Every page of docs/ is right about its examples: its blocks are run in order, in a namespace of the page's
//! own.
//!
//! A block is one of `yaml`, `json`, `sh` and `text`, which is not looked at:
//! - Objects in YAML are applied, and are there as `{name}.yaml` for the commands of the page. YAML without
//!   `kind` must only be YAML.
//! - A JSON patch is applied to the Framework that was shown last. Other JSON must only be JSON.
//! - Commands are run by `sh -e`, with kubectl and its plugin, as a user of that namespace. They must succeed
//!   within two minutes.
//!
//! Comments on the lines before a block, which readers do not see, state its expected result. A Framework and
//! a patch must have `ends` or `refused`; other blocks may.
//!
//! | comment | means |
//! |---|---|
//! | `<!-- ends: Completed Succeeded -->` | then the Framework gets Completed with this phrase |
//! | `<!-- ends: AttemptRunning 3 -->` | then so many of its Tasks run |
//! | `<!-- ends: AttemptCreationPending -->` | then it is in this state; `Gone`: it does not exist |
//! | `<!-- refused: words -->` | the API server refuses the block, and says these words |
//! | `<!-- pods worker: exit-code=200, run-duration=1s -->` | the fate of a TaskRole's Pods; `pods:` of all |
//! | `<!-- says: words -->` | the commands print these words |
//! | `<!-- framework: name -->` | patch and `ends` are about this one instead of the last shown |
//! | `<!-- tested by: tests/file.rs -->` | that file reads this page, and runs its blocks |
//! | `<!-- tested by: tests/file.rs test_name -->` | it tests the behaviour or the arguments of the block |
//! | `<!-- not run: reason -->` | the block is not run at all |
//!
//! `crates/testcluster/src/lib.rs` lists the keys of `pods`; without it Pods run until they are deleted.

use std::path::Path;
use std::process::Output;

use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use serde_json::Value;

use crate::cluster::{self, block_on, code, completed, frameworks, running, state, wait, with_controller};
use crate::page::{Block, End, blocks};
use crate::shell::{Shell, decide_fates, judge};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// All pages below docs/, by their path from there.
fn pages() -> Vec<(String, String)> {
    let docs = Path::new(ROOT).join("docs");
    let mut folders = vec![docs.clone()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(&docs).expect("it is in docs/").display().to_string();
                pages.push((name, std::fs::read_to_string(&path).expect("it is text")));
            }
        }
    }
    pages.sort();
    pages
}

/// A page that is being run.
struct Run {
    namespace: String,
    shell: Shell,
    /// The Framework that was shown last.
    framework: Option<String>,
}

impl Run {
    fn start(page: &str) -> Run {
        let namespace: String = page.trim_end_matches(".md").replace(['/', '_', '.'], "-");
        let namespace = cluster::namespace(&namespace);
        let shell = Shell::new(with_controller().kubeconfig_path(), cluster::plugin::search_path());
        let set = format!("kubectl config set-context --current --namespace={namespace}");
        let output = shell.run(&set, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Run { namespace, shell, framework: None }
    }

    fn block(&mut self, block: &Block) {
        if block.spared().is_some() {
            return;
        }
        let output = match block.language.as_str() {
            "yaml" => self.apply(block),
            "json" => self.patch(block),
            "sh" => Some(self.shell.run(&block.text, "")),
            _ => None,
        };
        if let Some(output) = output {
            judge(block, &output);
        }
        if let Some(end) = block.end() {
            let name = block.framework().map(str::to_owned).or_else(|| self.framework.clone());
            self.comes_to(&name.expect("a Framework was shown"), end);
        }
    }

    /// Applies the objects of a block, each Pod with the fate that the notes say.
    fn apply(&mut self, block: &Block) -> Option<Output> {
        let documents = block.documents().expect("it was read before");
        let objects: Vec<Value> =
            documents.into_iter().filter(|document| document["kind"].is_string()).collect();
        if objects.is_empty() {
            return None;
        }
        let mut text = String::new();
        for mut object in objects {
            let name = object["metadata"]["name"].as_str().expect("an object has a name").to_owned();
            if object["kind"] == "Framework" {
                decide_fates(&mut object, &block.notes);
                self.framework = Some(name.clone());
            }
            let object = object.to_string();
            self.shell.write(&format!("{name}.yaml"), &object);
            text.push_str(&format!("{object}\n---\n"));
        }
        Some(self.shell.run("kubectl apply -f -", &text))
    }

    fn patch(&self, block: &Block) -> Option<Output> {
        block.patch().expect("it was read before")?;
        let name = block.framework().or(self.framework.as_deref()).expect("a Framework was shown");
        self.shell.write("patch.json", &block.text);
        Some(self.shell.run(&format!("kubectl patch fw {name} --type=json --patch-file=patch.json"), ""))
    }

    fn comes_to(&self, name: &str, end: &End) {
        let namespace = &self.namespace;
        match end {
            End::Completed(phrase) => assert_eq!(code(&completed(namespace, name)).1, *phrase, "{name}"),
            End::Running(tasks) => drop(running(namespace, name, *tasks)),
            End::State(expected) => {
                let what = format!("{expected:?}");
                drop(wait(namespace, name, &what, |framework| state(framework) == Some(*expected)));
            }
            End::Gone => self.goes(name),
        }
    }

    fn goes(&self, name: &str) {
        let api = frameworks(&self.namespace);
        let Some(there) = block_on(api.get_opt(name)).expect("an answer") else { return };
        let gone = await_condition(api, name, is_deleted(there.metadata.uid.as_deref().expect("a uid")));
        let gone = block_on(async { tokio::time::timeout(cluster::PATIENCE, gone).await });
        gone.expect("it goes in time").expect("it is watched");
    }
}

#[test]
fn every_page_does_what_it_shows() {
    with_controller();
    let pages = pages();
    let failed: Vec<&str> = std::thread::scope(|scope| {
        let run = |(name, text): &(String, String)| {
            let blocks = blocks(text).unwrap_or_else(|error| panic!("docs/{name}:{error}"));
            if blocks.iter().all(|block| block.spared().is_some()) {
                return;
            }
            let mut run = Run::start(name);
            for block in &blocks {
                println!("docs/{name}:{}", block.line);
                run.block(block);
            }
        };
        let started: Vec<_> = pages.iter().map(|page| (page, scope.spawn(move || run(page)))).collect();
        let ended = started.into_iter().filter_map(|((name, _), page)| page.join().err().map(|_| &**name));
        ended.collect()
    });
    assert!(pages.len() > 10, "the pages were not found");
    assert!(failed.is_empty(), "not all goes as these pages say: {failed:?}");
}

const HELLO: &str =
    "```yaml\nkind: Framework\nmetadata: {name: hello}\nspec:\n  taskRoles:\n  - name: worker\n```\n";

/// The fault of a page.
fn problem(page: &str) -> String {
    blocks(page).expect_err(page)
}

#[test]
fn a_framework_or_patch_that_claims_nothing_is_noticed() {
    let patch = "```json\n[{\"op\": \"remove\", \"path\": \"/spec/taskRoles/1\"}]\n```\n";
    assert!(problem(HELLO).starts_with("1: what does this Framework come to?"));
    assert!(problem(patch).starts_with("1: what does this patch lead to?"));
    for claim in ["ends: Gone", "refused: no", "not run: for a reason", "tested by: tests/repo/tidy.rs"] {
        assert!(blocks(&format!("<!-- {claim} -->\n\n{HELLO}<!-- {claim} -->\n{patch}")).is_ok(), "{claim}");
    }
    let far = format!("<!-- ends: Gone -->\nwords in between\n{HELLO}");
    assert!(problem(&far).starts_with("3: "), "a note belongs to the next block");
}

#[test]
fn a_note_that_says_nothing_is_noticed() {
    for (note, expected) in [
        ("end: Gone", "1: there is no note \"end\""),
        ("ends: Completed", "1: Completed needs its phrase"),
        ("ends: AttemptRunning all", "1: \"all\" is no number of Tasks"),
        ("ends: Finished", "1: \"Finished\" is no state"),
        ("ends: AttemptDeleting soon", "1: \"AttemptDeleting soon\" is more than a state"),
        ("pods worker: fails", "1: \"fails\" is not key=value"),
        ("pods master: exit-code=1", "3: Pods"),
        ("says: hello", "3: only commands say something"),
    ] {
        let page = format!("<!-- {note} -->\n<!-- ends: Gone -->\n{HELLO}");
        assert!(problem(&page).starts_with(expected), "{note}: {}", problem(&page));
    }
    assert!(problem("```shell\nls\n```\n").starts_with("1: a block of \"shell\""));
}

#[test]
fn a_block_is_read_without_the_indentation_of_its_fence() {
    let page = "- a list\n  <!-- says: x -->\n  ```sh\n  kubectl get fw \\\n    -o yaml\n  ```\n";
    let blocks = blocks(page).expect("a good page");
    assert_eq!(blocks[0].text, "kubectl get fw \\\n  -o yaml\n");
    assert_eq!((blocks[0].line, blocks[0].says().collect::<Vec<_>>()), (3, vec!["x"]));
}
