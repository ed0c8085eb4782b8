//! Traffic: variables and streams, read from TOML or JSON.

use crate::form::Form;
use crate::grammar::{Packet, Variables, substituted};
use crate::node::{Any, Node, read};
use crate::rate::RateText;
use crate::size::{SMALLEST, Size};
use crate::stream::{After, Burst, Fill, Load, PACKET, Step, Stream, Tag};
use crate::text::{Read, Span, Wrong, did_you_mean, quoted};
use crate::time::time_ns;
use mpps_wire::TAG_FLOWS;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest file, bytes.
pub const LONGEST: usize = 4 << 20;
/// Most streams.
const MOST_STREAMS: usize = 4096;
/// Longest name of a stream or a group, bytes.
const LONGEST_NAME: usize = 64;

/// Kind of a key's value, for the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Count,
    Flag,
    Counts,
    Burst,
}

/// Key of a stream.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) form: Type,
    /// Values that there are, if these are all.
    pub(crate) one_of: &'static [&'static str],
    /// Meaning, as Markdown without a full stop.
    pub(crate) about: &'static str,
    read: fn(&mut Stream, &Node, &Variables) -> Read<()>,
}

const fn key(
    name: &'static str,
    form: Type,
    about: &'static str,
    read: fn(&mut Stream, &Node, &Variables) -> Read<()>,
) -> Key {
    Key {
        name,
        form,
        one_of: &[],
        about,
        read,
    }
}

const fn choice(
    name: &'static str,
    one_of: &'static [&'static str],
    about: &'static str,
    read: fn(&mut Stream, &Node, &Variables) -> Read<()>,
) -> Key {
    Key {
        one_of,
        ..key(name, Type::Text, about, read)
    }
}

const TAGS: [&str; 3] = ["tail", "tcp", "none"];
const STEPS: [&str; 2] = ["together", "combine"];
const PACINGS: [&str; 3] = ["regular", "poisson", "burst"];

/// Keys of a stream, in the order of the schema and the documentation.
pub(crate) const KEYS: [Key; 22] = [
    key(
        "name",
        Type::Text,
        "name, unique among the streams; else `1`, `2`, …",
        |s, node, _| {
            s.name = name(node, "name")?;
            Ok(())
        },
    ),
    key(
        "packet",
        Type::Text,
        "the packet: headers and fields",
        |s, node, variables| {
            let text = node.text("packet")?;
            s.packet = Packet::read(&text, variables).map_err(|wrong| node.within(wrong))?;
            s.at = node.at.clone();
            s.text_at = match &node.value {
                Any::Text(_, at) => *at,
                _ => None,
            };
            Ok(())
        },
    ),
    key(
        "size",
        Type::Text,
        "size of the frames, bytes with FCS: `512`, `64..1518 step 64`, `random(64..1518)`, a mix `64*7 594*4 1518*1`, \
         `imix`, `genome:abc`; else the smallest that holds headers and tag",
        |s, node, variables| {
            let text = substituted(&node.text("size")?, variables, &node.at)?;
            s.size = Some(Size::read(&text, &node.at)?);
            Ok(())
        },
    ),
    key(
        "fill",
        Type::Text,
        "bytes of the payload: `data` (verified on receipt), `zeros`, `ones`, `hex:DIGITS`, `text:WORDS`",
        |s, node, _| {
            s.fill = Fill::read(&node.text("fill")?, &node.at)?;
            Ok(())
        },
    ),
    choice(
        "tag",
        &TAGS,
        "tag that makes a packet known: `tail`, the last 16 bytes of the innermost payload; `tcp`, a number in the \
         sequence number; `none`, counted at the sender",
        |s, node, _| {
            s.tag = [Tag::Tail, Tag::Tcp, Tag::None][chosen(node, "tag", &TAGS)?];
            Ok(())
        },
    ),
    choice(
        "step",
        &STEPS,
        "several fields that vary: `together`, each in its own period; `combine`, each combination, the last field \
         fastest",
        |s, node, _| {
            s.step = [Step::Together, Step::Combine][chosen(node, "step", &STEPS)?];
            Ok(())
        },
    ),
    key(
        "flows",
        Type::Count,
        "first flows that are used, of those that the fields make",
        |s, node, variables| {
            s.flows = Some(count(node, "flows", variables, 1, 1 << 22)? as u32);
            Ok(())
        },
    ),
    key(
        "rate",
        Type::Text,
        "rate: `1Mpps`, `4Gbps` (layer 1), `10%`",
        |s, node, variables| {
            let text = substituted(&node.text("rate")?, variables, &node.at)?;
            let read = RateText::parse(&text).and_then(|rate| rate.known(SMALLEST as usize));
            read.or_else(|want| {
                node.wrong(format!(
                    "rate: {}: want {}",
                    quoted(&text),
                    want.trim_start_matches("want ")
                ))
            })?;
            load(s, node, Load::Rate(text))
        },
    ),
    key(
        "weight",
        Type::Count,
        "share of the total rate (`--rate`)",
        |s, node, variables| {
            let weight = count(node, "weight", variables, 1, 1_000_000)?;
            load(s, node, Load::Weight(weight as u32))
        },
    ),
    key(
        "scale",
        Type::Flag,
        "whether a factor of all rates changes its rate",
        |s, node, _| {
            s.scale = node.flag("scale")?;
            Ok(())
        },
    ),
    key(
        "packets",
        Type::Count,
        "number of packets, then it ends",
        |s, node, variables| {
            s.packets = Some(count(node, "packets", variables, 1, i64::MAX as u64)?);
            Ok(())
        },
    ),
    key("start", Type::Text, "time after the start of the run", |s, node, _| {
        s.start = time(node, "start")?;
        Ok(())
    }),
    key(
        "after",
        Type::Text,
        "name of the stream that must have ended",
        |s, node, _| {
            let stream = name(node, "after")?;
            s.after = Some(After { stream });
            Ok(())
        },
    ),
    key(
        "burst",
        Type::Burst,
        "bursts: `packets` of each, `gap` from start to start, `count` of them",
        |s, node, _| {
            s.burst = Some(burst(node)?);
            Ok(())
        },
    ),
    key("repeat", Type::Count, "times that it runs", |s, node, variables| {
        s.repeat = count(node, "repeat", variables, 1, 1_000_000)? as u32;
        Ok(())
    }),
    choice(
        "pacing",
        &PACINGS,
        "spacing of the packets, as `--pacing`",
        |s, node, _| {
            s.pacing = Some(PACINGS[chosen(node, "pacing", &PACINGS)?].to_owned());
            Ok(())
        },
    ),
    key("group", Type::Text, "group whose results are added up", |s, node, _| {
        s.group = Some(name(node, "group")?);
        Ok(())
    }),
    key("lanes", Type::Counts, "lanes that send it; else all", |s, node, _| {
        let all = node.list("lanes")?.iter().map(|lane| lane.count("lanes", 0, 1023));
        let lanes = all.collect::<Read<Vec<u64>>>()?;
        s.lanes = lanes.into_iter().map(|lane| lane as usize).collect();
        Ok(())
    }),
    key(
        "track",
        Type::Flag,
        "percentiles of its own, also among more than 64 streams",
        |s, node, _| {
            s.track = node.flag("track")?;
            Ok(())
        },
    ),
    key(
        "from",
        Type::Count,
        "number of the port that it leaves by, from 0; else the first",
        |s, node, _| {
            s.from = Some(node.count("from", 0, 63)? as usize);
            Ok(())
        },
    ),
    key(
        "to",
        Type::Count,
        "number of the port that it arrives at; else the last",
        |s, node, _| {
            s.to = Some(node.count("to", 0, 63)? as usize);
            Ok(())
        },
    ),
    key("comment", Type::Text, "words for readers", |_, node, _| {
        node.text("comment").map(|_| ())
    }),
];

fn load(stream: &mut Stream, node: &Node, load: Load) -> Read<()> {
    match std::mem::replace(&mut stream.load, load) {
        Load::Most => Ok(()),
        _ => node.wrong("rate and weight: want one of the two"),
    }
}

fn chosen(node: &Node, name: &str, all: &[&str]) -> Read<usize> {
    let text = node.text(name)?;
    match all.iter().position(|one| *one == text) {
        Some(at) => Ok(at),
        None => node.wrong(format!("{name} {}: want {}", quoted(&text), all.join(", "))),
    }
}

fn name(node: &Node, key: &str) -> Read<String> {
    let name = node.text(key)?;
    let letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    match (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(letter) {
        true => Ok(name),
        false => node.wrong(format!(
            "{key} {}: want letters, digits, '_', '-' and '.', {LONGEST_NAME} bytes at most",
            quoted(&name)
        )),
    }
}

fn time(node: &Node, name: &str) -> Read<Duration> {
    let text = node.text(name)?;
    match time_ns(&text).or((text == "0").then_some(0)) {
        Some(ns) => Ok(Duration::from_nanos(ns)),
        None => node.wrong(format!(
            "{name} {}: want a time with its unit (us, ms, s, m, h)",
            quoted(&text)
        )),
    }
}

/// Reads a number that may be written with variables.
fn count(node: &Node, name: &str, variables: &Variables, least: u64, most: u64) -> Read<u64> {
    let Any::Text(text, _) = &node.value else {
        return node.count(name, least, most);
    };
    let text = substituted(text, variables, &node.at)?;
    let node = Node {
        at: node.at.clone(),
        value: Any::Text(text, None),
    };
    node.count(name, least, most)
}

fn burst(node: &Node) -> Read<Burst> {
    let mut burst = Burst {
        packets: 0,
        gap: Duration::ZERO,
        count: None,
    };
    for (key, at, value) in node.table("burst")? {
        match key.as_str() {
            "packets" => burst.packets = value.count("burst.packets", 1, u32::MAX.into())? as u32,
            "gap" => burst.gap = time(value, "burst.gap")?,
            "count" => burst.count = Some(value.count("burst.count", 1, u32::MAX.into())? as u32),
            other => {
                let line = format!("burst: {}: want packets, gap, count", quoted(other));
                return Err(Wrong::new(at.clone(), line));
            }
        }
    }
    match burst.packets == 0 || burst.gap.is_zero() {
        true => node.wrong("burst: want packets and gap, such as { packets = 100, gap = \"1ms\" }"),
        false => Ok(burst),
    }
}

/// Streams of a run, by the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Streams.
    pub streams: Vec<Stream>,
}

impl Traffic {
    /// Returns whether this is one packet without a name of its own ([`Stream::of`]), and so not a file.
    pub fn is_one_packet(&self) -> bool {
        matches!(&self.streams[..], [one] if one.name == PACKET)
    }

    /// Reads a file's text: TOML, or JSON if it begins with `{`. `set` are variables that take the place of those in
    /// the file.
    ///
    /// # Errors
    /// Names the fault, and its place in the text.
    pub fn parse(text: &str, set: &[(String, String)]) -> Result<Self, Wrong> {
        if text.len() > LONGEST {
            return Err(Wrong::new(0..0, format!("longer than {LONGEST} bytes")));
        }
        let file = read(text)?;
        let mut variables = Variables::new();
        let mut streams = None;
        for (key, at, node) in file.table("the file")? {
            match key.as_str() {
                "vars" => {
                    for (name, _, value) in node.table("vars")? {
                        variables.insert(name.clone(), value.text(name)?);
                    }
                }
                "stream" => streams = Some(node),
                "comment" | "$schema" => {
                    node.text(key)?;
                }
                other => {
                    let near = did_you_mean(other, ["vars", "stream"]);
                    let line = format!("{}: no such key{near}: want [vars] and [[stream]]", quoted(other));
                    return Err(Wrong::new(at.clone(), line));
                }
            }
        }
        for (name, value) in set {
            if !variables.contains_key(name) {
                let near = did_you_mean(name, variables.keys().map(String::as_str));
                let line = format!("--set {name}: the file has no variable of that name{near}");
                return Err(Wrong::new(0..0, line));
            }
            variables.insert(name.clone(), value.clone());
        }
        let Some(streams) = streams else {
            return Err(Wrong::new(0..0, "no stream: want [[stream]] with a packet"));
        };
        let mut traffic = Self::default();
        let list = streams.list("stream")?;
        if list.is_empty() {
            return streams.wrong("no stream: want one at least");
        }
        for node in list {
            if traffic.streams.len() == MOST_STREAMS {
                return node.wrong(format!("want {MOST_STREAMS} streams at most"));
            }
            let stream = stream(node, &variables, traffic.streams.len())?;
            if traffic.streams.iter().any(|other| other.name == stream.name) {
                return node.wrong(format!("stream {}: two of that name", quoted(&stream.name)));
            }
            traffic.streams.push(stream);
        }
        traffic.check(&file)?;
        Ok(traffic)
    }

    /// Returns the traffic of one packet, as `--packet` gives it.
    pub fn of_packet(packet: Packet) -> Self {
        Self {
            streams: vec![Stream::of(packet)],
        }
    }

    /// Works out the forms of all streams.
    ///
    /// # Errors
    /// Names a fault of a packet, at the place of its text in the file, or in the packet's text if it is from no
    /// file.
    pub fn forms(&self, seed: u64) -> Result<Vec<Form>, Wrong> {
        let mut forms = Vec::with_capacity(self.streams.len());
        let mut flows = 0;
        for stream in &self.streams {
            let at = |wrong: Wrong| match (stream.text_at, stream.at.is_empty()) {
                (_, true) => wrong,
                // The whole packet is the stream's.
                (Some(from), _) if wrong.at != (0..stream.packet.text.len()) => {
                    Wrong::new(from + wrong.at.start..from + wrong.at.end, wrong.line)
                }
                _ => Wrong::new(stream.at.clone(), wrong.line),
            };
            let form = Form::of(stream, seed, flows).map_err(at)?;
            if stream.tag == Tag::Tail {
                flows += form.flows();
            }
            if flows > TAG_FLOWS {
                let line = format!(
                    "stream {}: {flows} flows with those before: want {TAG_FLOWS} at most",
                    stream.name
                );
                return Err(at(Wrong::new(0..stream.packet.text.len(), line)));
            }
            forms.push(form);
        }
        Ok(forms)
    }

    /// Checks what several streams say together.
    fn check(&self, file: &Node) -> Read<()> {
        let weights = self
            .streams
            .iter()
            .filter(|stream| matches!(stream.load, Load::Weight(_)))
            .count();
        if weights > 0 && weights < self.streams.len() {
            let other = self
                .streams
                .iter()
                .find(|stream| !matches!(stream.load, Load::Weight(_)));
            let name = other.map_or("", |stream| stream.name.as_str());
            let at = other.map_or(file.at.clone(), |stream| stream.at.clone());
            return Err(Wrong::new(
                at,
                format!("stream {}: want weight in each stream or in none", quoted(name)),
            ));
        }
        self.check_order()?;
        for stream in &self.streams {
            let wrong = |line: String| {
                Err(Wrong::new(
                    stream.at.clone(),
                    format!("stream {}: {line}", quoted(&stream.name)),
                ))
            };
            if stream.repeat > 1 && stream.packets.is_none() && stream.burst.is_none_or(|burst| burst.count.is_none()) {
                return wrong("repeat: want packets, or burst with a count, that end it".into());
            }
            if stream.burst.is_some() && stream.load != Load::Most {
                return wrong("burst: its packets and gap are its rate: want no rate and no weight".into());
            }
        }
        Ok(())
    }

    /// Refuses streams that would never begin: behind themselves, behind none, or behind one without an end.
    fn check_order(&self) -> Read<()> {
        let before = self.before();
        let names = || self.streams.iter().map(|stream| stream.name.as_str());
        for (stream, before) in self.streams.iter().zip(&before) {
            let wrong = |line: String| {
                let line = format!("stream {}: after {line}", quoted(&stream.name));
                Err(Wrong::new(stream.at.clone(), line))
            };
            let Some(after) = &stream.after else { continue };
            let name = quoted(&after.stream);
            let Some(before) = before.map(|at| &self.streams[at]) else {
                let near = did_you_mean(&after.stream, names());
                return wrong(format!("{name}: no such stream{near}"));
            };
            if before.load == Load::Most && before.burst.is_none() {
                return wrong(format!("{name}: want a rate there, which says when it ends"));
            }
            if before.packets.is_none() && before.burst.is_none_or(|burst| burst.count.is_none()) {
                return wrong(format!(
                    "{name}: want packets there, or burst with a count, that end it"
                ));
            }
        }
        // Streams of a circle never lead to one that begins by itself.
        let mut ends = vec![false; self.streams.len()];
        for first in 0..self.streams.len() {
            let (mut path, mut at) = (Vec::new(), Some(first));
            while let Some(here) = at.filter(|here| !ends[*here]) {
                path.push(here);
                if path.len() > self.streams.len() {
                    let stream = &self.streams[first];
                    let line = format!("stream {}: after: a circle, which never begins", quoted(&stream.name));
                    return Err(Wrong::new(stream.at.clone(), line));
                }
                at = before[here];
            }
            path.into_iter().for_each(|here| ends[here] = true);
        }
        Ok(())
    }

    /// Returns for each stream the one that it begins after, if there is one of that name.
    pub fn before(&self) -> Vec<Option<usize>> {
        let names = self.streams.iter().map(|stream| stream.name.as_str());
        let places: BTreeMap<&str, usize> = names.zip(0..).collect();
        let before = |stream: &Stream| places.get(stream.after.as_ref()?.stream.as_str()).copied();
        self.streams.iter().map(before).collect()
    }

    /// Returns the streams as a plan has them: variables replaced, no file named.
    pub fn json(&self) -> Value {
        self.streams.iter().map(Stream::json).collect()
    }
}

fn stream(node: &Node, variables: &Variables, at: usize) -> Read<Stream> {
    let empty = Packet {
        headers: Vec::new(),
        text: String::new(),
    };
    let mut stream = Stream {
        name: (at + 1).to_string(),
        at: node.at.clone(),
        ..Stream::of(empty)
    };
    for (name, at, value) in node.table("stream")? {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let near = did_you_mean(name, KEYS.iter().map(|key| key.name));
            let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
            let line = format!("{}: no key of a stream{near}: want {}", quoted(name), names.join(", "));
            return Err(Wrong::new(at.clone(), line));
        };
        (key.read)(&mut stream, value, variables)?;
    }
    match stream.packet.headers.is_empty() {
        true => Err(Wrong::new(
            first_line(&node.at),
            format!("stream {}: want a packet", quoted(&stream.name)),
        )),
        false => Ok(stream),
    }
}

fn first_line(at: &Span) -> Span {
    at.start..at.start + 1
}

impl Stream {
    /// Returns the stream with those keys that differ from their defaults.
    fn json(&self) -> Value {
        let mut all = Map::new();
        let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
        let us = |time: Duration| Value::from(format!("{}us", time.as_nanos() as f64 / 1e3));
        put("name", json!(self.name));
        put("packet", json!(self.packet.text));
        if let Some(size) = &self.size {
            put("size", json!(size.text));
        }
        match &self.fill {
            Fill::Data => {}
            Fill::Pattern(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                put("fill", json!(format!("hex:{hex}")));
            }
        }
        if self.tag != Tag::Tail {
            put("tag", json!(if self.tag == Tag::Tcp { TAGS[1] } else { TAGS[2] }));
        }
        if self.step == Step::Combine {
            put("step", json!(STEPS[1]));
        }
        if let Some(flows) = self.flows {
            put("flows", json!(flows));
        }
        match &self.load {
            Load::Most => {}
            Load::Rate(rate) => {
                put("rate", json!(rate));
            }
            Load::Weight(weight) => {
                put("weight", json!(weight));
            }
        }
        if !self.scale {
            put("scale", json!(false));
        }
        if let Some(packets) = self.packets {
            put("packets", json!(packets));
        }
        if !self.start.is_zero() {
            put("start", us(self.start));
        }
        if let Some(after) = &self.after {
            put("after", json!(after.stream));
        }
        if let Some(burst) = &self.burst {
            let mut of = json!({ "packets": burst.packets, "gap": us(burst.gap) });
            if let Some(count) = burst.count {
                of["count"] = json!(count);
            }
            put("burst", of);
        }
        if self.repeat != 1 {
            put("repeat", json!(self.repeat));
        }
        if let Some(pacing) = &self.pacing {
            put("pacing", json!(pacing));
        }
        if let Some(group) = &self.group {
            put("group", json!(group));
        }
        if !self.lanes.is_empty() {
            put("lanes", json!(self.lanes));
        }
        if self.track {
            put("track", json!(true));
        }
        if let Some(from) = self.from {
            put("from", json!(from));
        }
        if let Some(to) = self.to {
            put("to", json!(to));
        }
        Value::Object(all)
    }
}
