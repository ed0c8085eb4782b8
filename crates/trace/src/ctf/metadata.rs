//! Descriptions of the three traces: names and fields of their events, and names of stages.

use super::Kind;
use crate::{Recording, Stage};
use std::fmt::Write as _;

/// Bytes of a thread's name.
pub(super) const COMM: usize = 16;
/// First address of those that stand for stages.
const FUNCTIONS: u64 = 0x10_0000;
/// Distance between two of these addresses.
const FUNCTION: u64 = 0x100;
/// Address that stands for a whole burst.
pub(super) const BURST: u64 = FUNCTIONS;
/// Number of the clock among ids: all three traces have the same, so that a reader may compare their times.
const CLOCK: u8 = 3;

/// Ids of events.
pub(super) mod id {
    pub(in crate::ctf) const ENTRY: u16 = 0;
    pub(in crate::ctf) const EXIT: u16 = 1;
    pub(in crate::ctf) const SWITCH: u16 = 0;
    pub(in crate::ctf) const WAKING: u16 = 1;
    pub(in crate::ctf) const IRQ_ENTRY: u16 = 2;
    pub(in crate::ctf) const IRQ_EXIT: u16 = 3;
    pub(in crate::ctf) const SOFTIRQ_ENTRY: u16 = 4;
    pub(in crate::ctf) const SOFTIRQ_EXIT: u16 = 5;
    pub(in crate::ctf) const SIGNAL: u16 = 6;
    pub(in crate::ctf) const DROP: u16 = 7;
    pub(in crate::ctf) const EMPTY: u16 = 0;
    pub(in crate::ctf) const RX: u16 = 1;
    pub(in crate::ctf) const TX: u16 = 2;
}

pub(super) fn address(stage: Stage) -> u64 {
    FUNCTIONS + FUNCTION * (stage.index() as u64 + 1)
}

/// Returns the address of each name, in the form of `nm`.
pub(super) fn functions() -> String {
    let mut text = String::new();
    let names = Stage::ALL.map(|stage| (address(stage), stage.name().replace(' ', "_")));
    for (at, name) in names.into_iter().chain([(BURST, "burst".to_owned())]) {
        let _ = writeln!(text, "{at:016x} T {name}");
    }
    text
}

/// Returns the description of one trace.
pub(super) fn metadata(kind: Kind, uuid: &[u8; 16], recording: &Recording) -> String {
    let clock = hyphened(&super::uuid(CLOCK, recording));
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
    for (id, name, fields) in events(kind) {
        let _ = write!(
            text,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = 0;\n\tfields := \
             struct {{ {fields} }};\n}};\n"
        );
    }
    text
}

/// Returns the events of a trace: id, name and fields of each.
fn events(kind: Kind) -> &'static [(u16, &'static str, &'static str)] {
    match kind {
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
    }
}

fn hyphened(uuid: &[u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]]
        .map(hex)
        .join("-")
}

/// Returns text as a string of the metadata's language.
fn quoted(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain
        .flat_map(|c| ['\\'].into_iter().filter(move |_| c == '"' || c == '\\').chain([c]))
        .collect()
}
