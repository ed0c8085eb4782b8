//! Counts of the plug-in of `mpps trace peer` in another DPDK program.
//!
//! The plug-in, `crates/dpdk-sys/peer/peer.c`, writes the file, and its source defines the layout in C. The file lies
//! in memory that the traced program may write to, so nothing in it is trusted: whatever it contains, reading it
//! neither panics nor takes more memory than the file is long.

mod slot;
#[cfg(test)]
mod tests;
mod told;

use crate::{LaneTrace, LeftOut, Meta, Recording, Round, Stage, StageRow};
use slot::{Bytes, COUNTS, Clock, RECORD, lane};

/// Bytes of the file's head.
pub const HEADER: usize = 4096;
/// Most lanes (thread × port × queue) in a file.
pub const SLOTS: usize = 64;
/// Number of calls kept per lane, the last ones; a power of two.
pub const RING: usize = 1 << 16;
/// Bytes of a slot.
pub const SLOT: usize = COUNTS + RING * RECORD;
/// Bytes of the whole file, most of which are never touched.
pub const FILE: usize = HEADER + SLOTS * SLOT;

const MAGIC: &[u8; 8] = b"MPPSPEER";
const VERSION: u32 = 2;
/// Reason why a file has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The file is not one of this version.
    #[error("the file is not one of this version's plug-in")]
    Foreign,
    /// The program has not loaded the plug-in.
    #[error("the program has not loaded the plug-in: want a program that takes arguments of DPDK's EAL first")]
    NotLoaded,
    /// The plug-in could not work, for this reason.
    #[error("{0}")]
    Refused(String),
    /// No port was started, or its burst functions were never called.
    #[error(
        "no port of the program was polled: want one that starts a port, and is linked with DPDK's shared libraries"
    )]
    NoPolls,
}

/// Returns a head for a new file, which is [`FILE`] bytes long.
pub fn header() -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    let numbers = [VERSION, SLOTS as u32, RING as u32, SLOT as u32];
    for (place, number) in numbers.into_iter().enumerate() {
        bytes[8 + 4 * place..12 + 4 * place].copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// Returns how many bytes of a file with this head were written, at most [`FILE`].
pub fn used(header: &[u8]) -> usize {
    HEADER + (Bytes(header).u32(24) as usize).min(SLOTS) * SLOT
}

/// Calls of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Number of calls.
    pub calls: u64,
    /// Packets that the calls moved.
    pub packets: u64,
    /// Time of the calls, ns.
    pub total_ns: u64,
    /// Longest call, ns.
    pub max_ns: u64,
    /// Start of the longest call, ns.
    pub max_at_ns: u64,
    /// Standard deviation, ns; `None` if there was no call.
    pub sd_ns: Option<u64>,
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
}

/// Counts of the kernel for a thread, from its first call to its end, or up to 0.1 s before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Context switches by which the thread gave up its core: it slept.
    pub voluntary: u64,
    /// Context switches by which it lost its core to another thread.
    pub involuntary: u64,
    /// Time on a core, ns; 0 if the kernel does not count it.
    pub ran_ns: u64,
    /// Time ready while another thread had the core, ns.
    pub waited_ns: u64,
}

/// Calls of one thread on one queue of one port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerLane {
    /// Number of the lane, given by this crate.
    pub lane: u32,
    /// Thread of the lane.
    pub tid: i32,
    /// Name of the thread.
    pub thread: String,
    /// Core of the thread at its first call.
    pub cpu: i32,
    /// Number of the port.
    pub port: u16,
    /// Name of the port.
    pub device: String,
    /// Number of the queue.
    pub queue: u16,
    /// Start of the first call, ns.
    pub first_ns: u64,
    /// End of the last call, ns.
    pub last_ns: u64,
    /// Polls that gave packets.
    pub receive: Calls,
    /// Polls that gave none.
    pub empty: Calls,
    /// Calls to send.
    pub transmit: Calls,
    /// Packets that were handed over to be sent.
    pub offered: u64,
    /// Total time between the lane's calls and the thread's next call, ns.
    pub rest_ns: u64,
    /// Longest time between two calls, ns.
    pub rest_max_ns: u64,
    /// Number of polls that gave `n` packets, at place `n`; the last place counts that many or more.
    pub bursts: Vec<u64>,
    /// Last calls, by time.
    pub rounds: Vec<Round>,
    /// Calls whose records were overwritten.
    pub overwritten: u64,
    /// Counts of the lane's thread, which may have other lanes; `None` if the kernel gave none.
    pub scheduled: Option<Scheduled>,
}

impl PeerLane {
    /// Returns the number of polls, empty or not.
    pub fn polls(&self) -> u64 {
        self.receive.calls.saturating_add(self.empty.calls)
    }

    /// Returns the name for people.
    pub fn name(&self) -> String {
        let queue = format!("port {} queue {}", self.port, self.queue);
        format!("{} ({}), {queue} ({})", self.thread, self.tid, self.device)
    }
}

/// Counts of the plug-in in a whole program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// Process of the program.
    pub pid: u32,
    /// Version of the program's DPDK.
    pub dpdk: String,
    /// Start of counting, ns.
    pub start_ns: u64,
    /// End of counting, ns.
    pub end_ns: u64,
    /// Lanes by thread, port and queue.
    pub lanes: Vec<PeerLane>,
    /// Lanes that the file had no room for.
    pub left_out: u64,
    /// Time that one reading of the clock takes, ns. There are two readings per call.
    pub reading_ns: f64,
}

impl Peer {
    /// Reads the file, or the part of it that was [`used`].
    ///
    /// # Errors
    /// When the file has no results: the reason.
    pub fn read(file: &[u8]) -> Result<Self, PeerError> {
        let head = Bytes(file);
        let numbers = [8, 12, 16, 20].map(|place| head.u32(place));
        if file.get(..8) != Some(MAGIC) || numbers != [VERSION, SLOTS as u32, RING as u32, SLOT as u32] {
            return Err(PeerError::Foreign);
        }
        let (pid, error) = (head.u32(64), head.text(76, 128));
        match (pid, error.as_str()) {
            (0, _) => return Err(PeerError::NotLoaded),
            (_, "") => {}
            _ => return Err(PeerError::Refused(error)),
        }
        let clock = Clock {
            start: (head.u64(32), head.u64(40)),
            since: (
                head.u64(48).saturating_sub(head.u64(32)),
                head.u64(56).saturating_sub(head.u64(40)),
            ),
        };
        let slots = file.get(HEADER..).unwrap_or_default().chunks_exact(SLOT);
        let used = slots.filter(|slot| Bytes(slot).u32(0) == 1);
        let mut lanes: Vec<_> = used.map(|slot| lane(Bytes(slot), clock)).collect();
        lanes.retain(|lane| lane.polls() > 0 || lane.transmit.calls > 0);
        if lanes.is_empty() || clock.since.0 == 0 {
            return Err(PeerError::NoPolls);
        }
        lanes.sort_by_key(|lane| (lane.tid, lane.port, lane.queue));
        (0..).zip(&mut lanes).for_each(|(number, lane)| lane.lane = number);
        let end_ns = lanes.iter().map(|lane| lane.last_ns).max().unwrap_or(0);
        Ok(Self {
            pid,
            dpdk: head.text(204, 64),
            start_ns: clock.start.1,
            end_ns: end_ns.max(clock.start.1),
            lanes,
            left_out: u64::from(head.u32(28)),
            reading_ns: f64::from(head.u32(72)) * clock.since.1 as f64 / clock.since.0 as f64,
        })
    }

    /// Returns the stage table. The shares of a lane add up to 1: the time between two calls of a thread belongs to the
    /// lane of the first.
    pub fn stages(&self) -> Vec<StageRow> {
        let mut rows = Vec::new();
        for lane in &self.lanes {
            let rest = Calls {
                calls: lane.polls().saturating_add(lane.transmit.calls),
                total_ns: lane.rest_ns,
                max_ns: lane.rest_max_ns,
                ..Calls::default()
            };
            let all = [
                (Stage::Receive, &lane.receive),
                (Stage::EmptyPolls, &lane.empty),
                (Stage::Transmit, &lane.transmit),
                (Stage::Rest, &rest),
            ];
            let sum: f64 = all.iter().map(|(_, calls)| calls.total_ns as f64).sum();
            for (stage, calls) in all {
                rows.push(StageRow {
                    lane: lane.lane,
                    stage,
                    calls: calls.calls,
                    packets: calls.packets,
                    total_ns: calls.total_ns,
                    timed: if stage == Stage::Rest { 0 } else { calls.calls },
                    sd_ns: calls.sd_ns,
                    p50_ns: calls.p50_ns,
                    p99_ns: calls.p99_ns,
                    max_ns: calls.max_ns,
                    share: calls.total_ns as f64 / sum.max(1.0),
                });
            }
        }
        rows
    }

    /// Returns the cost of tracing, a sentence.
    pub fn cost(&self) -> String {
        let calls = self
            .lanes
            .iter()
            .map(|lane| lane.polls().saturating_add(lane.transmit.calls));
        let (calls, span): (u64, u64) = (
            calls.fold(0, u64::saturating_add),
            self.threads().iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add),
        );
        let cost_ns = 2.0 * self.reading_ns * calls as f64;
        format!(
            "the plug-in read the clock twice in each of {calls} calls, {:.0} ns each time: {:.1} % of the time",
            self.reading_ns,
            100.0 * cost_ns / (span as f64).max(1.0)
        )
    }

    /// Returns the threads, and the sum of the times of their lanes, ns.
    pub fn threads(&self) -> Vec<(i32, u64)> {
        let mut threads: Vec<(i32, u64)> = Vec::new();
        for lane in &self.lanes {
            let parts = [
                lane.receive.total_ns,
                lane.empty.total_ns,
                lane.transmit.total_ns,
                lane.rest_ns,
            ];
            let sum = parts.into_iter().fold(0, u64::saturating_add);
            match threads.iter_mut().find(|(tid, _)| *tid == lane.tid) {
                Some((_, ns)) => *ns = ns.saturating_add(sum),
                None => threads.push((lane.tid, sum)),
            }
        }
        threads
    }

    /// Returns a recording: lanes with their last calls, and the stage table. The caller fills in program, host, kernel
    /// and command.
    pub fn recording(&self) -> Recording {
        let lost = self.lanes.iter().filter(|lane| lane.overwritten > 0);
        let mut left_out: Vec<_> = lost
            .map(|lane| LeftOut {
                what: format!("calls of lane {}", lane.lane),
                count: lane.overwritten,
                why: format!("the last {RING} records of each lane are kept"),
            })
            .collect();
        if self.left_out > 0 {
            left_out.push(LeftOut {
                what: "lanes".to_owned(),
                count: self.left_out,
                why: format!("there is room for {SLOTS}"),
            });
        }
        left_out.push(LeftOut {
            what: "what took the cores, and packets that were late or lost".to_owned(),
            count: 0,
            why: "the plug-in sees the calls of the program's threads, and nothing else".to_owned(),
        });
        let lanes = self.lanes.iter().map(|lane| LaneTrace {
            lane: lane.lane,
            name: lane.name(),
            tid: lane.tid,
            cpu: u32::try_from(lane.cpu).ok(),
            rounds: lane.rounds.clone(),
        });
        Recording {
            meta: Meta {
                program: self.dpdk.clone(),
                pid: self.pid as i32,
                start_ns: self.start_ns,
                end_ns: self.end_ns,
                whole: true,
                left_out,
                cost: self.cost(),
                ..Meta::default()
            },
            lanes: lanes.collect(),
            stages: self.stages(),
            ..Recording::default()
        }
    }
}
