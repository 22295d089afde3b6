//! Keeps the watches of one kind from harming the API server, or from hanging.
//!
//! If the API server closes a watch at once, without an error, the watcher opens it again thousands of times
//! a second. Here each start of a watch after the first quick one waits for its turn. A LIST, the refusal of
//! a watch, and the head of its response must arrive in time; the watcher limits the time of the events that
//! follow. A page of a LIST has a bounded size.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use tokio::time::{Instant, sleep_until, timeout};
use tower::BoxError;

/// One start a second, on average.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a page of a LIST, the refusal of a watch, or the head of its response may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a page of a LIST that are read: it is in memory three times while it is decoded.
pub const MOST_BYTES: usize = 64 << 20;

/// `client`, paced; `on_watch` is called at every start of a watch.
pub fn paced(client: kube::Client, on_watch: impl Fn() + Send + Sync + 'static) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let pace = Arc::new(Mutex::new(Pace { next: Instant::now() }));
    let on_watch = Arc::new(on_watch);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, pace, on_watch) = (client.clone(), Arc::clone(&pace), Arc::clone(&on_watch));
        async move {
            if !is_watch(&request) {
                return timeout(PATIENCE, list(client, request)).await.map_err(|_| Silent)?;
            }
            // A start that is given up while it waits takes no turn.
            loop {
                let turn = pace.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
                let Err(later) = turn else { break };
                sleep_until(later).await;
            }
            on_watch();
            timeout(PATIENCE, open(client, request)).await.map_err(|_| Silent)?
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

/// Whether a request opens a watch.
pub fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// Sends a LIST and waits for all of it.
async fn list(client: kube::Client, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let uri = request.uri().to_string();
    let mark = if uri.contains('?') { '&' } else { '?' };
    *request.uri_mut() = format!("{uri}{mark}timeout={}s", PATIENCE.as_secs()).parse()?;
    whole(client.send(request).await?).await
}

/// Opens a watch. The client reads a refusal to its end, and would wait for that without a bound.
async fn open(client: kube::Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let response = client.send(request).await?;
    if response.status().is_success() { Ok(response) } else { whole(response).await }
}

/// Waits for all of a response.
async fn whole(response: Response<Body>) -> Result<Response<Body>, BoxError> {
    let (head, body) = response.into_parts();
    // Never a part of it: the client logs a text that it cannot read.
    let too_large = |error: BoxError| if error.is::<LengthLimitError>() { TooLarge.into() } else { error };
    let body = Limited::new(body, MOST_BYTES).collect().await.map_err(too_large)?;
    Ok(Response::from_parts(head, Body::from(body.to_bytes())))
}

/// One start each interval; one that comes an interval early is let through.
struct Pace {
    next: Instant,
}

impl Pace {
    /// Takes a turn, if it has come. Otherwise returns its time.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
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

    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};

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
