//! Recognises our own status writes when the watch shows them: they are not decoded again.
//!
//! A resourceVersion names one content of one object. So the watch shows under a version the same object as
//! the answer to the write, and only the names of an echo are read, however large its status is. Guarantees:
//! an object that is not known for sure is decoded; the memory keeps no status alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use framework_api::{Framework, FrameworkStatus};
use framework_engine::object::{Form, FrameworkObject};

use crate::wire::FrameworkText;

/// The answer to the latest write of each Framework.
#[derive(Debug, Default)]
pub struct Echoes {
    known: Mutex<KnownEchoes>,
}

#[derive(Debug, Default)]
struct KnownEchoes {
    /// By UID.
    echoes: BTreeMap<Arc<str>, Echo>,
    /// The number of echoes at which dead ones are removed.
    full: usize,
}

#[derive(Debug)]
struct Echo {
    resource_version: u128,
    stored_bytes: usize,
    form: Form,
    framework: Weak<Framework>,
    status: Weak<FrameworkStatus>,
}

impl Echoes {
    /// Remembers the answer to a write: the watch will show it, too.
    pub fn expect(&self, answer: &FrameworkObject) {
        let Ok((framework, Some(status))) = &answer.content else { return };
        let echo = Echo {
            resource_version: answer.resource_version,
            stored_bytes: answer.stored_bytes,
            form: answer.form,
            framework: Arc::downgrade(framework),
            status: Arc::downgrade(status),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.echoes.len() >= known.full {
            known.echoes.retain(|_, echo| echo.status.strong_count() > 0);
            known.full = (2 * known.echoes.len()).max(64);
        }
        known.echoes.insert(Arc::clone(&answer.uid), echo);
    }

    /// The object, if this is the echo of a write.
    pub fn recall(&self, text: &FrameworkText) -> Option<FrameworkObject> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = |echo: &&Echo| echo.resource_version == text.resource_version;
        known.echoes.get(&text.uid).filter(of_it)?;
        let echo = known.echoes.remove(&text.uid)?;
        Some(FrameworkObject {
            key: text.key.clone(),
            uid: Arc::clone(&text.uid),
            resource_version: echo.resource_version,
            stored_bytes: echo.stored_bytes,
            content: Ok((echo.framework.upgrade()?, Some(echo.status.upgrade()?))),
            form: echo.form,
            // They were reported when the spec was read.
            ignored: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::{FrameworkText, decode};

    fn framework(version: &str) -> Value {
        let at = "2026-01-01T00:00:00Z";
        json!({
            "metadata": {"name": "job", "namespace": "ns", "uid": "f", "resourceVersion": version},
            "spec": {"taskRoles": []},
            "status": {
                "startTime": at, "state": "AttemptCreationPending", "transitionTime": at,
                "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
                "attemptStatus": {"id": 0, "startTime": at, "configMapName": "job-attempt"},
            },
        })
    }

    fn text(version: &str) -> FrameworkText {
        decode(framework(version).to_string().as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn the_echo_of_a_write_is_the_very_object_that_was_answered() {
        let echoes = Echoes::default();
        let answer = text("5").decoded();
        echoes.expect(&answer);
        let status =
            |object: &FrameworkObject| Arc::clone(object.content.as_ref().unwrap().1.as_ref().unwrap());
        let echo = echoes.recall(&text("5")).unwrap();
        assert!(Arc::ptr_eq(&status(&echo), &status(&answer)));
        assert!(echoes.recall(&text("5")).is_none(), "an echo comes once");
    }

    #[test]
    fn another_version_is_no_echo() {
        let echoes = Echoes::default();
        let answer = text("5").decoded();
        echoes.expect(&answer);
        assert!(echoes.recall(&text("6")).is_none());
        assert!(echoes.recall(&text("5")).is_some(), "the write of another came in between");
    }

    #[test]
    fn an_echo_keeps_no_status_alive() {
        let echoes = Echoes::default();
        echoes.expect(&text("5").decoded());
        assert!(echoes.recall(&text("5")).is_none());
    }
}
