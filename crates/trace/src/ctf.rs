//! Writes a [`Recording`] in the Common Trace Format 1.8, as three traces that Trace Compass opens with the views it
//! has for them, and babeltrace2 reads as text:
//!
//! - `ust`: the stages of each lane as calls of functions (`lttng_ust_cyg_profile_fast:func_entry`), for Flame Chart,
//!   Function Durations and the like. A stage's address stands for its name; `functions.nm` tells which.
//! - `kernel`: what happened on the lanes' cores, under the names of LTTng's kernel tracer, for Control Flow and
//!   Resources.
//! - `dpdk`: each poll of a receive queue and each burst sent, under the names of DPDK's own trace points.
//!
//! Each trace has an id of its own (readers merge those of one id). Times are `CLOCK_MONOTONIC`, ns.

use crate::kernel::cores;
use crate::{Did, Event, LaneTrace, Recording, Round, Stage};
use std::fmt::Write as _;

/// A file of the three traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `ust/metadata` and so on.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Events of the three traces: what a reader has to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of `ust`.
    pub ust: u64,
    /// Of `kernel`.
    pub kernel: u64,
    /// Of `dpdk`.
    pub dpdk: u64,
}

impl Counts {
    /// Of each trace, by the name of its folder.
    pub fn by_trace(&self) -> [(&'static str, u64); 3] {
        [
            (Kind::Ust.folder(), self.ust),
            (Kind::Kernel.folder(), self.kernel),
            (Kind::Dpdk.folder(), self.dpdk),
        ]
    }
}

const MAGIC: u32 = 0xc1fc_1fc1;
/// Bytes of a thread's name.
const COMM: usize = 16;
/// A packet is closed when it is longer, bytes.
const PACKET: usize = 1 << 20;
/// Empty polls of a lane that get an event each; what is beyond is told as discarded.
const EMPTY_POLLS: u64 = 1_000_000;
/// Addresses that stand for stages.
const FUNCTIONS: u64 = 0x10_0000;
/// Between two of them.
const FUNCTION: u64 = 0x100;

/// Ids of events.
mod id {
    pub(super) const ENTRY: u16 = 0;
    pub(super) const EXIT: u16 = 1;
    pub(super) const SWITCH: u16 = 0;
    pub(super) const WAKING: u16 = 1;
    pub(super) const IRQ_ENTRY: u16 = 2;
    pub(super) const IRQ_EXIT: u16 = 3;
    pub(super) const SOFTIRQ_ENTRY: u16 = 4;
    pub(super) const SOFTIRQ_EXIT: u16 = 5;
    pub(super) const SIGNAL: u16 = 6;
    pub(super) const DROP: u16 = 7;
    pub(super) const EMPTY: u16 = 0;
    pub(super) const RX: u16 = 1;
    pub(super) const TX: u16 = 2;
}

/// All files of the three traces.
pub fn files(recording: &Recording) -> (Vec<File>, Counts) {
    let pid = recording.meta.pid;
    let (mut ust, mut dpdk) = (Trace::new(Kind::Ust, recording), Trace::new(Kind::Dpdk, recording));
    for lane in &recording.lanes {
        calls(&mut ust, lane, pid);
        polls(&mut dpdk, lane);
    }
    let mut kernel = Trace::new(Kind::Kernel, recording);
    kernel_events(&mut kernel, recording);
    let counts = Counts {
        ust: ust.events,
        kernel: kernel.events,
        dpdk: dpdk.events,
    };
    let mut files: Vec<File> = [ust, kernel, dpdk].into_iter().flat_map(Trace::files).collect();
    files.push(File {
        path: "functions.nm".to_owned(),
        bytes: functions().into_bytes(),
    });
    (files, counts)
}

/// What stands for each name, in the form of `nm`.
fn functions() -> String {
    let mut text = String::new();
    let names = Stage::ALL.map(|stage| (address(stage), stage.name().replace(' ', "_")));
    for (at, name) in names.into_iter().chain([(BURST, "burst".to_owned())]) {
        let _ = writeln!(text, "{at:016x} T {name}");
    }
    text
}

const BURST: u64 = FUNCTIONS;

fn address(stage: Stage) -> u64 {
    FUNCTIONS + FUNCTION * (stage.index() as u64 + 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ust,
    Kernel,
    Dpdk,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Ust => "ust",
            Self::Kernel => "kernel",
            Self::Dpdk => "dpdk",
        }
    }

    /// An id of its own within one recording, the same each time.
    fn uuid(self, recording: &Recording) -> [u8; 16] {
        uuid(self as u8, recording)
    }
}

/// The clock's: that of all three traces, so that a reader may compare their times.
const CLOCK: u8 = 3;

fn uuid(of: u8, recording: &Recording) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&recording.meta.start_ns.to_be_bytes());
    bytes[8..].copy_from_slice(&recording.meta.utc_offset_ns.to_be_bytes());
    // Version 4, variant 1, and which of the three.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes[15] = bytes[15] & 0xfc | of;
    bytes
}

/// A trace under construction: its streams are one a lane, or one a core.
struct Trace {
    kind: Kind,
    uuid: [u8; 16],
    metadata: String,
    streams: Vec<(String, Vec<u8>)>,
    events: u64,
}

impl Trace {
    fn new(kind: Kind, recording: &Recording) -> Self {
        let uuid = kind.uuid(recording);
        Self {
            kind,
            uuid,
            metadata: metadata(kind, &uuid, recording),
            streams: Vec::new(),
            events: 0,
        }
    }

    /// Adds a stream of events in the order of their times.
    fn stream(&mut self, name: String, cpu: u32, lost: u64, events: impl Iterator<Item = (u64, Vec<u8>)>) {
        let mut stream = Vec::new();
        let mut packet = Packet::default();
        let mut last = 0;
        for (at, event) in events {
            // A reader refuses a clock that goes back.
            let at = at.max(last);
            last = at;
            if packet.events.len() > PACKET {
                packet.close(self.uuid, cpu, lost, &mut stream);
            }
            packet.add(at, &event);
            self.events += 1;
        }
        if !packet.events.is_empty() {
            packet.close(self.uuid, cpu, lost, &mut stream);
        }
        if !stream.is_empty() {
            self.streams.push((name, stream));
        }
    }

    fn files(self) -> Vec<File> {
        // A folder without a stream is no trace to some readers.
        if self.streams.is_empty() {
            return Vec::new();
        }
        let folder = self.kind.folder();
        let file = |(name, bytes): (String, Vec<u8>)| File {
            path: format!("{folder}/{name}"),
            bytes,
        };
        let metadata = ("metadata".to_owned(), self.metadata.into_bytes());
        [metadata].into_iter().chain(self.streams).map(file).collect()
    }
}

/// Events that are not yet in the stream.
#[derive(Default)]
struct Packet {
    begin_ns: u64,
    end_ns: u64,
    events: Vec<u8>,
}

impl Packet {
    fn add(&mut self, at: u64, event: &[u8]) {
        if self.events.is_empty() {
            self.begin_ns = at;
        }
        self.end_ns = at;
        let (id, rest) = event.split_at(2);
        self.events.extend_from_slice(id);
        self.events.extend_from_slice(&at.to_le_bytes());
        self.events.extend_from_slice(rest);
    }

    fn close(&mut self, uuid: [u8; 16], cpu: u32, lost: u64, stream: &mut Vec<u8>) {
        const HEADER: usize = 4 + 16 + 4 + 5 * 8 + 4;
        let bits = ((HEADER + self.events.len()) * 8) as u64;
        stream.extend_from_slice(&MAGIC.to_le_bytes());
        stream.extend_from_slice(&uuid);
        stream.extend_from_slice(&0_u32.to_le_bytes());
        for value in [self.begin_ns, self.end_ns, bits, bits, lost] {
            stream.extend_from_slice(&value.to_le_bytes());
        }
        stream.extend_from_slice(&cpu.to_le_bytes());
        stream.append(&mut self.events);
    }
}

/// An event's bytes: its id, then its context and fields.
struct Bytes(Vec<u8>);

impl Bytes {
    fn of(id: u16) -> Self {
        Self(id.to_le_bytes().to_vec())
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A name of fixed length, as the kernel has it.
    fn comm(mut self, name: &str) -> Self {
        let bytes = name.bytes().filter(|byte| *byte != 0).chain(std::iter::repeat(0));
        self.0.extend(bytes.take(COMM - 1));
        self.0.push(0);
        self
    }

    /// A string, which ends with a byte of nought.
    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.0.push(0);
        self
    }
}

fn calls(trace: &mut Trace, lane: &LaneTrace, pid: i32) {
    let event = |id: u16, address: u64| Bytes::of(id).i32(pid).i32(lane.tid).comm(&lane.name).u64(address).0;
    let events = ordered(&lane.rounds).flat_map(|(mut at, round)| {
        let mut events = Vec::new();
        let mut call = |at: u64, took: u64, address: u64| {
            events.push((at, event(id::ENTRY, address)));
            events.push((at + took, event(id::EXIT, address)));
        };
        let whole = match round.did {
            Did::Burst => BURST,
            Did::Polled => address(Stage::EmptyPolls),
            Did::Slept => address(Stage::Asleep),
            Did::Spun => address(Stage::Spinning),
        };
        if round.did != Did::Burst {
            call(at, round.parts[0].into(), whole);
            return events;
        }
        let (begin, end) = (at, at + round.took_ns());
        for (stage, took) in Round::STAGES.into_iter().zip(round.parts) {
            if took > 0 && stage != Stage::Rest {
                call(at, took.into(), address(stage));
            }
            at += u64::from(took);
        }
        events.insert(0, (begin, event(id::ENTRY, whole)));
        events.push((end, event(id::EXIT, whole)));
        events
    });
    trace.stream(format!("lane_{}", lane.lane), lane.cpu.unwrap_or(0), 0, events);
}

fn polls(trace: &mut Trace, lane: &LaneTrace) {
    let found = |round: &&Round| matches!(round.did, Did::Polled | Did::Spun);
    let empty: u64 = lane
        .rounds
        .iter()
        .filter(found)
        .map(|round| u64::from(round.polls))
        .sum();
    // Each poll is an event of its own for the views that count them.
    let (keep, left_out) = if empty > EMPTY_POLLS {
        (EMPTY_POLLS, empty - EMPTY_POLLS)
    } else {
        (empty, 0)
    };
    let mut left = keep;
    let events = ordered(&lane.rounds).flat_map(|(at, round)| {
        let event = |id: u16| Bytes::of(id).u32(lane.cpu.unwrap_or(0)).comm(&lane.name).u32(0).u32(0);
        let received = at + u64::from(round.parts[0]);
        let sent = at + round.took_ns();
        match round.did {
            Did::Burst => {
                let rx = (round.rx > 0).then(|| (received, event(id::RX).u32(round.rx.into()).0));
                let tx = (round.tx > 0).then(|| (sent, event(id::TX).u32(round.tx.into()).0));
                rx.into_iter().chain(tx).collect::<Vec<_>>()
            }
            // They are spread evenly over their stretch.
            Did::Polled | Did::Spun => {
                let (n, took) = (u64::from(round.polls).min(left), u64::from(round.parts[0]));
                left -= n;
                (0..n).map(|i| (at + took * i / n.max(1), event(id::EMPTY).0)).collect()
            }
            Did::Slept => Vec::new(),
        }
    });
    trace.stream(format!("lane_{}", lane.lane), lane.cpu.unwrap_or(0), left_out, events);
}

/// Records with times that don't overlap: one that was cut out of a ring may overlap the one before by a correction of
/// the clock.
fn ordered(rounds: &[Round]) -> impl Iterator<Item = (u64, &Round)> {
    rounds.iter().scan(0, |ended: &mut u64, round| {
        let at = round.at_ns.max(*ended);
        *ended = at.saturating_add(round.took_ns());
        Some((at, round))
    })
}

fn kernel_events(trace: &mut Trace, recording: &Recording) {
    for cpu in cores(&recording.kernel) {
        let mut events = Vec::new();
        for event in recording.kernel.iter().filter(|event| event.cpu == cpu) {
            let (at, began) = (event.at_ns, |took: &u64| event.at_ns.saturating_sub(*took));
            match &event.event {
                Event::Switch {
                    prev_tid,
                    prev_comm,
                    prev_state,
                    prev_prio,
                    next_tid,
                    next_comm,
                    next_prio,
                } => {
                    let fields = Bytes::of(id::SWITCH)
                        .comm(prev_comm)
                        .i32(*prev_tid)
                        .i32(*prev_prio - 100);
                    let fields = fields.u64(*prev_state as u64).comm(next_comm).i32(*next_tid);
                    events.push((at, fields.i32(*next_prio - 100).0));
                }
                Event::Waking { tid, comm, target_cpu } => {
                    let fields = Bytes::of(id::WAKING).comm(comm).i32(*tid).i32(20);
                    events.push((at, fields.u32(*target_cpu).0));
                }
                Event::Irq { irq, name, took_ns } => {
                    events.push((began(took_ns), Bytes::of(id::IRQ_ENTRY).u32(*irq).text(name).0));
                    events.push((at, Bytes::of(id::IRQ_EXIT).u32(*irq).i32(1).0));
                }
                Event::Softirq { vector, took_ns } => {
                    events.push((began(took_ns), Bytes::of(id::SOFTIRQ_ENTRY).u32(*vector).0));
                    events.push((at, Bytes::of(id::SOFTIRQ_EXIT).u32(*vector).0));
                }
                Event::Signal { signal, tid } => {
                    events.push((at, Bytes::of(id::SIGNAL).i32(*signal).i32(*tid).0));
                }
                Event::Drop(drop) => {
                    let fields = Bytes::of(id::DROP).text(&drop.reason).text(&drop.place);
                    events.push((at, fields.text(&drop.device).0));
                }
                // LTTng has no names for these.
                Event::Vector { .. } | Event::Poll { .. } | Event::SwitchedOut { .. } | Event::SwitchedIn { .. } => {}
            }
        }
        events.sort_by_key(|(at, _)| *at);
        trace.stream(format!("core_{cpu}"), cpu, 0, events.into_iter());
    }
}

fn metadata(kind: Kind, uuid: &[u8; 16], recording: &Recording) -> String {
    let clock = hyphened(&self::uuid(CLOCK, recording));
    let uuid = hyphened(uuid);
    let meta = &recording.meta;
    let env = match kind {
        Kind::Ust => "domain = \"ust\"; tracer_name = \"lttng-ust\"; tracer_major = 2; tracer_minor = 13;",
        Kind::Kernel => "domain = \"kernel\"; tracer_name = \"lttng-modules\"; tracer_major = 2; tracer_minor = 13;",
        Kind::Dpdk => "domain = \"dpdk\"; tracer_name = \"dpdk\"; tracer_major = 1; tracer_minor = 0;",
    };
    let context = match kind {
        Kind::Ust => "struct { i32 _vpid; i32 _vtid; text16 _procname; }",
        Kind::Kernel => "struct { }",
        Kind::Dpdk => "struct { u32 cpu_id; text16 name; }",
    };
    let mut text = format!(
        r#"/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; encoding = UTF8; }} := c8;
typealias integer {{ size = 16; align = 8; signed = false; }} := u16;
typealias integer {{ size = 32; align = 8; signed = false; }} := u32;
typealias integer {{ size = 64; align = 8; signed = false; }} := u64;
typealias integer {{ size = 64; align = 8; signed = false; base = 16; }} := x64;
typealias integer {{ size = 32; align = 8; signed = true; }} := i32;
typealias integer {{ size = 64; align = 8; signed = true; }} := i64;
typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
typedef c8 text16[{COMM}];

trace {{
	major = 1; minor = 8;
	uuid = "{uuid}";
	byte_order = le;
	packet.header := struct {{ u32 magic; u8 uuid[16]; u32 stream_id; }};
}};

env {{
	hostname = "{host}";
	{env}
	program = "{program}";
}};

clock {{
	name = "monotonic";
	uuid = "{clock}";
	description = "Monotonic Clock";
	freq = 1000000000;
	absolute = TRUE;
	offset = {offset};
}};

typealias integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} := time;

stream {{
	id = 0;
	packet.context := struct {{
		time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size; u64 events_discarded; u32 cpu_id;
	}};
	event.header := struct {{ u16 id; time timestamp; }};
	event.context := {context};
}};
"#,
        host = quoted(&meta.host),
        program = quoted(&meta.program),
        offset = meta.utc_offset_ns.max(0),
    );
    let events: &[(u16, &str, &str)] = match kind {
        Kind::Ust => &[
            (id::ENTRY, "lttng_ust_cyg_profile_fast:func_entry", "x64 addr;"),
            (id::EXIT, "lttng_ust_cyg_profile_fast:func_exit", "x64 addr;"),
        ],
        Kind::Kernel => &[
            (
                id::SWITCH,
                "sched_switch",
                "text16 prev_comm; i32 prev_tid; i32 prev_prio; i64 prev_state; text16 next_comm; i32 next_tid; \
                 i32 next_prio;",
            ),
            (
                id::WAKING,
                "sched_waking",
                "text16 comm; i32 tid; i32 prio; u32 target_cpu;",
            ),
            (id::IRQ_ENTRY, "irq_handler_entry", "u32 irq; string name;"),
            (id::IRQ_EXIT, "irq_handler_exit", "u32 irq; i32 ret;"),
            (id::SOFTIRQ_ENTRY, "irq_softirq_entry", "u32 vec;"),
            (id::SOFTIRQ_EXIT, "irq_softirq_exit", "u32 vec;"),
            (id::SIGNAL, "signal_deliver", "i32 sig; i32 tid;"),
            (id::DROP, "skb_kfree", "string reason; string location; string device;"),
        ],
        Kind::Dpdk => &[
            (id::EMPTY, "lib.ethdev.rx.burst.empty", "u32 port_id; u32 queue_id;"),
            (
                id::RX,
                "lib.ethdev.rx.burst.nonempty",
                "u32 port_id; u32 queue_id; u32 nb_rx;",
            ),
            (id::TX, "lib.ethdev.tx.burst", "u32 port_id; u32 queue_id; u32 nb_pkts;"),
        ],
    };
    for (id, name, fields) in events {
        let _ = write!(
            text,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = 0;\n\tfields := \
             struct {{ {fields} }};\n}};\n"
        );
    }
    text
}

fn hyphened(uuid: &[u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]]
        .map(hex)
        .join("-")
}

/// As a string of the metadata's language.
fn quoted(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain
        .flat_map(|c| ['\\'].into_iter().filter(move |_| c == '"' || c == '\\').chain([c]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::tests::example;

    fn round(at_ns: u64) -> Round {
        Round {
            at_ns,
            parts: [100, 200, 0, 50, 300, 0, 7],
            rx: 3,
            tx: 32,
            ..Round::default()
        }
    }

    #[test]
    fn a_stage_is_an_entry_and_an_exit_and_each_switch_an_event() {
        let slept = Round {
            at_ns: 1_020_000,
            parts: [5_000, 0, 0, 0, 0, 0, 0],
            did: Did::Slept,
            ..Round::default()
        };
        let polled = Round {
            at_ns: 1_040_000,
            polls: 7,
            did: Did::Polled,
            ..slept
        };
        let recording = example(vec![round(1_010_000), slept, round(1_030_000), polled]);
        let (files, counts) = files(&recording);
        // Two bursts of four stages, a sleep and a stretch of polls; seven polls, two received, two sent.
        let expected = Counts {
            ust: 2 * (2 + 8) + 2 + 2,
            kernel: 2,
            dpdk: 7 + 2 + 2,
        };
        assert_eq!(counts, expected);
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let streams = [
            "ust/metadata",
            "ust/lane_0",
            "kernel/metadata",
            "kernel/core_1",
            "dpdk/metadata",
            "dpdk/lane_0",
        ];
        assert_eq!(paths, [&streams[..], &["functions.nm"]].concat());
        // Each stream says how long it is.
        for file in files.iter().filter(|file| file.path.contains("_0")) {
            let bits = u64::from_le_bytes(file.bytes[40..48].try_into().expect("eight bytes"));
            assert_eq!(bits as usize, file.bytes.len() * 8, "{}", file.path);
        }
    }

    #[test]
    fn empty_polls_beyond_the_cap_are_told_as_discarded() {
        let polled = Round {
            at_ns: 5,
            parts: [9; 7],
            polls: u32::MAX,
            did: Did::Polled,
            ..Round::default()
        };
        let (files, counts) = files(&example(vec![polled]));
        assert_eq!(counts.dpdk, EMPTY_POLLS);
        let stream = files.iter().find(|file| file.path == "dpdk/lane_0").expect("a stream");
        let lost = u64::from_le_bytes(stream.bytes[56..64].try_into().expect("eight bytes"));
        assert_eq!(lost, u64::from(u32::MAX) - EMPTY_POLLS);
    }
}
