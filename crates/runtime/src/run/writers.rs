//! Writes the reports that no turn waits for: Kubernetes Events, and spans of traces.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::parts::Parts;
use crate::recorder::Recorder;
use crate::traces::Traces;

/// Starts the writers of Events and of traces, which write on after the last turn.
pub fn start(writers: &mut JoinSet<&'static str>, parts: &mut Parts) -> (Recorder, Traces) {
    let (recorder, writer) =
        Recorder::new(parts.client.clone(), parts.clock, &parts.instance, Arc::clone(&parts.metrics));
    writers.spawn(async {
        writer.run().await;
        "the recorder"
    });
    let (traces, writer) = Traces::new(parts.span_exporter.take(), Arc::clone(&parts.metrics));
    writer.into_iter().for_each(|writer| _ = writers.spawn(writer.run()));
    (recorder, traces)
}
