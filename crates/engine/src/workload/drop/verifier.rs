//! A receiver without a sender: finds each frame's flow, checks that it is whole, and counts it by its number.
//!
//! Most packets have headers that are known, and are the next of their flow: for these everything is inlined. Their
//! counts are added up over the burst, since packets that were sent in one burst have the same latency, too.

mod tagged;

use crate::DropPlan;
use crate::codec::{Class, Foreign, class_of_reject, left_open, verify_checksum};
use crate::receive::flow_table::FlowTable;
use crate::receive::is_likely;
use crate::workload::drop::ledger::Ledger;
use mpps_io::{Frame, Layer, MAX_BURST, Reason};
use mpps_stats::{Counted, Delay, Outcome, Recorder, STREAM_BYTES, SequenceWindows, Streams};
use mpps_wire::{Checker, STAMP_LEN, Stamp, check_udp, verify_data};
use std::net::{IpAddr, SocketAddr};

/// One-way latencies above this are taken for the clocks of two hosts: none is reported.
const MAX_ONE_WAY_NS: u64 = 60_000_000_000;

/// Numbers that a window spans if memory allows.
const WINDOW_SPAN: u64 = 1 << 20;
/// Memory for the sequence windows of one lane, bytes.
const WINDOW_BYTES: usize = 64 << 20;

/// Returns bytes of the memory of one lane for `max_flows` flows.
pub(crate) fn flow_bytes(max_flows: u32) -> u64 {
    let flows = u64::from(max_flows.max(1));
    SequenceWindows::bytes(flows, WINDOW_SPAN, WINDOW_BYTES) + flows * STREAM_BYTES as u64 + FlowTable::bytes(max_flows)
}

/// The memory of one lane: flows, their sequence numbers, and other counts.
pub(super) struct Verifier<'p> {
    plan: &'p DropPlan,
    layer: Layer,
    table: FlowTable,
    streams: Streams,
    foreign: [u64; Foreign::ALL.len()],
    untracked: u64,
    /// Number of questions answered.
    pub(super) service: u64,
    other_clock: u64,
    /// When the packets of [`Pending`] arrived, ns after they were sent, and times of arrival that can't be.
    arrivals: Box<[u64; MAX_BURST]>,
    odd_times: u64,
    /// Headers of the last packet, and ports and flow of the last that had them.
    known: Checker,
    last: Option<(u32, u32)>,
    /// Source, number and flow of the last tagged packet over IPv4.
    last_tagged: Option<(u64, u32)>,
}

/// Offset of the source address in the frame of an untagged IPv4 packet.
const IPV4_SOURCE: usize = 26;

/// Counts of a burst that are not booked yet.
#[derive(Default)]
struct Pending {
    /// Packets that were each the next of their flow, and their latency, which is the same for all.
    next: u32,
    latency: Option<u64>,
    /// Number of these packets whose arrival is known: all or none.
    timed: usize,
    /// Packets that are not verified.
    unverified: u32,
}

/// A received UDP packet, with the flow that was found for it.
struct Located {
    /// Stamp of the packet, if data and stamp fit each other.
    verified: Option<Stamp>,
    flow: Option<u32>,
    checksum_ok: bool,
}

impl<'p> Verifier<'p> {
    pub(super) fn new(plan: &'p DropPlan, layer: Layer, key: u64) -> Self {
        let flows = plan.max_flows.max(1) as usize;
        Self {
            plan,
            layer,
            table: FlowTable::new(plan.max_flows, key),
            streams: Streams::new(SequenceWindows::new(flows, WINDOW_SPAN, WINDOW_BYTES)),
            foreign: [0; Foreign::ALL.len()],
            untracked: 0,
            service: 0,
            other_clock: 0,
            arrivals: Box::new([0; MAX_BURST]),
            odd_times: 0,
            known: Checker::default(),
            last: None,
            last_tagged: None,
        }
    }

    /// Finds stamp and flow of a payload.
    #[inline]
    fn locate_payload<F: Frame>(&mut self, frame: &F) -> Located {
        let bytes = frame.bytes();
        let flow = match frame.peer() {
            Some(SocketAddr::V4(peer)) => self.table.flow_v4(u32::from(*peer.ip()), 0, u32::from(peer.port())),
            Some(SocketAddr::V6(peer)) => self.table.flow_v6(u128::from(*peer.ip()), 0, u32::from(peer.port())),
            None => self.table.flow_v4(0, 0, frame.flow().unwrap_or(0)),
        };
        let seed = self.plan.common.seed;
        Located {
            verified: Stamp::read(bytes).filter(|stamp| verify_data(seed, stamp.seq, &bytes[STAMP_LEN..])),
            flow,
            checksum_ok: true,
        }
    }

    /// Finds stamp and flow of an Ethernet frame whose headers are not those of the last one, or its class if it is no
    /// such packet.
    #[inline(never)]
    fn locate<F: Frame>(&mut self, frame: &F) -> Result<Located, Class> {
        let (bytes, seed) = (frame.bytes(), self.plan.common.seed);
        let checked = check_udp(bytes, seed, verify_checksum(frame)).map_err(class_of_reject)?;
        let packet = &checked.packet;
        if let Some(why) = self.leaves(packet.dst_port) {
            return Err(Class::Foreign(why));
        }
        if self.plan.ip.as_ref().is_some_and(|ips| !packet.is_for(bytes, ips)) {
            return Err(Class::Foreign(Foreign::WrongAddress));
        }
        let ports = u32::from(packet.src_port) << 16 | u32::from(packet.dst_port);
        let flow = match (packet.src_ip(bytes), packet.dst_ip(bytes)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.table.flow_v4(src.into(), dst.into(), ports),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.table.flow_v6(src.into(), dst.into(), ports),
            _ => None,
        };
        let verified = checked.stamp.filter(|_| checked.data_ok);
        if checked.checksum_ok {
            self.known.remember(bytes, packet);
            self.last = None;
        }
        Ok(Located {
            verified,
            flow,
            checksum_ok: checked.checksum_ok || left_open(frame, packet),
        })
    }

    /// Returns why packets to a port are not this run's; `None`: they are.
    #[inline]
    fn leaves(&self, port: u16) -> Option<Foreign> {
        if self.plan.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
            return Some(Foreign::WrongPort);
        }
        let excluded = &self.plan.excluded_ports;
        (!excluded.is_empty() && excluded.binary_search(&port).is_ok()).then_some(Foreign::HostPort)
    }

    /// Returns the flow of a packet with the headers that are remembered.
    #[inline]
    fn flow_of_known(&mut self, bytes: &[u8], ports: u32) -> Option<u32> {
        if let Some((last, flow)) = self.last
            && last == ports
        {
            return Some(flow);
        }
        let address = |at: usize| {
            bytes
                .get(at..at + 4)
                .and_then(|a| a.first_chunk().copied())
                .map(u32::from_be_bytes)
        };
        let flow = self
            .table
            .flow_v4(address(IPV4_SOURCE)?, address(IPV4_SOURCE + 4)?, ports)?;
        self.last = Some((ports, flow));
        Some(flow)
    }

    /// Counts the frames of a burst received at `now_ns`. Returns the number of frames for the slow path.
    #[inline]
    pub(super) fn burst<F: Frame>(&mut self, frames: &[F], now_ns: u64, recorder: &mut Recorder<'_>) -> usize {
        if self.plan.tagged.is_some() {
            return self.tagged_burst(frames, now_ns, recorder);
        }
        let (mut pending, mut slow) = (Pending::default(), 0);
        for frame in frames {
            slow += usize::from(self.frame(frame, now_ns, &mut pending, recorder));
        }
        self.book(&mut pending, now_ns, recorder);
        if pending.unverified > 0 {
            recorder.arrived_n(now_ns, pending.unverified, None);
            recorder.expected(i64::from(pending.unverified));
        }
        slow
    }

    /// Counts one frame. Returns true if it is for the slow path.
    #[inline(always)]
    fn frame<F: Frame>(&mut self, frame: &F, now_ns: u64, pending: &mut Pending, recorder: &mut Recorder<'_>) -> bool {
        let located = if self.layer == Layer::Payload {
            Ok(self.locate_payload(frame))
        } else {
            let bytes = frame.bytes();
            match self.known.check(bytes, self.plan.common.seed, verify_checksum(frame)) {
                Some(seen) if seen.checksum_ok => {
                    if let Some(why) = self.leaves(seen.dst_port) {
                        self.foreign(why, now_ns, recorder);
                        return false;
                    }
                    let flow = self.flow_of_known(bytes, u32::from(seen.src_port) << 16 | u32::from(seen.dst_port));
                    if !self.plan.verify {
                        pending.unverified += 1;
                        return false;
                    }
                    if let Some(flow) = flow
                        && seen.data_ok
                        && seen.stamp.seq < u64::MAX
                    {
                        self.stamped(flow as usize, seen.stamp, frame.rx_time_ns(), now_ns, pending, recorder);
                        return false;
                    }
                    Ok(Located {
                        verified: seen.data_ok.then_some(seen.stamp),
                        flow,
                        checksum_ok: true,
                    })
                }
                _ => self.locate(frame),
            }
        };
        self.count(located, frame.rx_time_ns(), now_ns, pending, recorder)
    }

    /// Counts a frame that was looked at. Returns true if it is for the slow path.
    #[inline(never)]
    fn count(
        &mut self,
        located: Result<Located, Class>,
        rx_time: Option<u64>,
        now_ns: u64,
        pending: &mut Pending,
        ledger: &mut impl Ledger,
    ) -> bool {
        let Located {
            verified,
            flow,
            checksum_ok,
        } = match located {
            Ok(located) => located,
            Err(Class::SlowPath) => return true,
            Err(Class::Foreign(why)) => {
                self.foreign(why, now_ns, ledger);
                return false;
            }
            Err(_) => {
                ledger.event(now_ns, |t| t.corrupt += 1);
                return false;
            }
        };
        if !checksum_ok {
            ledger.event(now_ns, |t| t.corrupt += 1);
            return false;
        }
        if !self.plan.verify {
            pending.unverified += 1;
            return false;
        }
        match (verified.filter(|stamp| stamp.seq < u64::MAX), flow) {
            (Some(stamp), Some(flow)) => self.stamped(flow as usize, stamp, rx_time, now_ns, pending, ledger),
            (Some(_), None) => self.count_untracked(now_ns, ledger),
            (None, Some(flow)) if self.streams.known(flow as usize) => ledger.event(now_ns, |t| t.corrupt += 1),
            (None, _) => self.foreign(Foreign::NotStamped, now_ns, ledger),
        }
        false
    }

    #[inline(always)]
    fn stamped(
        &mut self,
        flow: usize,
        stamp: Stamp,
        rx_time: Option<u64>,
        now_ns: u64,
        pending: &mut Pending,
        ledger: &mut impl Ledger,
    ) {
        let latency = now_ns.checked_sub(stamp.time_ns).filter(|&l| l < MAX_ONE_WAY_NS);
        let delay = latency.map(|_| {
            // The sender's clock may be another: only the time of reading is beyond doubt.
            let noted = rx_time.filter(|at| is_likely(*at, 0, now_ns));
            self.odd_times += u64::from(rx_time.is_some() && noted.is_none());
            Delay::of(stamp.time_ns, noted, now_ns)
        });
        if !self.streams.record_next(flow, stamp.seq, stamp.time_ns, now_ns) {
            self.other(flow, stamp, delay, now_ns, ledger);
            return;
        }
        let arrival = delay.and_then(|delay| delay.arrival_ns);
        if latency != pending.latency || arrival.is_some() != (pending.timed > 0) {
            self.book(pending, now_ns, ledger);
            pending.latency = latency;
        }
        if arrival.is_some() && pending.timed == MAX_BURST {
            self.book(pending, now_ns, ledger);
        }
        pending.next += 1;
        if let Some(arrival) = arrival
            && let Some(place) = self.arrivals.get_mut(pending.timed)
        {
            *place = arrival;
            pending.timed += 1;
        }
    }

    /// Books packets that were the next of their flow.
    #[inline(always)]
    fn book(&mut self, pending: &mut Pending, now_ns: u64, ledger: &mut impl Ledger) {
        let packets = std::mem::take(&mut pending.next);
        let timed = std::mem::take(&mut pending.timed);
        if packets > 0 {
            ledger.arrived_n(now_ns, packets, pending.latency);
            if timed > 0
                && let Some(latency) = pending.latency
            {
                ledger.timed(latency, &self.arrivals[..timed.min(MAX_BURST)]);
            }
            ledger.expected(i64::from(packets));
            if pending.latency.is_none() {
                self.other_clock += u64::from(packets);
            }
        }
    }

    /// Counts a packet that is not the next of its flow, or whose flow is in doubt.
    #[inline(never)]
    fn other(&mut self, flow: usize, stamp: Stamp, delay: Option<Delay>, now_ns: u64, ledger: &mut impl Ledger) {
        match self.streams.record(flow, stamp.seq, stamp.time_ns, now_ns, delay) {
            Outcome::Counted(packet) => self.counted(packet, now_ns, ledger),
            Outcome::Duplicate => ledger.event(now_ns, |t| t.duplicates += 1),
            Outcome::Aside => {}
            Outcome::Believed(packets) => packets.into_iter().for_each(|p| self.counted(p, now_ns, ledger)),
        }
    }

    fn counted(&mut self, packet: Counted, now_ns: u64, ledger: &mut impl Ledger) {
        if packet.delay.is_none() {
            self.other_clock += 1;
        }
        ledger.arrived(now_ns, packet.delay, packet.distance);
        ledger.expected(packet.expected);
    }

    /// Counts a packet of a flow for which there is no room.
    fn count_untracked(&mut self, now_ns: u64, ledger: &mut impl Ledger) {
        self.untracked += 1;
        ledger.arrived(now_ns, None, 0);
        ledger.event(now_ns, |t| t.expected += 1);
    }

    #[cold]
    pub(super) fn foreign(&mut self, why: Foreign, now_ns: u64, ledger: &mut impl Ledger) {
        self.foreign[why as usize] += 1;
        ledger.event(now_ns, |t| t.foreign += 1);
    }

    pub(super) fn reasons(&self) -> Vec<(Reason, u64)> {
        let mut reasons: Vec<_> = Foreign::ALL
            .iter()
            .map(|f| (f.reason(), self.foreign[*f as usize]))
            .collect();
        let doubts = self.streams.doubts();
        reasons.extend([
            (Reason::Flows, u64::from(self.table.len())),
            (Reason::Untracked, self.untracked),
            (Reason::BeyondWindow, doubts.beyond_window),
            (Reason::SenderRestarts, doubts.restarts),
            (Reason::ImplausibleSequence, doubts.implausible()),
            (Reason::UnconfirmedGap, doubts.open_gap),
            (Reason::ContestedGap, doubts.contested_gap),
            (Reason::GapAfterFirst, doubts.after_first),
            (Reason::NeighborService, self.service),
            (Reason::LatencyNotMeasurable, self.other_clock),
            (Reason::ImplausibleRxTime, self.odd_times),
        ]);
        reasons.retain(|(_, n)| *n > 0);
        reasons
    }
}
