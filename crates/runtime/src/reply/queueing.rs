//! Responses to the requests of the controller of QueueUnits.

use framework_queueing::{Object, Page, QueueRequest, Reply, UnitObject};

use crate::wire::{self, UnlabelledFramework};

/// The unit that the response shows. For a job, a Queue and the end of a unit, only that it was done. The
/// response shows a unit whose last finalizer went at its earlier version, so the watch shows more.
pub fn success(request: &QueueRequest, body: &[u8]) -> Result<Reply, serde_json::Error> {
    if let QueueRequest::DeleteUnit { .. }
    | QueueRequest::RemoveFinalizer { .. }
    | QueueRequest::ResumeJob { .. }
    | QueueRequest::LabelTemplates { .. }
    | QueueRequest::PatchQueue { .. }
    | QueueRequest::DeleteJob { .. }
    | QueueRequest::Fail { .. } = request
    {
        return Ok(Reply::Done);
    }
    if let QueueRequest::GetChild { .. } = request {
        return wire::child(body).map(|child| Reply::Object(Object::Child(child)));
    }
    if let QueueRequest::GetFramework { .. } = request {
        return Ok(wire::decode::<UnlabelledFramework>(body)?
            .map_or(Reply::Done, |framework| Reply::Object(Object::Framework(framework.uid))));
    }
    if let QueueRequest::ListUnits { .. } = request {
        return wire::page::<UnitObject>(body)
            .map(|(units, after)| Reply::Object(Object::Page(Page { units, after })));
    }
    Ok(wire::decode::<UnitObject>(body)?
        .map_or(Reply::Done, |unit| Reply::Object(Object::Unit(Box::new(unit)))))
}
