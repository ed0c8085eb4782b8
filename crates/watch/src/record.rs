//! Records of the ring, as the programs write them (`bpf/watch.h`), turned into events.

use crate::abi::{NAME, what};
use crate::names::{self, Names};
use mpps_trace::{Drop, Event, KernelEvent};

/// Reads a field of `struct record`, or of the part that another struct shares with it. Missing fields are 0.
fn word(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    found.map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

fn half(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    found.map_or(0, u16::from_le_bytes)
}

fn name(bytes: &[u8], at: usize) -> String {
    names::text(bytes.get(at..at + NAME).unwrap_or_default())
}

/// Offsets of the fields of `struct record` and `struct exchange`. `layout_tests.rs` compares them.
pub(crate) mod field {
    pub(crate) const AT: usize = 0;
    pub(crate) const CPU: usize = 8;
    pub(crate) const WHAT: usize = 10;
    pub(crate) const FLAGS: usize = 11;
    pub(crate) const ID: usize = 12;
    pub(crate) const TOOK: usize = 16;
    pub(crate) const A: usize = 24;
    pub(crate) const B: usize = 28;
    pub(crate) const NAME: usize = 32;

    pub(crate) const NEXT: usize = 16;
    pub(crate) const PREV_PRIO: usize = 20;
    pub(crate) const NEXT_PRIO: usize = 22;
    pub(crate) const PREV_STATE: usize = 24;
    pub(crate) const PREV_NAME: usize = 32;
    pub(crate) const NEXT_NAME: usize = 48;
}

/// Returns the event of a record; `None` if its kind is not known.
pub(crate) fn event(bytes: &[u8], names: &mut Names) -> Option<KernelEvent> {
    let id = word(bytes, field::ID);
    let took_ns = long(bytes, field::TOOK);
    let prio = |at| i32::from(half(bytes, at).cast_signed());
    let event = match *bytes.get(field::WHAT)? {
        what::SWITCH => Event::Switch {
            prev_tid: id.cast_signed(),
            prev_comm: name(bytes, field::PREV_NAME),
            prev_state: i64::from(word(bytes, field::PREV_STATE)),
            prev_prio: prio(field::PREV_PRIO),
            next_tid: word(bytes, field::NEXT).cast_signed(),
            next_comm: name(bytes, field::NEXT_NAME),
            next_prio: prio(field::NEXT_PRIO),
        },
        what::WAKING => Event::Waking {
            tid: id.cast_signed(),
            comm: name(bytes, field::NAME),
            target_cpu: word(bytes, field::A),
        },
        what::INTERRUPT => Event::Irq {
            irq: id,
            name: names.irq(id).to_owned(),
            took_ns,
        },
        what::SOFT => Event::Softirq { vector: id, took_ns },
        what::PROCESSOR => Event::Vector {
            name: names::vector(id),
            took_ns,
        },
        what::SIGNAL => Event::Signal {
            signal: id.cast_signed(),
            tid: word(bytes, field::A).cast_signed(),
        },
        what::DROP => Event::Drop(Drop {
            reason: names.reason(id),
            place: names.place(took_ns),
            device: name(bytes, field::NAME),
            ours: *bytes.get(field::FLAGS)? != 0,
            packets: word(bytes, field::B),
        }),
        what::POLLED => Event::Poll {
            device: name(bytes, field::NAME),
            work: word(bytes, field::A),
            budget: word(bytes, field::B),
        },
        _ => return None,
    };
    Some(KernelEvent {
        at_ns: long(bytes, field::AT),
        cpu: u32::from(half(bytes, field::CPU)),
        event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_give_an_event_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = event(&bytes, &mut Names::default());
        }
    }
}
