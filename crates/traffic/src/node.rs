//! Values of a TOML or JSON file with their places, so that each refusal can name its line.

use crate::text::{Read, Span, Wrong, quoted};
use jsonc_parser::ast::Value as JsonValue;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions};
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue};

/// Deepest nesting of a file.
const DEEPEST: usize = 32;

/// Value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) value: Any,
}

/// Value of any type.
#[derive(Clone, Debug)]
pub(crate) enum Any {
    /// Text, and the offset of its first byte in the file, if it stands there as it is.
    Text(String, Option<usize>),
    Integer(i64),
    /// Number that is not whole, as it is written.
    Number(String),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<(String, Span, Node)>),
    /// `null` of JSON, a date of TOML.
    Other,
}

impl Any {
    /// Returns the type in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(..) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other => "another type",
        }
    }
}

/// Reads a file: JSON if its first letter is `{`, else TOML.
pub(crate) fn read(text: &str) -> Read<Node> {
    match text.trim_start().starts_with('{') {
        true => json(text),
        false => toml(text),
    }
}

fn toml(text: &str) -> Read<Node> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..text.len());
        Wrong::new(at, error.message().lines().collect::<Vec<_>>().join(": "))
    })?;
    let at = table.span();
    Ok(Node {
        at,
        value: toml_table(table.get_ref(), text),
    })
}

fn toml_table(table: &DeTable<'_>, text: &str) -> Any {
    let entry = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        (key.get_ref().to_string(), key.span(), toml_node(value, text))
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    // As in the file.
    entries.sort_by_key(|(_, at, _)| at.start);
    Any::Table(entries)
}

fn toml_node(node: &toml::Spanned<DeValue<'_>>, text: &str) -> Node {
    let at = node.span();
    let value = match node.get_ref() {
        DeValue::String(string) => Any::Text(string.to_string(), verbatim(string, &at, text)),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Any::Other, Any::Integer)
        }
        DeValue::Float(float) => Any::Number(float.as_str().to_owned()),
        DeValue::Boolean(flag) => Any::Flag(*flag),
        DeValue::Datetime(_) => Any::Other,
        DeValue::Array(all) => Any::List(all.iter().map(|one| toml_node(one, text)).collect()),
        DeValue::Table(table) => toml_table(table, text),
    };
    Node { at, value }
}

/// Returns the offset of a string's first byte in the file, if nothing in it is escaped or folded.
fn verbatim(string: &str, at: &Span, text: &str) -> Option<usize> {
    let written = text.get(at.clone())?;
    let offset = written.find(string)?;
    // Quotes alone, and a line's end behind three of them, stand around it.
    (offset <= 5 && written.len() - string.len() <= 8).then_some(at.start + offset)
}

fn json(text: &str) -> Read<Node> {
    shallow(text)?;
    let options = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        let range = error.range();
        let line = error.kind().to_string();
        Wrong::new(range.start..range.end, line.lines().collect::<Vec<_>>().join(": "))
    })?;
    match parsed.value {
        Some(value) => Ok(json_node(&value, text)),
        None => Err(Wrong::new(0..text.len(), "want an object")),
    }
}

/// Refuses nesting that no traffic has, before it is followed.
fn shallow(text: &str) -> Read<()> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(Wrong::new(at..at + 1, format!("nested more than {DEEPEST} deep")));
        }
    }
    Ok(())
}

fn json_node(value: &JsonValue<'_>, text: &str) -> Node {
    let range = value.range();
    let at = range.start..range.end;
    let value = match value {
        JsonValue::StringLit(string) => Any::Text(string.value.to_string(), verbatim(&string.value, &at, text)),
        JsonValue::NumberLit(number) => match number.value.parse() {
            Ok(integer) => Any::Integer(integer),
            Err(_) => Any::Number(number.value.to_string()),
        },
        JsonValue::BooleanLit(flag) => Any::Flag(flag.value),
        JsonValue::NullKeyword(_) => Any::Other,
        JsonValue::Array(all) => Any::List(all.elements.iter().map(|one| json_node(one, text)).collect()),
        JsonValue::Object(object) => {
            let entry = |property: &jsonc_parser::ast::ObjectProp<'_>| {
                let range = property.name.range();
                (
                    property.name.as_str().to_owned(),
                    range.start..range.end,
                    json_node(&property.value, text),
                )
            };
            Any::Table(object.properties.iter().map(entry).collect())
        }
    };
    Node { at, value }
}

impl Node {
    /// Returns the entries of a table, none twice.
    pub(crate) fn table(&self, name: &str) -> Read<&[(String, Span, Node)]> {
        let Any::Table(entries) = &self.value else {
            return self.wrong(format!("{name}: want a table, not {}", self.value.kind()));
        };
        let mut seen = BTreeSet::new();
        if let Some((key, span, _)) = entries.iter().find(|(key, ..)| !seen.insert(key)) {
            return Err(Wrong::new(span.clone(), format!("{}: given twice", quoted(key))));
        }
        Ok(entries)
    }

    pub(crate) fn list(&self, name: &str) -> Read<&[Node]> {
        match &self.value {
            Any::List(all) => Ok(all),
            other => self.wrong(format!("{name}: want a list, not {}", other.kind())),
        }
    }

    /// Returns a text, also one that was written as a number.
    pub(crate) fn text(&self, name: &str) -> Read<String> {
        match &self.value {
            Any::Text(text, _) => Ok(text.clone()),
            Any::Integer(number) => Ok(number.to_string()),
            other => self.wrong(format!("{name}: want a text, not {}", other.kind())),
        }
    }

    /// Returns a text, also one that was written as a number of any kind.
    pub(crate) fn decimal(&self, name: &str) -> Read<String> {
        match &self.value {
            Any::Number(written) => Ok(written.clone()),
            _ => self.text(name),
        }
    }

    /// Returns a whole number from `least` to `most`.
    pub(crate) fn count(&self, name: &str, least: u64, most: u64) -> Read<u64> {
        let number = match &self.value {
            Any::Integer(number) => u64::try_from(*number).ok(),
            Any::Text(text, _) => text.parse().ok(),
            _ => None,
        };
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(number),
            None => self.wrong(format!("{name}: want a whole number from {least} to {most}")),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Read<bool> {
        match &self.value {
            Any::Flag(flag) => Ok(*flag),
            other => self.wrong(format!("{name}: want true or false, not {}", other.kind())),
        }
    }

    pub(crate) fn wrong<T>(&self, line: impl Into<String>) -> Read<T> {
        Err(Wrong::new(self.at.clone(), line))
    }

    /// Returns a refusal of this text, whose place is within the text.
    pub(crate) fn within(&self, wrong: Wrong) -> Wrong {
        match &self.value {
            Any::Text(_, Some(offset)) => Wrong::new(offset + wrong.at.start..offset + wrong.at.end, wrong.line),
            _ => Wrong::new(self.at.clone(), wrong.line),
        }
    }
}
