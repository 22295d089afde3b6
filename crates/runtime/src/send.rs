//! Sends one request and reads its reply, within bounded time.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use kube::client::Body;
use tokio::time::{Instant, timeout};

use framework_api::Time;
use framework_engine::object::{Form, Object};
use framework_engine::request as engine;
use framework_message::Reply;

use crate::client::REPLY_TIMEOUT;
use crate::compression::{Compressor, aside, open_aside, work_on};
use crate::exchange::Exchange;
use crate::metrics::Metrics;
use crate::reply;
use crate::request;
use crate::request::call::{Call, Error};

/// From so many bytes on, a response is worth a thread of its own: it takes milliseconds to read.
const LARGE: usize = 256 << 10;

/// The outcome of a request, and the `Date` of the response, if there was one.
pub type Answer<T> = (Reply<T>, Option<Time>);

impl Exchange for engine::Request {
    type Object = Object;

    fn render(&self, compressor: &Compressor) -> Result<(Call, bool), Error> {
        let engine::Request::PutStatus { framework, resource_version, status, compressed: stays, room } =
            self
        else {
            return Ok((request::engine::render(self)?, false));
        };
        work_on(status, || {
            let Some(compressed) = compressor.compressed(status, *stays, room) else {
                return Ok((request::engine::render(self)?, false));
            };
            let call = request::engine::put_status(framework, *resource_version, &compressed)?;
            // Before it is sent: the watch may be faster than the reply.
            compressor.remember(
                &framework.metadata.uid.as_deref().unwrap_or_default().into(),
                compressed,
                status,
            );
            Ok((call, true))
        })
    }

    fn is_write(&self) -> bool {
        reply::engine::is_write(self)
    }

    fn success(&self, body: &[u8]) -> Result<Reply<Object>, String> {
        reply::engine::success(self, body)
    }

    fn complete(&self, reply: &mut Reply<Object>, compressed: bool, bytes: usize, compressor: &Compressor) {
        let Reply::Object(Object::Framework(object)) = reply else { return };
        if let engine::Request::PutStatus { .. } = self {
            object.form = Form { compressed, bytes };
            compressor.stored(object);
        } else {
            open_aside(compressor, object);
        }
    }
}

impl Exchange for framework_queueing::Request {
    type Object = framework_queueing::Object;

    fn render(&self, _: &Compressor) -> Result<(Call, bool), Error> {
        Ok((request::queueing::render(self), false))
    }

    fn is_write(&self) -> bool {
        framework_queueing::Request::is_write(self)
    }

    fn success(&self, body: &[u8]) -> Result<Reply<Self::Object>, String> {
        reply::queueing::success(self, body).map_err(|error| error.to_string())
    }
}

/// Sends `request` once. Rendering its body may take milliseconds: call it off the engine's thread.
pub async fn send<R: Exchange>(
    client: kube::Client,
    request: R,
    metrics: Arc<Metrics>,
    compressor: Arc<Compressor>,
) -> Answer<R::Object> {
    let (call, compressed) = match request.render(&compressor) {
        Ok(rendered) => rendered,
        Err(error) => return (Reply::NotSent(error.to_string()), None),
    };
    let bytes = call.body.len();
    let (verb, resource) = (call.verb, call.resource);
    if (verb, resource) == ("update", "frameworks/status") {
        metrics.status_written(bytes);
    }
    let begun = Instant::now();
    let ((mut reply, server), code) = exchange(&client, &request, call).await;
    metrics.request_ended(verb, resource, code.map(|code| code.as_u16()), begun.elapsed());
    request.complete(&mut reply, compressed, bytes, &compressor);
    (reply, server)
}

async fn exchange<R: Exchange>(
    client: &kube::Client,
    request: &R,
    call: Call,
) -> (Answer<R::Object>, Option<StatusCode>) {
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
