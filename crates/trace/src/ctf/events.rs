//! The events of the three traces, as bytes.

use super::metadata::{BURST, COMM, address, id};
use super::{Out, Trace};
use crate::kernel::cores;
use crate::{Did, Event, LaneTrace, Recording, Round, Stage};
use std::io::{self, Write};

/// Most empty polls of a lane that get an event each; further ones are reported as discarded.
pub(super) const EMPTY_POLLS: u64 = 1_000_000;
/// The same for all lanes together: 40 bytes each.
pub(super) const ALL_EMPTY_POLLS: u64 = 16 * EMPTY_POLLS;

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

    /// Adds a name of fixed length, in the kernel's form.
    fn comm(mut self, name: &str) -> Self {
        let bytes = name.bytes().filter(|byte| *byte != 0).chain(std::iter::repeat(0));
        self.0.extend(bytes.take(COMM - 1));
        self.0.push(0);
        self
    }

    /// Adds a string, which ends with a zero byte.
    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.0.push(0);
        self
    }
}

pub(super) fn calls<W: Write, O: FnMut(&str) -> io::Result<W>>(
    trace: &mut Trace,
    out: &mut Out<O>,
    lane: &LaneTrace,
    pid: i32,
) -> io::Result<()> {
    let event = |id: u16, address: u64| Bytes::of(id).i32(pid).i32(lane.tid).comm(&lane.name).u64(address).0;
    let events = ordered(&lane.rounds).flat_map(|(mut at, round)| {
        let mut events = Vec::new();
        let mut call = |at: u64, took: u64, address: u64| {
            events.push((at, event(id::ENTRY, address)));
            events.push((at.saturating_add(took), event(id::EXIT, address)));
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
        let (begin, end) = (at, at.saturating_add(round.took_ns()));
        for (stage, took) in Round::STAGES.into_iter().zip(round.parts) {
            if took > 0 && stage != Stage::Rest {
                call(at, took.into(), address(stage));
            }
            at = at.saturating_add(took.into());
        }
        events.insert(0, (begin, event(id::ENTRY, whole)));
        events.push((end, event(id::EXIT, whole)));
        events
    });
    let cpu = lane.cpu.unwrap_or(0);
    trace.stream(out, &format!("lane_{}", lane.lane), (cpu, 0), events)
}

/// Returns the empty polls that each of `lanes` lanes may have.
pub(super) fn room(lanes: usize) -> u64 {
    EMPTY_POLLS.min(ALL_EMPTY_POLLS / lanes.max(1) as u64)
}

/// Adds the polls and sent bursts of one of `lanes` lanes.
pub(super) fn polls<W: Write, O: FnMut(&str) -> io::Result<W>>(
    trace: &mut Trace,
    out: &mut Out<O>,
    lane: &LaneTrace,
    lanes: usize,
) -> io::Result<()> {
    // A lane that spins before its next departure does not poll for packets.
    let polled = lane.rounds.iter().filter(|round| round.did == Did::Polled);
    let empty: u64 = polled.map(|round| u64::from(round.polls)).sum();
    // Each poll is an event of its own for the views that count them.
    let keep = empty.min(room(lanes));
    let left_out = empty - keep;
    let mut left = keep;
    let events = ordered(&lane.rounds).flat_map(|(at, round)| {
        let event = |id: u16| Bytes::of(id).u32(lane.cpu.unwrap_or(0)).comm(&lane.name).u32(0).u32(0);
        let received = at.saturating_add(round.parts[0].into());
        let sent = at.saturating_add(round.took_ns());
        match round.did {
            Did::Burst => {
                let rx = (round.rx > 0).then(|| (received, event(id::RX).u32(round.rx.into()).0));
                let tx = (round.tx > 0).then(|| (sent, event(id::TX).u32(round.tx.into()).0));
                rx.into_iter().chain(tx).collect::<Vec<_>>()
            }
            // The polls are spread evenly over their stretch.
            Did::Polled => {
                let (n, took) = (u64::from(round.polls).min(left), u64::from(round.parts[0]));
                left -= n;
                let spread = |i| at.saturating_add(took * i / n.max(1));
                (0..n).map(|i| (spread(i), event(id::EMPTY).0)).collect()
            }
            Did::Slept | Did::Spun => Vec::new(),
        }
    });
    let cpu = lane.cpu.unwrap_or(0);
    trace.stream(out, &format!("lane_{}", lane.lane), (cpu, left_out), events)
}

/// Returns records with times that don't overlap. A record that was cut out of a ring may overlap the one before by a
/// correction of the clock.
fn ordered(rounds: &[Round]) -> impl Iterator<Item = (u64, &Round)> {
    rounds.iter().scan(0, |ended: &mut u64, round| {
        let at = round.at_ns.max(*ended);
        *ended = at.saturating_add(round.took_ns());
        Some((at, round))
    })
}

pub(super) fn kernel_events<W: Write, O: FnMut(&str) -> io::Result<W>>(
    trace: &mut Trace,
    out: &mut Out<O>,
    recording: &Recording,
) -> io::Result<()> {
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
                        .i32(prev_prio.saturating_sub(100));
                    let fields = fields.u64(*prev_state as u64).comm(next_comm).i32(*next_tid);
                    events.push((at, fields.i32(next_prio.saturating_sub(100)).0));
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
        trace.stream(out, &format!("core_{cpu}"), (cpu, 0), events.into_iter())?;
    }
    Ok(())
}
