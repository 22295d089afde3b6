//! The wire: a `tower` service that the real `kube::Client` is put on top of.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::Service;

use crate::body::{Body, reset};
use crate::network;
use crate::world::World;

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
                network::submit(&mut world, &connection.who, &head, body)
            };
            // The request goes on even if this future is dropped: a client that gives up settles nothing.
            match reply.await {
                Ok(answer) => Ok(answer?),
                Err(_) => Err(reset().into()),
            }
        })
    }
}
