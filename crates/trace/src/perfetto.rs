//! Writes a [`Recording`] as a Perfetto trace (protocol buffers, `TracePacket`s one after the other).
//!
//! What goes where: each lane is a thread with its stages as slices; switches, wake-ups and interrupts are events of
//! ftrace, so that the viewer shows the lanes' states and who had the cores; samples are call stacks of those threads;
//! counters are counters; what was slow, late or lost is a track of its own, with the sentence as the slice's name. The
//! recording itself goes along in a field of our own ([`OWN_FIELD`]), which viewers skip: what is read back is what was
//! recorded, to the last bit.
//!
//! Numbers of fields are those of `protos/perfetto/trace` of Perfetto's source.

use crate::kernel::cores;
use crate::proto::Message;
use crate::{Did, Event, KernelEvent, LaneTrace, Recording, Round, Stage, Subject, Unit, own};
use std::io::{self, Write};

/// Field of a `TracePacket` that holds a part of the recording itself.
pub(crate) const OWN_FIELD: u32 = 99_199;

/// Fields of a packet.
mod packet {
    pub(super) const FTRACE: u32 = 1;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const SYSTEM_INFO: u32 = 45;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK: u32 = 60;
    pub(super) const PERF_SAMPLE: u32 = 66;
}

/// Clocks: two of the kernel's, and one of each sequence that counts from its last packet.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;
const DELTA: u64 = 64;

/// Sequence flags.
const CLEARED: u64 = 1;
const NEEDS: u64 = 2;

/// Types of track events.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Sequences: lanes follow [`FIRST_LANE`].
const GLOBAL: u64 = 1;
const KERNEL: u64 = 2;
const SAMPLES: u64 = 3;
const FIRST_LANE: u64 = 16;

/// Tracks. Lanes, cores and counters follow these.
const PROCESS_TRACK: u64 = 1;
const WHY_TRACK: u64 = 2;
const LANE_TRACK: u64 = 1_000;
const CORE_TRACK: u64 = 100_000;
const COUNTER_TRACK: u64 = 200_000;

/// Names of slices that are no stages.
const BURST: u64 = 100;
/// Names of annotations.
const RX: u64 = 1;
const TX: u64 = 2;
const POLLS: u64 = 3;
const LATE: u64 = 4;
const FILL: u64 = 5;

/// Writes the trace.
///
/// # Errors
/// Those of `out`.
pub fn write(recording: &Recording, out: &mut impl Write) -> io::Result<()> {
    let pid = recording.meta.pid;
    let mut writer = Writer {
        out,
        packet: Message::new(),
        boot_offset_ns: recording.meta.boot_offset_ns,
    };
    writer.clocks(recording)?;
    writer.tracks(recording, pid)?;
    for lane in &recording.lanes {
        writer.lane(lane)?;
    }
    writer.counters(recording)?;
    writer.causes(recording)?;
    writer.kernel(&recording.kernel)?;
    writer.core_events(&recording.kernel)?;
    writer.samples(recording, pid)?;
    for part in own::parts(recording) {
        writer.send(|packet| {
            packet.data(OWN_FIELD, &part);
        })?;
    }
    Ok(())
}

struct Writer<'w, W: Write> {
    out: &'w mut W,
    /// The message that packets are made in, the outer one.
    packet: Message,
    boot_offset_ns: i64,
}

impl<W: Write> Writer<'_, W> {
    fn send(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.packet.clear();
        self.packet.nest(1, fill);
        self.out.write_all(self.packet.as_bytes())
    }

    fn clocks(&mut self, recording: &Recording) -> io::Result<()> {
        let (meta, at) = (&recording.meta, recording.meta.start_ns);
        let boot = at.saturating_add_signed(meta.boot_offset_ns);
        let utc = at.saturating_add_signed(meta.utc_offset_ns);
        self.send(|packet| {
            packet.uint(packet::SEQUENCE, GLOBAL);
            packet.nest(packet::CLOCK_SNAPSHOT, |snapshot| {
                for (id, time) in [(MONOTONIC, at), (BOOTTIME, boot), (REALTIME, utc)] {
                    snapshot.nest(1, |clock| {
                        clock.uint(1, id).uint(2, time);
                    });
                }
                snapshot.uint(2, MONOTONIC);
            });
        })?;
        self.send(|packet| {
            packet.uint(packet::SEQUENCE, GLOBAL);
            packet.nest(packet::SYSTEM_INFO, |info| {
                info.nest(1, |utsname| {
                    utsname
                        .text(1, "Linux")
                        .text(3, &meta.kernel)
                        .text(4, std::env::consts::ARCH);
                });
            });
        })
    }

    fn track(&mut self, uuid: u64, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.send(|packet| {
            packet.uint(packet::SEQUENCE, GLOBAL);
            packet.nest(packet::TRACK, |track| {
                track.uint(1, uuid);
                fill(track);
            });
        })
    }

    fn tracks(&mut self, recording: &Recording, pid: i32) -> io::Result<()> {
        self.track(PROCESS_TRACK, |track| {
            track.nest(3, |process| {
                process.int(1, pid.into());
                process
                    .text(2, &recording.meta.command)
                    .text(6, &recording.meta.program);
            });
        })?;
        for lane in &recording.lanes {
            self.track(LANE_TRACK + u64::from(lane.lane), |track| {
                track.nest(4, |thread| {
                    thread.int(1, pid.into()).int(2, lane.tid.into()).text(5, &lane.name);
                });
            })?;
        }
        self.track(WHY_TRACK, |track| {
            track.uint(5, PROCESS_TRACK).text(2, "why: slow, late, lost");
        })?;
        for cpu in cores(&recording.kernel) {
            self.track(CORE_TRACK + u64::from(cpu), |track| {
                track.text(2, &format!("core {cpu}: interrupts, drops, polls"));
            })?;
        }
        for (place, counter) in recording.counters.iter().enumerate() {
            self.track(COUNTER_TRACK + place as u64, |track| {
                track.uint(5, PROCESS_TRACK);
                match counter.lane {
                    Some(lane) => track.text(2, &format!("lane {lane}: {}", counter.name)),
                    None => track.text(2, &counter.name),
                };
                track.nest(8, |of| match counter.unit {
                    Unit::Nanoseconds => _ = of.uint(3, 1),
                    Unit::Packets => _ = of.uint(3, 2),
                    Unit::Bytes => _ = of.uint(3, 3),
                    Unit::PacketsPerSecond => _ = of.text(6, "packets/s"),
                    Unit::Share => _ = of.text(6, "share"),
                });
            })?;
        }
        Ok(())
    }

    /// The names that events of a sequence use, and its clock.
    fn sequence(&mut self, sequence: u64, track: u64, at_ns: u64) -> io::Result<()> {
        self.send(|packet| {
            packet
                .uint(packet::SEQUENCE, sequence)
                .uint(packet::SEQUENCE_FLAGS, CLEARED);
            packet.nest(packet::CLOCK_SNAPSHOT, |snapshot| {
                snapshot.nest(1, |clock| {
                    clock.uint(1, DELTA).uint(2, at_ns).uint(3, 1);
                });
                snapshot.nest(1, |clock| {
                    clock.uint(1, MONOTONIC).uint(2, at_ns);
                });
            });
        })?;
        self.send(|packet| {
            packet
                .uint(packet::SEQUENCE, sequence)
                .uint(packet::SEQUENCE_FLAGS, CLEARED);
            packet.nest(packet::DEFAULTS, |defaults| {
                defaults.uint(packet::CLOCK_ID, DELTA);
                defaults.nest(11, |event| {
                    event.uint(11, track);
                });
            });
            packet.nest(packet::INTERNED, |data| {
                let stages = Stage::ALL.map(|stage| (name_of(stage), stage.name()));
                for (id, name) in stages.into_iter().chain([(BURST, "burst")]) {
                    data.nest(2, |entry| {
                        entry.uint(1, id).text(2, name);
                    });
                }
                let notes = [
                    (RX, "rx"),
                    (TX, "tx"),
                    (POLLS, "polls"),
                    (LATE, "late_ns"),
                    (FILL, "fill"),
                ];
                for (id, name) in notes {
                    data.nest(3, |entry| {
                        entry.uint(1, id).text(2, name);
                    });
                }
            });
        })
    }

    fn lane(&mut self, lane: &LaneTrace) -> io::Result<()> {
        let Some(first) = lane.rounds.first() else {
            return Ok(());
        };
        let sequence = FIRST_LANE + u64::from(lane.lane);
        self.sequence(sequence, LANE_TRACK + u64::from(lane.lane), first.at_ns)?;
        let mut spans = Spans {
            sequence,
            last_ns: first.at_ns,
        };
        let mut ended_ns = 0;
        for round in &lane.rounds {
            // A record that was cut out of a ring may overlap the one before by a clock's correction.
            let mut at = round.at_ns.max(ended_ns);
            if round.did != Did::Burst {
                let stage = match round.did {
                    Did::Slept => Stage::Asleep,
                    Did::Spun => Stage::Spinning,
                    _ => Stage::EmptyPolls,
                };
                spans.begin(self, at, name_of(stage), &[(POLLS, round.polls.into())])?;
                at += u64::from(round.parts[0]);
                spans.end(self, at)?;
                ended_ns = at;
                continue;
            }
            let known = |value: u32| if value == u32::MAX { 0 } else { value.into() };
            let notes = [
                (RX, round.rx.into()),
                (TX, round.tx.into()),
                (LATE, known(round.late_ns)),
                (FILL, round.fill.into()),
            ];
            let notes = if round.fill == u32::MAX { &notes[..3] } else { &notes };
            spans.begin(self, at, BURST, notes)?;
            for (stage, took) in Round::STAGES.into_iter().zip(round.parts) {
                if took > 0 {
                    if stage != Stage::Rest {
                        spans.begin(self, at, name_of(stage), &[])?;
                        spans.end(self, at + u64::from(took))?;
                    }
                    at += u64::from(took);
                }
            }
            spans.end(self, at)?;
            ended_ns = at;
        }
        Ok(())
    }

    fn counters(&mut self, recording: &Recording) -> io::Result<()> {
        for (place, counter) in recording.counters.iter().enumerate() {
            for &(at_ns, value) in &counter.points {
                self.send(|packet| {
                    packet.uint(packet::SEQUENCE, GLOBAL);
                    packet.uint(packet::TIMESTAMP, at_ns).uint(packet::CLOCK_ID, MONOTONIC);
                    packet.nest(packet::TRACK_EVENT, |event| {
                        event.uint(9, COUNTER).uint(11, COUNTER_TRACK + place as u64);
                        event.double(44, value);
                    });
                })?;
            }
        }
        Ok(())
    }

    /// A slice or an instant with a name of its own.
    fn named(&mut self, track: u64, (at_ns, kind): (u64, u64), name: &str, category: &str) -> io::Result<()> {
        self.send(|packet| {
            packet.uint(packet::SEQUENCE, GLOBAL);
            packet.uint(packet::TIMESTAMP, at_ns).uint(packet::CLOCK_ID, MONOTONIC);
            packet.nest(packet::TRACK_EVENT, |event| {
                event.uint(9, kind).uint(11, track);
                if kind != END {
                    event.text(23, name).text(22, category);
                }
            });
        })
    }

    fn causes(&mut self, recording: &Recording) -> io::Result<()> {
        // Causes overlap, slices of a track nest: each is an instant, and tells its length.
        for cause in &recording.causes {
            let category = match cause.subject {
                Subject::Loss => "lost",
                Subject::Late => "late",
                Subject::Slow => "slow",
            };
            self.named(WHY_TRACK, (cause.at_ns, INSTANT), &cause.sentence, category)?;
        }
        Ok(())
    }

    /// What the viewer knows by itself: switches, wake-ups, interrupts.
    fn kernel(&mut self, events: &[KernelEvent]) -> io::Result<()> {
        for cpu in cores(events) {
            let of_core: Vec<&KernelEvent> = events.iter().filter(|event| event.cpu == cpu).collect();
            let of_core = whole(&of_core);
            // Bundles of some thousand: a packet has to fit into a reader's memory.
            for bundle in of_core.chunks(2048) {
                let boot = self.boot_offset_ns;
                self.send(|packet| {
                    packet.uint(packet::SEQUENCE, KERNEL);
                    packet.nest(packet::FTRACE, |ftrace| {
                        ftrace.uint(1, cpu.into());
                        for event in bundle {
                            ftrace_event(ftrace, event, boot);
                        }
                    });
                })?;
            }
        }
        Ok(())
    }

    /// What it does not know.
    fn core_events(&mut self, events: &[KernelEvent]) -> io::Result<()> {
        for event in events {
            let track = CORE_TRACK + u64::from(event.cpu);
            match &event.event {
                Event::Vector { name, took_ns } => {
                    let begin = event.at_ns.saturating_sub(*took_ns);
                    self.named(track, (begin, BEGIN), name, "interrupt")?;
                    self.named(track, (event.at_ns, END), "", "")?;
                }
                Event::Signal { signal, tid } => {
                    let name = format!("signal {signal} to thread {tid}");
                    self.named(track, (event.at_ns, INSTANT), &name, "signal")?;
                }
                Event::Drop(drop) => {
                    let name = format!("dropped: {} at {}", drop.reason, drop.place);
                    self.named(track, (event.at_ns, INSTANT), &name, "drop")?;
                }
                Event::Poll { device, work, budget } => {
                    let name = format!("napi {device}: {work} of {budget}");
                    self.named(track, (event.at_ns, INSTANT), &name, "poll")?;
                }
                Event::SwitchedOut { tid, preempted } => {
                    let how = if *preempted { "preempted" } else { "asleep" };
                    let name = format!("thread {tid} switched out: {how}");
                    self.named(track, (event.at_ns, INSTANT), &name, "switch")?;
                }
                Event::SwitchedIn { tid } => {
                    let name = format!("thread {tid} switched in");
                    self.named(track, (event.at_ns, INSTANT), &name, "switch")?;
                }
                // The viewer knows these as events of ftrace.
                Event::Switch { .. } | Event::Waking { .. } | Event::Irq { .. } | Event::Softirq { .. } => {}
            }
        }
        Ok(())
    }

    fn samples(&mut self, recording: &Recording, pid: i32) -> io::Result<()> {
        if recording.samples.is_empty() {
            return Ok(());
        }
        let mut modules: Vec<&str> = recording.frames.iter().map(|frame| frame.module.as_str()).collect();
        modules.sort_unstable();
        modules.dedup();
        let place = |module: &str| modules.binary_search(&module).unwrap_or_default() as u64 + 1;
        let mut stacks: Vec<&[u32]> = recording.samples.iter().map(|sample| sample.stack.as_slice()).collect();
        stacks.sort_unstable();
        stacks.dedup();
        self.send(|packet| {
            packet
                .uint(packet::SEQUENCE, SAMPLES)
                .uint(packet::SEQUENCE_FLAGS, CLEARED);
            packet.nest(packet::INTERNED, |data| {
                for (i, module) in modules.iter().enumerate() {
                    let id = i as u64 + 1;
                    data.nest(17, |path| {
                        path.uint(1, id).text(2, module);
                    });
                    data.nest(19, |mapping| {
                        mapping.uint(1, id).uint(7, id);
                    });
                }
                for (i, frame) in recording.frames.iter().enumerate() {
                    let id = i as u64 + 1;
                    data.nest(5, |name| {
                        name.uint(1, id).text(2, &frame.name);
                    });
                    // Frames are told apart by their address within a mapping: their number stands for it.
                    data.nest(6, |entry| {
                        entry.uint(1, id).uint(2, id).uint(3, place(&frame.module)).uint(4, id);
                    });
                }
                for (i, stack) in stacks.iter().enumerate() {
                    data.nest(7, |entry| {
                        entry.uint(1, i as u64 + 1);
                        for &frame in *stack {
                            entry.uint(2, u64::from(frame) + 1);
                        }
                    });
                }
            });
        })?;
        for sample in &recording.samples {
            let tid = recording
                .lanes
                .iter()
                .find(|lane| lane.lane == sample.lane)
                .map_or(0, |lane| lane.tid);
            let stack = stacks.binary_search(&sample.stack.as_slice()).unwrap_or_default() as u64 + 1;
            self.send(|packet| {
                packet
                    .uint(packet::SEQUENCE, SAMPLES)
                    .uint(packet::SEQUENCE_FLAGS, NEEDS);
                packet
                    .uint(packet::TIMESTAMP, sample.at_ns)
                    .uint(packet::CLOCK_ID, MONOTONIC);
                packet.nest(packet::PERF_SAMPLE, |perf| {
                    perf.uint(1, sample.cpu.into()).int(2, pid.into()).int(3, tid.into());
                    perf.uint(4, stack);
                });
            })?;
        }
        Ok(())
    }
}

/// Slices of one sequence, with times counted from the packet before.
struct Spans {
    sequence: u64,
    last_ns: u64,
}

impl Spans {
    fn begin<W: Write>(
        &mut self,
        writer: &mut Writer<'_, W>,
        at: u64,
        name: u64,
        notes: &[(u64, u64)],
    ) -> io::Result<()> {
        self.event(writer, at, |event| {
            event.uint(9, BEGIN).uint(10, name);
            for &(note, value) in notes.iter().filter(|(_, value)| *value > 0) {
                event.nest(4, |annotation| {
                    annotation.uint(1, note).uint(3, value);
                });
            }
        })
    }

    fn end<W: Write>(&mut self, writer: &mut Writer<'_, W>, at: u64) -> io::Result<()> {
        self.event(writer, at, |event| {
            event.uint(9, END);
        })
    }

    fn event<W: Write>(
        &mut self,
        writer: &mut Writer<'_, W>,
        at: u64,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        let delta = at - self.last_ns;
        self.last_ns = at;
        let sequence = self.sequence;
        writer.send(|packet| {
            packet.uint(packet::TIMESTAMP, delta).uint(packet::SEQUENCE, sequence);
            packet
                .uint(packet::SEQUENCE_FLAGS, NEEDS)
                .nest(packet::TRACK_EVENT, fill);
        })
    }
}

/// Id of a stage's name; 0 is no id.
fn name_of(stage: Stage) -> u64 {
    stage.index() as u64 + 1
}

/// The events of a core, with a switch wherever one was not seen: the thread that leaves a core is the one that got it
/// last. It has it for no time: what went before was somebody's who was not seen to leave.
fn whole(events: &[&KernelEvent]) -> Vec<KernelEvent> {
    let mut whole: Vec<KernelEvent> = Vec::with_capacity(events.len());
    let mut running: Option<(i32, String, i32)> = None;
    for event in events {
        if let Event::Switch {
            prev_tid,
            prev_comm,
            prev_prio,
            next_tid,
            next_comm,
            next_prio,
            ..
        } = &event.event
        {
            if let Some((tid, comm, prio)) = running.filter(|(tid, ..)| tid != prev_tid) {
                whole.push(KernelEvent {
                    at_ns: event.at_ns,
                    cpu: event.cpu,
                    event: Event::Switch {
                        prev_tid: tid,
                        prev_comm: comm,
                        prev_state: 1,
                        prev_prio: prio,
                        next_tid: *prev_tid,
                        next_comm: prev_comm.clone(),
                        next_prio: *prev_prio,
                    },
                });
            }
            running = Some((*next_tid, next_comm.clone(), *next_prio));
        }
        whole.push((*event).clone());
    }
    whole
}

/// A thread's state as tracepoints report it: one bit, of those that tools know. The kernel's own has flags beside it
/// (may be frozen, counts for no load), and idle is two of them.
fn reported(state: i64) -> i64 {
    const IDLE: i64 = 0x402;
    const KNOWN: i64 = 0x7f;
    match state & IDLE == IDLE {
        true => 0x80,
        false => state & KNOWN & (state & KNOWN).wrapping_neg(),
    }
}

fn ftrace_event(bundle: &mut Message, event: &KernelEvent, boot_offset_ns: i64) {
    let at = |ns: u64| ns.saturating_add_signed(boot_offset_ns);
    let mut one = |ns: u64, pid: i32, field: u32, fill: &dyn Fn(&mut Message)| {
        bundle.nest(2, |entry| {
            entry.uint(1, at(ns)).uint(2, pid as u32 as u64);
            entry.nest(field, fill);
        });
    };
    match &event.event {
        Event::Switch {
            prev_tid,
            prev_comm,
            prev_state,
            prev_prio,
            next_tid,
            next_comm,
            next_prio,
        } => one(event.at_ns, *prev_tid, 4, &|switch| {
            switch
                .text(1, prev_comm)
                .int(2, (*prev_tid).into())
                .int(3, (*prev_prio).into());
            switch
                .int(4, reported(*prev_state))
                .text(5, next_comm)
                .int(6, (*next_tid).into());
            switch.int(7, (*next_prio).into());
        }),
        Event::Waking { tid, comm, target_cpu } => one(event.at_ns, 0, 20, &|waking| {
            waking.text(1, comm).int(2, (*tid).into()).int(3, 120).int(4, 1);
            waking.int(5, (*target_cpu).into());
        }),
        Event::Irq { irq, name, took_ns } => {
            one(event.at_ns.saturating_sub(*took_ns), 0, 36, &|entry| {
                entry.int(1, (*irq).into()).text(2, name);
            });
            one(event.at_ns, 0, 37, &|exit| {
                exit.int(1, (*irq).into()).int(2, 1);
            });
        }
        Event::Softirq { vector, took_ns } => {
            one(event.at_ns.saturating_sub(*took_ns), 0, 24, &|entry| {
                entry.uint(1, (*vector).into());
            });
            one(event.at_ns, 0, 25, &|exit| {
                exit.uint(1, (*vector).into());
            });
        }
        _ => {}
    }
}
