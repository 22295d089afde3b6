//! How the program starts and stops: each problem is one clear line, and a retry or an exit code.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use framework_programs::{Binaries, Program};
use framework_testcluster::running::Running;
use framework_testcluster::{Cluster, Options};

use crate::cluster::lease::Alone;
use crate::cluster::{ROLES, await_our_kinds_by, block_on, installed};
use crate::program;

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks a probe of the program that logged where it listens.
fn probe(program: &mut Running, path: &str) -> String {
    get(program, "serving probes", path, "")
}

/// Reads from the port of metrics, with the token of a user of the shared cluster.
pub fn read(program: &mut Running, path: &str, kubeconfig: &Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("it is written");
    let kubeconfig: serde_json::Value = serde_saphyr::from_str(&text).expect("it is YAML");
    let token = kubeconfig["users"][0]["user"]["token"].as_str().expect("users of the cluster have tokens");
    get(program, "serving metrics", path, &format!("authorization: Bearer {token}\r\n"))
}

fn get(program: &mut Running, logged: &str, path: &str, headers: &str) -> String {
    let line = program.says(logged);
    let address = line.split("address=").nth(1).expect("the line has the address").trim();
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n").expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    reply
}

fn kubeconfig(server: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    std::fs::write(file.path(), text).expect("it is written");
    file
}

#[test]
fn a_bad_config_file_ends_it_with_one_line() {
    let mut program = program::start(Path::new("/nowhere"), "kubeClientQps: 0\n");
    let (code, log) = program.end();
    assert_eq!(code, Some(2));
    let expected = "frameworkcontroller: config file frameworkcontroller.yaml: line 1: kubeClientQps: 0 is not \
                    allowed, give a number above 0 and at most 10000\n";
    assert_eq!(log, expected);
}

/// Starts it with this argument, and an API server that is not there.
fn start_with(argument: &str, file: &tempfile::NamedTempFile) -> Running {
    let dir = tempfile::tempdir().expect("a directory");
    program::start_in(dir, &[argument], &[("KUBECONFIG", file.path().as_os_str())])
}

#[test]
fn a_wrong_log_filter_ends_the_program_with_the_allowed_values() {
    let mut program = start_with("--log-level=verbose", &kubeconfig("http://127.0.0.1:1"));
    let (code, log) = program.end();
    let expected = "frameworkcontroller: --log-level: \"verbose\" is not a log filter; allowed are error, warn, \
                    info, debug, trace, off, or directives such as info,framework_core=debug\n";
    assert_eq!((code, &*log), (Some(2), expected));
}

#[test]
fn a_log_in_json_has_one_object_a_line() {
    let file = kubeconfig("http://127.0.0.1:1");
    let mut program = start_with("--log-format=json", &file);
    program.says("cannot be reached");
    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let started = lines.iter().find(|line| line["message"] == "starting").expect("the first line");
    assert_eq!((&started["level"], started["version"].is_string()), (&"INFO".into(), true), "{started}");
    assert!(started["timestamp"].is_string() && lines.len() > 2, "{log}");
}

#[test]
fn an_unreachable_api_server_is_waited_for_and_a_stop_is_obeyed() {
    let file = kubeconfig("http://127.0.0.1:1");
    let mut program = program::start(file.path(), "");
    let line = program.says("waiting problem=");
    assert!(line.contains("the API server cannot be reached: Connection refused"), "{line}");
    let ready = probe(&mut program, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("cannot be reached"), "{ready}");
    assert!(probe(&mut program, "/livez").starts_with("HTTP/1.1 200"));
    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_missing_definition_ends_it_and_missing_rights_are_awaited() {
    let cluster = Cluster::start(Options::default()).expect("a cluster of its own, with nothing installed");
    a_missing_definition_ends_it_with_the_command_that_installs_it(&cluster);
    kubectl(
        &cluster,
        &["apply", "--server-side", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/crds/")],
    );
    await_our_kinds_by(&block_on(async { cluster.client() }));
    missing_rights_are_named_until_they_are_given(&cluster);
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) {
    let output = cluster.kubectl(arguments).expect("kubectl runs");
    assert!(output.status.success(), "{}", output.stderr);
}

fn a_missing_definition_ends_it_with_the_command_that_installs_it(cluster: &Cluster) {
    let mut program = program::start(cluster.kubeconfig_path(), "crdEstablishedCheckTimeoutSec: 10\n");
    let (code, log) = program.end();
    assert_eq!(code, Some(3), "{log}");
    assert_eq!(log.matches("waiting problem=").count(), 1, "one line, not one each second\n{log}");
    let last = log.lines().last().expect("a line");
    let hint = "install it with: kubectl apply --server-side --force-conflicts -f deploy/crds/";
    assert!(last.ends_with(&format!("is not installed; {hint}")), "{log}");
}

fn missing_rights_are_named_until_they_are_given(cluster: &Cluster) {
    let mut program = program::start(cluster.kubeconfig_for("controller").expect("a user"), "");
    let line = program.says("waiting problem=");
    for words in [
        "user \"controller\" may not list/watch/get/delete frameworks",
        "update/patch frameworks/status",
        "list/watch/get/create/patch/delete pods",
        "deploy/base/cluster_role.yaml",
    ] {
        assert!(line.contains(words), "{words:?} is not in {line}");
    }
    let role = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/base/cluster_role.yaml");
    kubectl(cluster, &["apply", "--server-side", "-f", role]);
    for role in ROLES {
        let (name, role) = (format!("test-{role}"), format!("--clusterrole={role}"));
        kubectl(cluster, &["create", "clusterrolebinding", &name, &role, "--user=controller"]);
    }
    program.says("all start-up checks passed");
    ready(&mut program);
    metrics_are_for_those_whom_the_api_server_lets_read_them(cluster, &mut program);
    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("a watch failed"), "the shipped role is enough\n{log}");
}

/// With the rights of the shipped role, the API server is asked who may read.
fn metrics_are_for_those_whom_the_api_server_lets_read_them(cluster: &Cluster, program: &mut Running) {
    let (admin, controller) =
        (cluster.kubeconfig_path(), cluster.kubeconfig_for("controller").expect("a user"));
    for path in ["/metrics", "/debug/shards", "/queueunits/default/framework-a"] {
        let reply = get(program, "serving metrics", path, "");
        assert!(reply.starts_with("HTTP/1.1 401"), "{reply}");
        let reply = get(program, "serving metrics", path, "authorization: Bearer nonsense\r\n");
        assert!(reply.starts_with("HTTP/1.1 401"), "{reply}");
    }
    let reply = read(program, "/metrics", controller);
    let words = "user \"controller\" may not get the nonResourceURL /metrics";
    assert!(reply.starts_with("HTTP/1.1 403") && reply.contains(words), "{reply}");
    let reply = read(program, "/debug/shards", controller);
    assert!(reply.starts_with("HTTP/1.1 403") && reply.contains(words), "{reply}");
    let reply = read(program, "/metrics", admin);
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("frameworkcontroller_"), "{reply}");
    // This controller shares no slots and serves no queues: 503 is its own answer, behind the gate.
    let reply = read(program, "/queueunits/default/framework-a", admin);
    assert!(reply.starts_with("HTTP/1.1 503") && reply.contains("queues are not served here"), "{reply}");
    let reply = read(program, "/debug/shards", admin);
    assert!(reply.starts_with("HTTP/1.1 503") && reply.contains("shares no slots"), "{reply}");
}

#[test]
fn once_all_is_listed_it_is_ready_and_a_stop_is_graceful() {
    let _alone = Alone::wait();
    let mut program = program::start(installed().kubeconfig_path(), "");
    ready(&mut program);
    let metrics = read(&mut program, "/metrics", installed().kubeconfig_path());
    for resource in ["frameworks", "configmaps", "pods"] {
        let line = format!("frameworkcontroller_watch_starts_total{{resource=\"{resource}\"}} 1");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
    promtool_finds_no_fault(metrics.split_once("\r\n\r\n").expect("a body").1);
    program.terminate();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
    // Nothing is in flight. A stop that waits for replies in vain says how many are unsettled.
    assert!(log.trim_end().ends_with("stopped"), "{log}");
}

fn promtool_finds_no_fault(metrics: &str) {
    let promtool =
        Binaries::tool(Program::Promtool, &framework_programs::say).expect("promtool is there, or is built");
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().expect("promtool runs");
    check.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("promtool reads it");
    let output = check.wait_with_output().expect("promtool ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}\n{metrics}", String::from_utf8_lossy(&said));
}

fn ready(program: &mut Running) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let reply = probe(program, "/readyz");
        if reply.starts_with("HTTP/1.1 200") {
            return;
        }
        assert!(Instant::now() < deadline, "{reply}\n{}", program.log());
        std::thread::sleep(PAUSE);
    }
}
