//! The client's side of an answer: a body, at once or as a stream of watch events, or a broken connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;

use crate::watch::Piece;

/// The answer to a request: a response, or the connection breaks.
pub(crate) type Answer = Result<http::Response<Body>, std::io::Error>;

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

/// The error of a connection that breaks.
pub(crate) fn reset() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by the simulated network")
}

/// The error of a connection that is refused.
pub(crate) fn refused() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused by the simulated network")
}
