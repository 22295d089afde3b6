//! A body that leaves only while the right to send its request lasts.
//!
//! A request may wait for a connection. HTTP/1.1 polls its body when a connection has taken it, and writes
//! head and body at once. So this is the last moment at which the right can be asked for. Without a body, the
//! connection is closed before the `Content-Length` of the head is reached, and an API server decodes no such
//! request. A body of no bytes is never polled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

/// An extension of a request: says whether the right to send it lasts.
#[derive(Clone)]
pub struct BodyFence(Arc<dyn Fn() -> bool + Send + Sync>);

impl BodyFence {
    /// A fence that is open while `lasts` says so. It is asked once, when a connection takes the request.
    pub fn new(lasts: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        BodyFence(Arc::new(lasts))
    }
}

/// The right to send a request ended before a connection took it: it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the right to send the request ended before a connection took it")]
pub struct FenceClosed;

/// The body of a request that may have a [`BodyFence`].
pub(crate) struct FencedBody {
    body: Body,
    /// `None`: there is none, or it was open.
    fence: Option<BodyFence>,
}

/// Lets the body of a request heed the fence in its extensions.
pub(crate) fn fenced(request: Request<Body>) -> Request<FencedBody> {
    let (mut head, body) = request.into_parts();
    let fence = head.extensions.remove();
    Request::from_parts(head, FencedBody { body, fence })
}

impl http_body::Body for FencedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.fence.take().is_some_and(|BodyFence(lasts)| !lasts()) {
            self.body = Body::empty();
            return Poll::Ready(Some(Err(FenceClosed.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;

    fn body(text: &'static str, fence: Option<bool>) -> FencedBody {
        let mut request = Request::new(Body::from(Bytes::from_static(text.as_bytes())));
        if let Some(lasts) = fence {
            request.extensions_mut().insert(BodyFence::new(move || lasts));
        }
        fenced(request).into_body()
    }

    #[tokio::test]
    async fn a_body_leaves_whole_unless_its_fence_is_closed() {
        for fence in [None, Some(true)] {
            assert_eq!(body("hello", fence).collect().await.unwrap().to_bytes(), "hello", "{fence:?}");
        }
        let mut closed = body("hello", Some(false));
        let error = closed.frame().await.unwrap().unwrap_err();
        assert!(error.is::<FenceClosed>(), "{error}");
        assert!(closed.frame().await.is_none(), "nor does it leave later");
    }

    #[test]
    fn a_fence_hides_neither_the_length_of_a_body_nor_that_it_is_empty() {
        for (text, length) in [("hello", 5), ("", 0)] {
            let body = body(text, Some(false));
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(length), length == 0));
        }
    }
}
