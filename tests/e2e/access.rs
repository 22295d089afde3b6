//! The API server that the program connects to, and the rights that it uses. Each way to configure them is
//! tested with the real program and a server that only notes its callers. The Pod's own account is tested on
//! the real API server.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use framework_access::{Directions, account, client};
use framework_api::config::Config;
use framework_api::pod_failure::PodFailureRule;
use framework_testcluster::running::Running;
use framework_testcluster::shared;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::cluster::block_on;
use crate::program;

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

    /// Drops the connections that wait: a program that got no answer asks again.
    fn forget(&self) {
        self.0.set_nonblocking(true).expect("a socket");
        while self.0.accept().is_ok() {}
        self.0.set_nonblocking(false).expect("a socket");
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

/// The surroundings in which the program starts. Paths in the environment are relative to its directory.
#[derive(Default)]
struct Given<'a> {
    files: &'a [(&'a str, String)],
    arguments: &'a [&'a str],
    environment: &'a [(&'a str, &'a str)],
}

impl Given<'_> {
    fn start(&self) -> Running {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in self.files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("make the folder");
            std::fs::write(path, text).expect("write the file");
        }
        let environment: Vec<(&str, &OsStr)> =
            self.environment.iter().map(|(name, value)| (*name, OsStr::new(*value))).collect();
        program::start_in(dir, self.arguments, &environment)
    }

    /// Starts it and returns the caller that the server saw. The program ends before this returns, and leaves
    /// no request to the next one.
    fn calls(&self, server: &Server) -> Option<String> {
        let mut program = self.start();
        program.says(&format!("server={}", server.address()));
        let caller = server.heard();
        drop(program);
        server.forget();
        caller
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
    let environment = [("KUBE_APISERVER_ADDRESS", &*address)];
    assert_eq!(Given { environment: &environment, ..Given::default() }.calls(&server), None);
    let files = [(CONFIG, format!("kubeApiServerAddress: {address}"))];
    let elsewhere = [("KUBE_APISERVER_ADDRESS", "http://127.0.0.1:1")];
    let given = Given { files: &files, environment: &elsewhere, ..Given::default() };
    assert_eq!(given.calls(&server), None, "the config file goes before the environment");
}

#[test]
fn kubeconfig_order_is_config_file_then_environment_then_home() {
    let server = Server::start();
    let files = [
        ("named", server.kubeconfig("named")),
        ("exported", server.kubeconfig("exported")),
        (".kube/config", server.kubeconfig("own")),
        (CONFIG, "kubeConfigFilePath: named".to_owned()),
    ];
    let exported = [("KUBECONFIG", "exported"), ("HOME", ".")];
    let missing = [("KUBECONFIG", "missing"), ("HOME", ".")];
    let several = [("KUBECONFIG", "missing:exported"), ("HOME", ".")];
    let calls = |files, environment| Given { files, environment, ..Given::default() }.calls(&server);
    assert_eq!(calls(&files, &exported).as_deref(), Some("named"));
    assert_eq!(calls(&files[..3], &exported).as_deref(), Some("exported"));
    assert_eq!(calls(&files[..3], &several).as_deref(), Some("exported"));
    assert_eq!(calls(&files[..3], &missing).as_deref(), Some("own"), "what does not exist is skipped");
    assert_eq!(calls(&files[..3], &[("HOME", ".")]).as_deref(), Some("own"));
}

#[test]
fn an_address_overrides_the_server_of_a_kubeconfig_and_keeps_its_user() {
    let server = Server::start();
    let address = server.address();
    let files = [("exported", kubeconfig("http://127.0.0.1:1", "exported"))];
    let environment = [("KUBECONFIG", "exported"), ("KUBE_APISERVER_ADDRESS", &*address)];
    let given = Given { files: &files, environment: &environment, ..Given::default() };
    assert_eq!(given.calls(&server).as_deref(), Some("exported"));
}

#[test]
fn the_config_argument_overrides_the_file_in_the_working_directory() {
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
        ("exported", kubeconfig("http://127.0.0.1:1", "exported")),
        (CONFIG, "kubeConfigFilePath: ''\nkubeApiServerAddress: ''".to_owned()),
    ];
    let environment = [("KUBECONFIG", "exported"), ("KUBE_APISERVER_ADDRESS", "http://127.0.0.1:1")];
    let emptied = Given { files: &files, environment: &environment, ..Given::default() }.ends();
    assert_eq!(emptied, nothing, "what the config file sets to nothing is nothing");
    let environment = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    let unmounted = Given { environment: &environment, ..Given::default() }.ends();
    assert!(unmounted.contains("or run in a cluster ("), "{unmounted}");
    assert_eq!(unmounted.lines().count(), 1, "{unmounted}");
}

/// The file that the original ships, with every commented entry enabled. Of its rules, it has one in each of
/// the forms that the original uses.
const ORIGINALS: &str = r"
kubeApiServerAddress: http://10.10.10.10:8080
kubeConfigFilePath: ''
kubeClientQps: 200
kubeClientBurst: 300
workerNumber: 500
largeFrameworkCompression: true
frameworkCompletedRetainSec: 2592000
frameworkMinRetryDelaySecForTransientConflictFailed: 60
frameworkMaxRetryDelaySecForTransientConflictFailed: 900
podFailureSpec:
################
# a ruled comment
################
- code: -1002
  phrase: PodScheduledToInsufficientResourceNode
  type:
    attributes: [Transient]
  podPatterns:
  - reasonRegex: '(?i)^OutOf\S+$'
    messageRegex: '(?ms).*'
- code: -1200
  phrase: ContainerDockerOOMKilled
  type:
    attributes: [Permanent]
  podPatterns:
  - containers:
    - reasonRegex: '(?i)^OOMKilled$'
      codeRange: {min: 1}
      nameRegex: '(?ms).*'
      messageRegex: '(?ms).*'
- code: -1203
  phrase: ContainerDockerStartCmdNotFound
  type:
    attributes: [Permanent]
  podPatterns:
  - containers:
    - reasonRegex: '(?i)^ContainerCannotRun$'
      codeRange: {min: 127, max: 127}
      nameRegex: '(?ms).*'
      messageRegex: '(?ms).*'
  - containers:
    - reasonRegex: '(?i)^ContainerCannotRun$'
      codeRange: {min: 128, max: 128}
      nameRegex: '(?ms).*'
      messageRegex: '(?msi).*(not found|cannot find|no such).*'
- code: -1204
  phrase: ContainerDockerStartUnknownError
  podPatterns:
  - containers:
    - reasonRegex: '(?i)^ContainerCannotRun$'
      codeRange: {min: 128, max: 128}
      nameRegex: '(?ms).*'
      messageRegex: '(?ms).*'
";

#[test]
fn the_originals_file_is_obeyed_with_all_its_entries() {
    let config = Config::parse(ORIGINALS).expect("it works as it stands");
    assert_eq!((config.kube_client_qps, config.kube_client_burst, config.worker_number), (200.0, 300, 500));
    assert!(config.large_framework_compression);
    assert_eq!(config.framework_completed_retain_sec, 2_592_000);
    let delays = (
        config.framework_min_retry_delay_sec_for_transient_conflict_failed,
        config.framework_max_retry_delay_sec_for_transient_conflict_failed,
    );
    assert_eq!(delays, (60, 900));
    // The shipped rules match the same; they may show more in the diagnostics.
    let shipped = Config::default().pod_failure_spec;
    for rule in &config.pod_failure_spec {
        let same = shipped.iter().find(|shipped| shipped.code == rule.code).expect("a default rule");
        // No type is one without attributes.
        let attributes = |rule: &PodFailureRule| rule.r#type.as_ref().map(|kind| kind.attributes.clone());
        assert_eq!(
            (&rule.phrase, attributes(rule).unwrap_or_default()),
            (&same.phrase, attributes(same).unwrap_or_default())
        );
        let matched = |rule: &PodFailureRule| -> Vec<_> {
            let patterns = rule.pod_patterns.iter();
            patterns.map(|pattern| (pattern.reason_regex.clone(), pattern.containers.clone())).collect()
        };
        assert_eq!(matched(rule), matched(same), "{}", rule.phrase);
    }
    assert_eq!(config.pod_failure_spec.len(), 4);

    let server = Server::start();
    let files = [
        (CONFIG, ORIGINALS.replace("http://10.10.10.10:8080", &server.address())),
        ("exported", kubeconfig("http://127.0.0.1:1", "exported")),
    ];
    let given = Given { files: &files, environment: &[("KUBECONFIG", "exported")], ..Given::default() };
    assert_eq!(given.calls(&server), None, "the address, and no kubeconfig");
}

/// The files that Kubernetes mounts into a Pod: a token of the ServiceAccount `default`, the authority, the
/// namespace.
fn mounted() -> TempDir {
    let deadline = Instant::now() + Duration::from_secs(60);
    let token = loop {
        // The ServiceAccount of a new cluster comes a little later.
        let output = shared().kubectl(&["create", "token", "default"]).expect("kubectl runs");
        if output.status.success() {
            break output.stdout;
        }
        assert!(Instant::now() < deadline, "{}", output.stderr);
        std::thread::sleep(Duration::from_millis(50));
    };
    let dir = tempfile::tempdir().expect("a directory");
    let authority = std::fs::read(authority()).expect("the cluster's authority");
    for (name, content) in
        [("token", token.into_bytes()), ("ca.crt", authority), ("namespace", b"default".to_vec())]
    {
        std::fs::write(dir.path().join(name), content).expect("it is written");
    }
    dir
}

fn admins_cluster() -> Value {
    let text = std::fs::read_to_string(shared().kubeconfig_path()).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).expect("YAML");
    kubeconfig["clusters"][0]["cluster"].take()
}

fn authority() -> PathBuf {
    admins_cluster()["certificate-authority"].as_str().expect("a path").into()
}

/// The user as which the API server knows a Pod with these files; or why it cannot be asked.
async fn user_of(mount: &Path) -> Result<Value, String> {
    let cluster = admins_cluster();
    let server: http::Uri = cluster["server"].as_str().expect("a URL").parse().expect("a URL");
    let variable = |name: &str| match name {
        account::HOST => server.host().map(str::to_owned),
        account::PORT => server.port().map(|port| port.to_string()),
        _ => None,
    };
    let config = account::own(mount, variable).await.map_err(|error| error.to_string())?;
    assert_eq!(config.default_namespace, "default");
    let client = client::connect(config, "frameworkcontroller/e2e").expect("a client");
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.into_bytes())
        .expect("a request");
    client.request(request).await.map_err(|error| format!("{error:?}"))
}

/// It signed no certificate; its key was thrown away.
const ANOTHER_AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBjjCCATWgAwIBAgIUC55GLox4TaAnSOQwFhB/ybmNkXEwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRYW5vdGhlciBhdXRob3JpdHkwIBcNMjYxMTIxMTU0NjMzWhgP
MjEyNjEwMjgxNTQ2MzNaMBwxGjAYBgNVBAMMEWFub3RoZXIgYXV0aG9yaXR5MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEftnv08JtAm/9TWpOBpU7c8Q42NQbeZGv
9eM25RmynZdb/neer0EBzdzE0eC/nzd+ThZku87r7fFB4BQyXVtWhqNTMFEwHQYD
VR0OBBYEFGHkofVWbF8l0FpWb+ora/iuMiDtMB8GA1UdIwQYMBaAFGHkofVWbF8l
0FpWb+ora/iuMiDtMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIg
GTKtgGpUMDRVpDtDH1G2aHcMq7uxlaAcFZqY9HEYdRECIEVuhua5aoOuC35ITFuI
FJq7uBn6aH59lCaNv/bEM5rp
-----END CERTIFICATE-----
";

#[tokio::test]
async fn in_a_cluster_the_pods_own_account_is_used() {
    let mount = mounted();
    let review = user_of(mount.path()).await.expect("the API server answers");
    assert_eq!(review["status"]["userInfo"]["username"], "system:serviceaccount:default:default");

    std::fs::write(mount.path().join("token"), "of nobody").expect("it is written");
    let refused = user_of(mount.path()).await.expect_err("a token of nobody");
    assert!(refused.contains("401"), "{refused}");

    std::fs::write(mount.path().join("ca.crt"), ANOTHER_AUTHORITY).expect("it is written");
    let refused = user_of(mount.path()).await.expect_err("another authority");
    assert!(refused.contains("InvalidCertificate"), "{refused}");
}

/// A proxy that opens the asked connections and notes each request for one.
async fn serve_proxy(listener: TcpListener, heads: std::sync::mpsc::Sender<String>) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((mut client, _)) = listener.accept().await {
        let heads = heads.clone();
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.expect("a head"));
            }
            let head = String::from_utf8(head).expect("text");
            let target = head.split(' ').nth(1).expect("a target").to_owned();
            heads.send(head).expect("the test listens");
            let mut server = tokio::net::TcpStream::connect(target).await.expect("the API server listens");
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.expect("it is heard");
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[test]
fn the_real_api_server_is_reached_through_an_http_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = format!("http://me:pass@{}", listener.local_addr().expect("it listens"));
    let (heads, heard) = std::sync::mpsc::channel();
    let text = std::fs::read_to_string(shared().kubeconfig_path()).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).expect("YAML");
    kubeconfig["clusters"][0]["cluster"]["proxy-url"] = json!(proxy);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).expect("it is written");

    let answer = block_on(async {
        tokio::spawn(serve_proxy(listener, heads));
        let directions = Directions { kubeconfig_file: Some(path), ..Directions::default() };
        let config = framework_access::find(&directions).await.expect("a good kubeconfig");
        let client = client::connect(config, "frameworkcontroller/e2e").expect("a client");
        client.apiserver_version().await
    });
    assert_eq!(answer.expect("an answer over TLS").major, "1");
    let head = heard.try_recv().expect("the proxy was asked");
    let server = admins_cluster()["server"].as_str().expect("a URL").to_owned();
    let target = server.strip_prefix("https://").expect("TLS").trim_end_matches('/').to_owned();
    assert!(head.starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic bWU6cGFzcw==\r\n"), "{head}");
}
