//! ResourceQuotas.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use framework_queue::{Amount, QuotaFacts};
use framework_queueing::QuotaObject;

use super::resource::{Read, Resource, Wire};
use super::typed::Metadata;

type List = BTreeMap<String, Quantity>;

#[derive(Deserialize)]
struct QuotaWire {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<QuotaSpecWire>,
    #[serde(default)]
    status: Option<QuotaStatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QuotaSpecWire {
    hard: Option<List>,
    scopes: Option<Vec<IgnoredAny>>,
    scope_selector: Option<ScopeSelectorWire>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScopeSelectorWire {
    match_expressions: Option<Vec<IgnoredAny>>,
}

impl QuotaSpecWire {
    /// Whether it limits not every Pod. A selector without expressions selects all.
    fn is_scoped(&self) -> bool {
        let selector = self.scope_selector.as_ref();
        let expressions = selector.and_then(|selector| selector.match_expressions.as_ref());
        [self.scopes.as_ref(), expressions].into_iter().flatten().any(|scopes| !scopes.is_empty())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QuotaStatusWire {
    hard: Option<List>,
    used: Option<List>,
}

impl Wire for QuotaObject {
    const RESOURCE: Resource = Resource::new("", "v1", "ResourceQuota", "resourcequotas");

    fn read(json: &RawValue) -> Result<Read<Self>, serde_json::Error> {
        let quota: QuotaWire = serde_json::from_str(json.get())?;
        Ok(Read::of(quota.metadata.resource_version.clone(), quota_of(quota)))
    }
}

/// The API server enforces `status`, which the quota controller writes, not `spec`.
fn quota_of(quota: QuotaWire) -> QuotaObject {
    let (key, resource_version) = quota.metadata.identity();
    let spec = quota.spec.unwrap_or_default();
    let status = quota.status.unwrap_or_default();
    let counted = status.hard.is_some();
    let limits = (!spec.is_scoped()).then(|| match status {
        QuotaStatusWire { hard: Some(hard), used } => QuotaFacts {
            hard: amounts(&hard),
            used: amounts(&used.unwrap_or_default()),
            ..Default::default()
        },
        // A quota that was just made counts as used up until its use is counted.
        QuotaStatusWire { hard: None, .. } => {
            let hard = amounts(&spec.hard.unwrap_or_default());
            QuotaFacts { used: hard.clone(), hard, ..Default::default() }
        }
    });
    QuotaObject { key, resource_version, limits, counted }
}

/// The API server stores no quantity that cannot be read.
fn amounts(list: &List) -> BTreeMap<String, Amount> {
    let read = |(key, quantity): (&String, &Quantity)| Some((key.clone(), Amount::of(quantity).ok()?));
    list.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    #[test]
    fn a_quota_without_a_scope_limits_every_pod_and_one_with_a_scope_does_not() {
        let limits = |spec: Value| {
            let quota = json!({
                "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7"},
                "spec": spec, "status": {"hard": {"pods": "4"}, "used": {"pods": "1"}},
            });
            let quota: QuotaObject = decode(quota.to_string().as_bytes()).unwrap().unwrap();
            quota.limits.is_some()
        };
        let empty = [json!({}), json!({"matchExpressions": null}), json!({"matchExpressions": []})];
        for selector in empty {
            assert!(limits(json!({"scopes": [], "scopeSelector": selector})), "{selector}");
        }
        let expression = json!({"scopeName": "Terminating", "operator": "Exists"});
        assert!(!limits(json!({"scopeSelector": {"matchExpressions": [expression]}})));
        assert!(!limits(json!({"scopes": ["Terminating"], "scopeSelector": {}})));
        assert!(limits(json!({"scopeSelector": null})));
    }
}
