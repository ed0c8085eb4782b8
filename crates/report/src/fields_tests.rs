//! Compares docs, schema and Python with the tables of fields and of remarks. `MPPS_WRITE=1 cargo test -p mpps-report
//! fields` writes them.

use crate::json_lines::OF_INTERVAL;
use crate::keys::{Key, Kind, LANE as LANE_KEYS, RUN, STREAM as STREAM_KEYS};
use crate::lanes_csv::LANE;
use crate::streams_csv::{BEFORE, STREAM};
use mpps_stats::fields::{FAULTS, Field, ROW, Unit};
use mpps_stats::{RemarkName, Row};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Holds the files until the guard is dropped: several tests read and write parts of one.
fn held() -> MutexGuard<'static, ()> {
    static FILES: Mutex<()> = Mutex::new(());
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares a file with `made`, or writes `made` if `MPPS_WRITE` is set.
fn holds(name: &str, text: &str, made: &str) {
    if std::env::var_os("MPPS_WRITE").is_some() {
        return std::fs::write(file(name), made).expect(name);
    }
    let differs = text.lines().zip(made.lines()).find(|(is, made)| is != made);
    assert!(
        text == made,
        "{name} is not what crates/stats/src/fields.rs, remark.rs, and of crates/report/src lanes_csv.rs, \
         streams_csv.rs or json/{{run,lane,stream}}.rs make of it: {differs:?}: MPPS_WRITE=1 cargo test -p \
         mpps-report fields"
    );
}

/// Compares the lines of a file from `first` up to an empty line with `made`.
fn holds_block(name: &str, first: &str, made: &str) {
    let _held = held();
    let text = std::fs::read_to_string(file(name)).expect(name);
    let start = text.find(first).unwrap_or_else(|| panic!("{name}: no line '{first}'"));
    let end = start + text[start..].find("\n\n").expect("an empty line");
    holds(name, &text, &format!("{}{made}{}", &text[..start], &text[end..]));
}

fn table<T>(head: &str, fields: &[Field<T>]) -> String {
    let row = |field: &Field<T>| format!("\n| `{}` | {} | {} |", field.name, field.unit.symbol(), field.about);
    let rows: String = fields.iter().map(row).collect();
    format!("{head}\n|---|---|---|{}", rows.replace("|  |", "| |"))
}

#[test]
fn fields_of_rows_lanes_and_streams_are_documented() {
    const ROWS: &str = "| column of a row | unit | meaning |";
    holds_block("docs/use/files.md", ROWS, &table(ROWS, &ROW));
    const LANES: &str = "| column of a lane | unit | meaning |";
    holds_block("docs/use/files.md", LANES, &table(LANES, &LANE));
    const STREAMS: &str = "| column of a stream | unit | meaning |";
    let before: String = BEFORE
        .iter()
        .map(|(name, about)| format!("\n| `{name}` | | {about} |"))
        .collect();
    let streams = table(STREAMS, &STREAM).replacen("|---|---|---|", &format!("|---|---|---|{before}"), 1);
    holds_block("docs/use/files.md", STREAMS, &streams);
}

#[test]
fn remarks_are_documented() {
    const HEAD: &str = "| remark | makes a run invalid | values | meaning |";
    let row = |name: &RemarkName| {
        let values: Vec<_> = name.values().iter().map(|key| format!("`{key}`")).collect();
        let (invalid, values) = (name.invalidates().as_str(), values.join(" "));
        format!("\n| `{}` | {invalid} | {values} | {} |", name.as_str(), name.meaning())
    };
    let rows: String = RemarkName::ALL.iter().map(row).collect();
    let table = format!("{HEAD}\n|---|---|---|---|{}", rows.replace("|  |", "| |"));
    holds_block("docs/use/verdict.md", HEAD, &table);
}

/// Returns a field and its schema.
fn property_of<T>(field: &Field<T>) -> (String, Value) {
    let kind = match field.unit {
        Unit::Utc => "string",
        _ if field.decimals == 0 => "integer",
        _ => "number",
    };
    (field.name.to_owned(), json!({ "type": [kind, "null"] }))
}

/// Makes the schema of an object that has exactly these keys, all of them. What else it says stays.
fn fill(object: &mut Value, properties: Map<String, Value>) {
    object["type"] = json!("object");
    object["required"] = properties.keys().cloned().collect();
    object["additionalProperties"] = json!(false);
    object["properties"] = Value::Object(properties);
}

#[test]
fn fields_of_rows_and_of_streams_are_in_the_schema_of_lines() {
    const NAME: &str = "docs/lines.schema.json";
    let _held = held();
    let text = std::fs::read_to_string(file(NAME)).expect(NAME);
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    let event = |name: &str| ("event".to_owned(), json!({ "const": name }));
    let mut row = Map::from_iter([event("row")]);
    row.extend(ROW.iter().map(property_of));
    let is_common = |field: &&Field<Row>| OF_INTERVAL.contains(&field.name);
    let mut of_stream = Map::from_iter([
        ("kind".to_owned(), json!({ "enum": ["stream", "group", "size"] })),
        ("name".to_owned(), json!({ "type": "string" })),
    ]);
    of_stream.extend(STREAM.iter().filter(|field| !is_common(field)).map(property_of));
    let mut streams = Map::from_iter([event("streams")]);
    streams.extend(ROW.iter().filter(is_common).map(property_of));
    let mut rows = json!({ "type": "array" });
    fill(&mut rows["items"], of_stream);
    streams.insert("rows".to_owned(), rows);
    fill(&mut schema["$defs"]["row"], row);
    fill(&mut schema["$defs"]["streams"], streams);
    holds(NAME, &text, &format!("{schema:#}\n"));
}

#[test]
fn fields_of_rows_are_attributes_in_python() {
    /// Fields that every row has. Python wants them before optional ones.
    const ALWAYS: [&str; 3] = ["time_s", "interval_s", "start_utc_ns"];
    let named = |name: &&str| ROW.iter().find(|field| field.name == *name).expect("a field");
    let mut lines: Vec<_> = ALWAYS
        .iter()
        .map(named)
        .map(|f| format!("    {}: {}", f.name, python_kind(f)))
        .collect();
    let others = ROW.iter().filter(|field| !ALWAYS.contains(&field.name));
    lines.extend(others.map(optional));
    holds_block("python/src/mpps/_row.py", &lines[0], &lines.join("\n"));
}

#[test]
fn fields_of_streams_are_attributes_in_python() {
    let is_common = |field: &&Field<Row>| OF_INTERVAL.contains(&field.name);
    let before = BEFORE.iter().map(|(name, _)| format!("    {name}: str"));
    let interval = ROW.iter().filter(is_common).filter(|field| field.unit != Unit::Utc);
    let interval = interval.map(|f| format!("    {}: {}", f.name, python_kind(f)));
    let others = STREAM.iter().filter(|field| !is_common(field)).map(optional);
    let lines: Vec<_> = before.chain(interval).chain(others).collect();
    holds_block("python/src/mpps/_row.py", &lines[0], &lines.join("\n"));
}

/// Returns the type of a field in Python.
fn python_kind<T>(field: &Field<T>) -> &'static str {
    match field.unit {
        Unit::Utc => "str",
        _ if field.decimals == 0 => "int",
        _ => "float",
    }
}

/// Returns a field that may not be measured as an attribute in Python.
fn optional<T>(field: &Field<T>) -> String {
    format!("    {}: {} | None = None", field.name, python_kind(field))
}

#[test]
fn faults_of_a_run_are_keys_of_the_json() {
    let run = mpps_stats::Summary {
        late: 1,
        duplicates: 2,
        reordered: 3,
        corrupt: 4,
        foreign: 5,
        missed: 6,
        ..Default::default()
    };
    for fault in &FAULTS {
        let key = RUN.iter().find(|key| key.name == fault.key).expect(fault.key);
        assert_eq!((key.of)(&run), json!((fault.of_run)(&run)), "{}", fault.key);
    }
}

#[test]
fn what_a_stream_and_a_run_have_in_common_has_one_name_and_one_form() {
    const OF_STREAMS: [&str; 5] = ["name", "group", "flows", "delay_variation_ns", "frame_size_bytes"];
    for key in STREAM_KEYS.iter().filter(|key| !OF_STREAMS.contains(&key.name)) {
        let run = RUN.iter().find(|of| of.name == key.name).expect(key.name);
        // Of lanes and streams a stream has only the number.
        let counted = key.kind == Kind::Count && run.kind == Kind::List;
        assert!(key.kind == run.kind || counted, "{}", key.name);
    }
}

/// Returns the name of a type in JSON Schema.
fn kind_of<T>(key: &Key<T>) -> &'static str {
    match key.kind {
        Kind::Count => "integer",
        Kind::Number => "number",
        Kind::Flag => "boolean",
        Kind::Text => "string",
        Kind::Texts | Kind::List => "array",
        Kind::Times | Kind::Object => "object",
    }
}

fn table_of_keys<T>(head: &str, keys: &[Key<T>]) -> String {
    let row = |key: &Key<T>| {
        let null = if key.null { ", `null`" } else { "" };
        format!("\n| `{}` | {}{null} | {} |", key.name, kind_of(key), key.about)
    };
    let rows: String = keys.iter().map(row).collect();
    format!("{head}\n|---|---|---|{rows}")
}

#[test]
fn keys_of_runs_and_streams_are_documented() {
    const RUNS: &str = "| key of a run | type | meaning |";
    holds_block("docs/use/files.md", RUNS, &table_of_keys(RUNS, &RUN));
    const STREAMS: &str = "| key of a stream's results | type | meaning |";
    holds_block("docs/use/files.md", STREAMS, &table_of_keys(STREAMS, &STREAM_KEYS));
}

#[test]
fn keys_of_a_lane_are_documented() {
    const LANES: &str = "| key of a lane | type | meaning |";
    holds_block("docs/use/times.md", LANES, &table_of_keys(LANES, &LANE_KEYS));
}

/// Adds the types of keys to those parts of a schema that say more of them, and takes other keys out.
fn schema_of<T>(properties: &Value, keys: &[Key<T>]) -> Map<String, Value> {
    let one = |key: &Key<T>| {
        let mut property = properties[key.name].as_object().cloned().unwrap_or_default();
        let kind = kind_of(key);
        let kind = if key.null { json!([kind, "null"]) } else { json!(kind) };
        property.insert("type".to_owned(), kind);
        if key.kind == Kind::Texts {
            property.insert("items".to_owned(), json!({ "type": "string" }));
        }
        (key.name.to_owned(), Value::Object(property))
    };
    keys.iter().map(one).collect()
}

/// Returns the schema of an object with all keys of a table. `before` may say more of their values.
fn object_of<T>(before: &Value, about: &str, keys: &[Key<T>]) -> Value {
    json!({
        "description": about,
        "type": "object",
        "required": keys.iter().map(|key| key.name).collect::<Vec<_>>(),
        "properties": schema_of(&before["properties"], keys),
    })
}

#[test]
fn keys_of_runs_lanes_and_streams_are_in_the_schema_of_lines() {
    const NAME: &str = "docs/lines.schema.json";
    let _held = held();
    let text = std::fs::read_to_string(file(NAME)).expect(NAME);
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    schema["$defs"]["lane"] = object_of(
        &schema["$defs"]["lane"],
        "A lane of a run: one thread with one queue.",
        &LANE_KEYS,
    );
    schema["$defs"]["stream"] = object_of(
        &schema["$defs"]["stream"],
        "Results of a stream, of a group of streams, or of frames of one size.",
        &STREAM_KEYS,
    );
    let end = &mut schema["$defs"]["end"];
    let mut properties = Map::from_iter([("event".to_owned(), json!({ "const": "end" }))]);
    properties.extend(schema_of(&end["properties"], &RUN));
    properties["lanes"]["items"] = json!({ "$ref": "#/$defs/lane" });
    for name in ["streams", "groups", "sizes"] {
        properties[name]["items"] = json!({ "$ref": "#/$defs/stream" });
    }
    end["required"] = properties.keys().cloned().collect();
    end["properties"] = Value::Object(properties);
    holds(NAME, &text, &format!("{schema:#}\n"));
}

/// Returns Markdown as plain text: of links the text alone.
fn plain(markdown: &str) -> String {
    let mut parts = markdown.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    text.replace(['[', '`', '*'], "")
}

/// Returns text as lines of at most `width` characters.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            let space = if last.is_empty() { "" } else { " " };
            last.push_str(&format!("{space}{word}"));
        }
    }
    lines
}

/// Returns the body of a doc comment in Python.
fn doc(about: &str) -> String {
    let about = plain(about);
    let first: String = about.chars().take(1).flat_map(char::to_uppercase).collect();
    let text = format!("{first}{}.", about.chars().skip(1).collect::<String>());
    let lines = folded(&text, 100);
    match lines.as_slice() {
        [one] => format!("        \"\"\"{one}\"\"\"\n"),
        many => format!("        \"\"\"{}\n        \"\"\"\n", many.join("\n        ")),
    }
}

/// Returns a property of a run or stream in Python; `None` for values that have a form of their own there.
fn property<T>(key: &Key<T>) -> Option<String> {
    let (kind, value) = match (key.kind, key.null) {
        (Kind::Count, false) => ("int", "self._count(@)"),
        (Kind::Count, true) => ("int | None", "self._count_or_none(@)"),
        (Kind::Number, _) => ("float | None", "self._number(@)"),
        (Kind::Flag, _) => ("bool", "self._flag(@)"),
        (Kind::Text, false) => ("str", "self._text(@)"),
        (Kind::Text, true) => ("str | None", "self._text_or_none(@)"),
        (Kind::Texts, _) => ("list[str]", "self._texts(@)"),
        (Kind::Times, _) => ("Spread", "self._spread(@)"),
        (Kind::Object | Kind::List, _) => return None,
    };
    let value = value.replace('@', &format!("\"{}\"", key.name));
    let (name, doc) = (key.name, doc(key.about));
    Some(format!(
        "\n    @property\n    def {name}(self) -> {kind}:\n{doc}        return {value}\n"
    ))
}

#[test]
fn keys_of_runs_lanes_and_streams_are_in_python() {
    const NAME: &str = "python/src/mpps/_keys.py";
    /// Values that Python has in a form of its own: the command of the process, and a count that is 0 where it is not
    /// known.
    const OTHERS: [&str; 2] = ["command", "host_dropped"];
    let run: String = RUN
        .iter()
        .filter(|key| !OTHERS.contains(&key.name))
        .filter_map(property)
        .collect();
    let streams: String = STREAM_KEYS.iter().filter_map(property).collect();
    let lane = |key: &Key<_>| {
        let kind = match key.kind {
            Kind::Count => "int",
            Kind::Number => "float",
            Kind::Flag => "bool",
            Kind::Text => "str",
            Kind::Texts => "list[str]",
            Kind::Times | Kind::Object => "dict[str, Any]",
            Kind::List => "list[Any]",
        };
        let null = if key.null { " | None" } else { "" };
        format!("    {}: {kind}{null}\n", key.name)
    };
    let lanes: String = LANE_KEYS.iter().map(lane).collect();
    let text = std::fs::read_to_string(file(NAME)).expect(NAME);
    let head = &text[..text.find("# Made of").expect("a line '# Made of …'")];
    let made = format!(
        "{head}# Made of the table in crates/report/src/json: MPPS_WRITE=1 cargo test -p mpps-report fields\n\
         class Keys(Values):\n    \"\"\"The keys of a run.\"\"\"\n{run}\n\n\
         class StreamKeys(Values):\n    \"\"\"The keys of a stream, of a group, or of a size.\"\"\"\n{streams}\n\n\
         class Lane(TypedDict):\n    \"\"\"One lane of a run.\"\"\"\n\n{lanes}"
    );
    holds(NAME, &text, &made);
}
