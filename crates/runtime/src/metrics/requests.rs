//! Metrics of requests to the API server.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use super::maker::Maker;

/// The last one has requests without a reply, which are given up after 12 s.
const BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0];

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// The API server answered with this HTTP status.
    Code(u16),
    /// There was no response.
    NoResponse,
    /// The right to act for its slot had ended when it got a connection, so it had no effect.
    Fenced,
}

#[derive(Debug)]
pub struct RequestMetrics {
    ended: IntCounterVec,
    seconds: HistogramVec,
}

impl RequestMetrics {
    pub fn new(maker: &Maker) -> Self {
        RequestMetrics {
            ended: maker.counters(
                "api_requests_total",
                "Requests to the API server that ended; code is the HTTP status, none, or fenced.",
                &["verb", "resource", "code"],
            ),
            seconds: maker.histograms(
                "api_request_duration_seconds",
                "Duration of requests to the API server, from sending until the reply was read.",
                &["verb", "resource"],
                BUCKETS,
            ),
        }
    }

    /// A request ended after so long.
    pub fn ended(&self, verb: &str, resource: &str, outcome: RequestResult, took: Duration) {
        let code = match outcome {
            RequestResult::Code(code) => code.to_string(),
            RequestResult::NoResponse => "none".to_owned(),
            RequestResult::Fenced => "fenced".to_owned(),
        };
        self.ended.with_label_values(&[verb, resource, &code]).inc();
        self.seconds.with_label_values(&[verb, resource]).observe(took.as_secs_f64());
    }
}
