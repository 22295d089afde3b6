//! Which API server the program turns to, and with whose rights: each way to tell it, with the real program
//! and a server that only notes who calls.

mod program;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use program::Program;

/// A server that hears one request.
struct Server(TcpListener);

impl Server {
    fn start() -> Server {
        Server(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    fn address(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("it listens"))
    }

    /// The token of the first request; none if it has none.
    fn heard(&self) -> Option<String> {
        let (stream, _) = self.0.accept().expect("somebody calls");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("text"));
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(head[0].starts_with("GET /version "), "{head:?}");
        let token = |line: &String| Some(line.strip_prefix("authorization: Bearer ")?.to_owned());
        head.iter().find_map(token)
    }

    fn kubeconfig(&self, token: &str) -> String {
        kubeconfig(&self.address(), token)
    }
}

fn kubeconfig(server: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\n"
    )
}

/// What the program finds when it starts. Paths in the environment are relative to its directory.
#[derive(Default)]
struct Given<'a> {
    files: &'a [(&'a str, String)],
    arguments: &'a [&'a str],
    environment: &'a [(&'a str, &'a str)],
}

impl Given<'_> {
    fn start(&self) -> Program {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in self.files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("make the folder");
            std::fs::write(path, text).expect("write the file");
        }
        let environment: Vec<(&str, &OsStr)> =
            self.environment.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
        Program::start_in(dir, self.arguments, &environment)
    }

    /// Starts it and says who calls the server; the program ends before this returns.
    fn calls(&self, server: &Server) -> Option<String> {
        let mut program = self.start();
        program.says(&format!("server={}", server.address()));
        server.heard()
    }

    /// Starts it and gives the line with which it ends.
    fn ends(&self) -> String {
        let (code, log) = self.start().end();
        assert_eq!(code, Some(2), "{log}");
        log
    }
}

const CONFIG: &str = "frameworkcontroller.yaml";

#[test]
fn an_address_alone_means_no_authentication() {
    let server = Server::start();
    let address = server.address();
    let told = [("KUBE_APISERVER_ADDRESS", &*address)];
    assert_eq!(Given { environment: &told, ..Given::default() }.calls(&server), None);
    let files = [(CONFIG, format!("kubeApiServerAddress: {address}"))];
    let elsewhere = [("KUBE_APISERVER_ADDRESS", "http://127.0.0.1:1")];
    let given = Given { files: &files, environment: &elsewhere, ..Given::default() };
    assert_eq!(given.calls(&server), None, "the config file goes before the environment");
}

#[test]
fn kubeconfigs_are_looked_for_in_the_config_file_the_environment_and_the_home() {
    let server = Server::start();
    let files = [
        ("named", server.kubeconfig("named")),
        ("told", server.kubeconfig("told")),
        (".kube/config", server.kubeconfig("own")),
        (CONFIG, "kubeConfigFilePath: named".to_owned()),
    ];
    let told = [("KUBECONFIG", "told"), ("HOME", ".")];
    let missing = [("KUBECONFIG", "missing"), ("HOME", ".")];
    let several = [("KUBECONFIG", "missing:told"), ("HOME", ".")];
    let calls = |files, environment| Given { files, environment, ..Given::default() }.calls(&server);
    assert_eq!(calls(&files, &told).as_deref(), Some("named"));
    assert_eq!(calls(&files[..3], &told).as_deref(), Some("told"));
    assert_eq!(calls(&files[..3], &several).as_deref(), Some("told"));
    assert_eq!(calls(&files[..3], &missing).as_deref(), Some("own"), "what does not exist is skipped");
    assert_eq!(calls(&files[..3], &[("HOME", ".")]).as_deref(), Some("own"));
}

#[test]
fn an_address_overrides_the_server_of_a_kubeconfig_and_keeps_its_user() {
    let server = Server::start();
    let address = server.address();
    let files = [("told", kubeconfig("http://127.0.0.1:1", "told"))];
    let environment = [("KUBECONFIG", "told"), ("KUBE_APISERVER_ADDRESS", &*address)];
    let given = Given { files: &files, environment: &environment, ..Given::default() };
    assert_eq!(given.calls(&server).as_deref(), Some("told"));
}

#[test]
fn an_argument_names_another_config_file_than_the_one_in_the_working_directory() {
    let server = Server::start();
    let files = [
        (CONFIG, "kubeApiServerAddress: http://127.0.0.1:1".to_owned()),
        ("etc/other.yaml", format!("kubeApiServerAddress: {}", server.address())),
    ];
    let given = Given { files: &files, arguments: &["--config", "etc/other.yaml"], ..Given::default() };
    assert_eq!(given.calls(&server), None);
    let log = Given { arguments: &["--config", "etc/other.yaml"], ..Given::default() }.ends();
    assert!(log.starts_with("frameworkcontroller: cannot read the config file etc/other.yaml: "), "{log}");
}

#[test]
fn without_any_of_them_only_the_pods_own_account_is_left() {
    let nothing = Given::default().ends();
    assert!(nothing.starts_with("frameworkcontroller: no API server is known: set "), "{nothing}");
    let files = [
        ("told", kubeconfig("http://127.0.0.1:1", "told")),
        (CONFIG, "kubeConfigFilePath: ''\nkubeApiServerAddress: ''".to_owned()),
    ];
    let environment = [("KUBECONFIG", "told"), ("KUBE_APISERVER_ADDRESS", "http://127.0.0.1:1")];
    let emptied = Given { files: &files, environment: &environment, ..Given::default() }.ends();
    assert_eq!(emptied, nothing, "what the config file sets to nothing is nothing");
    let environment = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    let unmounted = Given { environment: &environment, ..Given::default() }.ends();
    assert!(unmounted.contains("or run in a cluster ("), "{unmounted}");
    assert_eq!(unmounted.lines().count(), 1, "{unmounted}");
}
