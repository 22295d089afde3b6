//! `simulate`: the life of a Framework without a cluster, decided by the controller's own core.
//!
//! Each Pod starts one second after its creation. It succeeds 60 seconds later, or fails 30 seconds later, as
//! the options say. Everything else happens at once.

mod fate;
mod tale;
mod world;

use framework_api::{Framework, FrameworkStatus, State};
use serde::Serialize;

use self::fate::Fates;
use self::tale::Event;
use self::world::{Stop, World};
use crate::args::Simulate;
use crate::duration::seconds;
use crate::error::Error;
use crate::output::Style;
use crate::table::Table;
use crate::visible::visible;

/// Lines after which a life counts as endless.
const MOST_EVENTS: usize = 300;

/// The life of a Framework.
#[derive(Clone, Debug, Serialize)]
struct Life {
    events: Vec<Event>,
    result: Outcome,
}

/// How it ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phrase: Option<String>,
    after_sec: i64,
    /// Attempts of the Framework.
    attempts: i32,
    /// Pods that were created.
    pods: usize,
    /// Why it was not followed to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<String>,
}

/// The text that `simulate` prints. Fails if the file holds no valid Framework, or if an option names a Task
/// that the Framework does not have.
pub fn run(asked: &Simulate, style: Style) -> Result<String, Error> {
    let failed = |problem: String| Error::Manifest { file: asked.file.clone(), problem };
    let text = match asked.file.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()),
        file => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| failed(error.to_string()))?;
    let framework = manifest(&text).map_err(failed)?;
    let fates = Fates::new(&framework.spec, &asked.fail, &asked.run).map_err(failed)?;
    let life = live(framework, fates);
    style.show(&life, || render(&life, style))
}

/// The first Framework of a file.
fn manifest(text: &str) -> Result<Framework, String> {
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut documents = documents.into_iter();
    let framework = documents.find(|document| document["kind"] == framework_api::name::KIND);
    let framework = framework.ok_or("it has no object of kind Framework")?;
    serde_path_to_error::deserialize(framework).map_err(|error| error.to_string())
}

fn live(framework: Framework, fates: Fates) -> Life {
    let spec = framework.spec.clone();
    let mut world = World::new(framework, fates);
    let mut events: Vec<Event> = Vec::new();
    let stop = world.live(|before, after, at| {
        events.extend(tale::events(&spec, before, after, at));
        events.len() < MOST_EVENTS
    });
    let status = world.status();
    let is_over = |status: &&FrameworkStatus| status.state == State::Completed;
    let end = status.filter(is_over).and_then(|status| status.attempt_status.completion_status.as_deref());
    let open = match stop {
        Stop::Completed => None,
        Stop::Waits => {
            Some("nothing more happens: see what it awaits by its executionType and Tasks".to_owned())
        }
        Stop::Endless => Some(format!("it is not followed beyond {MOST_EVENTS} events")),
    };
    let result = Outcome {
        state: status.map(|status| status.state),
        code: end.map(|end| end.code),
        phrase: end.map(|end| end.phrase.clone()),
        after_sec: world.age(),
        attempts: status.map_or(0, |status| status.attempt_status.id + 1),
        pods: world.created(),
        open,
    };
    Life { events, result }
}

fn render(life: &Life, style: Style) -> String {
    let mut table = Table::new(&["AFTER", "EVENT", "RULE"]);
    for Event { after_sec, what, rule } in &life.events {
        table.row(vec![seconds(*after_sec), what.clone(), rule.clone().unwrap_or_default()]);
    }
    let Outcome { state, code, phrase, after_sec, attempts, pods, open } = &life.result;
    let state = state.map_or("New".to_owned(), |state| format!("{state:?}"));
    let end =
        phrase.iter().zip(code).map(|(phrase, code)| format!(" as {phrase} {code}")).collect::<String>();
    let open = open.iter().map(|open| format!("; {open}")).collect::<String>();
    let after = seconds(*after_sec);
    let attempts = if *attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") };
    let pods = if *pods == 1 { "1 Pod".to_owned() } else { format!("{pods} Pods") };
    let sum = format!("{state}{end} after {after}: {attempts} of the Framework, {pods}{open}");
    format!("{}\n{} {}\n", style.table(&table), style.heading("Result:"), visible(&sum))
}

#[cfg(test)]
mod tests;
