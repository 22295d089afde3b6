//! The CustomResourceDefinition of `Framework`: the schema that the API server enforces. Those of queueing
//! are in [`queue`].
//!
//! It is derived from the types in [`crate::framework`] and [`crate::status`], with the rules of
//! `crate::schema`.

pub mod queue;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::{Number, Value};

use crate::framework::Framework;
pub use crate::schema::{MAX_TASK_ROLES, MAX_TASKS};

/// Name of the CustomResourceDefinition.
pub const NAME: &str = "frameworks.frameworkcontroller.microsoft.com";

const HEADER: &str = "# Generated from crates/api by `UPDATE=1 cargo test --test repo drift`; do not edit.\n";

/// The CustomResourceDefinition.
///
/// It adds a schema of `metadata.name` to the derived one. Without it, no rule may name that field, and a
/// refusal would blame `<nil>`.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Framework::crd();
    name_the_name(&mut definition);
    definition
}

/// Sets the path of the rules of whole objects to the path of the name, which they are about.
fn name_the_name(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        let name = JSONSchemaProps { type_: Some("string".into()), ..Default::default() };
        let metadata = JSONSchemaProps {
            type_: Some("object".into()),
            properties: Some(BTreeMap::from([("name".to_owned(), name)])),
            ..Default::default()
        };
        root.properties.get_or_insert_default().insert("metadata".to_owned(), metadata);
        for rule in root.x_kubernetes_validations.iter_mut().flatten() {
            rule.field_path = Some(".metadata.name".to_owned());
        }
    }
}

/// The CustomResourceDefinition as a YAML manifest, for `kubectl apply`.
pub fn manifest() -> String {
    yaml(&definition())
}

fn yaml(definition: &CustomResourceDefinition) -> String {
    let mut tree = serde_json::to_value(definition).expect("a definition is plain data");
    whole_numbers(&mut tree);
    let yaml = serde_saphyr::to_string(&tree).expect("plain data has a YAML form");
    format!("{HEADER}{yaml}")
}

/// Writes `-2.0` as `-2`: in the type of the definition, bounds of integers are floats, too.
fn whole_numbers(tree: &mut Value) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0) {
                *number = Number::from(float as i64);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
