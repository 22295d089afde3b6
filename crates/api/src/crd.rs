//! The CustomResourceDefinition of `Framework`: the schema that the API server enforces.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The most Tasks that a Framework may have, over all TaskRoles.
pub const MAX_TASKS: usize = 10_000;

/// A list whose elements the schema does not describe.
pub(crate) fn opaque_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-list-type": "atomic",
    })
}
