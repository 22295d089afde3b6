//! The command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use framework_api::name::{GROUP, is_namespace};
use jiff::SignedDuration;

use crate::failure::{Failure, Tasks};

/// The end of the help.
const AFTER_HELP: &str = "NAME is that of a Framework, or fw/NAME. \
                          Exit codes: 0 success, 1 failure, 2 bad argument.";

/// The longest wait: a year. Far more would be beyond the clock.
const LONGEST: Duration = Duration::from_secs(8_760 * 3_600);

/// Shows, explains and changes Frameworks
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl framework", bin_name = "kubectl framework", version)]
#[command(disable_help_subcommand = true, after_help = AFTER_HELP)]
pub struct Args {
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
    /// The options of all verbs.
    #[command(flatten)]
    pub global: Global,
}

impl Args {
    /// Reads a command line. Fails also if it names a TaskRole or Tasks twice where only one could count, and
    /// for a form that its verb does not have.
    pub fn read<Word: Into<OsString> + Clone>(
        line: impl IntoIterator<Item = Word>,
    ) -> Result<Args, clap::Error> {
        let args = Args::try_parse_from(line)?;
        let refuse = |problem: String| Err(Args::command().error(ErrorKind::ArgumentConflict, problem));
        if args.global.output == Form::Name && !matches!(args.command, Command::Get(_)) {
            return refuse("only get has the form name: give -o table, wide, json or yaml".to_owned());
        }
        let Some(name) = args.command.named_twice() else { return Ok(args) };
        refuse(format!("{name:?} is named twice, and only one of the two could count: give it once"))
    }
}

/// The options of all verbs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Global {
    /// The namespace [default: that of the kubeconfig's context]
    #[arg(short, long, global = true, value_name = "NAME", value_parser = namespace)]
    pub namespace: Option<String>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig [default: as kubectl finds it]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The user to act as
    #[arg(long = "as", global = true, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub as_user: Option<String>,
    /// A group to act as a member of; may be given several times
    #[arg(long, global = true, value_name = "GROUP", value_parser = NonEmptyStringValueParser::new())]
    pub as_group: Vec<String>,
    /// How long a request may take, such as 30s, or a number of seconds; 0: without a limit
    #[arg(long, global = true, value_name = "DURATION", default_value = "0", value_parser = request_timeout)]
    pub request_timeout: Duration,
    /// The form of the output: table, wide, json, yaml, or name for get
    #[arg(short, long, global = true, value_enum, value_name = "FORM", default_value_t)]
    #[arg(hide_possible_values = true)]
    pub output: Form,
    /// No titles of tables
    #[arg(long, global = true)]
    pub no_headers: bool,
    /// Colours: always, never, or auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(hide_possible_values = true)]
    pub color: When,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Lines for people.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// The names alone.
    Name,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless the environment variable `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A verb.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List Frameworks, or show some; -o json and -o yaml have a compressed status in plain form
    Get(Get),
    /// Show a Framework with its TaskRoles, Tasks, Pods and QueueUnits
    Tree(One),
    /// Show what Frameworks use, or request where that is not measured, the largest first
    Top(Get),
    /// Say what a Framework awaits, which rule decided, and what is missing in its queue
    Why(One),
    /// Show the times of a Framework and the Events about it, in their order
    History(One),
    /// Change taskNumber of TaskRoles, such as scale train worker=8
    Scale(Scale),
    /// Start a Framework whose executionType is Create
    Start(One),
    /// Stop a Framework: its Pods end, its object stays
    Stop(One),
    /// Wait until Frameworks reach the goal of --for, or fail once they no longer can
    Wait(Wait),
    /// Show the life of a manifest without a cluster, and the rules that decide it
    Simulate(Simulate),
}

impl Command {
    /// The TaskRole, or the Tasks, that two arguments name of which only one could count.
    fn named_twice(&self) -> Option<String> {
        match self {
            Command::Scale(Scale { role, .. }) => twice(role.iter().map(|number| number.role.clone())),
            Command::Simulate(Simulate { fail, run, .. }) => {
                // A failure of the first attempts alone leaves the later ones to the other options.
                let always = fail.iter().filter(|failure| failure.times.is_none());
                let always = always.map(|failure| failure.tasks.to_string());
                let fails = twice(fail.iter().map(|failure| failure.tasks.to_string()));
                fails.or_else(|| twice(run.iter().map(Tasks::to_string).chain(always)))
            }
            _ => None,
        }
    }
}

fn twice(mut names: impl Iterator<Item = String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    names.find(|name| !seen.insert(name.clone()))
}

/// One Framework.
#[derive(Clone, Debug, clap::Args)]
pub struct One {
    /// The Framework
    #[arg(value_parser = framework)]
    pub name: String,
}

/// Frameworks to list.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Get {
    /// Frameworks to show [default: all]
    #[arg(value_parser = framework)]
    pub name: Vec<String>,
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    pub all_namespaces: bool,
    /// Those with these labels, such as team=red
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub selector: Option<String>,
}

/// New numbers of Tasks.
#[derive(Clone, Debug, clap::Args)]
pub struct Scale {
    /// The Framework
    #[arg(value_parser = framework)]
    pub name: String,
    /// A TaskRole and its new taskNumber
    #[arg(required = true, value_name = "ROLE=NUMBER", value_parser = number)]
    pub role: Vec<Number>,
}

/// A new number of Tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The TaskRole.
    pub role: String,
    /// Its Tasks.
    pub tasks: i32,
}

/// A wait.
#[derive(Clone, Debug, clap::Args)]
pub struct Wait {
    /// The Frameworks, which are awaited one after the other
    #[arg(required = true, value_parser = framework)]
    pub name: Vec<String>,
    /// The goal that is awaited
    #[arg(long = "for", value_enum, value_name = "GOAL", default_value_t)]
    pub goal: Goal,
    /// How long to wait for all of them, such as 90s or 2h; 0: only look
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
}

/// The goal of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Completed and succeeded.
    #[default]
    Succeeded,
    /// Completed and failed.
    Failed,
    /// Completed.
    Ended,
    /// A Task runs.
    Running,
    /// Released from its queue.
    Released,
    /// Gone.
    Deleted,
}

impl Goal {
    /// The goal as `--for` names it.
    pub fn option(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The goal in words, after the name of a Framework.
    pub fn words(self) -> &'static str {
        match self {
            Goal::Succeeded => "succeeded",
            Goal::Failed => "failed",
            Goal::Ended => "ended",
            Goal::Running => "is running",
            Goal::Released => "is released from its queue",
            Goal::Deleted => "is deleted",
        }
    }
}

/// A life without a cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Simulate {
    /// A file with a Framework; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Tasks that fail, in each attempt or the first TIMES: worker:3=137, worker=1, worker:0=200x2
    #[arg(long, value_name = "ROLE[:INDEX]=CODE[xTIMES]")]
    pub fail: Vec<Failure>,
    /// Tasks that run until they are deleted, such as ps or worker:0
    #[arg(long, value_name = "ROLE[:INDEX]")]
    pub run: Vec<Tasks>,
}

/// A number as in `worker=8`.
fn number(text: &str) -> Result<Number, String> {
    let wrong = || format!("{text:?} is not ROLE=NUMBER with a number from 0 to 10000");
    let (role, tasks) = text.split_once('=').ok_or_else(wrong)?;
    let tasks = tasks.parse().ok().filter(|tasks| (0..=10_000).contains(tasks)).ok_or_else(wrong)?;
    Ok(Number { role: role.to_owned(), tasks })
}

/// A duration as in `90s`.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let read = text.parse::<SignedDuration>().ok().and_then(|read| Duration::try_from(read).ok());
    read.filter(|read| *read <= LONGEST).ok_or_else(|| {
        format!("{text:?} is not a duration of at most 8760h: give one such as 90s, 5m or 2h30m")
    })
}

/// The same, and a number of seconds, as kubectl reads it.
fn request_timeout(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { duration(&format!("{text}s")) } else { duration(text) }
}

/// The name in `name`, `fw/name` or `framework/name`, also with the group as `kubectl get -o name` prints it.
/// A path with any other one could lead elsewhere.
fn framework(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("fw", text));
    let short = kind.strip_suffix(GROUP).and_then(|rest| rest.strip_suffix('.')).unwrap_or(kind);
    if !matches!(short, "fw" | "framework" | "frameworks") {
        return Err(format!("{kind:?} is not a Framework: give NAME or fw/NAME"));
    }
    let is_subdomain = name.len() <= 253 && name.split('.').all(is_namespace);
    is_subdomain.then(|| name.to_owned()).ok_or_else(|| {
        format!(
            "{name:?} is not the name of an object: give up to 253 lower-case letters and digits, and \
             between them dashes and dots"
        )
    })
}

/// The name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    is_namespace(text).then(|| text.to_owned()).ok_or_else(|| {
        format!(
            "{text:?} is not the name of a namespace: give up to 63 lower-case letters and digits, and \
             between them dashes"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_framework_is_named_as_kubectl_names_it() {
        for text in ["a", "fw/a", "framework/a", "frameworks.frameworkcontroller.microsoft.com/a"] {
            assert_eq!(framework(text), Ok("a".to_owned()), "{text}");
        }
        let by_get_o_name = "framework.frameworkcontroller.microsoft.com/a";
        assert_eq!(framework(by_get_o_name), Ok("a".to_owned()));
        for other in ["pod/a", "framework.example.com/a", "frameworkcontroller.microsoft.com/a"] {
            assert!(framework(other).unwrap_err().contains("not a Framework"), "{other}");
        }
    }

    #[test]
    fn a_name_that_would_lead_to_another_url_is_refused() {
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(61));
        for name in ["a", "7", "a-b.c", &longest] {
            assert_eq!(framework(&format!("fw/{name}")), Ok(name.to_owned()));
        }
        let too_long = format!("{longest}a");
        for name in ["", "a/status", "..", "a?watch=1", "a#", "%61", "A", "a b", "-a", "a.-b", &too_long] {
            let refusal = framework(&format!("fw/{name}")).unwrap_err();
            assert!(refusal.contains("is not the name of an object"), "{refusal}");
        }
        assert_eq!(namespace("team-a"), Ok("team-a".to_owned()));
        for name in ["", "a/b", "..", "a.b", "a?", "A"] {
            assert!(namespace(name).unwrap_err().contains("is not the name of a namespace"), "{name}");
        }
        for line in ["get -n a/b", "stop fw/a/status"] {
            let read = Args::read(["kubectl framework"].into_iter().chain(line.split(' ')));
            assert_eq!(read.unwrap_err().kind(), ErrorKind::ValueValidation, "{line}");
        }
    }

    #[test]
    fn a_task_role_or_task_that_is_named_twice_is_refused() {
        let read = |line: &str| Args::read(["kubectl framework"].into_iter().chain(line.split(' ')));
        for (line, name) in [
            ("scale a w=1 v=1 w=2", "\"w\""),
            ("simulate f --fail w:0=1 --fail w:0=2x1", "\"w:0\""),
            ("simulate f --run w --run w", "\"w\""),
            ("simulate f --fail w:3=1 --run w:3", "\"w:3\""),
        ] {
            let refusal = read(line).unwrap_err();
            assert_eq!(refusal.kind(), ErrorKind::ArgumentConflict, "{line}");
            assert!(refusal.to_string().contains(&format!("{name} is named twice")), "{refusal}");
        }
        for line in [
            "scale a w=1 v=1",
            "simulate f --fail w=1 --fail w:0=2 --fail w:1=2 --run v --run v:1",
            "simulate f --fail w:1=2x1 --run w:1",
        ] {
            assert!(read(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_request_timeout_is_read_as_kubectl_reads_it() {
        for (text, seconds) in [("0", 0), ("7", 7), ("1s", 1), ("2m", 120), ("3h", 10_800)] {
            assert_eq!(request_timeout(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "-1", "soon", "99999999999999999999"] {
            assert!(request_timeout(text).unwrap_err().contains("is not a duration"), "{text}");
        }
    }

    #[test]
    fn only_get_prints_names() {
        let read = |line: &str| Args::read(["kubectl framework"].into_iter().chain(line.split(' ')));
        assert_eq!(read("get -o name").unwrap().global.output, Form::Name);
        for line in ["top -o name", "stop a -o name", "-o name wait a"] {
            assert_eq!(read(line).unwrap_err().kind(), ErrorKind::ArgumentConflict, "{line}");
        }
    }

    #[test]
    fn options_stand_before_or_after_the_verb() {
        for line in ["-n team -o json get fw/a", "get a -n team --output=json"] {
            let args =
                Args::try_parse_from(["kubectl framework"].into_iter().chain(line.split(' '))).unwrap();
            assert_eq!(args.global.namespace.as_deref(), Some("team"));
            assert_eq!(args.global.output, Form::Json);
            assert!(matches!(args.command, Command::Get(Get { name, .. }) if name == ["a"]));
        }
    }

    #[test]
    fn numbers_and_durations_are_read_and_a_wrong_one_names_the_form() {
        assert_eq!(number("worker=8"), Ok(Number { role: "worker".into(), tasks: 8 }));
        for text in ["worker", "worker=", "worker=-1", "worker=10001"] {
            assert!(number(text).unwrap_err().contains("is not ROLE=NUMBER"), "{text}");
        }
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("8760h"), Ok(LONGEST));
        for text in ["90", "-5s", "soon", "8760h 1s", "9223372036854775807s", "99999999999999999999h"] {
            assert!(duration(text).unwrap_err().contains("is not a duration of at most 8760h"), "{text}");
        }
    }

    #[test]
    fn the_help_fits_on_a_screen() {
        for option in ["-h", "--help"] {
            let help = Args::try_parse_from(["kubectl framework", option]).unwrap_err().to_string();
            assert!(help.contains("simulate") && help.lines().count() <= 30, "{help}");
        }
    }
}
