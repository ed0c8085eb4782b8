//! Writes a [`Recording`] as a Perfetto trace (protocol buffers, `TracePacket`s one after the other).
//!
//! Each lane is a thread with its stages as slices. Switches, wake-ups and interrupts are events of ftrace, so that the
//! viewer shows the lanes' states and which threads had the cores. Samples are call stacks of those threads; counters
//! are counters. What was slow, late or lost is on a track of its own, with the sentence as the slice's name. The
//! recording itself is included in a field of our own ([`OWN_FIELD`]), which viewers skip: reading it back gives what
//! was recorded, to the last bit.
//!
//! Numbers of fields are those of `protos/perfetto/trace` of Perfetto's source.

mod kernel;
mod lanes;
mod samples;

use crate::kernel::cores;
use crate::over_time::rounds_over_time;
use crate::proto::Message;
use crate::{LaneTrace, Recording, Subject, Unit, own};
use std::io::{self, Write};

/// Field of a `TracePacket` that holds a part of the recording itself.
pub const OWN_FIELD: u32 = 99_199;

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
const ROUNDS_TRACK: u64 = 300_000;
const THREAD_TRACK: u64 = 1 << 32;

/// Writes the trace.
///
/// # Errors
/// Errors of `out`.
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
        writer.rounds_over_time(recording, lane)?;
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
    /// Outer message, in which packets are made.
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
        self.lane_tracks(&recording.lanes, pid)?;
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

    /// Writes the tracks of the lanes: a lane is a thread. If one thread has several lanes, as in another program, each
    /// lane is a track below the thread.
    fn lane_tracks(&mut self, lanes: &[LaneTrace], pid: i32) -> io::Result<()> {
        let mut shared: Vec<i32> = Vec::new();
        for lane in lanes {
            let (uuid, tid) = (LANE_TRACK + u64::from(lane.lane), lane.tid);
            let alone = lanes.iter().filter(|other| other.tid == tid).count() == 1;
            if alone && tid > 0 {
                self.track(uuid, |track| {
                    track.nest(4, |thread| {
                        thread.int(1, pid.into()).int(2, tid.into()).text(5, &lane.name);
                    });
                })?;
                continue;
            }
            let thread = THREAD_TRACK + u64::from(tid.unsigned_abs());
            if tid > 0 && !shared.contains(&tid) {
                shared.push(tid);
                self.track(thread, |track| {
                    track.nest(4, |thread| {
                        let name = format!("thread {tid}");
                        thread.int(1, pid.into()).int(2, tid.into()).text(5, &name);
                    });
                })?;
            }
            // A lane whose thread is not known belongs to the process.
            let parent = if tid > 0 { thread } else { PROCESS_TRACK };
            self.track(uuid, |track| {
                track.uint(5, parent).text(2, &lane.name);
            })?;
        }
        Ok(())
    }

    fn counters(&mut self, recording: &Recording) -> io::Result<()> {
        for (place, counter) in recording.counters.iter().enumerate() {
            for &(at_ns, value) in &counter.points {
                self.value(COUNTER_TRACK + place as u64, at_ns, value)?;
            }
        }
        Ok(())
    }

    /// Writes the value of a counter from this time on.
    fn value(&mut self, track: u64, at_ns: u64, value: f64) -> io::Result<()> {
        self.send(|packet| {
            packet.uint(packet::SEQUENCE, GLOBAL);
            packet.uint(packet::TIMESTAMP, at_ns).uint(packet::CLOCK_ID, MONOTONIC);
            packet.nest(packet::TRACK_EVENT, |event| {
                event.uint(9, COUNTER).uint(11, track).double(44, value);
            });
        })
    }

    /// Writes a counter made from the lane's records.
    fn rounds_over_time(&mut self, recording: &Recording, lane: &LaneTrace) -> io::Result<()> {
        let stretches = rounds_over_time(recording, lane);
        let track = ROUNDS_TRACK + u64::from(lane.lane);
        if !stretches.is_empty() {
            self.track(track, |track| {
                let name = format!("lane {}: rounds per ms", lane.lane);
                track.uint(5, PROCESS_TRACK).text(2, &name);
                track.nest(8, |of| _ = of.text(6, "rounds/ms"));
            })?;
        }
        for of in stretches {
            let since = of.from_ms.saturating_mul(1_000_000);
            self.value(track, recording.meta.start_ns.saturating_add(since), of.rounds)?;
        }
        Ok(())
    }

    /// Writes a slice or an instant with a name of its own.
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
        // Causes overlap, but slices of a track must nest: so each cause is an instant, and its sentence states the
        // length.
        for cause in &recording.causes {
            let category = match cause.subject {
                Subject::Loss => "lost",
                Subject::Late => "late",
                Subject::Slow => "slow",
                Subject::Missed => "missed",
            };
            self.named(WHY_TRACK, (cause.at_ns, INSTANT), &cause.sentence, category)?;
        }
        Ok(())
    }
}
