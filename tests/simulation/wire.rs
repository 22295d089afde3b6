//! The wire between the controller and the cluster, with a gate and a fuse. By the gate a process that stands
//! still sends nothing. Its next request leaves when it goes on, however late that is. By the fuse a process
//! ends at exactly one of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Method, Request};
use kube::client::Body;
use tokio::sync::{Notify, oneshot};
use tower::BoxError;

/// Says whether a process stands still.
///
/// It is not tokio's `watch`: that one wakes its waiters in an order drawn from the operating system's
/// randomness, and two runs of one seed would part here.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    shut: Arc<AtomicBool>,
    shuts_at_create: Arc<AtomicBool>,
    changed: Arc<Notify>,
}

impl Gate {
    /// Shuts or opens it.
    pub fn set(&self, shut: bool) {
        self.shut.store(shut, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Shuts it when the next create of a ConfigMap or a Pod is about to leave; with `false`, no more.
    pub fn shut_at_create(&self, shuts: bool) {
        self.shuts_at_create.store(shuts, Ordering::Relaxed);
    }

    fn pass(&self, request: &Request<Body>) {
        let path = request.uri().path();
        let creates =
            request.method() == Method::POST && (path.ends_with("/pods") || path.ends_with("/configmaps"));
        if creates && self.shuts_at_create.swap(false, Ordering::Relaxed) {
            self.set(true);
        }
    }

    fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Relaxed)
    }

    /// Waits until it is shut (`true`) or open.
    pub async fn wait_for(&self, shut: bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_shut() == shut {
                return;
            }
            changed.await;
        }
    }
}

/// The fate of the request at which the controller ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It never leaves.
    Before,
    /// It is applied, and the controller does not live to see the reply.
    After,
}

/// Blows at the n-th request, LISTs and watches not counted.
#[derive(Clone, Debug)]
pub struct Fuse {
    nth: usize,
    moment: Moment,
    passed: Arc<AtomicUsize>,
    blown: Arc<Notify>,
}

impl Fuse {
    /// A fuse for the n-th request, counted from 1.
    pub fn new(nth: usize, moment: Moment) -> Self {
        Fuse { nth, moment, passed: Arc::default(), blown: Arc::default() }
    }

    /// Waits until it has blown.
    pub async fn blown(&self) {
        self.blown.notified().await;
    }

    /// Whether it blows at this request.
    fn blows(&self, request: &Request<Body>) -> bool {
        let collection = |last: &str| ["frameworks", "configmaps", "pods"].contains(&last);
        let last = request.uri().path().rsplit('/').next().unwrap_or_default();
        let lists = request.method() == Method::GET && collection(last);
        !lists && self.passed.fetch_add(1, Ordering::Relaxed) + 1 == self.nth
    }
}

/// `client`, behind a gate and with a fuse. The gate shows whether the process stands still.
pub fn wire(client: kube::Client, gate: Gate, fuse: Option<Fuse>) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, gate, fuse) = (client.clone(), gate.clone(), fuse.clone());
        async move {
            gate.pass(&request);
            if gate.is_shut() {
                return late(client, gate, request).await;
            }
            let Some(fuse) = fuse.filter(|fuse| fuse.blows(&request)) else {
                return Ok(client.send(request).await?);
            };
            if fuse.moment == Moment::After {
                let _ = client.send(request).await;
            }
            fuse.blown.notify_one();
            std::future::pending().await
        }
    });
    kube::Client::new(service, namespace)
}

/// Sends a request when the gate opens. The process had checked it before it stood still, and no time-out
/// keeps it back: the clock that would is asked only after the request has left. Its reply is not read then.
async fn late(
    client: kube::Client,
    gate: Gate,
    request: Request<Body>,
) -> Result<http::Response<Body>, BoxError> {
    let (mut reply, answer) = oneshot::channel();
    tokio::spawn(async move {
        gate.wait_for(false).await;
        let given_up = async {
            // A request that is given up at once stays in the client's buffer.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            reply.closed().await;
        };
        let answered = tokio::select! {
            biased;
            answered = client.send(request) => answered,
            () = given_up => return,
        };
        let _ = reply.send(answered);
    });
    Ok(answer.await??)
}
