//! The form of replies: their headers, and the refusals as responses.

use bytes::Bytes;
use http::{Response, StatusCode, header};

use crate::body::Body;
use crate::refusal::Refusal;
use crate::world::World;

/// A reply with the server's date.
pub(crate) fn reply(world: &World, code: StatusCode, body: Bytes) -> Response<Body> {
    respond(world, code, Body::Whole(Some(body)))
}

/// A response with the headers that every one has.
pub(crate) fn respond(world: &World, code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(header::DATE, world.dates.header(world.clock.server_now()));
    response
}

/// A refusal as a response.
pub(crate) fn refuse(world: &World, refusal: &Refusal) -> Response<Body> {
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = if refusal.plain { refusal.message.clone() + "\n" } else { refusal.to_status().to_string() };
    let mut response = reply(world, code, body.into());
    let headers = response.headers_mut();
    if refusal.plain {
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    if let Some(seconds) = refusal.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
