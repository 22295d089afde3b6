//! Rows read jobs as their kinds mean them, and Jobs and JobSets as their types do.

use proptest::prelude::*;
use serde_json::{Value, json};

use framework_api::job_kind::built_in;
use framework_api::queue::{QUEUE_NAME_LABEL, RESUMED_BY_ANNOTATION};

use super::*;
use crate::wire::decode;

fn row(row: Value) -> Arc<JobKindRow> {
    Arc::new(serde_json::from_value(row).unwrap())
}

fn read(row: &Arc<JobKindRow>, object: &Value) -> Result<DeclaredObject, String> {
    let text = decode::<DeclaredText>(object.to_string().as_bytes()).map_err(|error| error.to_string())?;
    text.ok_or_else(|| "no object".to_owned())?.by(row)
}

fn object(spec: Value, status: Value) -> Value {
    let metadata = json!({
        "name": "train", "namespace": "team", "uid": "u", "resourceVersion": "7",
        "labels": {QUEUE_NAME_LABEL: "q"}, "creationTimestamp": "2026-01-01T00:00:00Z",
    });
    json!({"metadata": metadata, "spec": spec, "status": status})
}

fn template(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// The row of that kind and version.
fn row_of(api_version: &str, kind: &str) -> Arc<JobKindRow> {
    let mut rows = built_in().into_iter();
    Arc::new(rows.find(|row| row.api_version == api_version && row.kind == kind).expect(kind))
}

/// An object, as that row reads it.
fn built(api_version: &str, kind: &str, object: &Value) -> DeclaredObject {
    read(&row_of(api_version, kind), object).expect(kind)
}

#[test]
fn of_a_text_of_a_job_as_much_is_kept_as_a_name_has() {
    let (longest, long) = ("x".repeat(253), "x".repeat(250_000));
    for text in [&longest, &long] {
        let mut job = object(json!({"template": {"spec": {"priorityClassName": text}}}), json!({}));
        job["metadata"]["annotations"] = json!({RESUMED_BY_ANNOTATION: text});
        let job = built("batch/v1", "Job", &job).job;
        assert!(job.class.as_deref() == Some(&*longest), "{} bytes", text.len());
        assert!(job.notes.resumed_by.as_deref() == Some(&*longest), "{} bytes", text.len());
    }
}

#[test]
fn a_job_asks_for_the_pods_that_it_runs_at_a_time() {
    let job = |parallelism: Value, completions: Value| {
        let template = json!({"spec": {
            "priorityClassName": "high", "containers": [{"resources": {"requests": {"cpu": "500m"}}}],
        }});
        let spec = json!({
            "suspend": true, "parallelism": parallelism, "completions": completions, "template": template,
        });
        built("batch/v1", "Job", &object(spec, json!({}))).job
    };
    for (parallelism, completions, pods) in [
        (json!(4), json!(10), "cpu: 2, pods: 4"),
        (json!(4), json!(3), "cpu: 1500m, pods: 3"),
        (json!(4), Value::Null, "cpu: 2, pods: 4"),
        (Value::Null, json!(4), "cpu: 500m, pods: 1"),
        (json!(0), Value::Null, "nothing"),
    ] {
        let found = job(parallelism.clone(), completions.clone());
        assert_eq!(found.requests.unwrap().to_string(), pods, "{parallelism} {completions}");
        assert_eq!((found.suspended, found.class.as_deref()), (true, Some("high")));
    }
}

#[test]
fn a_job_set_asks_for_the_pods_that_all_its_jobs_run_at_a_time() {
    let job = |parallelism: u32, completions: Option<u32>, metadata: Value| {
        let mut template = template("500m");
        template["metadata"] = metadata;
        json!({"spec": {"parallelism": parallelism, "completions": completions, "template": template}})
    };
    let jobs = json!([
        {"template": job(1, None, Value::Null)},
        {"replicas": 3, "template": job(4, Some(2), json!({}))},
        {"replicas": 0, "template": job(9, None, json!({"labels": {}}))},
    ]);
    let set = object(json!({"suspend": true, "replicatedJobs": jobs}), json!({}));
    let found = built("jobset.x-k8s.io/v1alpha2", "JobSet", &set);
    assert_eq!(found.job.requests.unwrap().to_string(), "cpu: 3500m, pods: 7");
    let place = |index| format!("/spec/replicatedJobs/{index}/template/spec/template");
    let metadata = [TemplateMetadata::Missing, TemplateMetadata::WithoutLabels, TemplateMetadata::WithLabels];
    assert_eq!(found.templates, [0, 1, 2].map(|index| (place(index), metadata[index])));
}

#[test]
fn a_job_is_part_of_its_controller_unless_that_is_a_cron_job() {
    for (kind, controller, part_of) in
        [("JobSet", true, Some("o")), ("JobSet", false, None), ("CronJob", true, None)]
    {
        let mut job = object(json!({}), json!({}));
        let owner = json!({"kind": kind, "name": "o", "uid": "o", "controller": controller});
        job["metadata"]["ownerReferences"] = json!([owner]);
        assert_eq!(built("batch/v1", "Job", &job).job.controller.as_deref(), part_of, "{kind}");
    }
}

#[test]
fn jobs_and_job_sets_are_finished_by_a_condition_that_is_true() {
    for (kind, is, jobs, sets) in [
        ("Complete", "True", true, false),
        ("Completed", "True", false, true),
        ("Failed", "True", true, true),
        ("Failed", "False", false, false),
        ("FailureTarget", "True", false, false),
        ("Suspended", "True", false, false),
    ] {
        let status = json!({"conditions": [{"type": kind, "status": is}]});
        let of =
            |api_version, kind| built(api_version, kind, &object(json!({}), status.clone())).job.finished;
        assert_eq!((of("batch/v1", "Job"), of("jobset.x-k8s.io/v1alpha2", "JobSet")), (jobs, sets), "{kind}");
    }
}

#[test]
fn every_kind_of_the_training_operator_asks_for_all_its_replicas() {
    for (kind, field, roles) in [
        ("TFJob", "tfReplicaSpecs", ["PS", "Worker"]),
        ("PyTorchJob", "pytorchReplicaSpecs", ["Master", "Worker"]),
        ("XGBoostJob", "xgbReplicaSpecs", ["Master", "Worker"]),
        ("PaddleJob", "paddleReplicaSpecs", ["Master", "Worker"]),
        ("JAXJob", "jaxReplicaSpecs", ["Master", "Worker"]),
        ("MPIJob", "mpiReplicaSpecs", ["Launcher", "Worker"]),
    ] {
        let policy = json!({"suspend": true, "schedulingPolicy": {"priorityClass": "high"}});
        let replicas = json!({
            roles[0]: {"template": template("1")}, roles[1]: {"replicas": 4, "template": template("500m")},
        });
        let found =
            built("kubeflow.org/v1", kind, &object(json!({"runPolicy": policy, field: replicas}), json!({})));
        let job = &found.job;
        assert_eq!(job.requests.as_ref().unwrap().to_string(), "cpu: 3, pods: 5", "{kind}");
        assert_eq!((job.queue.as_deref(), job.class.as_deref()), (Some("q"), Some("high")), "{kind}");
        assert!(job.suspended && !job.finished, "{kind}");
        let places = roles.map(|role| (format!("/spec/{field}/{role}/template"), TemplateMetadata::Missing));
        assert_eq!(found.templates, places, "{kind}");
        let ended = json!({"conditions": [{"type": "Succeeded", "status": "True"}]});
        assert!(built("kubeflow.org/v1", kind, &object(json!({}), ended)).job.finished, "{kind}");
    }
}

#[test]
fn an_mpi_job_of_the_mpi_operator_has_no_workers_by_default() {
    let specs = json!({"Launcher": {"template": template("1")}, "Worker": {"template": template("8")}});
    let spec = json!({"slotsPerWorker": 2, "mpiReplicaSpecs": specs, "runPolicy": {"suspend": false}});
    let job = built("kubeflow.org/v2beta1", "MPIJob", &object(spec, json!({}))).job;
    assert_eq!(job.requests.unwrap().to_string(), "cpu: 1, pods: 1");
    assert!(!job.suspended);
}

#[test]
fn a_ray_job_asks_for_its_head_all_hosts_and_its_submitter() {
    let workers = json!([
        {"groupName": "small", "replicas": 1, "minReplicas": 3, "template": template("1")},
        {"groupName": "large", "replicas": 9, "maxReplicas": 2, "numOfHosts": 4, "template": template("2")},
    ]);
    let cluster = json!({"headGroupSpec": {"template": template("4")}, "workerGroupSpecs": workers});
    let spec = json!({"suspend": true, "rayClusterSpec": cluster});
    let job = built("ray.io/v1", "RayJob", &object(spec.clone(), json!({}))).job;
    assert_eq!(job.requests.unwrap().to_string(), "cpu: 23500m, memory: 200Mi, pods: 13");
    let mut submitted = spec;
    submitted["submitterPodTemplate"] = template("1");
    for (status, finished) in [("Running", false), ("Complete", true), ("Failed", true), ("Suspended", false)]
    {
        let job =
            built("ray.io/v1", "RayJob", &object(submitted.clone(), json!({"jobDeploymentStatus": status})))
                .job;
        assert_eq!(job.requests.unwrap().to_string(), "cpu: 24, pods: 13");
        assert_eq!(job.finished, finished, "{status}");
    }
}

#[test]
fn kinds_whose_pods_are_not_known_ask_by_an_annotation() {
    for (api_version, kind, ended) in [
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            json!({"applicationState": {"state": "COMPLETED"}}),
        ),
        ("argoproj.io/v1alpha1", "Workflow", json!({"phase": "Error"})),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            json!({"conditions": [{"type": "Complete", "status": "True"}]}),
        ),
    ] {
        let mut job = object(json!({"suspend": true}), json!({}));
        let reason = built(api_version, kind, &job).job.requests.unwrap_err();
        let says = "the annotation frameworkcontroller.microsoft.com/queue-resource is missing; it must be a \
                    resource list as JSON, such as {\"cpu\": \"6\", \"pods\": \"3\"}";
        assert_eq!(&*reason, says);
        let resources = json!({"cpu": 6, "nvidia.com/gpu": "2", "pods": 3}).to_string();
        job["metadata"]["annotations"] =
            json!({"frameworkcontroller.microsoft.com/queue-resource": resources});
        let found = built(api_version, kind, &job).job;
        assert_eq!(found.requests.unwrap().to_string(), "cpu: 6, nvidia.com/gpu: 2, pods: 3", "{kind}");
        assert!(found.suspended && !found.finished, "{kind}");
        job["status"] = ended;
        assert!(built(api_version, kind, &job).job.finished, "{kind}");
        for list in [json!({"cpu": "x".repeat(200_000)}).to_string(), format!("\"{}\"", "x".repeat(200_000))]
        {
            job["metadata"]["annotations"] =
                json!({"frameworkcontroller.microsoft.com/queue-resource": list});
            let reason = built(api_version, kind, &job).job.requests.unwrap_err();
            assert!(reason.len() < 2000, "{} bytes", reason.len());
        }
    }
}

#[test]
fn a_kind_may_wait_by_an_annotation() {
    let row = row(json!({
        "apiVersion": "example.com/v1", "kind": "Sweep", "plural": "sweeps",
        "suspend": {"annotation": "scheduling.x-k8s.io/suspend"},
        "podSets": [{"template": "/spec/template"}], "finished": {"conditions": ["Done"]},
    }));
    for (value, waits) in [(json!("true"), true), (json!("false"), false), (Value::Null, false)] {
        let mut job = object(json!({"template": template("1")}), json!({}));
        job["metadata"]["annotations"] = json!({"scheduling.x-k8s.io/suspend": value});
        assert_eq!(read(&row, &job).unwrap().job.suspended, waits, "{value}");
    }
}

#[test]
fn a_malformed_job_is_one_clear_error() {
    let row = Arc::new(built_in().into_iter().find(|row| row.kind == "PyTorchJob").unwrap());
    let replicas = |worker: Value| object(json!({"pytorchReplicaSpecs": {"Worker": worker}}), json!({}));
    for (job, error) in [
        (replicas(json!(7)), "/spec/pytorchReplicaSpecs/Worker: invalid type"),
        (replicas(json!({"replicas": "two", "template": template("1")})), "/replicas: invalid type"),
        (
            object(json!({"pytorchReplicaSpecs": "none"}), json!({})),
            "/spec/pytorchReplicaSpecs: invalid type",
        ),
        (object(json!({"pytorchReplicaSpecs": vec![0; 1_001]}), json!({})), "more than 1000 values"),
        (
            object(json!({"runPolicy": {"suspend": "yes"}}), json!({})),
            "/spec/runPolicy/suspend: invalid type",
        ),
        (object(json!({}), json!({"conditions": vec![json!({}); 1_001]})), "more than 1000 values"),
    ] {
        let found = read(&row, &job).unwrap_err();
        assert!(found.contains(error), "{found}");
        let text = decode::<DeclaredText>(job.to_string().as_bytes()).unwrap().unwrap();
        let kept = text.unreadable(&row, &found);
        assert_eq!((&*kept.job.key.name, kept.job.queue.as_deref()), ("train", Some("q")));
        assert_eq!(kept.job.requests.unwrap_err(), found.into());
        let is_unknown = error.starts_with("/spec/runPolicy");
        assert_eq!((kept.job.suspended, kept.job.finished), (is_unknown, false), "{error}");
    }
    // Of these the rest is read, and the reason why they ask for nothing.
    for (job, error) in [
        (
            replicas(json!({"template": template("a lot")})),
            "Worker/template: cpu: \"a lot\" is not a quantity: give one",
        ),
        (
            replicas(json!({"replicas": 2})),
            "/spec/pytorchReplicaSpecs/Worker/template/spec is missing; it must be",
        ),
    ] {
        let found = read(&row, &job).unwrap().job.requests.unwrap_err();
        assert!(found.contains(error), "{found}");
    }
}

/// A value that may stand where a number, a text or an object belongs.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0..5_i64).prop_map(Value::from),
        1 => prop::sample::select(vec![
            Value::Null, json!(true), json!(-1), json!(1.5), json!(i64::MAX), json!("text"), json!({}),
        ]),
    ]
}

/// A template of which parts may be missing, or be something else.
fn any_template() -> impl Strategy<Value = Value> {
    let cpu = prop_oneof![3 => Just(json!("500m")), 1 => Just(json!("a lot")), 1 => odd()];
    let class = prop_oneof![Just(Value::Null), Just(json!("")), Just(json!("high")), odd()];
    let metadata =
        prop_oneof![Just(Value::Null), Just(json!({})), Just(json!({"labels": {"a": "b"}})), odd()];
    (cpu, class, metadata, 0..4_u8, odd()).prop_map(|(cpu, class, metadata, form, odd)| match form {
        0 => odd,
        1 => json!({"metadata": metadata}),
        _ => json!({"metadata": metadata, "spec": {
            "priorityClassName": class, "containers": [{"resources": {"requests": {"cpu": cpu}}}],
        }}),
    })
}

/// The spec of a Job. A field that is missing is left out.
fn any_job_spec() -> impl Strategy<Value = Value> {
    let number = || prop::option::of(odd());
    (number(), number(), number(), prop::option::of(any_template())).prop_map(
        |(suspend, parallelism, completions, template)| {
            let suspend = suspend.map(|odd| if odd.is_number() { json!(true) } else { odd });
            let fields = [
                ("suspend", suspend),
                ("parallelism", parallelism),
                ("completions", completions),
                ("template", template),
            ];
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
        },
    )
}

fn any_status() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["Complete", "Completed", "Failed", "Suspended"]);
    let is = prop::sample::select(vec![json!("True"), json!("False"), Value::Null]);
    let conditions = prop::collection::vec((kind, is), 0..3);
    conditions.prop_map(|all| {
        let of = |(kind, is): (&str, Value)| json!({"type": kind, "status": is});
        json!({"conditions": all.into_iter().map(of).collect::<Vec<_>>()})
    })
}

/// The row reads each object that the type reads, and as the same.
fn agrees(typed: Option<oracle::Typed>, row: &Arc<JobKindRow>, json: &Value) {
    let Some(mut typed) = typed else { return };
    let mut found = read(row, json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(found.job.requests.is_err(), typed.job.requests.is_err(), "{json}");
    // Reasons name places in different words.
    for job in [&mut found.job, &mut typed.job] {
        job.requests = job.requests.clone().map_err(|_| "a reason".into());
    }
    assert_eq!(format!("{:?}", found.job), format!("{:?}", typed.job), "{json}");
    // A template that is not there has no place for a label.
    let present: Vec<_> = found.templates.iter().map(|(_, metadata)| *metadata).collect();
    assert!(present.len() <= typed.templates.len(), "{json}");
    assert!(present.len() < typed.templates.len() || present == typed.templates, "{json}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_row_of_jobs_reads_all_that_their_type_reads(spec in any_job_spec(), status in any_status()) {
        let json = object(spec, status);
        agrees(oracle::job(&json.to_string()), &row_of("batch/v1", "Job"), &json);
    }

    #[test]
    fn the_row_of_job_sets_reads_all_that_their_type_reads(
        parts in prop::collection::vec((prop::option::of(odd()), any_job_spec()), 0..4),
        suspend in any::<bool>(),
        status in any_status(),
    ) {
        let part = |(replicas, spec): (Option<Value>, Value)| {
            let mut part = json!({"name": "a", "template": {"spec": spec}});
            replicas.into_iter().for_each(|replicas| part["replicas"] = replicas);
            part
        };
        let parts: Vec<Value> = parts.into_iter().map(part).collect();
        let json = object(json!({"suspend": suspend, "replicatedJobs": parts}), status);
        agrees(oracle::job_set(&json.to_string()), &row_of("jobset.x-k8s.io/v1alpha2", "JobSet"), &json);
    }
}
