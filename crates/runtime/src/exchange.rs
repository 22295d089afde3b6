//! A request and the meaning of its response, for each part that sends requests.

use std::fmt::Debug;

use framework_message::{Reply, Slot};

use crate::compression::Compressor;
use crate::request::call::{Call, CallError};

/// A request that goes over the wire.
pub trait Exchange: Send + Sync + 'static {
    /// An object that a response shows.
    type Object: Debug + Send;

    /// About how many bytes its body takes.
    fn body_bytes(&self) -> usize {
        4096
    }

    /// The slot of the Framework that the request creates an object for; `None`: it creates none. A create
    /// carries no guard of its own, so that the epoch of the slot goes with it.
    fn creates_for(&self) -> Option<Slot> {
        None
    }

    /// Renders the request. Also says whether it carries a compressed status.
    fn render(&self, compressor: &Compressor) -> Result<(Call, bool), CallError>;

    /// Whether the request changes anything.
    fn is_write(&self) -> bool;

    /// Reads the body of a successful response.
    fn success(&self, body: &[u8]) -> Result<Reply<Self::Object>, String>;

    /// Takes in a warning that came with a successful response.
    fn warned(&self, reply: Reply<Self::Object>, _warning: &str) -> Reply<Self::Object> {
        reply
    }

    /// Completes a reply with the facts that its body does not give: the stored form of a status of `bytes`
    /// bytes.
    fn complete(
        &self,
        _reply: &mut Reply<Self::Object>,
        _compressed: bool,
        _bytes: usize,
        _compressor: &Compressor,
    ) {
    }
}
