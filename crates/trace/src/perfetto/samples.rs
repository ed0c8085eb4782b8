//! Samples as call stacks of the lanes' threads: each place and each stack once, and a packet for each sample.

use super::{CLEARED, MONOTONIC, NEEDS, SAMPLES, Writer, packet};
use crate::Recording;
use std::io::{self, Write};

impl<W: Write> Writer<'_, W> {
    pub(super) fn samples(&mut self, recording: &Recording, pid: i32) -> io::Result<()> {
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
                    // Frames are distinguished by their address within a mapping: their number is used for it.
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
