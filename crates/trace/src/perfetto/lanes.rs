//! Lanes: their rounds and stages as slices, with times that count from the packet before.

use super::{BEGIN, CLEARED, DELTA, END, FIRST_LANE, LANE_TRACK, MONOTONIC, NEEDS, Writer, packet};
use crate::proto::Message;
use crate::{Did, LaneTrace, Round, Stage};
use std::io::{self, Write};

/// Names of slices that are not stages.
const BURST: u64 = 100;
/// Names of annotations.
const RX: u64 = 1;
const TX: u64 = 2;
const POLLS: u64 = 3;
const LATE: u64 = 4;
const FILL: u64 = 5;

impl<W: Write> Writer<'_, W> {
    /// Writes the names that events of a sequence use, and its clock.
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

    pub(super) fn lane(&mut self, lane: &LaneTrace) -> io::Result<()> {
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
                at = at.saturating_add(round.parts[0].into());
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
                        spans.end(self, at.saturating_add(took.into()))?;
                    }
                    at = at.saturating_add(took.into());
                }
            }
            spans.end(self, at)?;
            ended_ns = at;
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

/// Returns the id of a stage's name; 0 is not an id.
fn name_of(stage: Stage) -> u64 {
    stage.index() as u64 + 1
}
