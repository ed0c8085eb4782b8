//! Counts of the plug-in of `mpps trace peer` in another DPDK program.
//!
//! The plug-in, `crates/dpdk-sys/peer/peer.c`, writes the file, and its source defines the layout in C. The file lies
//! in memory that the traced program may write to, so nothing in it is trusted: whatever it contains, reading it
//! neither panics nor takes more memory than the file is long.

mod told;

use crate::{Did, LaneTrace, LeftOut, Meta, Recording, Round, Stage, StageRow, standard_deviation};

/// Bytes of the file's head.
pub const HEADER: usize = 4096;
/// Most lanes (thread × port × queue) in a file.
pub const SLOTS: usize = 64;
/// Number of calls kept per lane, the last ones; a power of two.
pub const RING: usize = 1 << 16;
/// Bytes of a record of a call.
const RECORD: usize = 32;
/// Bytes of a slot before its ring.
const COUNTS: usize = 12_800;
/// Bytes of a slot.
pub const SLOT: usize = COUNTS + RING * RECORD;
/// Bytes of the whole file, most of which are never touched.
pub const FILE: usize = HEADER + SLOTS * SLOT;

const MAGIC: &[u8; 8] = b"MPPSPEER";
const VERSION: u32 = 2;
/// Buckets of a histogram of clocks: eight per power of two.
const BUCKETS: usize = 496;
/// Offset of the kernel's counts for the thread.
const SCHEDULED: usize = 12_672;
/// Buckets of the histogram of packets per poll.
const BURSTS: usize = 64;

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

/// Reader of numbers at offsets in bytes; a number beyond the end is 0.
#[derive(Clone, Copy)]
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn at<const N: usize>(self, place: usize) -> [u8; N] {
        let found = self.0.get(place..).and_then(|rest| rest.first_chunk());
        found.copied().unwrap_or([0; N])
    }

    fn u16(self, place: usize) -> u16 {
        u16::from_ne_bytes(self.at(place))
    }

    fn u32(self, place: usize) -> u32 {
        u32::from_ne_bytes(self.at(place))
    }

    fn u64(self, place: usize) -> u64 {
        u64::from_ne_bytes(self.at(place))
    }

    /// Reads text up to a zero byte, at most `len` bytes. A byte that is not text, or would act on a terminal, becomes
    /// `?`.
    fn text(self, place: usize, len: usize) -> String {
        let bytes = self.0.get(place..).unwrap_or_default();
        let bytes = &bytes[..len.min(bytes.len())];
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let shown = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        };
        bytes.iter().map(shown).collect()
    }
}

/// Conversion from the processor's counter to `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Clock {
    /// Counter and ns at the start.
    start: (u64, u64),
    /// Increase of both up to the last look.
    since: (u64, u64),
}

impl Clock {
    /// Converts clocks to ns.
    fn ns(self, clocks: u64) -> u64 {
        let (counted, ns) = self.since;
        let ns = u128::from(clocks) * u128::from(ns) / u128::from(counted.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Converts a reading of the counter to a time. A reading before the start gives the start.
    fn at(self, reading: u64) -> u64 {
        self.start
            .1
            .saturating_add(self.ns(reading.saturating_sub(self.start.0)))
    }
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

/// Returns the largest value of a bucket of a histogram of clocks.
fn most_of(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (power, part) = ((bucket >> 3) + 2, (bucket & 7) as u128);
    let end = ((8 + part + 1) << (power - 3)) - 1;
    u64::try_from(end).unwrap_or(u64::MAX)
}

/// Returns the standard deviation of calls by clocks, ns. Each call counts as the middle of its bucket.
fn spread_ns(hist: &[u64], most: u64, clock: Clock) -> Option<u64> {
    let least_of = |bucket: usize| {
        bucket
            .checked_sub(1)
            .map_or(0, |below| most_of(below).saturating_add(1))
    };
    let middle = |bucket: usize| (least_of(bucket) as f64 + most_of(bucket) as f64) / 2.0;
    let calls = hist.iter().enumerate();
    let calls = calls.map(|(bucket, &count)| (middle(bucket).min(most as f64), count));
    standard_deviation(calls).map(|clocks| clock.ns(clocks.round() as u64))
}

/// Returns the time that `share` of 100 calls did not exceed, in clocks.
fn percentile(hist: &[u64], share: u64) -> u64 {
    let total: u128 = hist.iter().map(|count| u128::from(*count)).sum();
    let want = (total * u128::from(share)).div_ceil(100).max(1);
    let mut sum = 0;
    let found = hist.iter().position(|count| {
        sum += u128::from(*count);
        sum >= want
    });
    found.map_or(0, most_of)
}

fn lane(slot: Bytes<'_>, clock: Clock) -> PeerLane {
    let numbers = |place: usize, count: usize| (0..count).map(move |i| slot.u64(place + 8 * i));
    let calls = |(calls, packets, clocks): (u64, u64, u64), max: usize, hist: usize| {
        let hist: Vec<u64> = numbers(hist, BUCKETS).collect();
        let most = slot.u64(max);
        let at_most = |share| clock.ns(percentile(&hist, share).min(most));
        Calls {
            calls,
            packets,
            total_ns: clock.ns(clocks),
            max_ns: clock.ns(most),
            max_at_ns: clock.at(slot.u64(max + 8)),
            sd_ns: spread_ns(&hist, most, clock),
            p50_ns: at_most(50),
            p99_ns: at_most(99),
        }
    };
    let hist = |place: usize| 768 + 8 * BUCKETS * place;
    let (polls, empty) = (slot.u64(112), slot.u64(120));
    let head = slot.u64(248);
    let kept = head.min(RING as u64);
    let mut rounds: Vec<_> = (head - kept..head)
        .filter_map(|number| round(slot, COUNTS + RECORD * (number as usize % RING), clock))
        .collect();
    rounds.sort_by_key(|round| round.at_ns);
    PeerLane {
        lane: 0,
        tid: slot.u32(4) as i32,
        port: slot.u16(8),
        queue: slot.u16(10),
        cpu: slot.u32(12) as i32,
        thread: slot.text(16, 16),
        device: slot.text(32, 64),
        first_ns: clock.at(slot.u64(96)),
        last_ns: clock.at(slot.u64(104)),
        receive: calls(
            (polls.saturating_sub(empty), slot.u64(128), slot.u64(136)),
            152,
            hist(0),
        ),
        empty: calls((empty, 0, slot.u64(144)), 168, hist(1)),
        transmit: calls((slot.u64(184), slot.u64(200), slot.u64(208)), 216, hist(2)),
        offered: slot.u64(192),
        rest_ns: clock.ns(slot.u64(232)),
        rest_max_ns: clock.ns(slot.u64(240)),
        bursts: numbers(256, BURSTS).collect(),
        overwritten: head - kept,
        scheduled: scheduled(slot),
        rounds,
    }
}

/// Returns the thread's switches and times since the slot was made.
fn scheduled(slot: Bytes<'_>) -> Option<Scheduled> {
    let since = |place: usize| {
        slot.u64(SCHEDULED + 40 + place)
            .saturating_sub(slot.u64(SCHEDULED + 8 + place))
    };
    (slot.u64(SCHEDULED) > 0).then(|| Scheduled {
        voluntary: since(0),
        involuntary: since(8),
        ran_ns: since(16),
        waited_ns: since(24),
    })
}

/// Returns a record of the ring; `None` if its kind is not known.
fn round(slot: Bytes<'_>, place: usize, clock: Clock) -> Option<Round> {
    let (start, packets) = (slot.u64(place), slot.u16(place + 20));
    let took = u32::try_from(clock.ns(slot.u64(place + 8))).unwrap_or(u32::MAX);
    let stage_at = |stage| Round::STAGES.iter().position(|at| *at == stage).unwrap_or(0);
    let mut round = Round {
        at_ns: clock.at(start),
        fill: u32::MAX,
        late_ns: u32::MAX,
        ..Round::default()
    };
    match slot.u32(place + 24) {
        1 => {
            round.rx = packets;
            round.parts[stage_at(Stage::Receive)] = took;
        }
        2 => {
            round.did = Did::Polled;
            round.polls = slot.u32(place + 16);
            round.parts[0] = took;
        }
        3 => {
            round.tx = packets;
            round.parts[stage_at(Stage::Transmit)] = took;
        }
        _ => return None,
    }
    Some(round)
}

#[cfg(test)]
mod tests;
