//! Many Frameworks at once, on all cores.

use rayon::prelude::*;

use crate::observed::{Moment, Observed, Policy};
use crate::plan::Plan;
use crate::sync::sync;

/// Decides the next step of each; the plans come in the order of the observations.
pub fn sync_all(batch: &[(Observed<'_>, Moment)], policy: &Policy) -> Vec<Plan> {
    match batch {
        // A single one is not worth waking another thread.
        [(observed, moment)] => vec![sync(observed, *moment, policy)],
        batch => batch.par_iter().map(|(observed, moment)| sync(observed, *moment, policy)).collect(),
    }
}
