//! Sends one request and reads its reply, within bounded time.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, timeout};

use framework_access::fenced_body::BodyFence;
use framework_api::Time;
use framework_engine::object::{Form, Object};
use framework_engine::request as engine;
use framework_message::{Ownership, Rejection, Reply, Right, Slot};

use crate::body_room::BodyRoom;
use crate::client::REPLY_TIMEOUT;
use crate::clock::Clock;
use crate::compression::{Compressor, aside, open_aside, work_on};
use crate::exchange::Exchange;
use crate::fencing_token::{self, FencingToken};
use crate::metrics::{Metrics, RequestResult};
use crate::reply;
use crate::request;
use crate::request::call::{Call, CallError};

/// From so many bytes on, JSON is worth a thread of its own: it takes milliseconds to read.
pub(crate) const LARGE: usize = 256 << 10;

/// The outcome of a request, and the `Date` of the response, if there was one.
pub type DatedReply<T> = (Reply<T>, Option<Time>);

impl Exchange for engine::Request {
    type Object = Object;

    fn body_bytes(&self) -> usize {
        request::engine::body_bytes(self)
    }

    fn creates_for(&self) -> Option<Slot> {
        request::engine::creates_for(self)
    }

    fn render(&self, compressor: &Compressor) -> Result<(Call, bool), CallError> {
        let engine::Request::PutStatus { framework, resource_version, status, compressed: stays, room } =
            self
        else {
            return Ok((request::engine::render(self)?, false));
        };
        work_on(status, || {
            let uid = framework.metadata.uid.as_deref().unwrap_or_default();
            let Some(compressed) = compressor.compressed(uid, status, *stays, room) else {
                return Ok((request::engine::render(self)?, false));
            };
            Ok((request::engine::put_status(framework, *resource_version, &compressed)?, true))
        })
    }

    fn is_write(&self) -> bool {
        reply::engine::is_write(self)
    }

    fn success(&self, body: &[u8]) -> Result<Reply<Object>, String> {
        reply::engine::success(self, body)
    }

    fn warned(&self, reply: Reply<Object>, warning: &str) -> Reply<Object> {
        reply::engine::warned(self, reply, warning)
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

impl Exchange for framework_queueing::QueueRequest {
    type Object = framework_queueing::Object;

    fn render(&self, _: &Compressor) -> Result<(Call, bool), CallError> {
        Ok((request::queueing::render(self), false))
    }

    fn is_write(&self) -> bool {
        framework_queueing::QueueRequest::is_write(self)
    }

    fn success(&self, body: &[u8]) -> Result<Reply<Self::Object>, String> {
        reply::queueing::success(self, body).map_err(|error| error.to_string())
    }
}

/// The right by which a request may leave: after its end, another replica may own the slot. It is asked for
/// before the request is sent, and again when a connection takes it.
#[derive(Clone, Debug)]
pub struct Fence {
    /// Shows the time.
    pub clock: Clock,
    /// The right, and what says whether it lasts; `None`: it never ends.
    pub right: Option<(Ownership, Right)>,
    /// That of a request which creates an object; `None`: no map granted its slot.
    pub token: Option<FencingToken>,
}

impl Fence {
    /// No end.
    pub fn open() -> Self {
        Fence { clock: Clock::system(), right: None, token: None }
    }

    fn is_closed(&self) -> bool {
        self.right.as_ref().is_some_and(|(ownership, right)| !ownership.lasts(*right, self.clock.now()))
    }
}

/// Sends `request` once, when there is room for its body. Rendering may take milliseconds: call it off the
/// engine's thread.
pub async fn send<R: Exchange>(
    client: kube::Client,
    request: R,
    metrics: Arc<Metrics>,
    compressor: Arc<Compressor>,
    body_room: BodyRoom,
    fence: Fence,
) -> DatedReply<R::Object> {
    let _room = body_room.room(request.body_bytes()).await;
    let (mut call, compressed) = match request.render(&compressor) {
        Ok(rendered) => rendered,
        Err(error) => return (reply::of_unrendered(&error), None),
    };
    fence.token.into_iter().for_each(|token| token.stamp(&mut call));
    let bytes = call.body.len();
    let (verb, resource) = (call.verb, call.resource);
    if (verb, resource) == ("update", "frameworks/status") {
        metrics.status_written(bytes);
    }
    // The request may have waited for room, for history, or for a processor. Then it takes no connection.
    if fence.is_closed() {
        metrics.request_fenced();
        return (Reply::NotSent(reply::FENCED.to_owned()), None);
    }
    let begun = Instant::now();
    let ((mut reply, server), code) = exchange(&client, &request, call, fence).await;
    let not_sent = if let Reply::NotSent(why) = &reply { why.as_str() } else { "" };
    if [fencing_token::OVER, reply::FENCED].contains(&not_sent) {
        metrics.request_fenced();
    }
    let outcome = match code {
        Some(code) => RequestResult::Code(code.as_u16()),
        None if not_sent == reply::FENCED => RequestResult::Fenced,
        None => RequestResult::NoResponse,
    };
    metrics.request_ended(verb, resource, outcome, begun.elapsed());
    request.complete(&mut reply, compressed, bytes, &compressor);
    (reply, server)
}

async fn exchange<R: Exchange>(
    client: &kube::Client,
    request: &R,
    call: Call,
    fence: Fence,
) -> (DatedReply<R::Object>, Option<StatusCode>) {
    let message = http::Request::builder()
        .method(call.method)
        .uri(call.uri)
        .header(CONTENT_TYPE, call.content_type)
        .extension(BodyFence::new(move || !fence.is_closed()))
        .body(Body::from(call.body));
    let message = match message {
        Ok(message) => message,
        Err(error) => return ((Reply::NotSent(error.to_string()), None), None),
    };
    let exchange = async {
        let (head, body) = client.send(message).await?.into_parts();
        let body = read(body, reply::most_bytes(call.verb, head.status)).await?;
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

/// Sends a patch whose stored object is not needed. Returns the refusal, if it was refused.
pub(crate) async fn patch(
    client: &kube::Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<Option<Rejection>> {
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    let body = read(body, reply::most_bytes("patch", head.status)).await?;
    Ok((!head.status.is_success()).then(|| reply::refusal(head.status, &head.headers, &body)))
}

/// The first `most` bytes of a body; the rest is not read.
pub(crate) async fn read<B: hyper::body::Body<Data = Bytes> + Unpin>(
    mut body: B,
    most: usize,
) -> Result<Vec<u8>, B::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < most
        && let Some(frame) = body.frame().await.transpose()?
    {
        let data = frame.into_data().unwrap_or_default();
        bytes.extend_from_slice(data.get(..most - bytes.len()).unwrap_or(&data));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use framework_message::Key;
    use framework_queueing::QueueRequest;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tower::BoxError;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound() {
        for (most, expected) in [(0, 0), (250, 250), (10_000, 1000)] {
            let frame = |_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 100])));
            let frames = futures::stream::iter((0..10).map(frame));
            let body = StreamBody::new(frames);
            assert_eq!(read(body, most).await.unwrap().len(), expected);
        }
    }

    /// A name in a path could make a LIST of the GET of one object.
    #[tokio::test]
    async fn of_the_reply_to_the_read_of_one_object_few_megabytes_are_read() {
        const CHUNK: &[u8] = &[b' '; 1 << 20];
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let count = Arc::clone(&count);
            let frame = move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, BoxError>(Frame::data(Bytes::from_static(CHUNK)))
            };
            let body = StreamBody::new(futures::stream::iter((0..64).map(frame)));
            async { Ok::<_, BoxError>(http::Response::new(body)) }
        });
        let client = kube::Client::new(service, "default");
        let send = |request: QueueRequest| {
            send(client.clone(), request, Metrics::new(), Arc::default(), BodyRoom::default(), Fence::open())
        };
        send(QueueRequest::GetFramework { framework: Key::new("ns", "a") }).await;
        assert_eq!(read.swap(0, Ordering::Relaxed), 4);
        send(QueueRequest::ListUnits { namespace: "ns".into(), after: None, limit: 500 }).await;
        assert_eq!(read.load(Ordering::Relaxed), 64, "a page has room for many objects");
    }

    /// The right to act for a slot for so many seconds.
    fn right(clock: Clock, seconds: u64) -> (Ownership, Right) {
        let ownership = Ownership::none();
        ownership.own(Slot(3), Some(clock.now().boot + Duration::from_secs(seconds)));
        let right = ownership.right(Slot(3)).unwrap();
        (ownership, right)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waited_until_the_right_to_act_ended_does_not_leave() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Err::<http::Response<Body>, BoxError>("there is no API server".into()) }
        });
        let client = kube::Client::new(service, "default");
        let (metrics, body_room) = (Metrics::new(), BodyRoom::default());
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
        let begin = || {
            let fence = Fence { clock, right: Some(right(clock, 8)), token: None };
            let (metrics, room) = (Arc::clone(&metrics), body_room.clone());
            send(client.clone(), engine::Request::AskTime, metrics, Arc::default(), room, fence)
        };
        let full = body_room.room(crate::body_room::MOST).await;
        let waits = tokio::spawn(begin());
        tokio::time::sleep(Duration::from_secs(8)).await;
        drop(full);
        assert!(matches!(waits.await.unwrap().0, Reply::NotSent(_)));
        assert_eq!(sent.load(Ordering::Relaxed), 0);
        let text = metrics.text(clock.now());
        assert!(text.contains("frameworkcontroller_requests_fenced_total 1"), "{text}");
        begin().await;
        assert_eq!(sent.load(Ordering::Relaxed), 1, "one in time leaves");
    }

    /// The proxy gives the connection after `wait` and `meanwhile`. Returns the bytes that came over it.
    async fn serve(proxy: &TcpListener, wait: Duration, meanwhile: impl Fn()) -> String {
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut bytes = vec![0; 4096];
        let _ = stream.read(&mut bytes).await.unwrap();
        meanwhile();
        tokio::time::pause();
        tokio::time::advance(wait).await;
        tokio::time::resume();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        bytes.clear();
        while !bytes.ends_with(b"}") && stream.read_buf(&mut bytes).await.unwrap() > 0 {}
        let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn a_request_whose_connection_came_too_late_does_not_leave() {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = kube::Config::new("http://api.invalid:8080".parse().unwrap());
        config.proxy_url = Some(format!("http://{}", proxy.local_addr().unwrap()).parse().unwrap());
        let metrics = Metrics::new();
        for (wait, is_given_up, is_late) in [(0, false, false), (5, false, true), (0, true, true)] {
            let client = crate::client::connect(config.clone(), "test", &metrics).unwrap();
            let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH);
            let (ownership, right) = right(clock, 5);
            let give_up = || {
                if is_given_up {
                    ownership.disown(Slot(3))
                }
            };
            let fence = Fence { clock, right: Some((ownership.clone(), right)), token: None };
            let request = framework_queueing::QueueRequest::RemoveFinalizer {
                unit: Key::new("ns", "framework-job"),
                uid: "u".into(),
                resource_version: 7,
                finalizers: Default::default(),
            };
            let (metrics, body_room) = (Arc::clone(&metrics), BodyRoom::default());
            let sending = send(client, request, metrics, Arc::default(), body_room, fence);
            let ((reply, _), bytes) =
                tokio::join!(sending, serve(&proxy, Duration::from_secs(wait), give_up));
            let body = bytes.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            assert_eq!(body.is_empty(), is_late, "{bytes}");
            assert_eq!(matches!(reply, Reply::NotSent(_)), is_late, "{reply:?}");
            assert!(is_late || bytes.to_lowercase().contains("\r\ncontent-length: "), "{bytes}");
        }
        let text = metrics.text(Clock::system().now());
        assert!(text.contains("frameworkcontroller_requests_fenced_total 2"), "{text}");
        let count = |code: &str| text.matches(&format!("_api_requests_total{{code=\"{code}\",")).count();
        assert_eq!([count("403"), count("fenced"), count("none")], [1, 1, 0], "{text}");
    }
}
