//! Where two environments differ, field by field.

use super::Environment;
use serde_json::Value;
use std::collections::BTreeSet;

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// Its place, as `device.driver_version`; a whole part, as `gpu`, where one side lacks it.
    pub field: String,
    /// The first environment's value.
    pub first: Value,
    /// The second one's.
    pub second: Value,
}

/// Returns every field that differs, by place. A field that is added to the environment is compared from
/// then on.
#[must_use]
pub fn field_differences(first: &Environment, second: &Environment) -> Vec<FieldDifference> {
    // Plain data always has a JSON value.
    let value = |environment| serde_json::to_value(environment).unwrap_or_default();
    let mut found = Vec::new();
    compare(String::new(), &value(first), &value(second), &mut found);
    found
}

fn compare(field: String, first: &Value, second: &Value, found: &mut Vec<FieldDifference>) {
    if first == second {
        return;
    }
    let (Value::Object(a), Value::Object(b)) = (first, second) else {
        found.push(FieldDifference {
            field,
            first: first.clone(),
            second: second.clone(),
        });
        return;
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let place = if field.is_empty() {
            key.clone()
        } else {
            format!("{field}.{key}")
        };
        let value = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
        compare(place, &value(a), &value(b), found);
    }
}
