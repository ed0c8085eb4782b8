//! JSON form of a plan. `--print-plan` prints it, `mpps run` reads it, and the JSON summary contains it.
//!
//! A field that is not in the table of fields is refused. The path or the host chooses the value of a field that is
//! `null`.

use super::fields::{FIELDS, Field, Kind};
use super::model::{Plan, Workload, Written};
use mpps_io::PortSpec;
use mpps_sys::text::not_json;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

/// Version of the format. It changes when a plan of an earlier version would mean something else.
pub const VERSION: u64 = 1;

/// Prints the JSON, which contains no secret.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Plan {
    /// Returns the plan as JSON without secrets.
    pub fn json(&self) -> Value {
        let ports: Vec<_> = self
            .ports
            .iter()
            .map(|port| mpps_io::hide_secrets(port.text()))
            .collect();
        let mut plan = json!({ "mpps_plan": VERSION, "workload": self.workload.name(), "ports": ports });
        for field in FIELDS.iter().filter(|field| field.is_of(self.workload)) {
            let value = (field.access.write)(self);
            if field.sparse && value.is_null() {
                continue;
            }
            match field.section {
                "" => plan[field.key] = value,
                section => plan[section][field.key] = value,
            }
        }
        plan
    }

    /// Returns the plan as JSON text, one field per line.
    pub fn text(&self) -> String {
        format!("{:#}", self.json())
    }

    /// Reads the JSON text of a plan, or of a result that contains one.
    ///
    /// # Errors
    /// One line that names the field, its value and what would be right.
    pub fn of_json(text: &str) -> Result<Self, String> {
        Self::of_object(&object(text)?)
    }

    /// Reads a plan from the result of [`object`].
    ///
    /// # Errors
    /// As [`Plan::of_json`].
    pub fn of_object(plan: &Map<String, Value>) -> Result<Self, String> {
        let workload = match plan.get("workload").and_then(Value::as_str).and_then(Workload::named) {
            Some(workload) => workload,
            None => {
                let given = plan.get("workload").unwrap_or(&Value::Null);
                let all = Workload::ALL.map(Workload::name).join(", ");
                return Err(format!("workload: {given}: want one of {all}"));
            }
        };
        check_names(plan, workload)?;
        let mut read = Self::new(workload);
        read.ports = ports(plan, workload)?;
        for field in FIELDS.iter().filter(|field| field.is_of(workload)) {
            let value = match field.section {
                "" => plan.get(field.key),
                section => plan.get(section).and_then(|section| section.get(field.key)),
            };
            put(&mut read, field, value.unwrap_or(&Value::Null))?;
        }
        read.check_together()?;
        Ok(read)
    }

    /// Refuses fields that exclude each other, and fields that lack another one.
    fn check_together(&self) -> Result<(), String> {
        let fields = || FIELDS.iter().filter(|field| field.is_of(self.workload));
        let given = |field: &Field| !matches!((field.access.write)(self), Value::Null | Value::Bool(false));
        let of = |option: &str| fields().find(|field| field.option == option);
        let named = |field: &Field| format!("{} (--{})", field.name(), field.option);
        for field in fields() {
            if field.required && !given(field) {
                return Err(format!("{}: missing: want {}", named(field), field.value_name));
            }
            if let Some(other) = field.not_with.and_then(of).filter(|other| given(field) && given(other)) {
                let (one, other) = (named(field), named(other));
                return Err(format!("{one}: it cannot be used with {other}: want one of the two"));
            }
            if let Some(other) = field
                .only_with
                .and_then(of)
                .filter(|other| given(field) && !given(other))
            {
                return Err(format!("{}: want {} as well", named(field), named(other)));
            }
        }
        Ok(())
    }

    /// Returns the words of a command line for the same run, without the program's name.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.workload.name().into()];
        for field in FIELDS.iter().filter(|field| field.is_of(self.workload)) {
            let option = field.option;
            match (field.access.write)(self) {
                Value::Bool(true) => words.push(format!("--{option}").into()),
                Value::String(text) => words.push(format!("--{option}={text}").into()),
                Value::Number(n) => words.push(format!("--{option}={n}").into()),
                all @ Value::Array(_) if field.kind == Kind::Streams => words.push(format!("--{option}={all}").into()),
                Value::Array(all) => {
                    let texts = all.iter().filter_map(Value::as_str);
                    words.extend(texts.map(|text| format!("--{option}={text}").into()));
                }
                _ => {}
            }
        }
        words.push("--".into());
        words.extend(self.ports.iter().map(|port| port.text().into()));
        words
    }

    /// Returns whether a field is given.
    pub fn has(&self, name: &str) -> bool {
        let field = self.field(name);
        field.is_some_and(|field| !(field.access.write)(self).is_null())
    }

    /// Sets a field that is open. Does nothing if the field is given, or if the workload does not have it.
    pub fn fill(&mut self, name: &str, text: impl fmt::Display) {
        let open = |field: &&Field| (field.access.write)(self).is_null();
        if let Some(field) = self.field(name).filter(open) {
            let read = (field.access.read)(self, &text.to_string());
            debug_assert!(read.is_ok(), "{name}: {text}: {read:?}");
        }
    }
}

/// Reads a port. Its text gets the path's usual name, because results are compared by that name.
///
/// # Errors
/// One line on what is wrong.
pub fn port(text: &str) -> Result<Written<PortSpec>, String> {
    let named = match text.split_once(':') {
        Some((path, rest)) => format!("{}:{rest}", mpps_io::path_name(path)),
        None => text.to_owned(),
    };
    Ok(Written::new(named, text.parse::<PortSpec>().map_err(|error| error.0)?))
}

/// Returns the JSON object of a plan. `text` is a plan, or a result that contains one. Fields are not checked.
///
/// # Errors
/// One line on what is wrong.
pub fn object(text: &str) -> Result<Map<String, Value>, String> {
    // If a field is there twice, neither value can be trusted.
    let mut json = serde_json::Deserializer::from_str(text);
    match (Once { path: "" }).deserialize(&mut json) {
        Err(error) if error.is_data() => return Err(error.to_string()),
        // Other errors are reported below.
        _ => {}
    }
    let no_plan = |e: serde_json::Error| {
        let why = not_json(text.as_bytes(), (e.line(), e.column()), e.is_eof(), &e);
        format!("{why}: want a plan (--print-plan)")
    };
    let mut whole: Value = serde_json::from_str(text).map_err(no_plan)?;
    let schema = whole.get("schema").and_then(Value::as_str);
    if schema.is_some_and(|schema| schema.starts_with("mpps.test/")) {
        let why = "the result of a search, which varies a plan: want its plan alone, with a rate";
        return Err(format!("{why}: jq '.plan | .load.rate = \"1Mpps\"'"));
    }
    // A result contains its plan.
    if whole.get("mpps_plan").is_none()
        && let Some(plan) = whole.get_mut("plan")
    {
        whole = plan.take();
    }
    let Value::Object(plan) = whole else {
        return Err("no plan: want a JSON object such as --print-plan prints".to_owned());
    };
    match plan.get("mpps_plan") {
        Some(version) if version.as_u64() == Some(VERSION) => Ok(plan),
        Some(version) => Err(format!(
            "mpps_plan: {version}: want {VERSION}, the version of this program's plans"
        )),
        None => Err("mpps_plan: missing: want a plan such as --print-plan prints, or a summary that holds one".into()),
    }
}

/// Reads a field from its JSON.
fn put(plan: &mut Plan, field: &Field, value: &Value) -> Result<(), String> {
    let wrong = |want: &str| Err(format!("{}: {}: want {want}", field.name(), shown(&value.to_string())));
    let plain = |text: &&String| !text.contains(char::is_control);
    let mut read = |text: &str| {
        (field.access.read)(plan, text)
            .map_err(|why| format!("{} (--{}) '{}': {why}", field.name(), field.option, shown(text)))
    };
    match (field.kind, value) {
        (_, Value::Null) => Ok(()),
        (Kind::Flag, Value::Bool(on)) => read(&on.to_string()),
        (Kind::Flag, _) => wrong("true or false"),
        (Kind::Count, Value::Number(n)) if n.is_u64() => read(&n.to_string()),
        (Kind::Integer, Value::Number(n)) if n.is_i64() => read(&n.to_string()),
        (Kind::Count | Kind::Integer, _) => wrong("a whole number, or null"),
        (Kind::Text, Value::String(text)) if plain(&text) => read(text),
        (Kind::Text, _) => wrong("a text, as on the command line, or null"),
        (Kind::Texts, Value::Array(all)) => {
            let text = |one: &Value| match one {
                Value::String(text) if plain(&text) => Some(text.clone()),
                _ => None,
            };
            match all.iter().map(text).collect::<Option<Vec<_>>>() {
                Some(texts) => texts.iter().try_for_each(|text| read(text)),
                None => wrong("a list of texts"),
            }
        }
        (Kind::Texts, _) => wrong("a list of texts"),
        (Kind::Streams, Value::Array(_)) => (field.access.read)(plan, &value.to_string())
            .map_err(|why| format!("{} (--{}): {why}", field.name(), field.option)),
        (Kind::Streams, _) => wrong("a list of streams, or null"),
    }
}

/// Reads the ports of a plan.
fn ports(plan: &Map<String, Value>, workload: Workload) -> Result<Vec<Written<PortSpec>>, String> {
    let given = plan.get("ports").unwrap_or(&Value::Null);
    let texts = given
        .as_array()
        .map(|all| all.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    let Some(texts) = texts.flatten().filter(|texts| !texts.is_empty()) else {
        let given = shown(&given.to_string());
        return Err(format!(
            "ports: {given}: want a list of ports, such as [\"af_packet:eth1\"]"
        ));
    };
    let most = workload.most_ports();
    if let Some(beyond) = most.and_then(|most| texts.get(most)) {
        return Err(format!(
            "ports: '{}': a {} has {} at the most: want it left out",
            shown(beyond),
            workload.name(),
            most.unwrap_or_default()
        ));
    }
    let read = |text: &str| {
        if text.contains(char::is_control) {
            return Err(format!("ports: '{}': want no control characters", shown(text)));
        }
        if mpps_io::hide_secrets(text) == *text && text.contains("secret=") {
            return Err(format!(
                "ports: '{}': no plan holds a secret: want the secret of the run written in place of …",
                shown(text)
            ));
        }
        port(text).map_err(|why| format!("ports: {why}"))
    };
    texts.into_iter().map(read).collect()
}

/// Returns the field of an option: `load.rate` for `--rate`.
pub fn field_of(option: &str) -> Option<String> {
    let field = FIELDS
        .iter()
        .find(|field| option.strip_prefix("--") == Some(field.option))?;
    Some(field.name())
}

/// Goes through a value of a JSON text and refuses objects that have a key twice.
struct Once<'p> {
    /// Path of the value from the outermost object.
    path: &'p str,
}

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while all.next_element_seed(Once { path: self.path })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            let dot = if self.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}{}", self.path, shown(&key));
            if !seen.insert(key) {
                return Err(de::Error::custom(format!("{path}: it is there twice: want it once")));
            }
            fields.next_value_seed(Once { path: &path })?;
        }
        Ok(())
    }
}

/// Refuses sections and fields that plans of this workload do not have.
fn check_names(plan: &Map<String, Value>, workload: Workload) -> Result<(), String> {
    let fields: Vec<_> = FIELDS.iter().filter(|field| field.is_of(workload)).collect();
    let workload = workload.name();
    let sections = |section: &str| fields.iter().any(|field| field.section == section);
    let keys = |section: &str| {
        let own = fields.iter().filter(|field| field.section == section);
        own.map(|field| field.key).collect::<Vec<_>>()
    };
    for (name, value) in plan {
        if ["mpps_plan", "workload", "ports"].contains(&name.as_str()) || keys("").contains(&name.as_str()) {
            continue;
        }
        if !sections(name) || name.is_empty() {
            let known = FIELDS.iter().any(|field| field.section == name && !name.is_empty());
            return Err(match known {
                true => format!("{name}: a {workload} has none: want it left out"),
                false => {
                    let mut all = vec!["mpps_plan", "workload", "ports", "seed"];
                    all.extend(fields.iter().map(|field| field.section).filter(|name| !name.is_empty()));
                    all.dedup();
                    format!("{}: no such field: want {}", shown(name), all.join(", "))
                }
            });
        }
        let Value::Object(section) = value else {
            return Err(format!(
                "{name}: {}: want an object of {}",
                shown(&value.to_string()),
                keys(name).join(", ")
            ));
        };
        if let Some(key) = section.keys().find(|key| !keys(name).contains(&key.as_str())) {
            return Err(format!(
                "{name}.{}: a {workload} has no such field: want {}",
                shown(key),
                keys(name).join(", ")
            ));
        }
    }
    Ok(())
}

/// Shortens a text from a file and removes control characters and secrets.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    mpps_io::hide_secrets(&mpps_sys::text::plain(&short, ' '))
}

/// Puts field names beside the options in an error message.
pub fn in_fields(workload: Workload, line: &str) -> String {
    let mut told = line.to_owned();
    for field in FIELDS.iter().filter(|field| field.is_of(workload)) {
        let option = format!("--{}", field.option);
        let Some(at) = told.find(&option) else { continue };
        let end = told[at + option.len()..].chars().next();
        // Part of a longer option.
        if end.is_some_and(|c| c.is_alphanumeric() || c == '-') || told[..at].ends_with('(') {
            continue;
        }
        let name = format!("{} ({option})", field.name());
        told.replace_range(at..at + option.len(), &name);
    }
    told
}

/// Returns the JSON Schema (draft 2020-12) of plans.
pub fn schema() -> String {
    let mut properties = Map::new();
    properties.insert(
        "mpps_plan".to_owned(),
        json!({ "const": VERSION, "description": "Version of the format" }),
    );
    properties.insert(
        "workload".to_owned(),
        json!({ "enum": Workload::ALL.map(Workload::name), "description": "What the run does" }),
    );
    let ports = "The ports, as on the command line: PATH:DEVICE[,key=value…]";
    properties.insert(
        "ports".to_owned(),
        json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "description": ports }),
    );
    for field in FIELDS {
        let place = match field.section {
            "" => &mut properties,
            section => {
                let section = properties
                    .entry(section)
                    .or_insert_with(|| json!({ "type": "object", "additionalProperties": false, "properties": {} }));
                match &mut section["properties"] {
                    Value::Object(fields) => fields,
                    _ => continue,
                }
            }
        };
        // If workloads describe a field differently, the first description is used.
        place.entry(field.key).or_insert_with(|| of_field(field));
    }
    let only: Vec<Value> = Workload::ALL.into_iter().map(only).collect();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of mpps",
        "description": "What `mpps COMMAND … --print-plan` prints, `mpps run` does, and a JSON summary holds as \
                        `plan`. A field that is null is left to the path or to the host.",
        "type": "object",
        "required": ["mpps_plan", "workload", "ports"],
        "additionalProperties": false,
        "properties": properties,
        "allOf": only,
    });
    format!("{schema:#}\n")
}

/// Returns the schema of a field.
fn of_field(field: &Field) -> Value {
    let mut value = match field.kind {
        Kind::Text => json!({ "type": ["string", "null"] }),
        Kind::Count => json!({ "type": ["integer", "null"], "minimum": 0 }),
        Kind::Integer => json!({ "type": ["integer", "null"] }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Streams => {
            let stream = mpps_traffic::schema()["properties"]["stream"]["items"].take();
            json!({ "type": ["array", "null"], "items": stream })
        }
    };
    value["description"] = field.help.into();
    if let Some(text) = field.default {
        value["default"] = match field.kind {
            Kind::Count => text.parse::<u64>().map_or(Value::Null, Value::from),
            _ => text.into(),
        };
    }
    value
}

/// Returns the part of the schema that forbids fields of other workloads.
fn only(workload: Workload) -> Value {
    let own = |section: &str, key: Option<&str>| {
        let of = |field: &&Field| field.section == section && key.is_none_or(|key| field.key == key);
        FIELDS.iter().filter(of).any(|field| field.is_of(workload))
    };
    let mut absent = Map::new();
    for field in FIELDS.iter().filter(|field| !field.section.is_empty()) {
        if own(field.section, Some(field.key)) {
            continue;
        }
        match own(field.section, None) {
            false => absent.insert(field.section.to_owned(), false.into()).map_or((), drop),
            true => {
                let section = absent
                    .entry(field.section)
                    .or_insert_with(|| json!({ "properties": {} }));
                section["properties"][field.key] = false.into();
            }
        }
    }
    json!({
        "if": { "properties": { "workload": { "const": workload.name() } } },
        "then": { "properties": absent },
    })
}
