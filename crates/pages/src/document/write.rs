//! The text of `result.json`: an object's fields and a list's entries each on their line, but rows of tables, points
//! and other lists of plain values on one, so that people can read it and tools compare it.

use serde_json::Value;

/// The text of a value, with an end of line.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text.push('\n');
    text
}

fn write(text: &mut String, value: &Value, depth: usize) {
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Array(all) if all.iter().any(|value| value.is_array() || value.is_object()) => {
            for (i, value) in all.iter().enumerate() {
                text.push(if i == 0 { '[' } else { ',' });
                line(text, depth + 1);
                write(text, value, depth + 1);
            }
            line(text, depth);
            text.push(']');
        }
        Value::Array(all) => {
            let all: Vec<_> = all.iter().map(Value::to_string).collect();
            text.push_str(&format!("[{}]", all.join(", ")));
        }
        Value::Object(all) if !all.is_empty() => {
            for (i, (key, value)) in all.iter().enumerate() {
                text.push(if i == 0 { '{' } else { ',' });
                line(text, depth + 1);
                text.push_str(&format!("{}: ", Value::from(key.as_str())));
                write(text, value, depth + 1);
            }
            line(text, depth);
            text.push('}');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_plain_values_are_on_a_line() {
        let value =
            json!({ "a": [1, null, "x\n\"y"], "b": [[1, 2.5], [3, null]], "c": {}, "d": [], "e": { "f": true } });
        let shown = text(&value);
        let want = "{\n  \"a\": [1, null, \"x\\n\\\"y\"],\n  \"b\": [\n    [1, 2.5],\n    [3, null]\n  ],\n  \
                    \"c\": {},\n  \"d\": [],\n  \"e\": {\n    \"f\": true\n  }\n}\n";
        assert_eq!(shown, want);
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
}
