//! Responses to the requests of the controller of QueueUnits.

use framework_queueing::{Object, Page, Reply, Request, UnitObject};

use crate::wire;

/// The unit as it stands; of its end, of a Job and of a Queue, that it was done. A unit whose last finalizer
/// went is shown at the version that it had before, so it says nothing that the watch does not say better.
pub fn success(request: &Request, body: &[u8]) -> Result<Reply, serde_json::Error> {
    if let Request::DeleteUnit { .. }
    | Request::RemoveFinalizer { .. }
    | Request::ResumeJob { .. }
    | Request::ResumeJobSet { .. }
    | Request::PatchQueue { .. } = request
    {
        return Ok(Reply::Done);
    }
    if let Request::ListUnits { .. } = request {
        return wire::page::<UnitObject>(body)
            .map(|(units, after)| Reply::Object(Object::Page(Page { units, after })));
    }
    Ok(wire::decode::<UnitObject>(body)?
        .map_or(Reply::Done, |unit| Reply::Object(Object::Unit(Box::new(unit)))))
}
