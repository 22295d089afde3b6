//! Controller and CRD of different ages: a CRD that lacks `ttlSecondsAfterFinished` and
//! `activeDeadlineSeconds`, one that lacks their rules, and one whose status is typed. Upgrade and downgrade
//! while Frameworks run.

use std::time::Instant;

use framework_api::crd::{StatusSchema, manifest as shipped, manifest_with};
use framework_api::{Framework, State};
use framework_testcluster::{Error, Output};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{
    self, PATIENCE, await_object, await_our_kinds_by, block_on, client, code, completed, execute, frameworks,
    installed, kubectl, manifest, running, start_controller, state,
};

const TTL: &str = "ttlSecondsAfterFinished";
const DEADLINE: &str = "activeDeadlineSeconds";
/// Reason of the Event about a field that counts as not set.
const IGNORED: &str = "InvalidFieldIgnored";

/// The cluster has one CRD at a time, and one controller.
struct Skew {
    controller: u32,
    _alone: Alone,
}

impl Skew {
    /// Starts the controller on a cluster with a CRD.
    fn start(crd: Crd) -> Skew {
        let alone = Alone::wait();
        install(crd);
        Skew { controller: start_controller("controller", ""), _alone: alone }
    }

    /// Installs another CRD, and then a controller, as the manual says. Objects that a watch of before shows
    /// may be as the CRD of before has them.
    fn upgrade(&mut self, crd: Crd) {
        install(crd);
        installed().kill_hosted(self.controller).expect("the controller is there");
        self.controller = start_controller("controller", "");
    }
}

impl Drop for Skew {
    fn drop(&mut self) {
        // A test that failed may have ended it already.
        let _ = installed().kill_hosted(self.controller);
        if std::thread::panicking() {
            // A failure here fails the next test.
            let _ = Crd::Today.apply();
        } else {
            install(Crd::Today);
        }
    }
}

/// A CRD by its treatment of the two fields and of the status.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crd {
    /// It knows them, with their rules.
    Today,
    /// It does not know them.
    Previous,
    /// It stores any value in a spec.
    Unchecked,
    /// Every field of the status has a type, apart from the statuses of TaskRoles.
    Typed,
}

impl Crd {
    fn manifest(self) -> String {
        let text = if self == Crd::Typed { manifest_with(StatusSchema::Typed) } else { shipped() };
        let mut crd: Value = serde_saphyr::from_str(&text).expect("YAML");
        let spec = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let spec = spec.and_then(Value::as_object_mut).expect("the schema of a spec");
        if matches!(self, Crd::Previous | Crd::Unchecked) {
            for field in [TTL, DEADLINE] {
                spec["properties"].as_object_mut().expect("fields").remove(field).expect("a field of today");
            }
            spec.remove("x-kubernetes-validations").expect("rules of today");
        }
        if self == Crd::Unchecked {
            spec.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        crd.to_string()
    }

    fn apply(self) -> Result<Output, Error> {
        let arguments = ["apply", "--server-side", "--force-conflicts", "-f=-"];
        installed().kubectl_as("admin", &arguments, &self.manifest())
    }

    /// Whether the API server goes by it: each treats two probe Frameworks in its own way.
    fn is_in_force(self) -> bool {
        let probe = object("probe", &[(TTL, json!("60"))]);
        let stored = dry_run("ignore", &probe).ok();
        // A request with an unknown field of a typed status is refused if it asks for strictness.
        let mut odd = object("probe", &[]);
        odd["status"] = json!({"odd": true});
        let strict = dry_run("strict", &odd);
        let is_typed = strict.as_ref().is_err_and(|refusal| refusal.contains("status.odd"));
        match self {
            Crd::Today => stored.is_none() && strict.is_ok(),
            Crd::Typed => stored.is_none() && is_typed,
            Crd::Previous => stored.is_some_and(|stored| stored["spec"].get(TTL).is_none()),
            Crd::Unchecked => stored.is_some_and(|stored| stored["spec"][TTL] == "60"),
        }
    }
}

/// The object as the API server would store it, or the refusal.
fn dry_run(validate: &str, object: &Value) -> Result<Value, String> {
    let validate = format!("--validate={validate}");
    let stored = run(&["create", "--dry-run=server", &validate, "-o=json", "-f=-"], object)?;
    Ok(serde_json::from_str(&stored).expect("JSON"))
}

/// As an operator would. The API server then makes another cache of the kind, and refuses LISTs and watches
/// until it is filled.
fn install(crd: Crd) {
    let output = crd.apply().expect("kubectl runs");
    assert!(output.status.success(), "{crd:?}: {}", output.stderr);
    let deadline = Instant::now() + PATIENCE;
    while !crd.is_in_force() {
        assert!(Instant::now() < deadline, "{crd:?} never came into force");
    }
    await_our_kinds_by(&client());
}

/// The output of kubectl with its warnings, or its error message.
fn run(arguments: &[&str], object: &Value) -> Result<String, String> {
    let output = installed().kubectl_as("admin", arguments, &object.to_string()).expect("kubectl runs");
    if output.status.success() { Ok(output.stdout + &output.stderr) } else { Err(output.stderr) }
}

/// A Framework of one Task that runs until it is stopped, with these fields in its spec.
fn object(name: &str, fields: &[(&str, Value)]) -> Value {
    decorated(manifest(name).role("a", 1, &[]), fields)
}

fn decorated(manifest: cluster::Manifest, fields: &[(&str, Value)]) -> Value {
    let mut object: Value = serde_json::from_str(&manifest.text()).expect("JSON");
    for (field, value) in fields {
        object["spec"][*field] = value.clone();
    }
    object
}

fn create(namespace: &str, object: &Value) {
    let arguments = ["create", "--namespace", namespace, "-f=-"];
    run(&arguments, object).unwrap_or_else(|refusal| panic!("{refusal}"));
}

/// The two fields as a user sees them.
fn fields(namespace: &str, name: &str) -> (Value, Value) {
    let text = kubectl(&["get", "framework", name, "--namespace", namespace, "-o=json"]);
    let mut object: Value = serde_json::from_str(&text).expect("JSON");
    (object["spec"][TTL].take(), object["spec"][DEADLINE].take())
}

/// Waits until a Framework is gone.
fn gone(namespace: &str, name: &str) {
    let Some(there) = block_on(frameworks(namespace).get_opt(name)).expect("an answer") else { return };
    let uid = there.metadata.uid.as_deref().expect("a UID");
    let is_gone =
        |seen: Option<&Framework>| seen.is_none_or(|seen| seen.metadata.uid.as_deref() != Some(uid));
    let gone = await_object(frameworks(namespace), name, is_gone);
    let gone = block_on(async { tokio::time::timeout(PATIENCE, gone).await });
    gone.expect("it goes in time");
}

const NEITHER: (Value, Value) = (Value::Null, Value::Null);

#[test]
fn a_crd_that_lacks_the_fields_drops_them_and_frameworks_run_without() {
    let _skew = Skew::start(Crd::Previous);
    let ns = namespace("skew-lacks");
    let job = decorated(
        manifest("job").role("a", 1, &[("exit-code", "0")]),
        &[(TTL, json!(0)), (DEADLINE, json!(1))],
    );
    let create = ["create", "--namespace", &ns, "-f=-"];
    let refusal = run(&create, &job).expect_err("kubectl asks for strictness");
    for field in [TTL, DEADLINE] {
        assert!(refusal.contains(&format!("unknown field \"spec.{field}\"")), "{refusal}");
    }
    let said = run(&[&create[..], &["--validate=warn"]].concat(), &job).expect("a warning only");
    for field in [TTL, DEADLINE] {
        assert!(said.contains(&format!("Warning: unknown field \"spec.{field}\"")), "{said}");
    }
    assert_eq!(fields(&ns, "job"), NEITHER);
    assert_eq!(code(&completed(&ns, "job")).0, 0, "no deadline has ended it");
    // Another one runs to its end meanwhile: a deletion would have come.
    manifest("other").role("a", 1, &[("exit-code", "0")]).create(&ns);
    completed(&ns, "other");
    completed(&ns, "job");
}

#[test]
fn an_upgrade_of_the_crd_leaves_old_frameworks_alone_and_serves_new_ones() {
    let mut skew = Skew::start(Crd::Previous);
    let ns = namespace("skew-up");
    create(&ns, &object("old", &[]));
    running(&ns, "old", 1);

    skew.upgrade(Crd::Today);
    let patch = format!(r#"{{"spec": {{"{TTL}": 60}}}}"#);
    let late = ["patch", "framework", "old", "--namespace", &ns, "--type=merge", "-p", &patch];
    let refusal = run(&late, &Value::Null).expect_err("it was created without");
    assert!(refusal.contains("ttlSecondsAfterFinished is fixed when the Framework is created"), "{refusal}");
    create(&ns, &object("new", &[(TTL, json!(3600)), (DEADLINE, json!(86_400))]));
    running(&ns, "new", 1);
    assert_eq!(fields(&ns, "new"), (json!(3600), json!(86_400)));

    create(&ns, &decorated(manifest("brief").role("a", 1, &[("exit-code", "0")]), &[(TTL, json!(0))]));
    gone(&ns, "brief");
    create(&ns, &object("late", &[(DEADLINE, json!(3))]));
    assert_eq!(code(&completed(&ns, "late")).0, -240);

    for name in ["old", "new"] {
        execute(&ns, name, "Stop");
        assert_eq!(code(&completed(&ns, name)).0, -210, "{name}");
    }
    assert_eq!((fields(&ns, "old"), fields(&ns, "new")), (NEITHER, (json!(3600), json!(86_400))));
}

/// The fields cannot be removed, and need not be: the older CRD hides them. A Framework that is written
/// meanwhile loses them permanently; any other has them again when the newer CRD is back.
#[test]
fn after_a_downgrade_and_an_upgrade_unwritten_frameworks_keep_fields() {
    let _skew = Skew::start(Crd::Today);
    let ns = namespace("skew-down");
    let both = [(TTL, json!(3600)), (DEADLINE, json!(86_400))];
    for name in ["written", "annotated", "untouched"] {
        create(&ns, &object(name, &both));
        running(&ns, name, 1);
    }
    let patch = format!(r#"{{"spec": {{"{TTL}": null, "{DEADLINE}": null}}}}"#);
    let remove = ["patch", "framework", "untouched", "--namespace", &ns, "--type=merge", "-p", &patch];
    let refusal = run(&remove, &Value::Null).expect_err("the fields are fixed");
    assert!(refusal.contains("cannot be added, changed or removed later"), "{refusal}");

    install(Crd::Previous);
    for name in ["written", "untouched"] {
        assert_eq!(fields(&ns, name), NEITHER, "{name}");
    }
    execute(&ns, "written", "Stop");
    completed(&ns, "written");
    kubectl(&["annotate", "framework", "annotated", "example.com/written=1", "--namespace", &ns]);
    create(&ns, &object("fresh", &[]));
    running(&ns, "fresh", 1);

    install(Crd::Today);
    for name in ["written", "annotated"] {
        assert_eq!(fields(&ns, name), NEITHER, "they are gone from {name}");
    }
    assert_eq!(fields(&ns, "untouched"), (json!(3600), json!(86_400)), "they were only hidden");
    for name in ["annotated", "untouched", "fresh"] {
        execute(&ns, name, "Stop");
        completed(&ns, name);
    }
}

/// The status of a Framework as a user reads it.
fn status(namespace: &str, name: &str) -> Value {
    let text = kubectl(&["get", "framework", name, "--namespace", namespace, "-o=json"]);
    let mut object: Value = serde_json::from_str(&text).expect("JSON");
    object["status"].take()
}

/// The names and UIDs of all Pods.
fn pods(namespace: &str) -> Vec<(Option<String>, Option<String>)> {
    let listed = block_on(cluster::pods(namespace).list(&ListParams::default())).expect("a list").items;
    listed.into_iter().map(|pod| (pod.metadata.name, pod.metadata.uid)).collect()
}

/// Releases before decision 0005 had a typed status. The API server reads and writes a Framework by one
/// schema that it stored by the other.
#[test]
fn frameworks_live_on_while_the_schema_of_the_status_changes() {
    let mut skew = Skew::start(Crd::Typed);
    let ns = namespace("skew-typed");
    let roles = |name: &str| manifest(name).role("a", 2, &[]).role("b", 1, &[]);
    roles("up").create(&ns);
    manifest("ended").retry(false, 1).role("a", 1, &[("exit-code", "1")]).create(&ns);
    running(&ns, "up", 3);
    completed(&ns, "ended");
    for (crd, old, new) in [(Crd::Today, "up", "down"), (Crd::Typed, "down", "last")] {
        let before = (["ended", old].map(|name| status(&ns, name)), pods(&ns));
        skew.upgrade(crd);
        roles(new).create(&ns);
        running(&ns, new, 3);
        assert_eq!(["ended", old].map(|name| status(&ns, name)), before.0, "{crd:?} shows what was stored");
        let now = pods(&ns);
        assert!(before.1.iter().all(|pod| now.contains(pod)), "{crd:?}: {:?}", before.1);
        execute(&ns, old, "Stop");
        assert_eq!(code(&completed(&ns, old)).0, -210, "{crd:?}: {old}");
    }
}

/// The notes of the Events of a reason about a Framework.
fn notes(namespace: &str, name: &str, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(client(), namespace);
    let mut notes: Vec<String> = block_on(events.list(&ListParams::default()))
        .expect("a list")
        .items
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some(reason))
        .filter(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(name))
        .filter_map(|event| event.note)
        .collect();
    notes.sort();
    notes
}

#[test]
fn an_invalid_stored_value_counts_as_not_set_and_is_reported_once() {
    let _skew = Skew::start(Crd::Unchecked);
    let ns = namespace("skew-odd");
    let odd = [
        ("negative", json!(-1), json!(-1)),
        ("zero", json!(-2_147_483_648), json!(0)),
        ("huge", json!(2_147_483_648_i64), json!(i64::MAX)),
        ("float", json!(1.5), json!(1e30)),
        ("text", json!("0"), json!("1")),
        ("list", json!([0]), json!({"seconds": 1})),
    ];
    for (name, ttl, deadline) in &odd {
        let quick = manifest(name).role("a", 1, &[("exit-code", "0")]);
        create(&ns, &decorated(quick, &[(TTL, ttl.clone()), (DEADLINE, deadline.clone())]));
    }
    create(&ns, &object("good", &[(TTL, json!(3600)), (DEADLINE, json!(86_400))]));
    running(&ns, "good", 1);
    for (name, ttl, deadline) in &odd {
        assert_eq!(code(&completed(&ns, name)).0, 0, "{name}");
        let wait = Instant::now() + PATIENCE;
        while notes(&ns, name, IGNORED).is_empty() {
            assert!(Instant::now() < wait, "nothing is reported about {name}");
        }
        // Go does not always store a number as it was sent.
        let [note] = &notes(&ns, name, IGNORED)[..] else { panic!("{name}: more than one Event") };
        let (first, second) = note.split_once("; ").expect("two fields");
        assert!(first.starts_with(&format!("spec.{DEADLINE} counts as not set: ")), "{first}");
        assert!(first.ends_with(" is not a whole number from 1 to 3153600000"), "{deadline}: {first}");
        assert!(second.starts_with(&format!("spec.{TTL} counts as not set: {ttl}")), "{ttl}: {second}");
        assert!(second.ends_with(" is not a whole number from 0 to 2147483647"), "{second}");
    }
    assert_eq!(notes(&ns, "good", IGNORED), Vec::<String>::new());
    let kept = block_on(frameworks(&ns).list(&ListParams::default())).expect("a list").items;
    let ends: Vec<Option<State>> = kept.iter().map(|framework: &Framework| state(framework)).collect();
    assert_eq!(kept.len(), odd.len() + 1, "none was deleted: {ends:?}");
    execute(&ns, "good", "Stop");
    completed(&ns, "good");
}
