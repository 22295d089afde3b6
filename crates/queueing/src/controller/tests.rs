//! The controller against a small API server: one queue, one quota, changes of priorities at any time,
//! lost replies and slow watches. The server checks its objects after each write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use framework_api::Time;
use framework_api::queue::{FINALIZER, Phase, QueuePolicy, Reason};
use framework_core::Defects;
use framework_core::observed::Admission;
use framework_core::queue::Stage;
use framework_queue::{Amount, QuotaFacts, ResourceRequests};

use super::*;
use crate::consumer::{Growth, JobKind};
use crate::counts::{Gauges, QueueCounts};
use crate::object::OwnerLink;
use crate::object::{
    Finalizers, Object, Overtaken, PodUse, QueueObject, QuotaObject, Reply, UnitObject, UnitStatus,
};
use crate::request::{QueueRequest, UnitCreation};
use crate::{Consumer, FrameworkUnits};
use framework_message::{Rejection, Ticket};

mod by_hand;
mod by_job;
mod changes;
mod declared;
mod growth;
mod job_sets;
mod overtaken;
mod ownership;
mod queue_status;
mod quota;
mod reasons;
mod recovery;
mod refused;
mod refused_status;
mod release;
mod server;
mod world;

use server::Server;
use world::{Transit, World, summary};

const SPACE: &str = "ns";
const LIFETIME: Duration = Duration::from_secs(28);

fn settings() -> Settings {
    Settings { reserve_after: Duration::from_secs(60), request_lifetime: LIFETIME, defects: Defects::NONE }
}

fn key(name: &str) -> Key {
    Key::new(SPACE, name)
}

/// A kind of Kubernetes itself.
fn batch(kind: &str) -> JobKind {
    JobKind::Other { group: "batch".into(), kind: kind.into() }
}

fn cpu(amount: u64) -> ResourceRequests {
    [("cpu", Amount::units(amount.try_into().unwrap()))].into_iter().collect()
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}
