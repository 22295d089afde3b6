//! Requests by curl and answers to them, as the manual has them.

use std::process::{Command, Output};

use framework_api::Framework;
use serde_json::Value;

use crate::cluster::{kubectl, with_controller};

pub const GROUP: &str = "/apis/frameworkcontroller.microsoft.com/v1";

/// A way to run a shell script as a user of the test cluster would.
pub struct Shell(pub tempfile::TempDir);

impl Shell {
    pub fn new() -> Shell {
        // The first thing that is asked of a bare machine.
        if Command::new("curl").arg("--version").output().is_err() {
            panic!("there is no curl: install it with `apt-get install curl`");
        }
        Shell(tempfile::tempdir().expect("a directory"))
    }

    pub fn run(&self, script: &str) -> Output {
        let cluster = with_controller();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = std::iter::once(cluster.programs().to_owned()).chain(std::env::split_paths(&path));
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(self.0.path());
        shell.env("PATH", std::env::join_paths(programs).expect("a search path"));
        shell.env("KUBECONFIG", cluster.kubeconfig_path()).env("HOME", self.0.path()).env("KUBERC", "off");
        shell.output().expect("sh runs")
    }
}

/// curl with the API server's address, a token and the authority, as one user writes it after the other.
pub struct Curl {
    shell: Shell,
    token: String,
    authority: String,
}

/// The API server's answer.
pub struct Answer {
    pub code: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn framework(&self) -> Framework {
        serde_json::from_value(self.json()).expect("a Framework")
    }

    /// The events of a watch: each with its type and the name of the Framework.
    pub fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.body.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
        events.map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["name"]))).collect()
    }
}

impl Curl {
    pub fn new() -> Curl {
        let view = ["config", "view", "--minify", "--raw", "--output"];
        let of = |path: &str| kubectl(&[&view[..], &[&format!("jsonpath={{{path}}}")]].concat());
        let authority = of(".clusters[0].cluster.certificate-authority");
        Curl { shell: Shell::new(), token: of(".users[0].user.token"), authority }
    }

    /// Sends a request; the path starts after the group's.
    pub fn send(&self, method: &str, path: &str, kind: &str, body: &str) -> Answer {
        std::fs::write(self.shell.0.path().join("body"), body).expect("the file is written");
        let url = format!("{}{GROUP}{path}", with_controller().url());
        let body = if kind.is_empty() {
            String::new()
        } else {
            format!("--header 'Content-Type: {kind}' --data-binary @body")
        };
        let output = self.shell.run(&format!(
            "curl --silent --show-error --cacert '{}' --header 'Authorization: Bearer {}' \
             --write-out '%{{http_code}}' --request {method} {body} '{url}'",
            self.authority, self.token
        ));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{method} {path}: {complaint}");
        let said = String::from_utf8(output.stdout).expect("text");
        let (body, code) = said.split_at(said.len() - 3);
        Answer { code: code.parse().expect("a code"), body: body.to_owned() }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    pub fn patch(&self, path: &str, operations: &Value) -> Answer {
        self.send("PATCH", path, "application/json-patch+json", &operations.to_string())
    }
}
