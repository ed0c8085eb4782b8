//! A run as a value: what `--print-plan` prints, `mpps run` does, and the JSON summary holds.
//!
//! Each field is an option of the command line, in the same words, so a plan is checked by what checks the options, and
//! a field that is not in the table below does not exist. A field that is `null` is left to the path or to the host.

use super::traffic::{DEFAULT_SRC_PORTS, dashed};
use crate::cli::{Cli, values};
use crate::paths::has_sockets;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

/// The version of the format; it changes when a plan of an earlier version would mean something else.
const VERSION: u64 = 1;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A text, as on the command line.
    Text,
    /// A whole number.
    Count,
    /// A whole number, with a sign if need be.
    Integer,
    /// `true` or `false`.
    Flag,
    /// A list of texts: the option as often.
    Texts,
}

/// A field: where it stands, and the option that it is.
struct Field {
    /// Empty for the outermost.
    section: &'static str,
    key: &'static str,
    option: &'static str,
    kind: Kind,
}

const fn field(section: &'static str, key: &'static str, option: &'static str, kind: Kind) -> Field {
    Field {
        section,
        key,
        option,
        kind,
    }
}

/// All fields but `mpps_plan`, `workload` and `ports`. Which of them a workload has is what its options are.
const FIELDS: &[Field] = &[
    field("", "seed", "seed", Kind::Count),
    field("traffic", "src", "src", Kind::Text),
    field("traffic", "src_ports", "src-port-range", Kind::Text),
    field("traffic", "dest", "dest", Kind::Text),
    field("traffic", "dest_mac", "dest-mac", Kind::Text),
    field("traffic", "gateway", "gateway", Kind::Text),
    field("traffic", "both_ways", "both-ways", Kind::Flag),
    field("traffic", "back_dest_mac", "back-dest-mac", Kind::Text),
    field("traffic", "back_gateway", "back-gateway", Kind::Text),
    field("traffic", "vlan", "vlan", Kind::Count),
    field("traffic", "step", "step", Kind::Text),
    field("traffic", "flows", "flows", Kind::Count),
    field("traffic", "count", "count", Kind::Count),
    field("traffic", "payload_size", "payload-size", Kind::Count),
    field("traffic", "frame_size", "frame-size", Kind::Count),
    field("traffic", "ttl", "ttl", Kind::Count),
    field("traffic", "dscp", "dscp", Kind::Count),
    field("load", "rate", "rate", Kind::Text),
    field("load", "then", "then", Kind::Text),
    field("load", "pacing", "pacing", Kind::Text),
    field("load", "catch_up", "catch-up", Kind::Text),
    field("selection", "take", "take", Kind::Text),
    field("selection", "ip", "ip", Kind::Text),
    field("selection", "ports", "port", Kind::Text),
    field("selection", "proto", "proto", Kind::Text),
    field("forward", "mode", "mode", Kind::Text),
    field("forward", "dest_mac", "dest-mac", Kind::Text),
    field("forward", "drain", "drain", Kind::Text),
    field("forward", "work", "work", Kind::Text),
    field("forward", "split_directions", "split-directions", Kind::Flag),
    field("capture", "output", "output", Kind::Text),
    field("capture", "snap_len", "snap-len", Kind::Count),
    field("capture", "rotate_size", "rotate-size", Kind::Text),
    field("capture", "max_files", "max-files", Kind::Count),
    field("capture", "count", "count", Kind::Count),
    field("capture", "buffer", "buffer", Kind::Text),
    field("times", "duration", "duration", Kind::Text),
    field("times", "interval", "interval", Kind::Text),
    field("times", "settle", "settle", Kind::Text),
    field("times", "settle_early", "settle-early", Kind::Flag),
    field("lanes", "lanes", "lanes", Kind::Count),
    field("lanes", "tx_lanes", "tx-lanes", Kind::Count),
    field("lanes", "rx_lanes", "rx-lanes", Kind::Count),
    field("lanes", "cores", "cores", Kind::Text),
    field("lanes", "burst", "burst", Kind::Count),
    field("lanes", "tx_burst", "tx-burst", Kind::Count),
    field("lanes", "rx_burst", "rx-burst", Kind::Count),
    field("lanes", "on_full", "on-full", Kind::Text),
    field("lanes", "busy_poll", "busy-poll", Kind::Flag),
    field("lanes", "nice", "nice", Kind::Integer),
    field("lanes", "fifo", "fifo", Kind::Count),
    field("checks", "tolerance", "tolerance", Kind::Text),
    field("checks", "no_verify", "no-verify", Kind::Flag),
    field("checks", "max_flows", "max-flows", Kind::Count),
    field("device", "eal", "eal", Kind::Text),
    field("device", "flow_rules", "flow", Kind::Texts),
];

/// Commands that are a run.
const WORKLOADS: [&str; 6] = ["sendrecv", "send", "drop", "reflect", "forward", "capture"];

/// Commands that vary a plan of `sendrecv`.
const METHODS: [&str; 3] = ["ndr", "rfc2544", "overload"];

/// Sections of one kind of workload alone: options of the same name mean something else elsewhere.
const OWN_SECTIONS: [(&str, &[&str]); 3] = [
    ("traffic", &["sendrecv", "send"]),
    ("forward", &["forward"]),
    ("capture", &["capture"]),
];

/// A run as a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan(Map<String, Value>);

/// Whether a plan of this workload may have this section.
fn has_section(workload: &str, section: &str) -> bool {
    let only = OWN_SECTIONS.iter().find(|(name, _)| *name == section);
    only.is_none_or(|(_, workloads)| workloads.contains(&workload))
}

/// The fields of a workload, each with its option.
fn fields<'c>(command: &'c Command, workload: &str) -> Vec<(&'static Field, &'c Arg)> {
    let Some(command) = command.find_subcommand(workload) else {
        return Vec::new();
    };
    let option = |field: &Field| command.get_arguments().find(|arg| arg.get_long() == Some(field.option));
    let all = FIELDS.iter().filter(|field| has_section(workload, field.section));
    all.filter_map(|field| Some((field, option(field)?))).collect()
}

/// The arguments that hold a workload's ports.
fn ports_of<'c>(command: &'c Command, workload: &str) -> impl Iterator<Item = &'c Arg> {
    let workload = command.find_subcommand(workload);
    workload.into_iter().flat_map(Command::get_positionals)
}

impl Plan {
    /// What was written on the command line, with the defaults of the options; empty for a command that is no run.
    pub(crate) fn written(command: &Command, matches: &ArgMatches) -> Self {
        let Some((name, matches)) = matches.subcommand() else {
            return Self::default();
        };
        // The trials of a method are runs, with options of the same names.
        let workload = if METHODS.contains(&name) { "sendrecv" } else { name };
        if !WORKLOADS.contains(&workload) {
            return Self::default();
        }
        let raw = |id: &str| {
            let all = matches.get_raw(id).into_iter().flatten();
            all.map(|text| text.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let ports: Vec<_> = ports_of(command, workload)
            .flat_map(|arg| raw(arg.get_id().as_str()))
            .collect();
        // However it was written, a path stands in plans by its name: results are compared by it.
        let named = |port: &String| match port.split_once(':') {
            Some((path, rest)) => format!("{}:{rest}", mpps_io::path_name(path)),
            None => port.clone(),
        };
        let ports: Vec<_> = ports.iter().map(|port| mpps_io::hide_secrets(&named(port))).collect();
        let mut plan = Self(Map::new());
        plan.0.insert("mpps_plan".to_owned(), VERSION.into());
        plan.0.insert("workload".to_owned(), workload.into());
        plan.0.insert("ports".to_owned(), ports.into());
        for (field, arg) in fields(command, workload) {
            let texts = raw(arg.get_id().as_str());
            let value = match (field.kind, texts.first()) {
                (Kind::Flag, _) => matches.get_flag(arg.get_id().as_str()).into(),
                (Kind::Texts, _) => texts.into(),
                (_, None) => Value::Null,
                // A class by its name is a number all the same.
                (Kind::Count, Some(text)) if field.option == "dscp" => {
                    values::dscp(text).map_or(Value::Null, Value::from)
                }
                (Kind::Count, Some(text)) => text.parse::<u64>().map_or(Value::Null, Value::from),
                (Kind::Integer, Some(text)) => text.parse::<i64>().map_or(Value::Null, Value::from),
                (Kind::Text, Some(text)) => text.as_str().into(),
            };
            plan.put(field.section, field.key, value);
        }
        plan
    }

    /// From the text of a plan; its fields are not looked at.
    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        let plan = serde_json::from_str(text).map_err(|e| format!("no plan: {e}"))?;
        Ok(Self(plan))
    }

    /// Puts a value into a field, whatever it was: [`words`] tells what is wrong with it.
    pub(crate) fn put(&mut self, section: &str, key: &str, value: Value) {
        if section.is_empty() {
            self.0.insert(key.to_owned(), value);
        } else if let Value::Object(fields) = self.0.entry(section).or_insert_with(|| json!({})) {
            fields.insert(key.to_owned(), value);
        }
    }

    /// Says what a field that was left open has become. A field that the workload has not, and a plan that is none,
    /// stay.
    pub(crate) fn fill(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        let field = self.0.get_mut(section).and_then(|section| section.get_mut(key));
        if let Some(field) = field.filter(|field| field.is_null()) {
            *field = value.into();
        }
    }

    /// A field's value, if it is given.
    pub(crate) fn get(&self, section: &str, key: &str) -> Option<&Value> {
        let field = match section {
            "" => self.0.get(key),
            section => self.0.get(section).and_then(|section| section.get(key)),
        };
        field.filter(|field| !field.is_null())
    }

    /// Whether a field is given.
    pub(crate) fn has(&self, section: &str, key: &str) -> bool {
        self.get(section, key).is_some()
    }

    /// Whether the plan is one of a run.
    fn is_run(&self) -> bool {
        !self.0.is_empty()
    }

    /// The plan as JSON, one field a line.
    pub(crate) fn text(&self) -> String {
        format!("{:#}", Value::Object(self.0.clone()))
    }

    /// The plan as JSON, for the summary; `None` where there is none.
    pub(crate) fn for_summary(&self) -> Option<String> {
        self.is_run().then(|| Value::Object(self.0.clone()).to_string())
    }
}

/// The words of the command line that a plan is: from the JSON text of a plan, or of a summary that holds one.
///
/// # Errors
/// One line that names the field, its value and what would be right.
pub(crate) fn words(text: &str) -> Result<Vec<OsString>, String> {
    // Of two values of one field none is known to be meant.
    let mut json = serde_json::Deserializer::from_str(text);
    match (Once { path: "" }).deserialize(&mut json) {
        Err(error) if error.is_data() => return Err(error.to_string()),
        // Whatever else is wrong is told below.
        _ => {}
    }
    let no_plan = |e| {
        format!(
            "{}: want a plan (--print-plan)",
            mpps_report::no_json(text.as_bytes(), &e)
        )
    };
    let whole: Value = serde_json::from_str(text).map_err(no_plan)?;
    let schema = whole.get("schema").and_then(Value::as_str);
    if schema.is_some_and(|schema| schema.starts_with("mpps.test/")) {
        let why = "the result of a search, which varies a plan: want its plan alone, with a rate";
        return Err(format!("{why}: jq '.plan | .load.rate = \"1Mpps\"'"));
    }
    // A result holds the plan that it is of.
    let plan = match &whole {
        Value::Object(all) if !all.contains_key("mpps_plan") => all.get("plan").unwrap_or(&whole),
        other => other,
    };
    let Value::Object(plan) = plan else {
        return Err("no plan: want a JSON object such as --print-plan prints".to_owned());
    };
    match plan.get("mpps_plan") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "mpps_plan: {version}: want {VERSION}, the version of this program's plans"
            ));
        }
        None => {
            return Err(
                "mpps_plan: missing: want a plan such as --print-plan prints, or a summary that holds one".into(),
            );
        }
    }
    let workload = match plan.get("workload").and_then(Value::as_str) {
        Some(name) if WORKLOADS.contains(&name) => name,
        _ => {
            let given = plan.get("workload").unwrap_or(&Value::Null);
            return Err(format!("workload: {given}: want one of {}", WORKLOADS.join(", ")));
        }
    };
    let command = Cli::command();
    let fields = fields(&command, workload);
    check_names(plan, workload, &fields)?;
    let mut words = vec!["mpps".into(), workload.into()];
    for (field, _) in &fields {
        let value = match field.section {
            "" => plan.get(field.key),
            section => plan.get(section).and_then(|section| section.get(field.key)),
        };
        if is_default_ports(field, value, plan) {
            continue;
        }
        words.extend(of_field(field, value.unwrap_or(&Value::Null))?);
    }
    words.push("--".into());
    words.extend(ports(plan)?);
    Ok(words)
}

/// Whether a field holds source ports that the program has filled in: they stay the default, which a run moves where
/// another one uses them.
fn is_default_ports(field: &Field, value: Option<&Value>, plan: &Map<String, Value>) -> bool {
    let first = || plan.get("ports")?.get(0)?.as_str()?.parse().ok();
    field.key == "src_ports"
        && value.and_then(Value::as_str) == Some(&dashed(&DEFAULT_SRC_PORTS))
        && first().is_some_and(|spec| !has_sockets(&spec))
}

/// Goes through a value of a JSON text and refuses objects that have a key twice.
struct Once<'p> {
    /// Of the value, from the outermost object.
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

/// The field that an option of a run is, as `load.rate`.
pub(crate) fn field_of(option: &str) -> Option<String> {
    let field = FIELDS
        .iter()
        .find(|field| option.strip_prefix("--") == Some(field.option))?;
    let dot = if field.section.is_empty() { "" } else { "." };
    Some(format!("{}{dot}{}", field.section, field.key))
}

/// Refuses sections and fields that a plan of this workload has not.
fn check_names(plan: &Map<String, Value>, workload: &str, fields: &[(&Field, &Arg)]) -> Result<(), String> {
    let sections = |section: &str| fields.iter().any(|(field, _)| field.section == section);
    let keys = |section: &str| {
        let own = fields.iter().filter(|(field, _)| field.section == section);
        own.map(|(field, _)| field.key).collect::<Vec<_>>()
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
                    all.extend(
                        fields
                            .iter()
                            .map(|(field, _)| field.section)
                            .filter(|name| !name.is_empty()),
                    );
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

/// A text of a file, short and without control characters.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    mpps_io::hide_secrets(&mpps_sys::text::plain(&short, ' '))
}

/// The words of one field.
fn of_field(field: &Field, value: &Value) -> Result<Vec<OsString>, String> {
    let wrong = |want: &str| {
        let dot = if field.section.is_empty() { "" } else { "." };
        let given = shown(&value.to_string());
        Err(format!("{}{dot}{}: {given}: want {want}", field.section, field.key))
    };
    let word = |text: &str| OsString::from(format!("--{}={text}", field.option));
    match (field.kind, value) {
        (_, Value::Null) => Ok(Vec::new()),
        (Kind::Flag, Value::Bool(false)) => Ok(Vec::new()),
        (Kind::Flag, Value::Bool(true)) => Ok(vec![format!("--{}", field.option).into()]),
        (Kind::Flag, _) => wrong("true or false"),
        (Kind::Count, Value::Number(n)) if n.is_u64() => Ok(vec![word(&n.to_string())]),
        (Kind::Integer, Value::Number(n)) if n.is_i64() => Ok(vec![word(&n.to_string())]),
        (Kind::Count | Kind::Integer, _) => wrong("a whole number, or null"),
        (Kind::Text, Value::String(text)) if !text.contains(char::is_control) => Ok(vec![word(text)]),
        (Kind::Text, _) => wrong("a text, as on the command line, or null"),
        (Kind::Texts, Value::Array(all)) => {
            let texts: Option<Vec<_>> = all
                .iter()
                .map(|one| one.as_str().filter(|t| !t.contains(char::is_control)))
                .collect();
            match texts {
                Some(texts) => Ok(texts.into_iter().map(word).collect()),
                None => wrong("a list of texts"),
            }
        }
        (Kind::Texts, _) => wrong("a list of texts"),
    }
}

/// The ports of a plan.
fn ports(plan: &Map<String, Value>) -> Result<Vec<OsString>, String> {
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
    for text in &texts {
        if text.contains(char::is_control) {
            return Err(format!("ports: '{}': want no control characters", shown(text)));
        }
        if mpps_io::hide_secrets(text) == **text && text.contains("secret=") {
            return Err(format!(
                "ports: '{}': no plan holds a secret: want the secret of the run written in place of …",
                shown(text)
            ));
        }
    }
    Ok(texts.into_iter().map(OsString::from).collect())
}

/// A line about options of a workload, about the fields that these are.
pub(crate) fn in_fields(workload: &str, line: &str) -> String {
    let mut told = line.to_owned();
    for field in FIELDS.iter().filter(|field| has_section(workload, field.section)) {
        let option = format!("--{}", field.option);
        let Some(at) = told.find(&option) else { continue };
        let end = told[at + option.len()..].chars().next();
        // The beginning of a longer option's name.
        if end.is_some_and(|c| c.is_alphanumeric() || c == '-') || told[..at].ends_with('(') {
            continue;
        }
        let dot = if field.section.is_empty() { "" } else { "." };
        let name = format!("{}{dot}{} ({option})", field.section, field.key);
        told.replace_range(at..at + option.len(), &name);
    }
    told
}

/// The JSON Schema (draft 2020-12) of a plan.
pub(crate) fn schema() -> String {
    let command = Cli::command();
    let mut properties = Map::new();
    let all = WORKLOADS.map(|workload| fields(&command, workload));
    properties.insert(
        "mpps_plan".to_owned(),
        json!({ "const": VERSION, "description": "Version of the format" }),
    );
    properties.insert(
        "workload".to_owned(),
        json!({ "enum": WORKLOADS, "description": "What the run does" }),
    );
    let ports = "The ports, as on the command line: PATH:DEVICE[,key=value…]";
    properties.insert(
        "ports".to_owned(),
        json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "description": ports }),
    );
    for field in FIELDS {
        let Some((_, arg)) = all.iter().flatten().find(|(f, _)| std::ptr::eq(*f, field)) else {
            continue;
        };
        let value = of_kind(field.kind, arg);
        if field.section.is_empty() {
            properties.insert(field.key.to_owned(), value);
            continue;
        }
        let section = properties
            .entry(field.section)
            .or_insert_with(|| json!({ "type": "object", "additionalProperties": false, "properties": {} }));
        section["properties"][field.key] = value;
    }
    let only: Vec<Value> = WORKLOADS.iter().zip(&all).map(|(name, own)| only(name, own)).collect();
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

/// What a field of this kind may hold.
fn of_kind(kind: Kind, arg: &Arg) -> Value {
    let mut value = match kind {
        Kind::Text => json!({ "type": ["string", "null"] }),
        Kind::Count => json!({ "type": ["integer", "null"], "minimum": 0 }),
        Kind::Integer => json!({ "type": ["integer", "null"] }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    value["description"] = help.into();
    let default = arg.get_default_values().first().and_then(|text| text.to_str());
    if let Some(text) = default.filter(|_| !matches!(arg.get_action(), ArgAction::SetTrue)) {
        value["default"] = match kind {
            Kind::Count => text.parse::<u64>().map_or(Value::Null, Value::from),
            _ => text.into(),
        };
    }
    value
}

/// The fields that a workload has: no others.
fn only(workload: &str, own: &[(&Field, &Arg)]) -> Value {
    let mut absent = Map::new();
    for field in FIELDS.iter().filter(|field| !field.section.is_empty()) {
        if own.iter().any(|(f, _)| std::ptr::eq(*f, field)) {
            continue;
        }
        match own.iter().any(|(f, _)| f.section == field.section) {
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
        "if": { "properties": { "workload": { "const": workload } } },
        "then": { "properties": absent },
    })
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
