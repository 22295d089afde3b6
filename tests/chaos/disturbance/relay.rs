//! A relay between a controller and the API server, in plain HTTP. It can hold back the events of watches
//! while LISTs, GETs and writes go on: a watch that lags, for as long as a test wants. It can also cut the
//! controller off, and hold back creates of Pods, which then land however long their sender is gone.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use framework_testcluster::Cluster;
use futures::stream::{Stream, try_unfold};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cluster::block_on;

/// The kinds whose watches can be held back.
pub const KINDS: [&str; 3] = ["frameworks", "configmaps", "pods"];

type Held = BTreeSet<&'static str>;
type Error = Box<dyn std::error::Error + Send + Sync>;

/// A relay that goes on to the end of the process.
pub struct Relay {
    address: SocketAddr,
    held: watch::Sender<Held>,
    cut: watch::Sender<bool>,
    creates: Arc<Creates>,
}

/// Creates of Pods that are held back.
struct Creates {
    held: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl Creates {
    fn none() -> Arc<Creates> {
        Arc::new(Creates { held: watch::Sender::new(false), waiting: watch::Sender::new(0) })
    }

    async fn wait(&self) {
        let mut held = self.held.subscribe();
        if *held.borrow_and_update() {
            self.waiting.send_modify(|count| *count += 1);
            // The sender lives as long as this value.
            let _ = held.wait_for(|held| !held).await;
        }
    }
}

impl Relay {
    /// Starts one that passes requests on as a user of the cluster, and ignores their own tokens.
    pub fn start(cluster: &Cluster, user: &str) -> Relay {
        let (held, seen) = watch::channel(Held::new());
        let (cut, is_cut) = watch::channel(false);
        let creates = Creates::none();
        let address = block_on(async {
            let client = cluster.client_for(user).expect("the user exists");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("it has an address");
            tokio::spawn(accept(listener, client, seen, is_cut, Arc::clone(&creates)));
            address
        });
        Relay { address, held, cut, creates }
    }

    /// For `kubeApiServerAddress`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on watches of these kinds deliver no events.
    pub fn hold(&self, kinds: &[&'static str]) {
        self.held.send_modify(|held| held.extend(kinds));
    }

    /// Watches deliver the events that they have held back, and all that follow.
    pub fn release(&self) {
        self.held.send_modify(Held::clear);
    }

    /// From now on creates of Pods wait here, also when their connection is closed.
    pub fn hold_creates(&self) {
        self.creates.held.send_replace(true);
    }

    /// How many creates of Pods have been held back.
    pub fn held_creates(&self) -> usize {
        *self.creates.waiting.borrow()
    }

    /// Creates of Pods go on, those too that have waited.
    pub fn release_creates(&self) {
        self.creates.held.send_replace(false);
    }

    /// From now on every connection is closed, those with requests under way too: they may have been carried
    /// out.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Connections are accepted again.
    pub fn mend(&self) {
        self.cut.send_replace(false);
    }
}

async fn accept(
    listener: TcpListener,
    client: kube::Client,
    held: watch::Receiver<Held>,
    is_cut: watch::Receiver<bool>,
    creates: Arc<Creates>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (client, held, mut is_cut) = (client.clone(), held.clone(), is_cut.clone());
        let creates = Arc::clone(&creates);
        tokio::spawn(async move {
            let service =
                service_fn(|request| pass(client.clone(), held.clone(), Arc::clone(&creates), request));
            let serve = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                biased;
                _ = is_cut.wait_for(|is_cut| *is_cut) => {}
                // It ends with an error whenever one of the two sides ends first, as killed ones do.
                _ = serve => {}
            }
        });
    }
}

/// Passes one request on. An error closes the connection, which is all that the controller would see of an
/// API server that died.
async fn pass(
    client: kube::Client,
    held: watch::Receiver<Held>,
    creates: Arc<Creates>,
    request: Request<Incoming>,
) -> Result<Response<StreamBody<impl Stream<Item = Result<Frame<Bytes>, Error>>>>, Error> {
    let kind = watched(request.uri());
    let (mut head, body) = request.into_parts();
    for name in [header::HOST, header::AUTHORIZATION, header::CONNECTION] {
        head.headers.remove(name);
    }
    let body = Body::from(body.collect().await?.to_bytes());
    let is_create = head.method == Method::POST && head.uri.path().ends_with("/pods");
    let request = Request::from_parts(head, body);
    let response = if is_create {
        // A task of its own: a create that is on its way lands although its sender has gone.
        tokio::spawn(async move {
            creates.wait().await;
            client.send(request).await
        })
        .await??
    } else {
        client.send(request).await?
    };
    let (mut head, body) = response.into_parts();
    head.headers.remove(header::TRANSFER_ENCODING);
    let frames = try_unfold((body, held), move |(mut body, mut held)| async move {
        let Some(frame) = body.frame().await.transpose()? else { return Ok(None) };
        if let Some(kind) = kind {
            held.wait_for(|held| !held.contains(kind)).await?;
        }
        Ok(Some((frame, (body, held))))
    });
    Ok(Response::from_parts(head, StreamBody::new(frames)))
}

/// The kind that a request watches.
fn watched(uri: &http::Uri) -> Option<&'static str> {
    let watches = |query: &str| query.split('&').any(|part| ["watch=true", "watch=1"].contains(&part));
    let kind = KINDS.into_iter().find(|kind| uri.path().rsplit('/').next() == Some(kind));
    kind.filter(|_| uri.query().is_some_and(watches))
}
