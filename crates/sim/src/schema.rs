//! The OpenAPI schema of a custom resource, applied to an object as the API server does: unknown fields are
//! pruned, and defaults filled in.

use serde_json::Value;

/// Drops the fields of an object that its schema does not know; type and metadata always stay.
pub(crate) fn prune(object: &mut Value, schema: &Value) {
    let Value::Object(fields) = object else { return };
    let known = &schema["properties"];
    fields.retain(|name, _| {
        matches!(name.as_str(), "apiVersion" | "kind" | "metadata") || known.get(name).is_some()
    });
    for (name, field) in fields.iter_mut().filter(|(name, _)| *name != "metadata") {
        prune_field(field, &known[name]);
    }
}

fn prune_field(value: &mut Value, schema: &Value) {
    let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(fields) => {
            let (known, others) = (&schema["properties"], &schema["additionalProperties"]);
            fields.retain(|name, _| keeps_all || known.get(name).is_some() || !others.is_null());
            for (name, field) in fields.iter_mut() {
                match known.get(name) {
                    Some(schema) => prune_field(field, schema),
                    None if others.is_object() => prune_field(field, others),
                    None => {}
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            items.iter_mut().for_each(|item| prune_field(item, &schema["items"]));
        }
        _ => {}
    }
}

/// Fills in the defaults of an OpenAPI schema.
pub(crate) fn fill_defaults(value: &mut Value, schema: &Value) {
    if let (Value::Object(map), Some(fields)) = (&mut *value, schema["properties"].as_object()) {
        for (name, field) in fields {
            if let Some(default) = field.get("default")
                && map.get(name).is_none_or(|set| set.is_null() && field["nullable"] != true)
            {
                map.insert(name.clone(), default.clone());
            }
            if let Some(set) = map.get_mut(name) {
                fill_defaults(set, field);
            }
        }
    }
    if let (Value::Array(items), Some(schema)) = (&mut *value, schema.get("items")) {
        for item in items {
            fill_defaults(item, schema);
        }
    }
    if let (Value::Object(map), Some(schema)) = (value, schema.get("additionalProperties"))
        && schema.is_object()
    {
        for item in map.values_mut() {
            fill_defaults(item, schema);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_absent_fields_at_every_depth() {
        let schema = json!({ "properties": { "spec": { "properties": {
            "a": { "default": 1 },
            "b": { "default": {}, "properties": { "c": { "default": "x" } } },
            "l": { "items": { "properties": { "d": { "default": true } } } },
        } } } });
        let mut value = json!({ "spec": { "a": 7, "l": [{}, { "d": false }] } });
        fill_defaults(&mut value, &schema);
        assert_eq!(
            value,
            json!({ "spec": { "a": 7, "b": { "c": "x" }, "l": [{ "d": true }, { "d": false }] } })
        );
    }

    #[test]
    fn pruning_drops_fields_that_the_schema_does_not_know() {
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": { "a": { "type": "integer" },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "map": { "type": "object", "additionalProperties": { "type": "string" } },
                "list": { "type": "array", "items": { "type": "object", "properties": { "d": {} } } },
            } },
        } });
        let spec = json!({ "a": 1, "b": 2, "free": { "c": 3 }, "map": { "k": "v" },
            "list": [{ "d": 4, "e": 5 }] });
        let mut value = json!({ "kind": "K", "metadata": { "name": "n" }, "spec": spec, "other": 6 });
        prune(&mut value, &schema);
        let spec = json!({ "a": 1, "free": { "c": 3 }, "map": { "k": "v" }, "list": [{ "d": 4 }] });
        assert_eq!(value, json!({ "kind": "K", "metadata": { "name": "n" }, "spec": spec }));
    }
}
