//! Traffic: variables and streams, read from TOML or JSON.

use crate::grammar::{Packet, Variables, substituted};
use crate::node::{Any, Node, read};
use crate::pcap::{Pcap, Speed, Vlans};
use crate::rate::RateText;
use crate::size::{SMALLEST, Size};
use crate::stream::{After, Burst, CAPTURE, CAPTURED, Fill, Load, PACKET, Step, Stream, Tag};
use crate::text::{Read, Span, Wrong, did_you_mean, quoted};
use crate::time::time_ns;
use serde_json::{Map, Value, json};
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
const PACINGS: [&str; 4] = ["constant", "poisson", "burst", CAPTURED];
const VLANS: [&str; 3] = ["set", "push", "replace"];

/// Keys of a stream, in the order of the schema and the documentation.
pub(crate) const KEYS: [Key; 36] = [
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
        "the packet: headers and fields; a stream has this or `pcap`",
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
         sequence number; `none`, counted at the sender; else `tail`, and of a capture `none`",
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
        "spacing of the packets, as `--pacing`; `captured`: that of the capture, at another `rate`",
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
        s.lanes.sort_unstable();
        s.lanes.dedup();
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
        "number of the port that it arrives at; else the other one of two",
        |s, node, _| {
            s.to = Some(node.count("to", 0, 63)? as usize);
            Ok(())
        },
    ),
    key(
        "pcap",
        Type::Text,
        "capture file whose packets are sent, from the current folder: pcap or pcapng, plain or gzipped",
        |s, node, variables| {
            let text = node.text("pcap")?;
            pcap(s).path = match variables.is_empty() {
                // The name of a file may have a '$'.
                true => text,
                false => substituted(&text, variables, &node.at)?,
            };
            match pcap(s).path.is_empty() {
                true => node.wrong("pcap: want the name of a file"),
                false => Ok(()),
            }
        },
    ),
    key(
        "speed",
        Type::Text,
        "speed of a capture: `2` is twice its own, `max` as fast as the path takes packets; else 1",
        |s, node, variables| {
            let text = substituted(&node.decimal("speed")?, variables, &node.at)?;
            pcap(s).flat_out = text == "max";
            if text != "max" {
                let speed: Result<Speed, _> = text.parse();
                pcap(s).speed = match speed {
                    Ok(speed) => speed,
                    Err(want) => return node.wrong(format!("speed {}: {want}, or max", quoted(&text))),
                };
            }
            Ok(())
        },
    ),
    key(
        "loops",
        Type::Count,
        "times that a capture is sent; 0: until the run ends; else 1",
        |s, node, variables| {
            let loops = count(node, "loops", variables, 0, 1 << 40)?;
            pcap(s).loops = Some(loops).filter(|loops| *loops > 0);
            Ok(())
        },
    ),
    key(
        "gap",
        Type::Text,
        "time of a capture from its last packet to the first of the next loop; else its mean interval",
        |s, node, _| {
            pcap(s).gap = Some(time(node, "gap")?);
            Ok(())
        },
    ),
    key(
        "first",
        Type::Count,
        "number of a capture's first packet that is sent, from 1",
        |s, node, variables| {
            pcap(s).first = count(node, "first", variables, 1, i64::MAX as u64)?;
            Ok(())
        },
    ),
    key(
        "last",
        Type::Count,
        "number of the last packet that is sent",
        |s, node, variables| {
            pcap(s).last = Some(count(node, "last", variables, 1, i64::MAX as u64)?);
            Ok(())
        },
    ),
    key(
        "only",
        Type::Text,
        "packets of a capture that are sent: those that have these headers and values",
        |s, node, variables| {
            pcap(s).only = Some(text_of_packet(node, "only", variables)?);
            Ok(())
        },
    ),
    key(
        "rewrite",
        Type::Text,
        "headers of a capture that are changed, as a packet that has the new values; checksums are kept right",
        |s, node, variables| {
            pcap(s).rewrite = Some(text_of_packet(node, "rewrite", variables)?);
            Ok(())
        },
    ),
    choice(
        "vlans",
        &VLANS,
        "VLAN tags of `rewrite`: `set`, put on where they are not there; `push`, put on in front of all; `replace`, \
         all others are taken off; else `set`",
        |s, node, _| {
            pcap(s).vlans = [Vlans::Set, Vlans::Push, Vlans::Replace][chosen(node, "vlans", &VLANS)?];
            Ok(())
        },
    ),
    key(
        "shift",
        Type::Count,
        "number by which a capture's higher ports (TCP, UDP) go up with each loop, so that its flows are new ones",
        |s, node, variables| {
            pcap(s).shift = count(node, "shift", variables, 0, 65_534)? as u16;
            Ok(())
        },
    ),
    key(
        "pad",
        Type::Flag,
        "whether packets that were not captured whole are filled up with zeros; else they are refused",
        |s, node, _| {
            pcap(s).pad = node.flag("pad")?;
            Ok(())
        },
    ),
    key(
        "ahead",
        Type::Flag,
        "whether `send` reads a capture while it sends it; else it is in memory, unless it is too large for that",
        |s, node, _| {
            pcap(s).ahead = node.flag("ahead")?;
            Ok(())
        },
    ),
    key(
        "bytes",
        Type::Count,
        "size that the capture file must have; plans and results have it",
        |s, node, _| {
            pcap(s).size = Some(node.count("bytes", 0, i64::MAX as u64)?);
            Ok(())
        },
    ),
    key(
        "sha256",
        Type::Text,
        "SHA-256 that the capture file must have; plans and results have it",
        |s, node, _| {
            let text = node.text("sha256")?;
            if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return node.wrong(format!("sha256 {}: want 64 hexadecimal digits", quoted(&text)));
            }
            pcap(s).sha256 = Some(text.to_ascii_lowercase());
            Ok(())
        },
    ),
    key("comment", Type::Text, "words for readers", |_, node, _| {
        node.text("comment").map(|_| ())
    }),
];

/// Returns the capture of a stream. Its keys may stand before `pcap`.
fn pcap(stream: &mut Stream) -> &mut Pcap {
    stream.pcap.get_or_insert_default()
}

fn text_of_packet(node: &Node, name: &str, variables: &Variables) -> Read<Packet> {
    let text = node.text(name)?;
    Packet::read(&text, variables).map_err(|wrong| node.within(wrong))
}

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

    /// Returns whether this is one capture file without a name of its own ([`Traffic::of_capture`]), and so no traffic
    /// file.
    pub fn is_one_capture(&self) -> bool {
        matches!(&self.streams[..], [one] if one.name == CAPTURE && one.pcap.is_some())
    }

    /// Reads the traffic of one capture file, as `--pcap` gives it, with these keys of a stream, each as text.
    ///
    /// # Errors
    /// Names the key, and what would be right.
    pub fn of_capture(path: &str, keys: &[(String, String)]) -> Result<Self, Wrong> {
        let mut stream: Map<String, Value> = keys.iter().map(|(key, text)| (key.clone(), json!(text))).collect();
        for (key, text) in keys {
            if let ("true" | "false", Some(value)) = (text.as_str(), stream.get_mut(key)) {
                *value = json!(text == "true");
            }
        }
        for key in ["pcap", "packet", "name"] {
            if stream.contains_key(key) {
                return Err(Wrong::new(0..0, format!("{key}: it is given by --pcap")));
            }
        }
        stream.insert("name".to_owned(), json!(CAPTURE));
        stream.insert("pcap".to_owned(), json!(path));
        let text = json!({ "stream": [stream] }).to_string();
        Self::parse(&text, &[]).map_err(|wrong| Wrong::new(0..0, wrong.line))
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
        if matches!(streams.value, Any::Table(_)) {
            return streams.wrong("stream: want a list of streams, each under [[stream]], not a table");
        }
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

    /// Returns the streams whose packets are made, in place of coming from captures.
    pub fn without_captures(&self) -> Self {
        let made = self.streams.iter().filter(|stream| stream.pcap.is_none());
        Self {
            streams: made.cloned().collect(),
        }
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
    let wrong = |line: &str| {
        let line = format!("stream {}: {line}", quoted(&stream.name));
        Err(Wrong::new(first_line(&node.at), line))
    };
    let Some(pcap) = &stream.pcap else {
        return match stream.packet.headers.is_empty() {
            true => wrong("want packet or pcap"),
            false => Ok(stream),
        };
    };
    let given = |key: &&str| {
        node.table("stream")
            .is_ok_and(|keys| keys.iter().any(|(name, ..)| name == key))
    };
    if pcap.path.is_empty() {
        let key = KEYS_OF_CAPTURES.iter().find(|key| given(key)).unwrap_or(&"speed");
        return wrong(&format!("{key}: want pcap, of whose packets it is"));
    }
    if let Some(key) = ["packet", "size", "fill", "step", "flows", "burst", "repeat"]
        .iter()
        .find(|key| given(key))
    {
        let want = if *key == "repeat" { "loops" } else { "one of the two" };
        return wrong(&format!("{key}: beside pcap: want {want}"));
    }
    let rated = stream.load != Load::Most;
    if given(&"speed") && (rated || stream.pacing.is_some()) {
        return wrong("speed: beside rate, weight or pacing: want one of them");
    }
    if stream.pacing.as_deref() == Some("burst") {
        return wrong("pacing burst: beside pcap: want constant, poisson or captured");
    }
    if stream.tag == Tag::Tcp {
        return wrong("tag tcp: beside pcap: want tail, or none");
    }
    if pcap.last.is_some_and(|last| last < pcap.first) {
        return wrong("last: it is before first: want a later packet");
    }
    let untagged = !given(&"tag");
    if untagged {
        stream.tag = Tag::None;
    }
    Ok(stream)
}

/// Keys of a capture beside its path.
const KEYS_OF_CAPTURES: [&str; 13] = [
    "speed", "loops", "gap", "first", "last", "only", "rewrite", "vlans", "shift", "pad", "ahead", "bytes", "sha256",
];

fn first_line(at: &Span) -> Span {
    at.start..at.start + 1
}

/// Returns a time as files have it.
fn us(time: Duration) -> Value {
    format!("{}us", time.as_nanos() as f64 / 1e3).into()
}

impl Pcap {
    /// Puts down those keys that differ from their defaults.
    fn put<T>(&self, put: &mut impl FnMut(&str, Value) -> T) {
        let own = Self::default();
        put("pcap", json!(self.path));
        let texts = [("only", &self.only), ("rewrite", &self.rewrite)];
        let texts = texts.map(|(key, packet)| (key, packet.as_ref().map(|packet| json!(packet.text))));
        let speed = match self.flat_out {
            true => Some(json!("max")),
            false => (self.speed != own.speed).then(|| json!(self.speed.to_string())),
        };
        let vlans = match self.vlans {
            Vlans::Set => None,
            Vlans::Push => Some(json!(VLANS[1])),
            Vlans::Replace => Some(json!(VLANS[2])),
        };
        let keys = [
            ("speed", speed),
            (
                "loops",
                (self.loops != own.loops).then(|| json!(self.loops.unwrap_or(0))),
            ),
            ("gap", self.gap.map(us)),
            ("first", (self.first != own.first).then(|| json!(self.first))),
            ("last", self.last.map(Value::from)),
            ("vlans", vlans),
            ("shift", (self.shift != own.shift).then(|| json!(self.shift))),
            ("pad", self.pad.then(|| json!(true))),
            ("ahead", self.ahead.then(|| json!(true))),
            ("bytes", self.size.map(Value::from)),
            ("sha256", self.sha256.as_ref().map(|digits| json!(digits))),
        ];
        for (key, value) in texts.into_iter().chain(keys) {
            if let Some(value) = value {
                put(key, value);
            }
        }
    }
}

impl Stream {
    /// Returns the stream with those keys that differ from their defaults.
    fn json(&self) -> Value {
        let mut all = Map::new();
        let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
        put("name", json!(self.name));
        match &self.pcap {
            None => {
                put("packet", json!(self.packet.text));
            }
            Some(pcap) => pcap.put(&mut put),
        }
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
        if (self.tag == Tag::Tail) == self.pcap.is_some() {
            let tag = match self.tag {
                Tag::Tail => TAGS[0],
                Tag::Tcp => TAGS[1],
                Tag::None => TAGS[2],
            };
            put("tag", json!(tag));
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
