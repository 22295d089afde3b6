//! A namespace of a real cluster that has the CRD, and the Frameworks that tests put there.

use framework_api::status::{FrameworkAttemptStatus, RetryPolicyStatus};
use framework_api::{FrameworkStatus, State, Time};
use serde_json::{Value, json};

use crate::cluster::{installed, kubectl};

/// A namespace of one test.
pub struct TestNamespace {
    name: String,
    group: String,
}

impl TestNamespace {
    /// Makes the namespace.
    pub fn new(namespace: &str) -> TestNamespace {
        TestNamespace::with_group(namespace, framework_api::name::GROUP)
    }

    /// Makes the namespace, for Frameworks of another group. Pods can be stored in it.
    pub fn with_group(namespace: &str, group: &str) -> TestNamespace {
        installed();
        kubectl(&["create", "namespace", namespace], "").expect("a namespace is made");
        // A Pod waits a second or two for the account that it gets, and is refused then.
        let account = ["wait", "--for=create", "serviceaccount/default", "--timeout=120s"];
        kubectl(&[&account[..], &["--namespace", namespace]].concat(), "").expect("Pods get an account");
        TestNamespace { name: namespace.to_owned(), group: group.to_owned() }
    }

    /// Runs kubectl in the namespace, with an object on its standard input.
    pub fn kubectl(&self, arguments: &[&str], object: Option<&Value>) -> Result<String, String> {
        let input = object.map(|object| {
            let mut object = object.clone();
            object["apiVersion"] = format!("{}/v1", self.group).into();
            object["kind"] = framework_api::name::KIND.into();
            object.to_string()
        });
        let arguments = [&["--namespace", &self.name], arguments].concat();
        kubectl(&arguments, &input.unwrap_or_default())
    }

    /// The output of kubectl.
    pub fn text(&self, arguments: &[&str]) -> String {
        self.kubectl(arguments, None).expect("kubectl succeeds")
    }

    /// The object that kubectl prints, or why the API server refused.
    pub fn object(&self, arguments: &[&str], input: &Value) -> Result<Value, String> {
        let text = self.kubectl(arguments, Some(input))?;
        Ok(serde_json::from_str(&text).expect("kubectl prints JSON"))
    }

    /// Creates a Framework.
    pub fn create(&self, object: &Value) -> Result<Value, String> {
        self.object(&["create", "-o=json", "-f=-"], object)
    }

    /// Reads a Framework.
    pub fn get(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(&["get", &self.resource(name), "-o=json"])).expect("JSON")
    }

    /// Sends a JSON patch.
    pub fn patch(&self, name: &str, patch: &Value) -> Result<Value, String> {
        let patch = format!("--patch={patch}");
        let text = self.kubectl(&["patch", &self.resource(name), "--type=json", "-o=json", &patch], None)?;
        Ok(serde_json::from_str(&text).expect("kubectl prints JSON"))
    }

    /// Replaces the status of a Framework, as the controller does.
    pub fn put_status(&self, name: &str, status: &Value) -> Result<Value, String> {
        let mut object = self.get(name);
        object["status"] = status.clone();
        self.object(&["replace", "--subresource=status", "-o=json", "-f=-"], &object)
    }

    /// The names of all Frameworks in the namespace.
    pub fn names(&self) -> Vec<String> {
        let resource = format!("frameworks.{}", self.group);
        let text = self.text(&["get", &resource, "-o=jsonpath={.items[*].metadata.name}"]);
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn resource(&self, name: &str) -> String {
        format!("frameworks.{}/{name}", self.group)
    }
}

/// A Framework without any optional field.
pub fn framework(name: &str, roles: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "spec": {"taskRoles": roles}})
}

/// A TaskRole without any optional field.
pub fn role(name: &str, tasks: usize) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    json!({"name": name, "taskNumber": tasks, "task": {"pod": pod}})
}

/// The first status of a Framework: every optional field is unset.
pub fn status(name: &str) -> FrameworkStatus {
    let now = Time::floor("2026-01-02T03:04:05Z".parse().expect("a time"));
    FrameworkStatus {
        start_time: now,
        run_time: None,
        completion_time: None,
        state: State::AttemptCreationPending,
        transition_time: now,
        retry_policy_status: RetryPolicyStatus::default(),
        attempt_status: FrameworkAttemptStatus {
            id: 0,
            start_time: now,
            run_time: None,
            completion_time: None,
            instance_uid: None,
            config_map_name: framework_api::name::config_map_name(name),
            config_map_uid: None,
            completion_status: None,
            task_role_statuses: None,
            task_role_statuses_compressed: None,
        },
        observed_generation: None,
        conditions: Vec::new(),
        task_counts: None,
        tasks: None,
    }
}
