//! Credentials that are asked for again when the API server answers 401.
//!
//! As with client-go, the request itself is not sent again. Its caller gets the 401 at once, since a plugin
//! may take longer than a caller waits. Requests that begin after the plugin has ended use its credentials
//! and new connections. One that has begun before, such as a watch, keeps its connection. At most one attempt
//! runs, and [`PAUSE`] passes between two.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use tower::Service;
use tracing::warn;

/// From the end of an attempt to the next one, for a server that always answers 401. A Lease lasts longer.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);

/// A service that is made again after a 401.
pub(crate) struct Renewing<S> {
    service: S,
    /// `None`: it would be the same again.
    renewal: Option<Arc<Renewal<S>>>,
}

struct Renewal<S> {
    make: Box<dyn Fn() -> Result<S, String> + Send + Sync>,
    state: Mutex<State<S>>,
}

struct State<S> {
    /// The service that replaces the one in use at the next request.
    made: Option<S>,
    /// The last attempt.
    work: Option<JoinHandle<()>>,
    /// The end of the last attempt.
    ended: Option<Instant>,
}

impl<S> Renewing<S> {
    /// A service that `make` makes again. It may block. If it fails, the service stays, and the error is
    /// logged.
    pub fn new(service: S, make: Option<impl Fn() -> Result<S, String> + Send + Sync + 'static>) -> Self {
        let state = State { made: None, work: None, ended: None };
        let renewal = make.map(|make| Renewal { make: Box::new(make), state: Mutex::new(state) });
        Renewing { service, renewal: renewal.map(Arc::new) }
    }
}

impl<S> Renewal<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Send + 'static> Renewal<S> {
    /// Begins an attempt, unless one runs or has just ended.
    fn begin(self: &Arc<Self>) {
        let mut state = self.state();
        let runs = state.work.as_ref().is_some_and(|work| !work.is_finished());
        if runs || state.ended.is_some_and(|ended| ended.elapsed() < PAUSE) {
            return;
        }
        // For a `make` that panics.
        state.ended = Some(Instant::now());
        let renewal = Arc::clone(self);
        state.work = Some(spawn_blocking(move || {
            let made = (renewal.make)();
            let mut state = renewal.state();
            state.ended = Some(Instant::now());
            match made {
                Ok(service) => state.made = Some(service),
                Err(error) => warn!(%error, "the credentials for the API server were not renewed"),
            }
        }));
    }
}

impl<S, B> Service<Request<Body>> for Renewing<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if let Some(made) = self.renewal.as_ref().and_then(|renewal| renewal.state().made.take()) {
            self.service = made;
        }
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (response, renewal) = (self.service.call(request), self.renewal.clone());
        Box::pin(async move {
            let response = response.await?;
            if response.status() == StatusCode::UNAUTHORIZED
                && let Some(renewal) = renewal
            {
                renewal.begin();
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use tower::util::BoxService;
    use tower::{ServiceExt, service_fn};

    use super::*;

    /// Answers with its name.
    type Server = BoxService<Request<Body>, Response<&'static str>, Infallible>;

    fn server(name: &'static str, status: StatusCode) -> Server {
        BoxService::new(service_fn(move |_: Request<Body>| async move {
            let mut response = Response::new(name);
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }))
    }

    /// A client of the first server, and the number of attempts to make the next one.
    fn client(status: StatusCode, fails: bool) -> (Renewing<Server>, Arc<AtomicUsize>) {
        let attempts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&attempts);
        let make = move || {
            count.fetch_add(1, Relaxed);
            if fails { Err("no".to_owned()) } else { Ok(server("next", StatusCode::UNAUTHORIZED)) }
        };
        (Renewing::new(server("first", status), Some(make)), attempts)
    }

    /// The name of the server that answers ten requests, and then the attempt that they began has ended.
    async fn ask(client: &mut Renewing<Server>) -> &'static str {
        let mut name = "";
        for _ in 0..10 {
            let ready = client.ready().await.unwrap();
            name = ready.call(Request::new(Body::empty())).await.unwrap().into_body();
        }
        let work = client.renewal.as_ref().unwrap().state().work.take();
        if let Some(work) = work {
            work.await.unwrap();
        }
        name
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_always_answers_401_causes_one_attempt_a_pause() {
        let millisecond = Duration::from_millis(1);
        for fails in [false, true] {
            let (mut client, attempts) = client(StatusCode::UNAUTHORIZED, fails);
            let waits = [Duration::ZERO, PAUSE - millisecond, millisecond, PAUSE - millisecond, millisecond];
            for (wait, expected) in waits.into_iter().zip([1, 1, 2, 2, 3]) {
                tokio::time::advance(wait).await;
                ask(&mut client).await;
                assert_eq!(attempts.load(Relaxed), expected, "{fails} {wait:?}");
            }
            let name = if fails { "first" } else { "next" };
            assert_eq!(ask(&mut client).await, name, "a failure leaves the last one in use");
        }
    }

    #[tokio::test]
    async fn no_other_answer_renews_credentials() {
        for status in [StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::INTERNAL_SERVER_ERROR] {
            let (mut client, attempts) = client(status, false);
            assert_eq!(ask(&mut client).await, "first");
            assert_eq!(attempts.load(Relaxed), 0, "{status}");
        }
    }
}
