//! What a receiver without a sender makes of each frame: whose it is, whether it is whole, what its number says.

use crate::DropPlan;
use crate::codec::{Class, Foreign, class_of_reject, left_open, verify_checksum};
use crate::flow_table::FlowTable;
use mpps_io::{Frame, Layer};
use mpps_stats::{Counted, Outcome, Recorder, STREAM_BYTES, SequenceWindows, Streams};
use mpps_wire::{Checker, STAMP_LEN, Stamp, check_udp, verify_data};
use std::net::{IpAddr, SocketAddr};

/// One-way latencies above this are taken for the clocks of two hosts: none is reported.
const MAX_ONE_WAY_NS: u64 = 60_000_000_000;

/// Numbers that a window spans where memory allows.
const WINDOW_SPAN: u64 = 1 << 20;
/// Memory for the sequence windows of one lane, bytes.
const WINDOW_BYTES: usize = 64 << 20;

/// Bytes of the memory of one lane for `max_flows` flows.
pub(crate) fn flow_bytes(max_flows: u32) -> u64 {
    let flows = u64::from(max_flows.max(1));
    SequenceWindows::bytes(flows, WINDOW_SPAN, WINDOW_BYTES) + flows * STREAM_BYTES as u64 + FlowTable::bytes(max_flows)
}

/// The memory of one lane: flows, their sequence numbers, and what was counted beside them.
pub(super) struct Verifier<'p> {
    plan: &'p DropPlan,
    layer: Layer,
    table: FlowTable,
    streams: Streams,
    foreign: [u64; Foreign::ALL.len()],
    untracked: u64,
    /// Questions answered.
    pub(super) service: u64,
    other_clock: u64,
    /// Packets of this burst that are not to be verified.
    unverified: u64,
    /// Headers of the last packet, and ports and flow of the last that had them.
    known: Checker,
    last: Option<(u32, u32)>,
}

/// Where the addresses of an untagged IPv4 packet begin in its frame.
const IPV4_SOURCE: usize = 26;

/// A UDP packet as this end sees it.
struct Located {
    /// Its stamp, where data and stamp fit each other.
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
            unverified: 0,
            known: Checker::default(),
            last: None,
        }
    }

    /// Finds stamp and flow of a frame, or says what else it is.
    #[inline]
    fn locate<F: Frame>(&mut self, frame: &F) -> Result<Located, Class> {
        let bytes = frame.bytes();
        let seed = self.plan.common.seed;
        if self.layer == Layer::Payload {
            let flow = match frame.peer() {
                Some(SocketAddr::V4(peer)) => self.table.flow_v4(u32::from(*peer.ip()), 0, u32::from(peer.port())),
                Some(SocketAddr::V6(peer)) => self.table.flow_v6(u128::from(*peer.ip()), 0, u32::from(peer.port())),
                None => self.table.flow_v4(0, 0, frame.flow().unwrap_or(0)),
            };
            let verified = Stamp::read(bytes).filter(|stamp| verify_data(seed, stamp.seq, &bytes[STAMP_LEN..]));
            return Ok(Located {
                verified,
                flow,
                checksum_ok: true,
            });
        }
        if let Some(seen) = self.known.check(bytes, seed, verify_checksum(frame))
            && seen.checksum_ok
        {
            if let Some(why) = self.leaves(seen.dst_port) {
                return Err(Class::Foreign(why));
            }
            return Ok(Located {
                verified: seen.data_ok.then_some(seen.stamp),
                flow: self.flow_of_known(bytes, u32::from(seen.src_port) << 16 | u32::from(seen.dst_port)),
                checksum_ok: true,
            });
        }
        self.locate_other(frame)
    }

    /// [`Verifier::locate`] for an Ethernet frame whose headers are not those of the last.
    #[inline(never)]
    fn locate_other<F: Frame>(&mut self, frame: &F) -> Result<Located, Class> {
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

    /// Why packets to a port are not this run's; `None`: they are.
    #[inline]
    fn leaves(&self, port: u16) -> Option<Foreign> {
        if self.plan.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
            return Some(Foreign::WrongPort);
        }
        let excluded = &self.plan.excluded_ports;
        (!excluded.is_empty() && excluded.binary_search(&port).is_ok()).then_some(Foreign::HostPort)
    }

    /// The flow of a packet with the headers that are remembered.
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

    /// Counts one frame. True: it is for the slow path.
    #[inline]
    pub(super) fn frame<F: Frame>(&mut self, frame: &F, now_ns: u64, recorder: &mut Recorder<'_>) -> bool {
        let Located {
            verified,
            flow,
            checksum_ok,
        } = match self.locate(frame) {
            Ok(located) => located,
            Err(Class::SlowPath) => return true,
            Err(Class::Foreign(why)) => {
                self.foreign(why, now_ns, recorder);
                return false;
            }
            Err(_) => {
                recorder.event(now_ns, |t| t.corrupt += 1);
                return false;
            }
        };
        if !checksum_ok {
            recorder.event(now_ns, |t| t.corrupt += 1);
            return false;
        }
        if !self.plan.verify {
            self.unverified += 1;
            return false;
        }
        match (verified.filter(|stamp| stamp.seq < u64::MAX), flow) {
            (Some(stamp), Some(flow)) => self.stamped(flow as usize, stamp, frame.rx_time_ns(), now_ns, recorder),
            (Some(_), None) => {
                self.untracked += 1;
                recorder.arrived(now_ns, None, 0);
                recorder.event(now_ns, |t| t.expected += 1);
            }
            (None, Some(flow)) if self.streams.known(flow as usize) => recorder.event(now_ns, |t| t.corrupt += 1),
            (None, _) => self.foreign(Foreign::NotStamped, now_ns, recorder),
        }
        false
    }

    /// Books what [`Verifier::frame`] counted of a burst without verifying it.
    #[inline]
    pub(super) fn book_unverified(&mut self, now_ns: u64, recorder: &mut Recorder<'_>) {
        let packets = std::mem::take(&mut self.unverified);
        if packets > 0 {
            recorder.arrived_n(now_ns, packets);
            recorder.expected(packets as i64);
        }
    }

    #[inline]
    fn stamped(&mut self, flow: usize, stamp: Stamp, rx_time: Option<u64>, now_ns: u64, recorder: &mut Recorder<'_>) {
        let latency = rx_time
            .unwrap_or(now_ns)
            .checked_sub(stamp.time_ns)
            .filter(|&l| l < MAX_ONE_WAY_NS);
        match self.streams.record(flow, stamp.seq, stamp.time_ns, now_ns, latency) {
            Outcome::Counted(packet) => self.counted(packet, now_ns, recorder),
            Outcome::Duplicate => recorder.event(now_ns, |t| t.duplicates += 1),
            Outcome::Aside => {}
            Outcome::Believed(packets) => packets.into_iter().for_each(|p| self.counted(p, now_ns, recorder)),
        }
    }

    #[inline]
    fn counted(&mut self, packet: Counted, now_ns: u64, recorder: &mut Recorder<'_>) {
        if packet.latency.is_none() {
            self.other_clock += 1;
        }
        recorder.arrived(now_ns, packet.latency, packet.distance);
        recorder.expected(packet.expected);
    }

    #[cold]
    pub(super) fn foreign(&mut self, why: Foreign, now_ns: u64, recorder: &mut Recorder<'_>) {
        self.foreign[why as usize] += 1;
        recorder.event(now_ns, |t| t.foreign += 1);
    }

    pub(super) fn reasons(&self) -> Vec<(&'static str, u64)> {
        let mut reasons: Vec<_> = Foreign::ALL
            .iter()
            .map(|f| (f.name(), self.foreign[*f as usize]))
            .collect();
        let doubts = self.streams.doubts();
        reasons.extend([
            ("flows", u64::from(self.table.len())),
            ("untracked_flow_packets", self.untracked),
            ("beyond_window", doubts.beyond_window),
            ("sender_restarts", doubts.restarts),
            ("implausible_sequence", doubts.implausible()),
            ("unconfirmed_gap", doubts.open_gap),
            ("contested_gap", doubts.contested_gap),
            ("gap_after_first", doubts.after_first),
            ("neighbor_service", self.service),
            ("latency_not_measurable", self.other_clock),
        ]);
        reasons.retain(|(_, n)| *n > 0);
        reasons
    }
}
