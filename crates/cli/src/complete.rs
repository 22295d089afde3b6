//! Completions, as kubectl asks a plugin for them. The program `kubectl_complete-framework` gets the words of
//! the line, the last of them unfinished. It prints one candidate a line, then the instruction for the shell.

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use kube::api::ListParams;
use serde_json::Value;

use crate::args::{Args, Global};
use crate::cluster::Cluster;
use crate::find;

/// The name of the program that kubectl runs for completions.
pub const PROGRAM: &str = "kubectl_complete-framework";

/// Instructions for the shell about the candidates, as numbers of cobra, the library of kubectl.
const FILES: &str = ":0";
const NOTHING: &str = ":4";

/// The kind of word that is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Words(Vec<String>),
    Framework,
    File,
}

/// The answer to kubectl. Without an answer of a cluster, there are no names.
pub async fn run(words: &[String]) -> String {
    let last = words.last().map(String::as_str).unwrap_or_default();
    let (mut candidates, directive) = match wanted(words) {
        Wanted::Words(words) => (words, NOTHING),
        Wanted::Framework => (names(words).await, NOTHING),
        Wanted::File => (Vec::new(), FILES),
    };
    candidates.retain(|candidate| candidate.starts_with(last));
    candidates.push(directive.to_owned());
    candidates.join("\n") + "\n"
}

/// The names of the Frameworks in the namespace of the line.
async fn names(words: &[String]) -> Vec<String> {
    // The line is not finished: a missing argument is no error here.
    let line = std::iter::once("kubectl framework").chain(words.iter().map(String::as_str));
    let matches = Args::command().ignore_errors(true).try_get_matches_from(line);
    let global = matches.ok().and_then(|matches| Global::from_arg_matches(&matches).ok()).unwrap_or_default();
    let Ok(cluster) = Cluster::connect(&global).await else { return Vec::new() };
    let name = |object: Value| Some(object.pointer("/metadata/name")?.as_str()?.to_owned());
    let api = find::api(&cluster, false);
    let listed = cluster.each(&api, ListParams::default(), "Frameworks", name).await;
    listed.unwrap_or_default().into_iter().flatten().collect()
}

/// The kind of the last word.
fn wanted(words: &[String]) -> Wanted {
    let root = Args::command();
    let Some((last, done)) = words.split_last() else { return Wanted::Words(verbs(&root)) };
    let mut verb: Option<&Command> = None;
    let mut positions = 0;
    let mut awaits_value: Option<&Arg> = None;
    for word in done {
        if awaits_value.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            awaits_value = option(verb, &root, word).filter(|arg| arg.get_action().takes_values());
        } else if verb.is_none() {
            verb = root.find_subcommand(word);
        } else {
            positions += 1;
        }
    }
    if let Some(arg) = awaits_value {
        return value(arg);
    }
    if last.starts_with('-') {
        return Wanted::Words(options(verb, &root));
    }
    let Some(verb) = verb else { return Wanted::Words(verbs(&root)) };
    let arguments: Vec<&Arg> = verb.get_positionals().collect();
    let takes_many = |arg: &&&Arg| arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let own = arguments.get(positions).or_else(|| arguments.iter().find(takes_many));
    match own.map(|arg| arg.get_id().as_str()) {
        Some("name") => Wanted::Framework,
        Some("file") => Wanted::File,
        _ => Wanted::Words(Vec::new()),
    }
}

fn verbs(root: &Command) -> Vec<String> {
    root.get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
}

/// The options of a verb, and those of all verbs.
fn all<'a>(verb: Option<&'a Command>, root: &'a Command) -> impl Iterator<Item = &'a Arg> {
    let arguments = verb.into_iter().chain([root]).flat_map(Command::get_arguments);
    arguments.filter(|arg| !arg.is_positional())
}

fn options(verb: Option<&Command>, root: &Command) -> Vec<String> {
    all(verb, root).filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
}

/// The option that a word names; `None` if its value is in the same word.
fn option<'a>(verb: Option<&'a Command>, root: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_it = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| word == format!("-{short}")),
    };
    all(verb, root).find(is_it)
}

fn value(arg: &Arg) -> Wanted {
    let values = arg.get_possible_values();
    match arg.get_id().as_str() {
        "kubeconfig" => Wanted::File,
        _ => Wanted::Words(values.iter().map(PossibleValue::get_name).map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> Wanted {
        wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(line: &str) -> Vec<String> {
        match at(line) {
            Wanted::Words(words) => words,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_last_word_is_a_verb_a_name_a_value_an_option_or_a_file() {
        assert!(words("").contains(&"why".to_owned()) && words("-n team w").contains(&"wait".to_owned()));
        for line in ["why ", "-n team why t", "get a b", "wait a ", "scale t"] {
            assert_eq!(at(line), Wanted::Framework, "{line}");
        }
        assert_eq!(words("why a "), [""; 0], "it takes one name");
        assert_eq!(words("get -o ")[..3], ["table", "wide", "json"]);
        assert!(words("wait a --for ").contains(&"released".to_owned()));
        assert!(words("wait a --f").contains(&"--for".to_owned()), "an option of the verb");
        assert!(words("wait a --f").contains(&"--namespace".to_owned()), "an option of all verbs");
        assert!(words("get --a").contains(&"--all-namespaces".to_owned()), "an option without a value");
        assert_eq!(at("get -A x"), Wanted::Framework, "it takes no value");
        assert_eq!((at("simulate x"), at("get --kubeconfig ")), (Wanted::File, Wanted::File));
        assert_eq!(words("get -n "), [""; 0], "namespaces are not looked up");
    }

    #[tokio::test]
    async fn the_answer_ends_with_a_directive() {
        let answer = run(&["wh".to_owned()]).await;
        assert_eq!(answer, "why\n:4\n");
        assert_eq!(run(&["simulate".to_owned(), String::new()]).await, ":0\n");
    }
}
