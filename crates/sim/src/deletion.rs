//! DELETE: preconditions, grace, finalizers and propagation.
//!
//! The order of the steps is the real server's, because clients can see it. A Pod that goes at once is first
//! written with its deletionTimestamp and then removed; a ConfigMap is removed without one.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::clock::wire_time;
use crate::history::{Cause, Verb};
use crate::kind::{Kind, KindId};
use crate::object::{FOREGROUND, Meta, ORPHAN, Object, metadata_mut, put};
use crate::refusal::Refusal;
use crate::store::{Caller, Key, Store};

/// The options of a DELETE.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeleteOptions {
    /// Only if the object has this UID.
    pub uid: Option<String>,
    /// Only if the object has this resourceVersion.
    pub version: Option<String>,
    /// Seconds a Pod may take to end.
    pub grace: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<String>,
}

impl DeleteOptions {
    /// Reads the body of a DELETE, which may be absent.
    #[must_use]
    pub fn read(body: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            grace: body["gracePeriodSeconds"].as_i64(),
            propagation: text(&body["propagationPolicy"]),
        }
    }

    /// Only the object with that UID.
    #[must_use]
    pub fn of_uid(uid: &str) -> Self {
        Self { uid: Some(uid.to_owned()), ..Self::default() }
    }
}

/// The result of a DELETE.
#[derive(Debug)]
pub struct Deletion {
    /// The object as it was last.
    pub object: Arc<Object>,
    /// Whether it is gone, and not just on its way.
    pub gone: bool,
}

/// The effect of the grace period on a deletion.
enum Grace {
    /// The kind or the state of the object knows none: finalizers decide.
    None,
    /// The deletion is under way already and the request does not shorten it.
    Pending,
    /// The deletion is to be (re)written with this period and end.
    Set { period: i64, end: Timestamp },
}

impl Store {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// When it is absent or a precondition does not hold.
    pub fn delete(
        &mut self,
        caller: &Caller,
        kind: KindId,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deletion, Refusal> {
        let old = self.expect(kind, key)?;
        let rules = Arc::clone(self.registry.get(kind));
        check_preconditions(&rules, &old, options)?;
        let cause = Cause {
            uid: options.uid.clone(),
            version: options.version.clone(),
            grace: options.grace,
            propagation: options.propagation.clone(),
            ..caller.cause(Verb::Delete)
        };
        let finalizers = finalizers_after(&old, options.propagation.as_deref());
        match grace(&rules, &old, options.grace, caller.time) {
            Grace::Pending => Ok(Deletion { object: old, gone: false }),
            Grace::None if finalizers.is_empty() => {
                self.remove(caller, kind, &old, cause);
                Ok(Deletion { object: old, gone: true })
            }
            Grace::None => {
                let object = self.mark(caller, kind, &old, cause, (0, caller.time, &finalizers));
                Ok(Deletion { object, gone: false })
            }
            Grace::Set { period, end } => {
                let object = self.mark(caller, kind, &old, cause.clone(), (period, end, &finalizers));
                let gone = period == 0 && finalizers.is_empty();
                if gone {
                    self.remove(caller, kind, &object, cause);
                }
                Ok(Deletion { object, gone })
            }
        }
    }

    /// Writes the beginning of a deletion into the object, unless all of it stands there already.
    fn mark(
        &mut self,
        caller: &Caller,
        kind: KindId,
        old: &Arc<Object>,
        cause: Cause,
        (period, end, finalizers): (i64, Timestamp, &[String]),
    ) -> Arc<Object> {
        let mut new = Value::clone(old);
        let metadata = metadata_mut(&mut new);
        if !old.deleting() || (period > 0 || old["metadata"]["deletionGracePeriodSeconds"] != period) {
            metadata.insert("deletionTimestamp".to_owned(), json!(wire_time(end)));
            metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(period));
        }
        if !old.deleting()
            && let Some(generation) = old["metadata"]["generation"].as_i64()
        {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
        put(metadata, "finalizers", (!finalizers.is_empty()).then(|| json!(finalizers)));
        if new == ***old {
            return Arc::clone(old);
        }
        self.commit(caller, kind, Some(Arc::clone(old)), new, cause)
    }
}

fn check_preconditions(rules: &Kind, old: &Value, options: &DeleteOptions) -> Result<(), Refusal> {
    if let Some(given) = &options.uid
        && given != old.uid()
    {
        let stored = old.uid();
        let why = format!(
            "the UID in the precondition ({given}) does not match the UID in record ({stored}). The object \
             might have been deleted and then recreated"
        );
        return Err(Refusal::precondition(rules, old.name(), &why));
    }
    if let Some(given) = &options.version
        && given != old.meta("resourceVersion")
    {
        let stored = old.meta("resourceVersion");
        let why = format!(
            "the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record \
             ({stored}). The object might have been modified"
        );
        return Err(Refusal::precondition(rules, old.name(), &why));
    }
    Ok(())
}

fn grace(rules: &Kind, old: &Value, asked: Option<i64>, now: Timestamp) -> Grace {
    if !rules.graceful {
        return Grace::None;
    }
    let seconds = |period: i64| SignedDuration::from_secs(period);
    if old.deleting() {
        let current = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        return match asked {
            _ if current == 0 => Grace::None,
            Some(period) if period < current => {
                let end = old.meta("deletionTimestamp").parse().unwrap_or(now);
                Grace::Set { period, end: end - seconds(current) + seconds(period) }
            }
            _ => Grace::Pending,
        };
    }
    let ended = matches!(old["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let unscheduled = old["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    let period = if ended || unscheduled {
        0
    } else {
        asked.or(old["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0)
    };
    let period = if period < 0 { 1 } else { period };
    Grace::Set { period, end: now + seconds(period) }
}

/// The finalizers once the propagation policy of the request has been written into them.
fn finalizers_after(old: &Value, propagation: Option<&str>) -> Vec<String> {
    let orphan = propagation.map_or(old.has_finalizer(ORPHAN), |policy| policy == "Orphan");
    let foreground = match propagation {
        Some(policy) => policy == "Foreground",
        None => old.has_finalizer(FOREGROUND),
    };
    let all = old["metadata"]["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    let names = all.iter().filter_map(Value::as_str).map(str::to_owned);
    let same = old.has_finalizer(ORPHAN) == orphan && old.has_finalizer(FOREGROUND) == foreground;
    if same {
        return names.collect();
    }
    let mut names: Vec<String> = names.filter(|name| name != ORPHAN && name != FOREGROUND).collect();
    names.extend(orphan.then(|| ORPHAN.to_owned()));
    names.extend(foreground.then(|| FOREGROUND.to_owned()));
    names
}
