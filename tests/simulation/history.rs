//! The history that controllers logged, for the checkers.

use std::sync::{Arc, Mutex};

use framework_engine::history::{Line, MARKER};
use framework_runtime::journal::{Full, Journal, Receipt};
use framework_sim::SimCluster;
use framework_sim::check::snapshots::Snapshot;
use jiff::Timestamp;

/// The lines of all controllers of a cluster.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Vec<Snapshot>>>);

impl LogLines {
    /// The journal for a controller of this cluster.
    pub fn journal(&self, cluster: &SimCluster) -> Arc<dyn Journal> {
        Arc::new(Diary { cluster: cluster.clone(), logged: self.clone() })
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<Snapshot> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

#[derive(Debug)]
struct Diary {
    cluster: SimCluster,
    logged: LogLines,
}

impl Journal for Diary {
    fn append(&self, lines: Vec<Line>, at: Timestamp) -> Result<Receipt, Full> {
        let rv = self.cluster.version();
        let logged = lines.iter().map(|line| read(rv, &line.render(at)));
        self.logged.0.lock().expect("nobody panicked").extend(logged);
        Ok(Receipt::Written)
    }
}

/// Takes a line apart as a pipeline does.
fn read(rv: u64, line: &[u8]) -> Snapshot {
    let line = std::str::from_utf8(line).expect("UTF-8").strip_suffix('\n').expect("it ends");
    assert!(!line.contains('\n'), "one line: {line}");
    let (head, json) = line.split_once(MARKER).expect("the marker");
    let (sentence, trigger) = head.rsplit_once(": ").expect("a trigger");
    let object = serde_json::from_str(json).expect("JSON");
    Snapshot { rv: Some(rv), sentence: sentence.to_owned(), trigger: trigger.to_owned(), object }
}
