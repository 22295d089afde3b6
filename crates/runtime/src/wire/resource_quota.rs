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
    scope_selector: Option<IgnoredAny>,
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
    let scoped =
        spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || spec.scope_selector.is_some();
    let status = quota.status.unwrap_or_default();
    let counted = status.hard.is_some();
    let limits = (!scoped).then(|| match status {
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
