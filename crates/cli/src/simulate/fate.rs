//! How the Pods of a simulated Framework end.

use std::collections::BTreeMap;

use framework_api::FrameworkSpec;

use crate::failure::{Failure, Tasks};

/// Seconds that a Pod runs until it succeeds.
const SUCCEEDS_AFTER: i64 = 60;
/// Seconds that a Pod runs until it fails.
const FAILS_AFTER: i64 = 30;

/// How a Pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Seconds that it runs; `None`: until it is deleted.
    pub seconds: Option<i64>,
    /// Its exit code.
    pub code: i32,
}

/// How all Pods go: an entry of one Task decides before one of its TaskRole.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    failures: BTreeMap<(String, Option<i32>), (i32, Option<u32>)>,
    endless: Vec<Tasks>,
}

impl Fates {
    /// The fates that the options give. Each must name Tasks of the Framework.
    pub fn new(spec: &FrameworkSpec, failures: &[Failure], endless: &[Tasks]) -> Result<Fates, String> {
        for Tasks { role, index } in failures.iter().map(|failure| &failure.tasks).chain(endless) {
            let known: Vec<&str> = spec.task_roles.iter().map(|role| role.name.as_str()).collect();
            let known = known.join(", ");
            let found = spec.task_role(role);
            let found = found.ok_or_else(|| format!("it has no TaskRole {role:?}; it has {known}"))?;
            if let Some(index) = index.filter(|index| !(0..found.task_number).contains(index)) {
                let number = found.task_number;
                return Err(format!("TaskRole {role:?} has no Task {index}: its taskNumber is {number}"));
            }
        }
        Ok(Fates { failures: failures.iter().map(entry).collect(), endless: endless.to_vec() })
    }

    /// The fate of the Pod of a Task, after the Task had so many Pods before.
    pub fn of(&self, role: &str, index: i32, before: u32) -> Fate {
        let at = |index| self.failures.get(&(role.to_owned(), index));
        let runs = |at: Option<i32>| self.endless.iter().any(|tasks| tasks.role == role && tasks.index == at);
        let failure = at(Some(index)).or_else(|| at(None).filter(|_| !runs(Some(index))));
        if let Some((code, times)) = failure
            && times.is_none_or(|times| before < times)
        {
            return Fate { seconds: Some(FAILS_AFTER), code: *code };
        }
        let is_endless = runs(Some(index)) || runs(None);
        Fate { seconds: (!is_endless).then_some(SUCCEEDS_AFTER), code: 0 }
    }
}

fn entry(failure: &Failure) -> ((String, Option<i32>), (i32, Option<u32>)) {
    let Tasks { role, index } = failure.tasks.clone();
    ((role, index), (failure.code, failure.times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_task_decides_before_that_of_its_role() {
        let failures = ["w=1", "w:1=2x1"].map(|text| text.parse().unwrap());
        let endless = ["w:1", "w:2"].map(|text| text.parse().unwrap()).to_vec();
        let fates = Fates { failures: failures.iter().map(entry).collect(), endless };
        assert_eq!(fates.of("w", 0, 9), Fate { seconds: Some(30), code: 1 });
        assert_eq!(fates.of("w", 1, 0), Fate { seconds: Some(30), code: 2 });
        assert_eq!(fates.of("w", 1, 1), Fate { seconds: None, code: 0 });
        assert_eq!(fates.of("w", 2, 0), Fate { seconds: None, code: 0 });
        assert_eq!(fates.of("v", 0, 0), Fate { seconds: Some(60), code: 0 });
    }
}
