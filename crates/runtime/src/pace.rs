//! Keeps the watches of one kind from harming the API server, or from hanging.
//!
//! If the API server closes a watch at once, without an error, the watcher opens it again thousands of times
//! a second. Here each start of a watch after the first quick one waits for its turn. A LIST, the refusal of
//! a watch, and the head of its response must arrive in time; the watcher limits the time of the events that
//! follow. A page of a LIST has a bounded size, and so has an event of a watch. If the API server asks for a
//! pause, no LIST and no watch begins before its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use framework_message::LONGEST_PAUSE;
use futures::StreamExt;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use tokio::time::{Instant, sleep_until, timeout};
use tower::BoxError;
use tracing::debug;

/// One start a second, on average.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a page of a LIST, the refusal of a watch, or the head of its response may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a page of a LIST that are read: it is in memory three times while it is decoded.
pub const MOST_BYTES: usize = 64 << 20;
/// The bytes of a line of a watch, which is one event. etcd takes objects of 1.5 MiB by default, and JSON
/// writes no byte of them as more than six. An aggregated API server may send a line that never ends.
const LONGEST_LINE: usize = 16 << 20;

/// A response, of which no more is in memory than its bounds allow.
type BoundedResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// `client`, paced; `on_watch` is called at every start of a watch.
pub fn paced(client: kube::Client, on_watch: impl Fn() + Send + Sync + 'static) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let pace = Arc::new(Mutex::new(Pace { next: Instant::now(), resumes: Instant::now() }));
    let on_watch = Arc::new(on_watch);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, pace, on_watch) = (client.clone(), Arc::clone(&pace), Arc::clone(&on_watch));
        async move {
            let is_watch = is_watch(&request);
            // A start that is given up while it waits takes no turn.
            loop {
                let turn = pace.lock().unwrap_or_else(PoisonError::into_inner).take(is_watch, Instant::now());
                let Err(later) = turn else { break };
                sleep_until(later).await;
            }
            let answer = if is_watch {
                on_watch();
                timeout(PATIENCE, open(client, request)).await
            } else {
                timeout(PATIENCE, list(client, request)).await
            };
            let answer = answer.map_err(|_| Silent)??;
            if !answer.status().is_success()
                && let Some(pause) = retry_after(answer.headers())
            {
                debug!(code = answer.status().as_u16(), ?pause, "the API server asks for a pause");
                let resumes = Instant::now() + pause;
                pace.lock().unwrap_or_else(PoisonError::into_inner).resumes = resumes;
            }
            Ok::<_, BoxError>(answer)
        }
    });
    kube::Client::new(service, namespace)
}

/// The API server took a request and sent nothing in time.
#[derive(Debug, thiserror::Error)]
#[error("no response within {} s", PATIENCE.as_secs())]
struct Silent;

/// A page of a LIST has more bytes than are read.
#[derive(Debug, thiserror::Error)]
#[error("a page of the list has more than {} MiB", MOST_BYTES >> 20)]
pub struct TooLarge;

/// A line of a watch has more bytes than are read.
#[derive(Debug, thiserror::Error)]
#[error("an event of the watch has more than {} MiB", LONGEST_LINE >> 20)]
struct LineTooLong;

/// The pause that a response asks for by `Retry-After`, as far as it is respected.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that is too large for a `u64` asks for a long pause all the same.
    let asked = text.parse().map_or(LONGEST_PAUSE, Duration::from_secs);
    is_number.then(|| asked.min(LONGEST_PAUSE))
}

/// Whether a request opens a watch.
pub fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// Sends a LIST and waits for all of it.
async fn list(client: kube::Client, mut request: Request<Body>) -> Result<BoundedResponse, BoxError> {
    let uri = request.uri().to_string();
    let mark = if uri.contains('?') { '&' } else { '?' };
    *request.uri_mut() = format!("{uri}{mark}timeout={}s", PATIENCE.as_secs()).parse()?;
    whole(client.send(request).await?).await
}

/// Opens a watch. The client reads a refusal to its end, and would wait for that without a bound.
async fn open(client: kube::Client, request: Request<Body>) -> Result<BoundedResponse, BoxError> {
    let response = client.send(request).await?;
    if response.status().is_success() { Ok(response.map(bounded)) } else { whole(response).await }
}

/// Waits for all of a response.
async fn whole(response: Response<Body>) -> Result<BoundedResponse, BoxError> {
    let (head, body) = response.into_parts();
    // Never a part of it: the client logs a text that it cannot read.
    let too_large = |error: BoxError| if error.is::<LengthLimitError>() { TooLarge.into() } else { error };
    let body = Limited::new(body, MOST_BYTES).collect().await.map_err(too_large)?;
    let body = Body::from(body.to_bytes()).map_err(BoxError::from).boxed_unsync();
    Ok(Response::from_parts(head, body))
}

/// The body of a watch, which fails at a line that is too long: the client keeps a line until its end.
fn bounded(body: Body) -> UnsyncBoxBody<Bytes, BoxError> {
    let mut line = 0_usize;
    let frames = body.into_data_stream().map(move |data| -> Result<Frame<Bytes>, BoxError> {
        let data = data?;
        let end = data.iter().rposition(|byte| *byte == b'\n');
        line = end.map_or(line + data.len(), |end| data.len() - end - 1);
        if line > LONGEST_LINE { Err(LineTooLong.into()) } else { Ok(Frame::data(data)) }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// One start of a watch each interval; one that comes an interval early is let through.
struct Pace {
    next: Instant,
    /// The end of the pause that the API server asked for.
    resumes: Instant,
}

impl Pace {
    /// Takes a turn, if it has come. Otherwise returns its time. LISTs wait for the end of a pause alone.
    fn take(&mut self, is_watch: bool, now: Instant) -> Result<(), Instant> {
        if now < self.resumes {
            return Err(self.resumes);
        }
        if !is_watch {
            return Ok(());
        }
        match self.next.checked_sub(INTERVAL) {
            Some(later) if now < later => Err(later),
            _ => {
                self.next = now.max(self.next) + INTERVAL;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A server that closes each watch at once, without an error.
    fn closing(starts: Arc<AtomicU32>) -> kube::Client {
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, BoxError>(Response::new(Body::from(Vec::new())))
        });
        let client = kube::Client::new(service, "default");
        paced(client, move || {
            starts.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn get(uri: &str) -> Request<Body> {
        Request::get(uri).body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_closed_at_once_is_opened_once_a_second() {
        let starts = Arc::new(AtomicU32::new(0));
        let client = closing(Arc::clone(&starts));
        let open = async {
            // More than the pace allows, and an end if there is none.
            for _ in 0..1000 {
                client.send(get("/api/v1/pods?&watch=true&timeoutSeconds=290")).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        assert!(timeout(Duration::from_millis(10_500), open).await.is_err());
        // Two at once, then one a second.
        assert_eq!(starts.load(Ordering::Relaxed), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_is_given_up_while_it_waits_delays_no_other() {
        let starts = Arc::new(AtomicU32::new(0));
        let client = closing(Arc::clone(&starts));
        let start = || client.send(get("/api/v1/pods?watch=true"));
        for _ in 0..2 {
            start().await.unwrap();
        }
        for _ in 0..5 {
            assert!(timeout(Duration::from_millis(100), start()).await.is_err(), "its turn has not come");
        }
        let begun = Instant::now();
        start().await.unwrap();
        assert_eq!((begun.elapsed(), starts.load(Ordering::Relaxed)), (Duration::from_millis(500), 3));
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_not_paced_and_carry_a_timeout() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let uri = request.uri().to_string();
            Ok::<_, BoxError>(Response::new(Body::from(uri.into_bytes())))
        });
        let client = paced(kube::Client::new(service, "default"), || ());
        let before = Instant::now();
        for _ in 0..10 {
            let reply = client.send(get("/api/v1/pods?&limit=500")).await.unwrap();
            let uri = reply.into_body().collect_bytes().await.unwrap();
            assert_eq!(&uri[..], b"/api/v1/pods?&limit=500&timeout=60s");
        }
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_is_too_large_is_an_error() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let size = MOST_BYTES + usize::from(request.uri().path() == "/large");
            Ok::<_, BoxError>(Response::new(Body::from(vec![b' '; size])))
        });
        let client = paced(kube::Client::new(service, "default"), || ());
        assert!(client.send(get("/small")).await.is_ok());
        let error = client.send(get("/large")).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Service(cause) if cause.is::<TooLarge>()), "{error:?}");
    }

    /// How many chunks of 1 MiB of a watch are read, and its error. Each `lines` chunks are a line.
    async fn read_watch(lines: usize) -> (usize, Option<kube::Error>) {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let frames = futures::stream::iter(1..=64_usize).map(move |number| {
                let mut data = vec![b' '; 1 << 20];
                if number % lines == 0 {
                    data[1 << 19] = b'\n';
                }
                Ok::<_, BoxError>(Frame::data(Bytes::from(data)))
            });
            Ok::<_, BoxError>(Response::new(StreamBody::new(frames)))
        });
        let client = paced(kube::Client::new(service, "default"), || ());
        let mut body = client.send(get("/api/v1/pods?watch=true")).await.unwrap().into_body();
        let mut count = 0;
        loop {
            match body.frame().await {
                Some(Ok(_)) => count += 1,
                Some(Err(error)) => return (count, Some(error)),
                None => return (count, None),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_ends_with_an_error_at_a_line_that_is_too_long() {
        let (count, error) = read_watch(LONGEST_LINE >> 20).await;
        assert!(error.is_none() && count == 64, "no line is too long: {error:?} after {count}");
        let (count, error) = read_watch(1000).await;
        assert_eq!(count, LONGEST_LINE >> 20, "the line has no end");
        let text = error.unwrap().to_string();
        assert!(text.contains("an event of the watch has more than 16 MiB"), "{text}");
    }

    #[test]
    fn no_number_of_seconds_to_wait_overflows() {
        let wait = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers).map(|wait| wait.as_secs())
        };
        let found = ["7", " 60 ", "61", "18446744073709551615", "99999999999999999999999"].map(wait);
        assert_eq!(found, [Some(7), Some(60), Some(60), Some(60), Some(60)]);
        assert_eq!(["", "-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"].map(wait), [None; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn neither_a_list_nor_a_watch_begins_before_the_end_of_a_pause() {
        for (code, header, seconds) in [(429_u16, "7", 7), (503, "7", 7), (429, "3600", 60), (200, "7", 0)] {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                let response = Response::builder().status(code).header(RETRY_AFTER, header);
                Ok::<_, BoxError>(response.body(Body::empty())?)
            });
            let client = paced(kube::Client::new(service, "default"), || ());
            for uris in [["/pods", "/pods?watch=true"], ["/pods?watch=true", "/pods"]] {
                client.send(get(uris[0])).await.unwrap();
                let begun = Instant::now();
                client.send(get(uris[1])).await.unwrap();
                assert_eq!(begun.elapsed(), Duration::from_secs(seconds), "{code} {header} {uris:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_of_a_watch_that_does_not_end_is_an_error_in_the_end() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let frames = futures::stream::pending::<Result<Frame<Bytes>, BoxError>>();
            Ok::<_, BoxError>(Response::builder().status(503).body(StreamBody::new(frames))?)
        });
        let client = paced(kube::Client::new(service, "default"), || ());
        let error = client.send(get("/api/v1/pods?watch=true")).await.unwrap_err().to_string();
        assert!(error.contains("no response within 60 s"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_an_error_in_the_end() {
        let service =
            tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, BoxError>>());
        let client = paced(kube::Client::new(service, "default"), || ());
        for uri in ["/api/v1/pods", "/api/v1/pods?watch=true"] {
            let error = client.send(get(uri)).await.unwrap_err().to_string();
            assert!(error.contains("no response within 60 s"), "{error}");
        }
    }
}
