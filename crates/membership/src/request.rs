//! A request of the member: its form, and its answer.
//!
//! A request is sent once. An answer that asks for a pause is returned after that pause, as far as a Lease
//! can wait. The leader election of client-go, too, obeys `Retry-After` only within its deadline.

use std::time::Duration;

use framework_message::timeout::SERVER_TIMEOUT;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::core::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

/// A write, which the API server gives up after [`SERVER_TIMEOUT`]: a later one would pass the longest life
/// of a request. `kube` has no parameter for that.
pub fn write(method: Method, path: &str, body: &impl Serialize) -> kube::Result<Request<Vec<u8>>> {
    let uri = format!("{path}?timeout={}s", SERVER_TIMEOUT.as_secs());
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, "application/json");
    request.body(body).map_err(kube::Error::HttpError)
}

/// Sends a request, for which the caller waits at most `timeout`. A pause ends after three quarters of that
/// time at the latest, so that the answer still arrives. So it costs a renewal no more than a lost reply
/// does, and the policy leaves room for one.
pub async fn send<T: DeserializeOwned>(
    client: &kube::Client,
    request: Request<Vec<u8>>,
    timeout: Duration,
) -> kube::Result<T> {
    let sent = Instant::now();
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    let body = body.collect_bytes().await?;
    if head.status.is_success() {
        return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
    }
    if let Some(pause) = pause(&head) {
        let longest = timeout.saturating_mul(3) / 4;
        sleep(pause.min(longest.saturating_sub(sent.elapsed()))).await;
    }
    // A proxy, and API Priority and Fairness, answer with a text.
    let text = || Status::failure(String::from_utf8_lossy(&body).trim(), "");
    let status: Status = serde_json::from_slice(&body).unwrap_or_else(|_| text());
    Err(kube::Error::Api(status.with_code(head.status.as_u16()).boxed()))
}

/// The pause that an overloaded or failing server asks for. One that is given as a date is not obeyed.
fn pause(head: &Parts) -> Option<Duration> {
    let is_busy = head.status == StatusCode::TOO_MANY_REQUESTS || head.status.is_server_error();
    let seconds = head.headers.get(RETRY_AFTER).filter(|_| is_busy)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use http::Response;
    use serde::de::IgnoredAny;
    use tokio::time::timeout;
    use tower::BoxError;

    use super::*;

    /// The end of a request that is answered so, and the milliseconds until then.
    async fn end(status: u16, retry_after: &'static str) -> (kube::Result<IgnoredAny>, u128) {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let response = Response::builder().status(status).header(RETRY_AFTER, retry_after);
            Ok::<_, BoxError>(response.body(Body::from(b"busy\n".to_vec()))?)
        });
        let (client, patience) = (kube::Client::new(service, "ns"), Duration::from_secs(4));
        let request = write(Method::PUT, "/a", &()).unwrap();
        let begun = Instant::now();
        let answer = timeout(patience, send(&client, request, patience)).await;
        (answer.expect("the answer arrives before the time-out"), begun.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_obeyed_as_far_as_a_lease_can_wait() {
        for (status, retry_after, least) in [
            (429, "1", 1000),
            (503, " 2 ", 2000),
            (429, "3", 3000),
            (429, "32", 3000),
            (500, "18446744073709551615", 3000),
            (429, "0", 0),
            (429, "Wed, 21 Oct 2026 07:28:00 GMT", 0),
            (409, "2", 0),
        ] {
            let (answer, waited) = end(status, retry_after).await;
            // A timer rounds up.
            assert!((least..least + 10).contains(&waited), "{status}, {retry_after}: {waited} ms");
            let Err(kube::Error::Api(refusal)) = answer else { panic!("{status}: it is refused") };
            assert_eq!((refusal.code, refusal.message.as_str()), (status, "busy"));
        }
    }
}
