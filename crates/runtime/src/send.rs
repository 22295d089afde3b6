//! Sends one request and reads its reply, within bounded time.

use std::sync::Arc;

use framework_api::Time;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use kube::client::Body;
use tokio::time::{Instant, timeout};

use crate::client::REPLY_TIMEOUT;
use crate::event::{Form, Reply, Request};
use crate::metrics::Metrics;
use crate::pack::{Packer, aside, open_aside, work_on};
use crate::reply;
use crate::request::{self, Call};

/// From so many bytes on, a response is worth a thread of its own: it takes milliseconds to read.
const LARGE: usize = 256 << 10;

/// What came of a request, and the `Date` of the response, if there was one.
pub type Answer = (Reply, Option<Time>);

/// Sends `request` once. Rendering its body may take milliseconds: call it off the engine's thread.
pub async fn send(
    client: kube::Client,
    request: Request,
    metrics: Arc<Metrics>,
    packer: Arc<Packer>,
) -> Answer {
    let (call, compressed) = match render(&request, &packer) {
        Ok(rendered) => rendered,
        Err(error) => return (Reply::NotSent(error.to_string()), None),
    };
    let bytes = call.body.len();
    if let Request::PutStatus { .. } = request {
        metrics.status_written(bytes);
    }
    let (verb, resource) = (call.verb, call.resource);
    let begun = Instant::now();
    let ((mut reply, server), code) = exchange(&client, &request, call).await;
    metrics.request_ended(verb, resource, code.map(|code| code.as_u16()), begun.elapsed());
    match (&mut reply, &request) {
        (Reply::Framework(object), Request::PutStatus { .. }) => {
            object.form = Form { compressed, bytes };
            packer.stored(object);
        }
        (Reply::Framework(object), _) => open_aside(&packer, object),
        _ => {}
    }
    (reply, server)
}

/// The call, and whether it carries a compressed status.
fn render(request: &Request, packer: &Packer) -> Result<(Call, bool), request::Error> {
    let Request::PutStatus { framework, resource_version, status, compressed, room } = request else {
        return Ok((request::render(request)?, false));
    };
    work_on(status, || {
        let Some(packed) = packer.pack(status, *compressed, room) else {
            return Ok((request::render(request)?, false));
        };
        let call = request::put_status(framework, *resource_version, &packed)?;
        // Before it is sent: the watch may be faster than the reply.
        packer.remember(&framework.metadata.uid.as_deref().unwrap_or_default().into(), packed, status);
        Ok((call, true))
    })
}

async fn exchange(client: &kube::Client, request: &Request, call: Call) -> (Answer, Option<StatusCode>) {
    let message = http::Request::builder()
        .method(call.method)
        .uri(call.uri)
        .header(CONTENT_TYPE, call.content_type)
        .body(Body::from(call.body));
    let message = match message {
        Ok(message) => message,
        Err(error) => return ((Reply::NotSent(error.to_string()), None), None),
    };
    let exchange = async {
        let (head, body) = client.send(message).await?.into_parts();
        let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
        Ok::<_, kube::Error>((head, body))
    };
    match timeout(REPLY_TIMEOUT, exchange).await {
        Ok(Ok((head, body))) => {
            let read = || reply::of_response(request, head.status, &head.headers, &body);
            let reply = if body.len() < LARGE { read() } else { aside(read) };
            ((reply, reply::server_time(&head.headers)), Some(head.status))
        }
        Ok(Err(error)) => ((reply::of_failure(&error), None), None),
        Err(_) => {
            let text = format!("no response within {} s", REPLY_TIMEOUT.as_secs());
            ((Reply::Unknown(text), None), None)
        }
    }
}
