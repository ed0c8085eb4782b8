//! Programs loaded for one run, and what they count.

mod parts;

pub(crate) use parts::{Departure, Sending, Site, Windows};

use crate::abi::{Heard, Lane, Octave, Plan, Refused, Row, Run, Source, flag};
use crate::counts::sent;
use crate::load::{Loaded, Which};
use crate::reasons::Names;
use crate::sys;
use mpps_io::around::Watch;
use mpps_io::kernel::{
    KernelLatency, KernelMoments, KernelPort, KernelProgram, KernelRow, KernelStream, KernelTimes, KernelTrack,
    LaneSchedule, LaneTotals, SourceTotals,
};
use mpps_io::{Capabilities, Error, ErrorKind, Fact, QueueCounters, Reason, Result, counter};
use mpps_netdev::{DeviceWatch, NetDev, WatchOptions};
use mpps_sys::map::Mapping;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// Iterations of one call. Each call takes some 25 ms to end, in which nothing is sent.
const REPEAT: u32 = u32::MAX;
/// Frames of a question for an address, at the least.
const MIN_FRAME: usize = 60;
/// How long programs that have read the flag before it was set may go on counting, if the kernel can't be asked.
const LAST_LOOK: std::time::Duration = std::time::Duration::from_millis(2);

/// Programs loaded for one run: see [`KernelPort`]. They are detached when this is dropped, or with the process.
#[derive(Debug)]
pub struct XdpPort {
    pub(crate) capabilities: Capabilities,
    pub(crate) facts: Vec<Fact>,
    pub(crate) remarks: Vec<String>,
    pub(crate) plan: Box<Plan>,
    pub(crate) sites: Vec<Site>,
    /// The report shows results per port, by name.
    pub(crate) named: bool,
    pub(crate) sending: Option<Sending>,
    pub(crate) run: Mapping<Run>,
    pub(crate) heard: Option<Mapping<Heard>>,
    pub(crate) rows: Mapping<Row>,
    pub(crate) sources: Mapping<Source>,
    pub(crate) histograms: Option<Mapping<Octave>>,
    pub(crate) refused: Mapping<Refused>,
    /// Flows that `drop` has seen.
    pub(crate) flows: Option<Mapping<AtomicU64>>,
    pub(crate) which: Which,
    pub(crate) reasons: Names,
    pub(crate) end_ns: AtomicU64,
    /// A trial has begun since the programs were made ready for one.
    pub(crate) begun: AtomicBool,
    /// Packets taken by the time of the last look at the other end of a veth.
    pub(crate) looked_at: AtomicU64,
    /// Maps, and the programs at tracepoints; dropped last.
    pub(crate) loaded: Mutex<Loaded>,
}

impl XdpPort {
    /// Returns remarks for the user: what was asked for and is not available.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn sending(&self) -> Result<&Sending> {
        self.sending.as_ref().ok_or_else(|| {
            Error::new(
                "send on",
                self.sites[0].name.as_str(),
                "the port was opened to listen",
                ErrorKind::Other,
            )
        })
    }

    pub(crate) fn lane(&self, lane: usize) -> Option<&Lane> {
        self.lane_of(lane, None)
    }

    /// Lane `lane`; of several streams that of one, or (`None`) the one that keeps the time.
    pub(crate) fn lane_of(&self, lane: usize, stream: KernelStream) -> Option<&Lane> {
        let sending = self.sending.as_ref()?;
        sending.lane(*sending.cores.get(lane)?, stream)
    }

    /// Returns each stream, or `None` if there are none.
    fn each_stream(&self) -> impl Iterator<Item = KernelStream> + use<> {
        let streams = self.plan.streams as usize;
        (0..streams.max(1)).map(move |stream| (streams > 0).then_some(stream))
    }

    /// Books what the program had still to book when its call ended. The program runs no more: the caller is the one
    /// writer of the lane and of its rows.
    fn settle_up(&self, number: usize) {
        let Some(lane) = self.lane(number) else { return };
        // A later call comes some time after this one's reading of the clock.
        lane.left.store(0, Relaxed);
        let counted = |lane: &Lane| {
            let pending = lane.pending.load(Relaxed);
            lane.packets.store(lane.packets.load(Relaxed) + pending, Relaxed);
            lane.pending.store(0, Relaxed);
            pending
        };
        let row_key = lane.row_key.load(Relaxed) as usize;
        for stream in self.each_stream() {
            let Some(own) = self.lane_of(number, stream) else {
                continue;
            };
            let pending = counted(own);
            let key = row_key + stream.unwrap_or(0) * self.plan.rows as usize;
            if let Some(row) = self.rows.get(key).filter(|_| pending > 0) {
                row.tx.store(row.tx.load(Relaxed) + pending, Relaxed);
            }
        }
        counted(lane);
    }

    /// Returns the error of a call that was to send. A failure that may pass is reported as a link that is down: the
    /// run goes on.
    #[cold]
    fn unsent(from: &Departure, error: &io::Error) -> Error {
        let name = from.name.as_str();
        let veth = from.device.driver == "veth";
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENXIO) if veth => {
                let cause = "the other end of this veth takes no frames from XDP programs now: its program has gone, \
                             and GRO is off there";
                Error::new("send from the kernel on", name, cause, ErrorKind::LinkDown)
            }
            _ => Error::os("send from the kernel on", name, error),
        }
    }

    /// Packets of this run that the device of port `port` has refused.
    fn refused(&self, port: usize) -> u64 {
        let of_cpus = self.refused.iter().skip(port).step_by(2);
        let told: u64 = of_cpus.map(|refused| refused.packets.load(Relaxed)).sum();
        told + self.sites.get(port).map_or(0, Site::refused)
    }

    /// Returns the packets of all senders that the device of port `port` dropped on transmit since the run began.
    fn dropped_sent(&self, port: usize) -> Option<u64> {
        let site = self.sites.get(port)?;
        let then = site.drops_then?;
        let now = mpps_netdev::transmit_drops(site.device.ifindex).unwrap_or(then);
        Some(now.saturating_sub(then))
    }

    /// Packets that a program has handled so far, and the device that it is of. Those at tracepoints handle none.
    fn handled_by(&self, program: &str) -> (u64, &str) {
        let seen = |sources: std::ops::Range<usize>| {
            let totals = sources.map(|source| self.totals_of(source));
            totals.map(|totals| totals.packets + totals.passed).sum::<u64>()
        };
        let (all, name) = (0..self.sources.len(), |port: usize| {
            self.sites.get(port).map_or("", |site| site.name.as_str())
        });
        match program.trim_end_matches("_frags") {
            "send" | "send_tagged" | "send_mixed" => {
                let lanes = (0..self.lanes()).map(|lane| self.lane_totals(lane).packets);
                let from = self.sending.as_ref().map_or("", |sending| sending.from.name.as_str());
                (lanes.sum(), from)
            }
            "receive" | "receive_tagged" | "reflect" | "reflect_tagged" | "drop" | "drop_tagged" => {
                (seen(all), name(0))
            }
            "forward_a" => (seen(self.sources_of(0)), name(0)),
            "forward_b" => (seen(self.sources_of(1)), name(1)),
            _ => (0, name(0)),
        }
    }

    /// The programs' places of port `port`.
    fn sources_of(&self, port: usize) -> std::ops::Range<usize> {
        let before: u32 = self.sites.iter().take(port).map(|site| site.sources).sum();
        let own = self.sites.get(port).map_or(0, |site| site.sources);
        before as usize..(before + own) as usize
    }
}

/// A first gap of a random schedule, ns, drawn outside of the program.
fn first_gap(state: u64, mean: u128) -> u64 {
    // Number 0 of the SplitMix64 sequence that starts at another place than the program's.
    let mut z = !state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    (-(1.0 - unit).ln() * (mean >> 64) as f64) as u64
}

impl KernelPort for XdpPort {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn facts(&self) -> Vec<Fact> {
        self.facts.clone()
    }

    fn watches(&self) -> Vec<Box<dyn Watch>> {
        let watch = |(place, site): (usize, &Site)| {
            let options = WatchOptions {
                // ICMP for an address of the host's goes to the host: only its counters show it.
                kernel: place == 0,
                arrivals: true,
                ..WatchOptions::default()
            };
            Box::new(DeviceWatch::new(&site.device, options)) as Box<dyn Watch>
        };
        self.sites.iter().enumerate().map(watch).collect()
    }

    fn latency_note(&self, one_way: bool) -> &'static str {
        let across = self.plan.flags & (flag::ACROSS | flag::TURNED) != 0;
        match (one_way, self.plan.clock_every) {
            (_, 0) if across => {
                "one way, from the sender's reading of the clock for up to 16 packets that it hands to one device \
                 together, to a reading for each packet that arrives at the other, in the kernel: no clocks differ"
            }
            (_, _) if across => {
                "one way, from the sender's reading of the clock for up to 16 packets that it hands to one device \
                 together, to the receiver's at the other, once per poll loop and after 16 packets of it, in the \
                 kernel: no clocks differ"
            }
            (false, 0) => {
                "round trip, from the sender's reading of the clock for up to 16 packets that it hands to the device \
                 together, to a reading for each packet that comes back, in the kernel"
            }
            (false, _) => {
                "round trip, from the sender's reading of the clock for up to 16 packets that it hands to the device \
                 together, to the receiver's, once per poll loop and after 16 packets of it, in the kernel"
            }
            (true, 0) => {
                "one way, from the sender's stamp to a reading of the clock for each packet, in the kernel; true only \
                 where both ends read the same clock (one host)"
            }
            (true, _) => {
                "one way, from the sender's stamp to a reading of the clock once per poll loop and after 16 packets of \
                 it, in the kernel; true only where both ends read the same clock (one host)"
            }
        }
    }

    fn port_names(&self) -> Vec<String> {
        let names = self.sites.iter().filter(|_| self.named);
        names.map(|site| site.name.clone()).collect()
    }

    fn lanes(&self) -> usize {
        self.sending.as_ref().map_or(0, |s| s.cores.len())
    }

    fn sources(&self) -> usize {
        self.sites.iter().map(|site| site.sources as usize).sum()
    }

    fn streams(&self) -> usize {
        self.plan.streams as usize
    }

    fn source_place(&self, source: usize) -> (usize, usize) {
        let port = (0..self.sites.len())
            .find(|&port| self.sources_of(port).contains(&source))
            .unwrap_or(0);
        (source - self.sources_of(port).start, port)
    }

    fn set_dest_mac(&self, mac: [u8; 6]) {
        let to_next_hop = |stream: KernelStream| {
            let streams = self.sending.as_ref().map(|sending| &sending.spec.streams);
            stream.zip(streams).is_none_or(|(stream, all)| all[stream].to_next_hop)
        };
        let each = || self.each_stream().filter(|stream| to_next_hop(*stream));
        let lanes = (0..self.lanes()).flat_map(|number| each().filter_map(move |stream| self.lane_of(number, stream)));
        for lane in lanes {
            let mut bytes = lane.headers[0].load(Relaxed).to_ne_bytes();
            bytes[..6].copy_from_slice(&mac);
            lane.headers[0].store(u64::from_ne_bytes(bytes), Relaxed);
        }
    }

    fn inject(&self, frame: &[u8]) -> Result<()> {
        let mut padded = frame.to_vec();
        padded.resize(frame.len().max(MIN_FRAME), 0);
        let sending = self.sending()?;
        let from = &sending.from;
        sys::run_live(sending.inject.as_fd(), from.device.ifindex, &padded, 1, 1).map_err(|e| Self::unsent(from, &e))
    }

    fn heard(&self) -> Option<[u8; 6]> {
        let heard = &self.heard.as_ref()?[0];
        (heard.known.load(Acquire) != 0).then(|| std::array::from_fn(|i| heard.mac[i].load(Relaxed)))
    }

    fn begin(&self, times: KernelTimes, schedules: &[LaneSchedule]) {
        self.begun.store(true, Relaxed);
        let run = &self.run[0];
        let streams = self.streams();
        for (number, schedule) in schedules.iter().enumerate() {
            let (number, stream) = match streams {
                0 => (number, None),
                _ => (number / streams, Some(number % streams)),
            };
            let Some(lane) = self.lane_of(number, stream) else {
                continue;
            };
            let (first, step) = (schedule.first, schedule.step);
            // At random the first departure, too, comes after a gap.
            let gap = schedule.random.map_or(0, |state| first_gap(state, step));
            let until = schedule.until_ns.map(|ns| times.start_ns.saturating_add(ns));
            let end_ns = until.map_or(times.end_ns, |until| until.min(times.end_ns));
            let known = schedule.packets != u64::MAX && end_ns != u64::MAX;
            let mut due = times.start_ns.saturating_add((first >> 64) as u64).saturating_add(gap);
            if known && schedule.random.is_some() {
                // As in the program: even the last packet leaves before the end.
                due = due.min(end_ns.saturating_sub(1));
            }
            lane.due_ns.store(due, Relaxed);
            lane.due_fraction.store(first as u64, Relaxed);
            lane.step_ns.store((step >> 64) as u64, Relaxed);
            lane.step_fraction.store(step as u64, Relaxed);
            lane.remaining.store(schedule.packets, Relaxed);
            lane.unit.store(schedule.unit, Relaxed);
            lane.in_unit.store(schedule.unit, Relaxed);
            // 0: none.
            lane.random
                .store(schedule.random.map_or(0, |state| state.max(1)), Relaxed);
            lane.schedule_end_ns.store(if known { end_ns } else { 0 }, Relaxed);
            lane.done.store(u32::from(schedule.packets == 0), Relaxed);
            if let Some((stream, clock)) = stream.zip(self.lane(number)) {
                let next = match (schedule.packets, self.plan.flags & flag::PACED) {
                    (0, _) => u64::MAX,
                    (_, 0) => {
                        // Without a rate this is its turn, among the others.
                        let joins = first >> 64 > 0;
                        lane.joins_ns.store(if joins { due } else { 0 }, Relaxed);
                        lane.due_ns.store(0, Relaxed);
                        lane.due_fraction.store(0, Relaxed);
                        if joins { u64::MAX } else { 0 }
                    }
                    _ => due,
                };
                clock.due[stream].store(next, Relaxed);
            }
        }
        self.set_end(times.end_ns);
        run.start_ns.store(times.start_ns, Release);
    }

    fn set_end(&self, end_ns: u64) {
        self.end_ns.store(end_ns, Relaxed);
        self.run[0].end_ns.store(end_ns, Release);
    }

    fn stop(&self) {
        if self.run[0].stopped.swap(1, AcqRel) == 0 && sys::await_programs().is_err() {
            std::thread::sleep(LAST_LOOK);
        }
    }

    fn send(&self, lane: usize) -> Result<()> {
        let sending = self.sending()?;
        let thread = &sending.threads[lane];
        thread.store(sys::thread_id(), Release);
        // A frame begins as it ends up, but for what changes from packet to packet.
        let mut frame = vec![0; self.plan.frame_len as usize];
        let headers = self
            .lane_of(lane, self.each_stream().next().flatten())
            .map(|lane| lane.headers.each_ref())
            .into_iter()
            .flatten();
        for (bytes, word) in frame.chunks_mut(8).zip(headers) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..bytes.len()]);
        }
        let batch = sending.batch.load(Relaxed);
        let from = &sending.from;
        let result = sys::run_live(sending.send.as_fd(), from.device.ifindex, &frame, REPEAT, batch);
        self.settle_up(lane);
        thread.store(0, Release);
        match result {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(Self::unsent(from, &e)),
        }
    }

    fn interrupt(&self, lane: usize) {
        let thread = self.sending.as_ref().and_then(|s| s.threads.get(lane));
        if let Some(thread) = thread.map(|t| t.load(Acquire)).filter(|&t| t != 0) {
            sys::interrupt(thread);
        }
    }

    fn left_undone(&self, lane: usize, stream: KernelStream) -> u64 {
        let Some(lane) = self
            .lane_of(lane, stream)
            .filter(|_| self.plan.flags & flag::PACED != 0)
        else {
            return 0;
        };
        let end = self.end_ns.load(Relaxed);
        let (due, remaining) = (lane.due_ns.load(Relaxed), lane.remaining.load(Relaxed));
        if due >= end || remaining == 0 {
            return 0;
        }
        let schedule_end = lane.schedule_end_ns.load(Relaxed);
        if lane.random.load(Relaxed) != 0 && schedule_end != 0 {
            // Spread evenly over what is left of the schedule.
            let share = (end - due) as f64 / (schedule_end - due).max(1) as f64;
            return ((remaining as f64 * share.min(1.0)).round() as u64).min(remaining);
        }
        let at = |ns: u64, fraction: u64| u128::from(ns) << 64 | u128::from(fraction);
        let step = at(lane.step_ns.load(Relaxed), lane.step_fraction.load(Relaxed)).max(1);
        let behind = (u128::from(end) << 64) - at(due, lane.due_fraction.load(Relaxed)) - 1;
        let further = u64::try_from(behind / step).unwrap_or(u64::MAX);
        let unit = u64::from(lane.unit.load(Relaxed));
        let due = u64::from(lane.in_unit.load(Relaxed)).saturating_add(further.saturating_mul(unit));
        due.min(remaining)
    }

    fn lane_totals(&self, lane: usize) -> LaneTotals {
        let all_done = || {
            let mut each = self.each_stream().filter_map(|stream| self.lane_of(lane, stream));
            self.streams() > 0 && each.all(|lane| lane.done.load(Relaxed) != 0)
        };
        self.lane(lane).map_or_else(LaneTotals::default, |lane| LaneTotals {
            packets: sent(lane),
            bursts: lane.bursts.load(Relaxed),
            waits: lane.waits.load(Relaxed),
            done: lane.done.load(Relaxed) != 0 || all_done(),
            last_ns: lane.last_ns.load(Relaxed),
        })
    }

    fn gaps(&self, lane: usize, bucket: &mut dyn FnMut(usize, u64)) -> KernelMoments {
        self.lane_gaps(lane, bucket)
    }

    fn source_totals(&self, source: usize) -> SourceTotals {
        self.totals_of(source)
    }

    fn sizes(&self) -> usize {
        (self.plan.places - 1 - self.plan.streams) as usize
    }

    fn track_totals(&self, track: KernelTrack) -> (u64, u64) {
        self.totals_of_track(track)
    }

    fn take_rows(&self, from: u64, to: u64, give: &mut dyn FnMut(u64, KernelTrack, &KernelRow)) {
        self.rows_between(from, to, give);
    }

    fn take_histograms(&self, row: u64, give: &mut dyn FnMut(KernelLatency, KernelTrack, usize, u64)) {
        self.histograms_of(row, give);
    }

    fn row_capacity(&self) -> u64 {
        let by_period = u64::from(self.plan.periods) * u64::from(self.plan.rows_per_period);
        u64::from(self.plan.rows).min(by_period)
    }

    fn reasons(&self, port: usize) -> Vec<(Reason, u64)> {
        let sources = || &self.sources[self.sources_of(port)];
        // Doubts that one source has counted another may take back: only the sum is none below 0.
        let total = |at: usize| {
            let all = sources().iter().map(|s| s.reasons[at].load(Relaxed));
            all.fold(0, u64::wrapping_add).cast_signed().max(0).cast_unsigned()
        };
        let names = self.reasons.iter().copied().flatten();
        let mut reasons: Vec<_> = names.map(|&(at, name)| (name, total(at))).collect();
        let flows = self.flows.as_ref().map(|flows| flows[0].load(Relaxed));
        reasons.extend(flows.map(|flows| (Reason::Flows, flows.min(u64::from(self.plan.max_flows)))));
        reasons
    }

    fn counters(&self, port: usize) -> QueueCounters {
        let passed = self.sources[self.sources_of(port)]
            .iter()
            .map(|s| s.passed.load(Relaxed))
            .sum();
        let queues = self.sites.get(port).map_or(0, |site| {
            let device = NetDev::by_index(site.device.ifindex).ok();
            let now = device.and_then(|device| xsk::Device::named(&device.name).ok()?.queues().ok());
            now.map_or(0, |q| q.current.saturating_sub(site.queues))
        });
        let mut other = vec![(counter::LEFT_TO_HOST, passed)];
        if queues > 0 {
            other.push((counter::QUEUES_ADDED, u64::from(queues)));
        }
        other.extend(self.dropped_sent(port).map(|dropped| (counter::DROPPED_SENT, dropped)));
        QueueCounters {
            rx_dropped: 0,
            tx_failed: self.refused(port),
            other,
        }
    }

    fn programs(&self) -> Vec<KernelProgram> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let program = |(name, descriptor): (String, OwnedFd)| {
            let (packets, device) = self.handled_by(&name);
            KernelProgram {
                device: device.to_owned(),
                packets,
                name,
                descriptor,
            }
        };
        loaded.programs().into_iter().map(program).collect()
    }

    fn check(&self) -> Result<()> {
        self.choose_way_back();
        self.check_other_end()?;
        for site in &self.sites {
            let name = site.device.name.as_str();
            // By its index, which stays when it gets another name.
            let now = match NetDev::by_index(site.device.ifindex) {
                Ok(now) => now,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let cause = "the interface has been removed";
                    return Err(Error::new("reach", name, cause, ErrorKind::Gone));
                }
                Err(_) => continue,
            };
            if !now.up || !now.running {
                let cause = if now.up {
                    "the link has no carrier"
                } else {
                    "the interface is down"
                };
                return Err(Error::new("move packets on", name, cause, ErrorKind::LinkDown));
            }
        }
        Ok(())
    }
}
