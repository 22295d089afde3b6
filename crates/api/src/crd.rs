//! The CustomResourceDefinition of `Framework`: the schema that the API server enforces. Those of queueing
//! are in [`queue`].
//!
//! It is derived from the types in [`crate::framework`] and [`crate::status`], with the rules of
//! `crate::schema`.

pub mod queue;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use schemars::generate::SchemaSettings;
use serde_json::{Number, Value};

use crate::framework::Framework;
pub use crate::schema::{MAX_TASK_ROLES, MAX_TASKS};
use crate::status::TaskRoleStatus;

/// Name of the CustomResourceDefinition.
pub const NAME: &str = "frameworks.frameworkcontroller.microsoft.com";

const HEADER: &str = "# Generated from crates/api by `UPDATE=1 cargo test --test repo drift`; do not edit.\n";

/// The CustomResourceDefinition.
///
/// It adds a schema of `metadata.name` to the derived one. Without it, no rule may name that field, and a
/// refusal would blame `<nil>`.
pub fn definition() -> CustomResourceDefinition {
    definition_with(StatusSchema::Described)
}

/// How much the schema says of `status`. The API server pays for it with each write; `cargo xtask bench
/// --crd-cost` measures the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSchema {
    /// Every field has its type, and the API server records who owns each.
    Typed,
    /// Every field has its type; the status has one owner.
    Atomic,
    /// The fields of the first level have a type, the values of an enum and a description; the status has one
    /// owner. As shipped.
    Described,
    /// Nothing; the status has one owner.
    Opaque,
}

impl StatusSchema {
    /// All variants, the most expensive first.
    pub const ALL: [StatusSchema; 4] =
        [StatusSchema::Typed, StatusSchema::Atomic, StatusSchema::Described, StatusSchema::Opaque];

    fn simplify(self, status: &mut JSONSchemaProps) {
        if self == StatusSchema::Typed {
            return;
        }
        status.x_kubernetes_map_type = Some("atomic".into());
        if self == StatusSchema::Atomic {
            return;
        }
        status.x_kubernetes_preserve_unknown_fields = Some(true);
        status.required = None;
        if self == StatusSchema::Opaque {
            status.properties = None;
            return;
        }
        for field in status.properties.iter_mut().flat_map(BTreeMap::values_mut) {
            *field = JSONSchemaProps {
                description: field.description.take(),
                type_: field.type_.take(),
                format: field.format.take(),
                enum_: field.enum_.take(),
                nullable: field.nullable,
                ..JSONSchemaProps::default()
            };
            match field.type_.as_deref() {
                Some("object") => field.x_kubernetes_preserve_unknown_fields = Some(true),
                Some("array") => field.items = Some(JSONSchemaPropsOrArray::Schema(Box::new(opaque()))),
                _ => {}
            }
        }
    }
}

fn opaque() -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some("object".into()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    }
}

/// The CustomResourceDefinition with another schema of `status`, to measure its cost.
pub fn definition_with(status: StatusSchema) -> CustomResourceDefinition {
    let mut definition = Framework::crd();
    name_the_name(&mut definition);
    for root in roots(&mut definition) {
        root.properties.iter_mut().filter_map(|all| all.get_mut("status")).for_each(|it| status.simplify(it));
    }
    definition
}

/// The schema of each version.
fn roots(definition: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let schemas = definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut())
}

/// Sets the path of the rules of whole objects to the path of the name, which they are about.
fn name_the_name(definition: &mut CustomResourceDefinition) {
    for root in roots(definition) {
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

/// The schema of an element of `taskRoleStatuses`, which no CustomResourceDefinition has: for documentation.
pub fn task_role_status() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<TaskRoleStatus>().into()
}

/// The CustomResourceDefinition as a YAML manifest, for `kubectl apply`.
pub fn manifest() -> String {
    yaml(&definition())
}

/// The same with another schema of `status`.
pub fn manifest_with(status: StatusSchema) -> String {
    yaml(&definition_with(status))
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
