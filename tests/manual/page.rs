//! A page of the documents as a test reads it: its fenced blocks, and the notes that state the expected
//! result of each.
//!
//! `tests/manual/pages.rs` describes the notes.

use framework_api::State;
use serde_json::Value;

/// A fenced block of a page.
#[derive(Debug)]
pub struct Block {
    /// The line of its opening fence.
    pub line: usize,
    /// The word after the fence.
    pub language: String,
    /// The text of the block, without the indentation of its fence.
    pub text: String,
    /// The comments right before it.
    pub notes: Vec<Note>,
}

/// A statement about a block, in a comment before it.
#[derive(Debug, PartialEq)]
pub enum Note {
    /// `ends: State [phrase or count]`
    Ends(End),
    /// `refused: words`
    Refused(String),
    /// `says: words`
    Says(String),
    /// `not run: reason`
    NotRun(String),
    /// `tested by: file [test]`
    TestedBy {
        /// A file with tests.
        file: String,
        /// The test of the behaviour that the block shows, or of the arguments of its command. It need not
        /// run the block itself. None if the file reads the page and runs its blocks.
        test: Option<String>,
    },
    /// `framework: name`
    Framework(String),
    /// `pods: key=value, …` or `pods role: key=value, …`
    Pods {
        /// The TaskRole; none: all of them.
        role: Option<String>,
        /// The fate of its Pods: annotations of the test cluster, without their prefix.
        fate: Vec<(String, String)>,
    },
}

/// The state that a Framework must reach.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It is Completed with this phrase.
    Completed(String),
    /// So many of its Tasks run.
    Running(i32),
    /// It is in this state.
    State(State),
    /// It exists no more.
    Gone,
}

/// The languages that a block may have.
const LANGUAGES: [&str; 4] = ["yaml", "json", "sh", "text"];

/// The blocks of a page, or the fault in its notes: `line: problem`.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut notes = Vec::new();
    let mut lines = page.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((line, text)) = lines.next() {
        let indentation = text.len() - text.trim_start().len();
        let trimmed = text.trim();
        if let Some(comment) = trimmed.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
            notes.push((line, comment.trim()));
        } else if let Some(language) = trimmed.strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, text)| text).take_while(|text| text.trim() != "```");
            let inside = inside.map(|text| text.get(indentation..).unwrap_or_default().to_owned() + "\n");
            let text = inside.collect();
            let read = |(line, text): (usize, &str)| note(text).map_err(|error| format!("{line}: {error}"));
            let notes = notes.drain(..).map(read).collect::<Result<_, _>>()?;
            let block = Block { line, language: language.to_owned(), text, notes };
            block.check().map_err(|error| format!("{line}: {error}"))?;
            blocks.push(block);
        } else if !trimmed.is_empty() {
            notes.clear();
        }
    }
    Ok(blocks)
}

fn note(text: &str) -> Result<Note, String> {
    let (key, value) = text.split_once(':').ok_or_else(|| format!("{text:?} is no note"))?;
    let value = value.trim().to_owned();
    Ok(match key {
        "ends" => Note::Ends(end(&value)?),
        "refused" => Note::Refused(value),
        "says" => Note::Says(value),
        "not run" => Note::NotRun(value),
        "tested by" => {
            let (file, test) =
                value.split_once(' ').map_or((&*value, None), |(file, test)| (file, Some(test)));
            Note::TestedBy { file: file.to_owned(), test: test.map(str::to_owned) }
        }
        "framework" => Note::Framework(value),
        "pods" => Note::Pods { role: None, fate: fate(&value)? },
        other => match other.strip_prefix("pods ") {
            Some(role) => Note::Pods { role: Some(role.to_owned()), fate: fate(&value)? },
            None => return Err(format!("there is no note {other:?}")),
        },
    })
}

fn end(text: &str) -> Result<End, String> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("Completed", phrase) if !phrase.is_empty() => Ok(End::Completed(phrase.to_owned())),
        ("AttemptRunning", count) if !count.is_empty() => {
            count.parse().map(End::Running).map_err(|_| format!("{count:?} is no number of Tasks"))
        }
        ("Gone", "") => Ok(End::Gone),
        ("Completed" | "AttemptRunning", _) => Err(format!("{text} needs its phrase or number of Tasks")),
        (state, "") => {
            let state = serde_json::from_value(Value::String(state.to_owned()));
            state.map(End::State).map_err(|_| format!("{text:?} is no state"))
        }
        _ => Err(format!("{text:?} is more than a state")),
    }
}

fn fate(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| {
        let (key, value) = part.trim().split_once('=').ok_or_else(|| format!("{part:?} is not key=value"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    text.split(',').map(pair).collect()
}

impl Block {
    /// Why it is not run, if it is not.
    pub fn spared(&self) -> Option<&Note> {
        self.notes.iter().find(|note| matches!(note, Note::NotRun(_) | Note::TestedBy { .. }))
    }

    /// The state that its Framework must reach.
    pub fn end(&self) -> Option<&End> {
        self.notes.iter().find_map(|note| if let Note::Ends(end) = note { Some(end) } else { None })
    }

    /// The words with which the API server must refuse it.
    pub fn refused(&self) -> Option<&str> {
        self.notes.iter().find_map(|note| if let Note::Refused(words) = note { Some(&**words) } else { None })
    }

    /// The Framework that it is about, if that is not the last one that the page shows.
    pub fn framework(&self) -> Option<&str> {
        self.notes.iter().find_map(|note| if let Note::Framework(name) = note { Some(&**name) } else { None })
    }

    /// The words that its commands must print.
    pub fn says(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().filter_map(|note| if let Note::Says(words) = note { Some(&**words) } else { None })
    }

    /// The YAML documents in it.
    pub fn documents(&self) -> Result<Vec<Value>, String> {
        let document = |text: &str| {
            serde_saphyr::from_str::<Value>(text).map_err(|error| format!("this is no YAML: {error}"))
        };
        self.text.split("---\n").filter(|text| !text.trim().is_empty()).map(document).collect()
    }

    /// The operations of the JSON patch that it is, if it is one.
    pub fn patch(&self) -> Result<Option<Value>, String> {
        if self.language != "json" {
            return Ok(None);
        }
        let json: Value =
            serde_json::from_str(&self.text).map_err(|error| format!("this is no JSON: {error}"))?;
        let is_patch = json.as_array().is_some_and(|list| list.iter().all(|entry| entry.get("op").is_some()));
        Ok(is_patch.then_some(json))
    }

    /// Finds the faults that a test would otherwise find late, or never.
    fn check(&self) -> Result<(), String> {
        if !LANGUAGES.contains(&self.language.as_str()) {
            return Err(format!("a block of {:?}; there are only {}", self.language, LANGUAGES.join(", ")));
        }
        if self.language != "sh" && self.says().next().is_some() {
            return Err("only commands say something".to_owned());
        }
        if self.spared().is_some() {
            return Ok(());
        }
        let documents = if self.language == "yaml" { self.documents()? } else { Vec::new() };
        let framework = documents.iter().find(|document| document["kind"] == "Framework");
        let claims = self.end().is_some() || self.refused().is_some();
        if framework.is_some() && !claims {
            return Err("what does this Framework come to? say it by a note `ends: …`".to_owned());
        }
        if self.patch()?.is_some() && !claims {
            return Err("what does this patch lead to? say it by a note `ends: …`".to_owned());
        }
        for note in &self.notes {
            let Note::Pods { role, .. } = note else { continue };
            let roles = framework.and_then(|framework| framework["spec"]["taskRoles"].as_array());
            let known = |role: &String| roles.into_iter().flatten().any(|known| known["name"] == **role);
            if roles.is_none() || role.as_ref().is_some_and(|role| !known(role)) {
                return Err(format!("{note:?} names no TaskRole of a Framework here"));
            }
        }
        Ok(())
    }
}
