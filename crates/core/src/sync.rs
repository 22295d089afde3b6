//! One step of one Framework: from an observation to a plan.
//!
//! `sync` is a function: the same observation, moment and policy give the same plan. Its decisions depend
//! on persisted statuses only, and it plans no act that the persisted status does not permit. Without a
//! status, the spec permits one act: see [`first_attempt`](crate::first_attempt).

use framework_api::status::TaskStatus;
use framework_api::{FrameworkStatus, Shared, State};

use crate::act;
use crate::begin::{self, First};
use crate::defect::Defect;
use crate::event_reason::EventReason;
use crate::framework::{Step, is_open};
use crate::observed::{Moment, Observed, Outcome, Policy};
use crate::permit::permits;
use crate::plan::{Action, Plan, Report, Urgency};
use crate::queue::{self, QueuedCondition};
use crate::{growth, lifetime, rescale, retry, size, snapshot, summary};

/// Decides the next step of one Framework.
pub fn sync(o: &Observed<'_>, m: Moment, policy: &Policy) -> Plan {
    let Some(status) = o.status else { return begin(o, &m, policy) };
    let mut plan = Plan::default();
    if status.attempt_status.task_role_statuses.is_none() {
        // No such status is decided upon: its Tasks are unknown.
        return plan;
    }
    let mut next = status.clone();
    if status.observed_generation.is_none() && o.framework.metadata.generation.is_some() {
        // The original wrote it, which keeps no row of short runs.
        retry::forget_runs(&mut next, policy.retry_backoff);
    }
    let too_large = too_large(status, o, policy);
    // An attempt that is about to end gets no other Tasks.
    let over = lifetime::is_over(o, &m);
    let rescaled =
        is_open(status) && !over && rescale::rescale(&mut next, o, &m, policy, too_large.is_some());
    let followed = status.state != State::Completed && rescale::follow_timeouts(&mut next, o);
    let rescaled = rescaled || followed;
    if !rescaled {
        Step { o, m: &m, policy }.advance(&mut next, &mut plan.report);
        act::plan(&mut plan, status, o, &m, policy);
        // The attempt waits until the spec is smaller.
        plan.act.retain(|action| too_large.is_none() || !matches!(action, Action::CreateConfigMap { .. }));
    }
    plan.report = merged(std::mem::take(&mut plan.report));
    if rescaled || next.attempt_status.id != status.attempt_status.id {
        plan.report.extend(growth::report(status, &next, o));
    }
    let queued = queued_condition(&next, status, o, &m, policy, too_large.as_deref());
    plan.report.extend(trouble(&mut next, o, &m, too_large.as_deref(), &queued));
    // A deletion raises the generation. The summary of a Framework that has completed and is being deleted is
    // not updated, because it has no readers.
    let leaves = status.state == State::Completed && o.framework.metadata.deletion_timestamp.is_some();
    if next != *status && !leaves {
        // Starts no act that the next status does not permit: the write would have to wait for it (rule A1).
        let is_off = policy.defects.has(Defect::SendUnpermitted);
        plan.act.retain(|action| is_off || permits(&next, o.framework, action));
        plan.urgency = urgency(status, &next, o, policy, rescaled);
        plan.snapshots = snapshot::replaced(status, &next, m.time(), &policy.log_object_snapshot);
        plan.persist = Some(Box::new(next));
    } else {
        plan.report.clear();
    }
    plan
}

/// Decides the first step of a Framework without a status.
fn begin(o: &Observed<'_>, m: &Moment, policy: &Policy) -> Plan {
    let mut plan = Plan::default();
    if o.framework.metadata.deletion_timestamp.is_some() && !begin::ends(o, m) {
        return plan;
    }
    let too_large = size::excess(o, policy);
    let mut next = match begin::first(o, m, policy, too_large.is_some()) {
        First::Create(action) => {
            plan.act.push(action);
            return plan;
        }
        First::Await => return plan,
        First::Write(next) => next,
    };
    plan.report.extend(lifetime::warning(o.framework));
    let queued = queue::queued_condition(&next, o, policy);
    plan.report.extend(trouble(&mut next, o, m, too_large.as_deref(), &queued));
    // The cache is about to show the ConfigMap: that is part of the same write.
    let is_unseen = next.state == State::AttemptCreationRequested;
    plan.urgency = if is_unseen { Urgency::Record } else { Urgency::Now };
    plan.persist = Some(next);
    plan
}

/// Why the attempt is not begun, or gets no further Tasks: they might not fit into the object.
fn too_large(status: &FrameworkStatus, o: &Observed<'_>, policy: &Policy) -> Option<String> {
    let create = o.objects.config_map_create.as_ref().map(|create| &create.outcome);
    let settled = matches!(create, None | Some(Outcome::Refused { .. }));
    let begins = status.state == State::AttemptCreationPending && settled;
    let asks = is_open(status) && (begins || size::grows(o));
    if asks { size::excess(o, policy) } else { None }
}

/// The next value of the condition of the queue. A release alone is no reason to write: it is written with
/// the next change, unless the Framework cannot begin.
fn queued_condition(
    next: &FrameworkStatus,
    status: &FrameworkStatus,
    o: &Observed<'_>,
    m: &Moment,
    policy: &Policy,
    too_large: Option<&str>,
) -> QueuedCondition {
    let queued = queue::queued_condition(next, o, policy);
    let Some(before) = queued.postponed(status).filter(|_| too_large.is_none()) else { return queued };
    let mut same = next.clone();
    trouble(&mut same, o, m, too_large, &before);
    if same == *status { before } else { queued }
}

/// Updates the summary, and reports new problems.
fn trouble(
    next: &mut FrameworkStatus,
    o: &Observed<'_>,
    m: &Moment,
    too_large: Option<&str>,
    queued: &QueuedCondition,
) -> Vec<Report> {
    let known = |too_large: &str| {
        let running = next.conditions.iter().find(|condition| condition.type_ == summary::RUNNING);
        running.is_some_and(|condition| condition.message == too_large)
    };
    let excess_report = too_large.filter(|too_large| !known(too_large));
    let excess_report =
        excess_report.map(|too_large| Report::warning(EventReason::FrameworkTooLarge, too_large.to_owned()));
    let released = queued.report();
    let invalid = summary::summarise(next, o, m.time(), too_large, queued);
    excess_report.into_iter().chain(invalid).chain(released).collect()
}

/// Merges the reports of Tasks with the same reason into one.
fn merged(reports: Vec<Report>) -> Vec<Report> {
    let mut merged: Vec<(Report, usize)> = Vec::new();
    for report in reports {
        match merged.iter_mut().find(|(known, _)| known.reason == report.reason) {
            Some((_, count)) => *count += 1,
            None => merged.push((report, 1)),
        }
    }
    let numbered = |(mut report, count): (Report, usize)| {
        if count > 1 {
            report.note = format!("{}; and {} more like it", report.note, count - 1);
        }
        report
    };
    merged.into_iter().map(numbered).collect()
}

/// How soon `next` is to be written: immediately if an act waits for it and no other Task is about to join.
fn urgency(
    status: &FrameworkStatus,
    next: &FrameworkStatus,
    o: &Observed<'_>,
    policy: &Policy,
    rescaled: bool,
) -> Urgency {
    let gates = |state: State| {
        matches!(
            state,
            State::AttemptDeletionPending
                | State::AttemptCompleted
                | State::Completed
                | State::AttemptCreationPending
        )
    };
    let expectations = o.objects.expectations();
    let framework_moves = next.state != status.state
        && !matches!(
            next.state,
            State::AttemptRunning | State::AttemptCreationRequested | State::AttemptDeleting
        );
    let is_ending = next.attempt_status.completion_status.is_some();
    if rescaled || framework_moves || expectations >= policy.expectations_limit {
        return Urgency::Now;
    }
    if is_ending {
        return Urgency::Record;
    }
    let before = status.task_roles().iter().flat_map(|role| &role.task_statuses);
    let after = next.task_roles().iter().flat_map(|role| &role.task_statuses);
    let moves = |(old, new): (&Shared<TaskStatus>, &Shared<TaskStatus>)| {
        !old.is_same(new) && old.state != new.state && gates(new.state)
    };
    let mut pairs = before.zip(after);
    if !pairs.clone().any(moves) {
        return Urgency::Record;
    }
    if pairs.all(|pair| moves(pair) || pair.1.state == State::Completed) {
        Urgency::Now
    } else {
        Urgency::Gather
    }
}
