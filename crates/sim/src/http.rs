//! The wire: a `tower` service that the real `kube::Client` is put on top of, and the bodies it answers with.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use tokio::sync::mpsc;
use tower::Service;

use crate::watch::Piece;
use crate::world::World;

/// A response body: all at once, or a stream of watch events.
#[derive(Debug)]
pub(crate) enum Body {
    /// The whole body, once.
    Whole(Option<Bytes>),
    /// Watch events as they come.
    Stream(Events),
}

/// The receiving end of a watch.
#[derive(Debug)]
pub(crate) struct Events(pub(crate) mpsc::UnboundedReceiver<Piece>);

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(events) => events.0.poll_recv(context).map(|piece| match piece? {
                Piece::Line(line) => Some(Ok(Frame::data(line))),
                Piece::Break => Some(Err(reset())),
            }),
        }
    }
}

/// What a client sees when the connection breaks.
pub(crate) fn reset() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by the simulated network")
}

/// What a client sees when there is no connection to be had.
pub(crate) fn refused() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused by the simulated network")
}

/// The way of one client to the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub world: Arc<Mutex<World>>,
    pub who: Arc<str>,
}

impl Service<Request<kube::client::Body>> for Connection {
    type Response = Response<Body>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let connection = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let reply = {
                let mut world = connection.world.lock().unwrap_or_else(PoisonError::into_inner);
                world.submit(&connection.who, &head, body)
            };
            // The request goes on even if this future is dropped: a client that gives up settles nothing.
            match reply.await {
                Ok(answer) => Ok(answer?),
                Err(_) => Err(reset().into()),
            }
        })
    }
}
