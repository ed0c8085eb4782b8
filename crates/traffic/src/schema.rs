//! JSON Schema of a traffic file, which editors complete and check by.

use crate::file::{KEYS, Type};
use serde_json::{Map, Value, json};

/// Returns the JSON Schema of a traffic file, TOML or JSON.
pub fn schema() -> Value {
    let stream: Map<String, Value> = KEYS
        .iter()
        .map(|key| {
            let mut property = match key.form {
                Type::Text if key.one_of.is_empty() => json!({ "type": ["string", "number"] }),
                Type::Text => json!({ "enum": key.one_of }),
                // Variables stand in texts.
                Type::Count => json!({ "type": ["integer", "string"] }),
                Type::Flag => json!({ "type": "boolean" }),
                Type::Counts => json!({ "type": "array", "items": { "type": "integer", "minimum": 0 } }),
                Type::Burst => json!({
                    "type": "object",
                    "required": ["packets", "gap"],
                    "additionalProperties": false,
                    "properties": {
                        "packets": { "type": "integer", "minimum": 1 },
                        "gap": { "type": "string" },
                        "count": { "type": "integer", "minimum": 1 },
                    },
                }),
            };
            property["description"] = json!(key.about);
            (key.name.to_owned(), property)
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mpps traffic",
        "description": "Streams of packets, for --traffic FILE. docs/use/traffic.md describes the language of packets.",
        "type": "object",
        "required": ["stream"],
        "additionalProperties": false,
        "properties": {
            "$schema": { "type": "string" },
            "comment": { "type": "string" },
            "vars": {
                "description": "Variables: $NAME stands for the value in packets, sizes, rates and counts.",
                "type": "object",
                "additionalProperties": { "type": ["string", "integer"] },
            },
            "stream": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "oneOf": [{ "required": ["packet"] }, { "required": ["pcap"] }],
                    "additionalProperties": false,
                    "properties": stream,
                },
            },
        },
    })
}
