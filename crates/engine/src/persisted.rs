//! The persisted version of a Framework, as far as it is known.

use std::sync::Arc;

use framework_api::{Framework, FrameworkStatus};

use crate::object::Form;

/// One version of a Framework.
#[derive(Clone, Debug)]
pub struct Persisted {
    /// Metadata and spec.
    pub framework: Arc<Framework>,
    /// Its status; `None`: the controller has not seen it yet.
    pub status: Option<Arc<FrameworkStatus>>,
    /// Length of metadata and spec as the API server stores them.
    pub stored_bytes: usize,
    /// How the status is stored.
    pub form: Form,
}

impl Persisted {
    /// The number of Tasks that the status has, or will have.
    pub fn tasks(&self) -> usize {
        match &self.status {
            Some(status) => status.task_roles().iter().map(|role| role.task_statuses.len()).sum(),
            None => self.framework.spec.task_number(),
        }
    }

    /// Whether a status is compressed in any case: an attempt that was compressed once stays compressed.
    pub fn stays_compressed(&self, next: &FrameworkStatus) -> bool {
        let Some(status) = &self.status else { return false };
        self.form.compressed && status.attempt_status.id == next.attempt_status.id
    }
}
