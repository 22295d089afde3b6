//! `loadtest form-cost`: the cost for the API server of other forms of two requests, by its own counters: the
//! write of a status, and the creation of a Pod.

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use framework_api::status::FrameworkStatus;
use futures::AsyncReadExt;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use crate::cost::{ROLE, Reading, Spent, Target, scenario};
use crate::floor::pod;
use crate::job::Job;
use crate::namespace::Namespace;
use crate::number::size;
use crate::process::Watched;
use crate::status_cost::{status, written};
use crate::terminal::print;

const RUN: &str = "form-cost";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The first bytes of an object as protobuf (Kubernetes API concepts, "Protobuf encoding").
const MAGIC: &[u8] = b"k8s\0";
/// The index of the first job: all names are of one length.
const FIRST: usize = 10_000;
/// Requests before each measurement.
const WARM: usize = 10;

/// The arguments of `loadtest form-cost`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Requests of each form in each of two rounds.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u16).range(4..=20_000))]
    requests: u16,
}

/// A form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A status beside the metadata that name one version of the object.
    Sent,
    /// The whole object.
    Whole,
    /// A status with the two conditions of a Framework that has succeeded.
    WithConditions,
    /// The same, with empty messages in the conditions.
    WithoutMessages,
    /// A Pod.
    Json,
    /// The same Pod.
    Protobuf,
}

impl Form {
    const ALL: [Form; 6] =
        [Form::Sent, Form::Whole, Form::WithConditions, Form::WithoutMessages, Form::Json, Form::Protobuf];

    fn name(self) -> &'static str {
        match self {
            Form::Sent => "PUT a status: name, UID, resourceVersion and status",
            Form::Whole => "PUT a status: the whole object",
            Form::WithConditions => "PUT a status with two conditions",
            Form::WithoutMessages => "the same, with empty messages",
            Form::Json => "POST a Pod as JSON",
            Form::Protobuf => "POST the same Pod as protobuf",
        }
    }
}

/// The cost of a request of a form, on average.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// The length of its body.
    bytes: f64,
    spent: Spent,
}

impl Cost {
    fn mean(self, other: Cost) -> Cost {
        Cost { bytes: (self.bytes + other.bytes) / 2.0, spent: self.spent.mean(&other.spent) }
    }
}

/// Measures, and prints a table.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let costs = arguments.target.measure(RUN, async |namespace, server| {
        measure(namespace, server, arguments.requests.into()).await
    })?;
    print("| request | bytes of the body | allocated | objects | ms |\n|---|---|---|---|---|\n")?;
    for (form, Cost { bytes, spent }) in Form::ALL.into_iter().zip(costs) {
        print(format_args!("| {} | {} | {spent} |\n", form.name(), size(bytes)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures each form twice: the second half reverses the order, so that growth over time counts for
/// each alike. Nothing else may use the API server meanwhile.
async fn measure(namespace: &Namespace, server: &Watched, requests: usize) -> Result<Vec<Cost>> {
    let scenario = scenario("form", 1)?;
    let group = scenario.groups.first().context("there is a group")?;
    let job = Job { scenario: &scenario, group, index: FIRST, run: RUN, node: None };
    let object: DynamicObject = serde_json::from_value(job.framework(None))?;
    let object = namespace.frameworks().create(&PostParams::default(), &object).await?;
    let mut bench =
        Bench { namespace, server, pods: Pods::of(namespace, &job).await?, object, job, requests };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for form in Form::ALL {
        first.push(bench.round(form).await?);
    }
    for form in Form::ALL.into_iter().rev() {
        second.push(bench.round(form).await?);
    }
    Ok(first.into_iter().zip(second.into_iter().rev()).map(|(one, other)| one.mean(other)).collect())
}

/// A Framework and a Pod, and the API server that is measured.
struct Bench<'a> {
    namespace: &'a Namespace,
    server: &'a Watched,
    job: Job<'a>,
    /// The Framework as the last write left it.
    object: DynamicObject,
    pods: Pods,
    requests: usize,
}

impl Bench<'_> {
    /// Sends requests of a form.
    async fn round(&mut self, form: Form) -> Result<Cost> {
        let mut bytes = 0;
        let mut before = Reading::take(self.namespace, self.server).await?;
        for number in 0..WARM + self.requests {
            if number == WARM {
                before = Reading::take(self.namespace, self.server).await?;
            }
            bytes = self.send(form, number).await.with_context(|| form.name())?;
        }
        let after = Reading::take(self.namespace, self.server).await?;
        let pods = self.namespace.all::<Pod>();
        pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(Cost { bytes: bytes as f64, spent: after.spent(&before, self.requests)? })
    }

    /// Sends one request, and returns the length of its body.
    async fn send(&mut self, form: Form, number: usize) -> Result<usize> {
        if let Form::Json | Form::Protobuf = form {
            return self.pods.create(self.namespace, form).await;
        }
        let mut status = status(&self.job, number, false)?;
        if let Form::WithConditions | Form::WithoutMessages = form {
            status["conditions"] = conditions(form == Form::WithConditions);
            // The status is one that a controller can read.
            let _: FrameworkStatus = serde_json::from_value(status.clone())?;
        }
        let sent = match form {
            Form::Whole => {
                let mut whole = self.object.clone();
                whole.data["status"] = status;
                whole
            }
            _ => written(self.object.clone(), status),
        };
        let (api, name) = (self.namespace.frameworks(), self.job.name());
        self.object = api.replace_status(&name, &PostParams::default(), &sent).await?;
        Ok(serde_json::to_vec(&sent)?.len())
    }
}

/// The conditions of a Framework that has succeeded.
fn conditions(has_messages: bool) -> Value {
    const MESSAGE: &str = "Succeeded (0): 1 of 1 Tasks completed; Task w-0: Pod succeeded";
    let message = if has_messages { MESSAGE } else { "" };
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!([condition("Running", "False", "Completed"), condition("Complete", "True", "Succeeded")])
}

/// One Pod in both encodings, with the defaults of the API server.
struct Pods {
    /// The name of its job.
    name: String,
    json: Vec<u8>,
    protobuf: Vec<u8>,
    /// The number of Pods that were created of it.
    created: usize,
}

impl Pods {
    async fn of(namespace: &Namespace, job: &Job<'_>) -> Result<Pods> {
        let mut sent = pod(job, ROLE, 0, "");
        sent["metadata"]["ownerReferences"].take();
        sent["spec"]["schedulerName"] = "none".into();
        let sent = serde_json::to_vec(&sent)?;
        let reply = post(namespace, "?dryRun=All", JSON, JSON, sent.clone()).await?;
        let mut object: Value = serde_json::from_slice(&reply)?;
        let parts = [("", "status"), ("/metadata", "managedFields")];
        for (of, part) in parts {
            object
                .pointer_mut(of)
                .and_then(Value::as_object_mut)
                .context("the reply is not a Pod")?
                .remove(part);
        }
        let reply = post(namespace, "?dryRun=All", JSON, PROTOBUF, sent).await?;
        let unknown = reply.strip_prefix(MAGIC).context("the reply is not protobuf")?;
        let protobuf = [MAGIC, &stripped(unknown)?].concat();
        Ok(Pods { name: job.name(), json: serde_json::to_vec(&object)?, protobuf, created: 0 })
    }

    /// Creates another one, and returns the length of the body.
    async fn create(&mut self, namespace: &Namespace, form: Form) -> Result<usize> {
        let (body, content) =
            if form == Form::Json { (&self.json, JSON) } else { (&self.protobuf, PROTOBUF) };
        self.created += 1;
        let name = format!("form{}", FIRST + self.created);
        let body = replaced(body, self.name.as_bytes(), name.as_bytes())?;
        let bytes = body.len();
        post(namespace, "", content, JSON, body).await?;
        Ok(bytes)
    }
}

/// Sends a Pod, and returns the body of the reply.
async fn post(
    namespace: &Namespace,
    query: &str,
    content: &str,
    accept: &str,
    body: Vec<u8>,
) -> Result<Vec<u8>> {
    let request = Request::post(format!("/api/v1/namespaces/{}/pods{query}", namespace.name));
    let request = request.header(CONTENT_TYPE, content).header(ACCEPT, accept).body(body)?;
    let reply = namespace.client.request_stream(request).await.context("creating a Pod")?;
    let mut bytes = Vec::new();
    std::pin::pin!(reply).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// The bytes with another name of the same length.
fn replaced(body: &[u8], name: &[u8], other: &[u8]) -> Result<Vec<u8>> {
    ensure!(name.len() == other.len(), "a length of a protobuf message would change");
    let mut out = body.to_vec();
    let mut at = 0;
    let next = |out: &[u8], at: usize| out.get(at..)?.windows(name.len()).position(|part| part == name);
    while let Some(found) = next(&out, at) {
        at += found;
        if let Some(part) = out.get_mut(at..at + name.len()) {
            part.copy_from_slice(other);
        }
        at += name.len();
    }
    Ok(out)
}

/// A `runtime.Unknown` with a Pod, without its status and its managed fields. The numbers of the fields are
/// those of the generated.proto files of k8s.io/apimachinery and k8s.io/api.
fn stripped(unknown: &[u8]) -> Result<Vec<u8>> {
    let metadata = |field: u64, content: &[u8]| Ok((field != 17).then(|| content.to_vec()));
    let pod = |field: u64, content: &[u8]| match field {
        1 => map_fields(content, metadata).map(Some),
        3 => Ok(None),
        _ => Ok(Some(content.to_vec())),
    };
    map_fields(unknown, |field, content| match field {
        2 => map_fields(content, pod).map(Some),
        _ => Ok(Some(content.to_vec())),
    })
}

/// A protobuf message with the content of each length-delimited field changed; `None` leaves the field out.
/// Numbers stay as they are.
fn map_fields(mut message: &[u8], change: impl Fn(u64, &[u8]) -> Result<Option<Vec<u8>>>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    while !message.is_empty() {
        let (tag, rest) = varint(message)?;
        let (value, rest) = varint(rest)?;
        message = rest;
        match tag & 7 {
            0 => {
                push(&mut out, tag);
                push(&mut out, value);
            }
            2 => {
                let (content, rest) =
                    message.split_at_checked(usize::try_from(value)?).context("a field is incomplete")?;
                message = rest;
                if let Some(content) = change(tag >> 3, content)? {
                    push(&mut out, tag);
                    push(&mut out, content.len() as u64);
                    out.extend(content);
                }
            }
            kind => bail!("a field has the wire type {kind}"),
        }
    }
    Ok(out)
}

/// The number at the beginning, seven bits in each byte, the lowest first, and the bytes after it.
fn varint(bytes: &[u8]) -> Result<(u64, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((number, bytes.get(at + 1..).unwrap_or_default()));
        }
    }
    bail!("a number is incomplete")
}

fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_in_protobuf_loses_its_status_and_its_managed_fields() {
        let field = |number: u64, content: &[u8]| {
            let mut out = Vec::new();
            push(&mut out, number << 3 | 2);
            push(&mut out, content.len() as u64);
            [out, content.to_vec()].concat()
        };
        // The generation is a number.
        let kept = [field(1, &[b'n'; 300]), vec![7 << 3, 0xac, 0x02]].concat();
        let metadata = [kept.clone(), field(17, b"managed")].concat();
        let object = |metadata: &[u8], status: &[u8]| {
            let pod = [field(1, metadata), field(2, b"spec"), status.to_vec()].concat();
            [field(1, b"v1 Pod"), field(2, &pod)].concat()
        };
        assert_eq!(stripped(&object(&metadata, &field(3, b"status"))).unwrap(), object(&kept, b""));
        stripped(&[2 << 3 | 2, 9, 1]).unwrap_err();
        stripped(&[2 << 3 | 5, 9]).unwrap_err();
        stripped(&[0x80]).unwrap_err();
    }

    #[test]
    fn a_name_is_replaced_wherever_it_is() {
        let two = replaced(b"form10000-w-0 form10000", b"form10000", b"form10001").unwrap();
        assert_eq!(two, b"form10001-w-0 form10001");
        replaced(b"", b"form1", b"form10").unwrap_err();
    }
}
