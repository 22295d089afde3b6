//! ResourceQuotas.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserializer;

use framework_queue::{Amount, QuotaFacts};
use framework_queueing::QuotaObject;

use super::resource::{Read, Resource, Wire};
use super::typed::{self, identity};

impl Wire for QuotaObject {
    const RESOURCE: Resource = Resource::new("", "v1", "ResourceQuota", "resourcequotas");

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        typed::read(deserializer, quota_of)
    }
}

/// The API server enforces `status`, which the quota controller writes, not `spec`.
fn quota_of(quota: ResourceQuota) -> QuotaObject {
    let (key, resource_version) = identity(&quota.metadata);
    let spec = quota.spec.unwrap_or_default();
    let scoped =
        spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || spec.scope_selector.is_some();
    let status = quota.status.unwrap_or_default();
    let counted = status.hard.is_some();
    let limits = (!scoped).then(|| match status {
        ResourceQuotaStatus { hard: Some(hard), used } => QuotaFacts {
            hard: amounts(&hard),
            used: amounts(&used.unwrap_or_default()),
            ..Default::default()
        },
        // A quota that was just made counts as used up until its use is counted.
        ResourceQuotaStatus { hard: None, .. } => {
            let hard = amounts(&spec.hard.unwrap_or_default());
            QuotaFacts { used: hard.clone(), hard, ..Default::default() }
        }
    });
    QuotaObject { key, resource_version, limits, counted }
}

/// The API server stores no quantity that cannot be read.
fn amounts(list: &BTreeMap<String, Quantity>) -> BTreeMap<String, Amount> {
    let read = |(key, quantity): (&String, &Quantity)| Some((key.clone(), Amount::of(quantity).ok()?));
    list.iter().filter_map(read).collect()
}
