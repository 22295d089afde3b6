//! Fields of a stored Framework that count as not set, and the sentence that reports them.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::framework::FrameworkSpec;
use crate::seconds::{ACTIVE_DEADLINE, TTL_AFTER_FINISHED};

const FIELDS: [(&str, RangeInclusive<i64>); 2] =
    [("activeDeadlineSeconds", ACTIVE_DEADLINE), ("ttlSecondsAfterFinished", TTL_AFTER_FINISHED)];

/// Longer values are not repeated in full.
const SHOWN: usize = 40;

/// The texts of the values. Nothing else of the spec is kept, because it may take a hundred times as much.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Values<'a> {
    #[serde(borrow, default)]
    active_deadline_seconds: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ttl_seconds_after_finished: Option<&'a RawValue>,
}

/// Names the fields of a spec that count as not set because their values are out of bounds. `json` is the
/// text that the spec was read from; it is parsed only if it names a field that the spec lacks.
pub fn out_of_bounds(spec: &FrameworkSpec, json: &str) -> Option<String> {
    let is_unset = [spec.active_deadline_seconds.is_none(), spec.ttl_seconds_after_finished.is_none()];
    if !FIELDS.iter().zip(is_unset).any(|((field, _), is_unset)| is_unset && json.contains(field)) {
        return None;
    }
    let values: Values<'_> = serde_json::from_str(json).ok()?;
    let values = [values.active_deadline_seconds, values.ttl_seconds_after_finished];
    let mut notes = Vec::new();
    for (((field, bounds), value), is_unset) in FIELDS.iter().zip(values).zip(is_unset) {
        if let Some(value) = value.filter(|_| is_unset) {
            let shown: String = value.get().chars().take(SHOWN).collect();
            let allowed = format!("a whole number from {} to {}", bounds.start(), bounds.end());
            notes.push(format!("spec.{field} counts as not set: {shown} is not {allowed}"));
        }
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(deadline: Value, ttl: Value) -> (Option<i64>, Option<i32>, Option<String>) {
        let spec =
            json!({"activeDeadlineSeconds": deadline, "ttlSecondsAfterFinished": ttl, "taskRoles": []});
        let text = spec.to_string();
        let spec: FrameworkSpec = serde_json::from_str(&text).expect("the rest is readable");
        (spec.active_deadline_seconds, spec.ttl_seconds_after_finished, out_of_bounds(&spec, &text))
    }

    #[test]
    fn a_value_within_bounds_is_taken_and_null_is_not_set() {
        let most = (Some(3_153_600_000), Some(2_147_483_647), None);
        assert_eq!(read(json!(1), json!(0)), (Some(1), Some(0), None));
        assert_eq!(read(json!(3_153_600_000_i64), json!(2_147_483_647)), most);
        assert_eq!(read(Value::Null, Value::Null), (None, None, None));
        let text = r#"{"description": "ttlSecondsAfterFinished", "taskRoles": []}"#;
        let spec: FrameworkSpec = serde_json::from_str(text).expect("a spec");
        assert_eq!(out_of_bounds(&spec, text), None);
    }

    #[test]
    fn a_value_out_of_bounds_counts_as_not_set_and_is_named() {
        let wrong = [
            (json!(0), json!(-1)),
            (json!(-7), json!(2_147_483_648_i64)),
            (json!(3_153_600_001_i64), json!(i64::MAX)),
            (json!(i64::MAX), json!(u64::MAX)),
            (json!(1e30), json!(1.5)),
            (json!("60"), json!("1h")),
            (json!(true), json!([1])),
            (json!({"a": "b".repeat(1000)}), json!({})),
        ];
        for (deadline, ttl) in wrong {
            let (first, second, notes) = read(deadline.clone(), ttl.clone());
            assert_eq!((first, second), (None, None), "{deadline} {ttl}");
            let notes = notes.unwrap();
            assert!(notes.starts_with("spec.activeDeadlineSeconds counts as not set: "), "{notes}");
            assert!(notes.contains("; spec.ttlSecondsAfterFinished counts as not set: "), "{notes}");
            assert!(notes.len() < 400, "{notes}");
        }
        let (deadline, ttl, notes) = read(json!(5), json!("60"));
        assert_eq!((deadline, ttl), (Some(5), None), "one does not spoil the other");
        let note = "spec.ttlSecondsAfterFinished counts as not set: \"60\" is not a whole number from 0 to";
        assert_eq!(notes.unwrap(), format!("{note} 2147483647"));
    }
}
