//! The requests on their way, and their replies.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use framework_engine::history::NOT_TAKEN;
use framework_engine::object::Object;
use framework_engine::request::Request;
use framework_message::{Ownership, Reply, Right, Ticket};

use crate::body_room::BodyRoom;
use crate::clock::Clock;
use crate::compression::Compressor;
use crate::exchange::Exchange;
use crate::fencing_token::FencingToken;
use crate::journal::{Full, Receipt};
use crate::metrics::Metrics;
use crate::send::{DatedReply, Fence, send};

/// The outcome of a request, for the part that sent it.
pub enum Answered {
    Engine(Box<DatedReply<Object>>),
    Queue(DatedReply<framework_queueing::Object>),
}

/// Requests that leave after their history, at a time. The engine does not count them: while they wait for
/// the reader of standard error, they take the place of no other request.
const AFTER_HISTORY: usize = 16;

/// Requests whose reply is awaited; the engine bounds how many of the others there are.
pub struct Requests {
    client: kube::Client,
    metrics: Arc<Metrics>,
    compressor: Arc<Compressor>,
    body_room: BodyRoom,
    clock: Clock,
    ownership: Ownership,
    after_history: Arc<Semaphore>,
    tasks: JoinSet<(Ticket, Answered)>,
}

impl Requests {
    pub fn new(
        client: kube::Client,
        metrics: Arc<Metrics>,
        compressor: Arc<Compressor>,
        clock: Clock,
        ownership: Ownership,
    ) -> Self {
        Requests {
            client,
            metrics,
            compressor,
            body_room: BodyRoom::default(),
            clock,
            ownership,
            after_history: Arc::new(Semaphore::new(AFTER_HISTORY)),
            tasks: JoinSet::new(),
        }
    }

    /// Sends a request of the engine, after the history that goes before it is written, and if it can leave
    /// in time.
    pub fn send(
        &mut self,
        ticket: Ticket,
        request: Request,
        right: Option<Right>,
        receipt: Option<Result<Receipt, Full>>,
    ) {
        let (sending, turns) = (self.sending(request, right), Arc::clone(&self.after_history));
        self.tasks.spawn(async move {
            let mut turn = None;
            if let Some(receipt) = receipt {
                if !is_written(receipt).await {
                    let reply = Reply::NotSent(NOT_TAKEN.to_owned());
                    return (ticket, Answered::Engine(Box::new((reply, None))));
                }
                turn = turns.acquire().await.ok();
            }
            let answer = sending.await;
            drop(turn);
            (ticket, Answered::Engine(Box::new(answer)))
        });
    }

    /// Sends a request of one side of the queues, if it can leave in time.
    pub fn send_queueing(
        &mut self,
        ticket: Ticket,
        request: framework_queueing::QueueRequest,
        right: Option<Right>,
    ) {
        let sending = self.sending(request, right);
        self.tasks.spawn(async move { (ticket, Answered::Queue(sending.await)) });
    }

    fn sending<R: Exchange>(
        &self,
        request: R,
        right: Option<Right>,
    ) -> impl Future<Output = DatedReply<R::Object>> + Send + use<R> {
        let (metrics, compressor) = (Arc::clone(&self.metrics), Arc::clone(&self.compressor));
        // Read now, and not when it leaves: it was decided under this grant.
        let token = request.creates_for().and_then(|slot| FencingToken::of(&self.ownership, slot));
        let right = right.map(|right| (self.ownership.clone(), right));
        let fence = Fence { clock: self.clock, right, token };
        send(self.client.clone(), request, metrics, compressor, self.body_room.clone(), fence)
    }

    /// How many are on their way.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Waits for the next outcome; `None`: nothing is on its way.
    pub async fn next(&mut self) -> Option<Result<(Ticket, Answered), JoinError>> {
        self.tasks.join_next().await
    }

    /// The next outcome that is there.
    pub fn try_next(&mut self) -> Option<Result<(Ticket, Answered), JoinError>> {
        self.tasks.try_join_next()
    }
}

/// Whether the history that goes before a request is written.
async fn is_written(receipt: Result<Receipt, Full>) -> bool {
    match receipt {
        Ok(receipt) => receipt.is_written().await,
        Err(Full) => false,
    }
}
