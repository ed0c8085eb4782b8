//! A kernel of the tests: computes from the clock what programs would have sent, lost and counted by now.

use mpps_io::kernel::{
    KernelLatency, KernelMoments, KernelPort, KernelRow, KernelStream, KernelTimes, KernelTrack, LaneSchedule,
    LaneTotals, SourceTotals,
};
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Layer, QueueCounters, Reason, Result};
use mpps_stats::bucket_of;
use mpps_sys::clock::monotonic_ns;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

/// Every packet that comes back has this latency, ns.
pub(crate) const LATENCY_NS: u64 = 100_000;
/// Gap of packets where nobody gives a schedule, ns.
const GAP_NS: u64 = 20_000;

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Back,
    Twice,
    Lost,
    Late,
}

/// What this kernel is like.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) lanes: usize,
    /// Ports of the sources, one each.
    pub(crate) sources: Vec<usize>,
    pub(crate) interval_ns: u64,
    pub(crate) rows: u64,
    /// A row's place that is written again loses what it held.
    pub(crate) overwrites: bool,
    /// By packet number and row.
    pub(crate) fate: fn(u64, u64) -> Fate,
    /// Listeners: packets arrive, every 10th is not sent on.
    pub(crate) arrivals: bool,
    /// The device is gone once so many packets were sent.
    pub(crate) gone_after: u64,
    /// This many checks find the device down.
    pub(crate) down_checks: u32,
    /// The reader is held up for so long, once.
    pub(crate) stall: Duration,
    /// The peer answers the question with this number; 0: never.
    pub(crate) answers_at: usize,
    pub(crate) reasons: Vec<(Reason, u64)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lanes: 2,
            sources: vec![0, 0, 0],
            interval_ns: 10_000_000,
            rows: 1024,
            overwrites: false,
            fate: |_, _| Fate::Back,
            arrivals: false,
            gone_after: u64::MAX,
            down_checks: 0,
            stall: Duration::ZERO,
            answers_at: 0,
            reasons: Vec::new(),
        }
    }
}

#[derive(Default)]
struct Lane {
    inside: bool,
    interrupted: bool,
    sent: u64,
    schedule: Option<LaneSchedule>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    stopped: bool,
    lanes: Vec<Lane>,
    sources: Vec<SourceTotals>,
    rows: BTreeMap<u64, KernelRow>,
    histograms: BTreeMap<u64, Vec<(usize, u64)>>,
    checks: u32,
    arrived: u64,
    pub(crate) injected: Vec<Vec<u8>>,
    pub(crate) dest_mac: Option<[u8; 6]>,
    /// The address was set when the run began.
    pub(crate) mac_at_begin: Option<[u8; 6]>,
}

pub(crate) struct Fake {
    capabilities: Capabilities,
    config: Config,
    state: Mutex<State>,
}

impl Fake {
    pub(crate) fn new(config: Config) -> Self {
        let state = State {
            end_ns: u64::MAX,
            lanes: (0..config.lanes).map(|_| Lane::default()).collect(),
            sources: vec![SourceTotals::default(); config.sources.len()],
            ..State::default()
        };
        Self {
            capabilities: Capabilities {
                path: "fake",
                layer: Layer::Ethernet,
                max_frame: 1514,
                mac: Some([2, 0, 0, 0, 0, 1]),
                tx_checksum: false,
                one_flow_per_burst: false,
                link_bps: None,
                preferred_burst: 64,
            },
            config,
            state: Mutex::new(state),
        }
    }

    /// Everything that has happened by now.
    pub(crate) fn now(&self) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        state.advance(&self.config, monotonic_ns());
        state
    }

    fn gone(&self, state: &State) -> bool {
        state.lanes.iter().map(|l| l.sent).sum::<u64>() >= self.config.gone_after
    }
}

fn error(kind: ErrorKind) -> Error {
    Error::new("use", "a device of the tests", "it does not work", kind)
}

fn due(schedule: &LaneSchedule, k: u64) -> u64 {
    ((schedule.first + schedule.step * u128::from(k / u64::from(schedule.unit))) >> 64) as u64
}

fn record(m: &mut KernelMoments, value: u64) {
    m.min = if m.count == 0 { value } else { m.min.min(value) };
    m.count += 1;
    m.sum += value;
    m.max = m.max.max(value);
}

impl State {
    fn row(&mut self, config: &Config, at_ns: u64) -> (u64, &mut KernelRow) {
        let row = (at_ns - self.start_ns) / config.interval_ns;
        let old = row.checked_sub(config.rows);
        let kept = old
            .and_then(|old| self.rows.remove(&old))
            .filter(|_| !config.overwrites);
        let place = self.rows.entry(row).or_default();
        if let Some(kept) = kept {
            *place = kept;
        }
        (row, place)
    }

    fn advance(&mut self, config: &Config, now_ns: u64) {
        if self.start_ns == 0 || self.stopped {
            return;
        }
        let until = now_ns.min(self.end_ns.saturating_sub(1));
        while let Some((lane, at)) = self.next_departure(until) {
            let sent: u64 = self.lanes.iter().map(|l| l.sent).sum();
            if sent >= config.gone_after {
                break;
            }
            self.lanes[lane].sent += 1;
            self.depart(config, sent, at);
        }
        while config.arrivals && self.start_ns + self.arrived * GAP_NS <= until {
            let at = self.start_ns + self.arrived * GAP_NS;
            self.arrive(config, at);
        }
    }

    /// The next packet of any lane that is due.
    fn next_departure(&self, until: u64) -> Option<(usize, u64)> {
        let next = |(i, lane): (usize, &Lane)| {
            let schedule = lane
                .schedule
                .as_ref()
                .filter(|s| lane.inside && lane.sent < s.packets)?;
            Some((i, self.start_ns + due(schedule, lane.sent)))
        };
        let next = self.lanes.iter().enumerate().filter_map(next).min_by_key(|n| n.1);
        next.filter(|n| n.1 <= until)
    }

    fn depart(&mut self, config: &Config, number: u64, at: u64) {
        let row = (at - self.start_ns) / config.interval_ns;
        let fate = (config.fate)(number, row);
        let (row, counts) = self.row(config, at);
        counts.tx += 1;
        if matches!(fate, Fate::Back | Fate::Twice) {
            counts.rx += 1;
            counts.duplicates += u64::from(fate == Fate::Twice);
            record(&mut counts.latency, LATENCY_NS);
            record(&mut counts.scheduled, LATENCY_NS);
        }
        let source = &mut self.sources[0];
        match fate {
            Fate::Lost => return,
            Fate::Late => source.late += 1,
            Fate::Back | Fate::Twice => {
                source.test += 1;
                let per = 100_000_000u64.div_ceil(config.interval_ns).max(1);
                let buckets = self.histograms.entry(row / per).or_default();
                match buckets.first_mut() {
                    Some(bucket) => bucket.1 += 1,
                    None => buckets.push((bucket_of(LATENCY_NS), 1)),
                }
            }
        }
        source.packets += 1;
        source.polls += 1;
    }

    fn arrive(&mut self, config: &Config, at: u64) {
        let number = self.arrived;
        self.arrived += 1;
        let sent = number % 10 != 9;
        let (_, counts) = self.row(config, at);
        counts.rx += 1;
        counts.expected += 1;
        counts.tx += u64::from(sent);
        let place = number as usize % 2 * (config.sources.len() - 1);
        let source = &mut self.sources[place];
        source.packets += 1;
        source.test += 1;
        source.polls += 1;
        source.bytes += 60;
        source.tx += u64::from(sent);
        if source.first_ns == 0 {
            source.first_ns = at;
        }
        source.last_ns = at;
    }
}

impl KernelPort for Fake {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    fn lanes(&self) -> usize {
        self.config.lanes
    }

    fn sources(&self) -> usize {
        self.config.sources.len()
    }

    fn source_place(&self, source: usize) -> (usize, usize) {
        (source, self.config.sources[source])
    }

    fn set_dest_mac(&self, mac: [u8; 6]) {
        self.now().dest_mac = Some(mac);
    }

    fn inject(&self, frame: &[u8]) -> Result<()> {
        self.now().injected.push(frame.to_vec());
        Ok(())
    }

    fn heard(&self) -> Option<[u8; 6]> {
        let asked = self.now().injected.len();
        (self.config.answers_at != 0 && asked >= self.config.answers_at).then_some([2, 0, 0, 0, 0, 9])
    }

    fn begin(&self, times: KernelTimes, schedules: &[LaneSchedule]) {
        let mut state = self.now();
        assert_eq!(state.start_ns, 0, "begun once");
        (state.start_ns, state.end_ns) = (times.start_ns, times.end_ns);
        state.mac_at_begin = state.dest_mac;
        let unpaced = LaneSchedule {
            first: 0,
            step: u128::from(GAP_NS) << 64,
            unit: 1,
            packets: u64::MAX,
            random: None,
            until_ns: None,
        };
        for (i, lane) in state.lanes.iter_mut().enumerate() {
            assert!(!lane.inside);
            lane.schedule = Some(schedules.get(i).copied().unwrap_or(unpaced));
        }
    }

    fn set_end(&self, end_ns: u64) {
        let mut state = self.now();
        state.end_ns = end_ns.min(state.end_ns);
    }

    fn stop(&self) {
        let mut state = self.now();
        assert!(state.lanes.iter().all(|lane| !lane.inside), "the lanes are out");
        state.stopped = true;
    }

    fn send(&self, lane: usize) -> Result<()> {
        {
            let mut state = self.now();
            assert!(state.start_ns != 0, "begun before");
            (state.lanes[lane].inside, state.lanes[lane].interrupted) = (true, false);
        }
        loop {
            sleep(Duration::from_millis(1));
            let mut state = self.now();
            let gone = self.gone(&state);
            if gone || state.lanes[lane].interrupted {
                state.lanes[lane].inside = false;
                return if gone { Err(error(ErrorKind::Gone)) } else { Ok(()) };
            }
        }
    }

    fn interrupt(&self, lane: usize) {
        let lane = &mut self.now().lanes[lane];
        lane.interrupted = lane.inside;
    }

    fn left_undone(&self, lane: usize, _stream: KernelStream) -> u64 {
        let state = self.now();
        let lane = &state.lanes[lane];
        let Some(schedule) = lane.schedule.filter(|s| s.packets < u64::MAX) else {
            return 0;
        };
        let open = lane.sent..schedule.packets;
        open.take_while(|&k| state.start_ns + due(&schedule, k) < state.end_ns)
            .count() as u64
    }

    fn lane_totals(&self, lane: usize) -> LaneTotals {
        let state = self.now();
        let lane = &state.lanes[lane];
        LaneTotals {
            packets: lane.sent,
            bursts: lane.sent,
            waits: 7,
            done: lane.schedule.is_some_and(|s| lane.sent == s.packets) || monotonic_ns() >= state.end_ns,
            last_ns: monotonic_ns().min(state.end_ns),
        }
    }

    fn gaps(&self, lane: usize, bucket: &mut dyn FnMut(usize, u64)) -> KernelMoments {
        let count = self.now().lanes[lane].sent;
        bucket(bucket_of(GAP_NS), count);
        KernelMoments {
            count,
            sum: count * GAP_NS,
            min: GAP_NS,
            max: GAP_NS,
        }
    }

    fn source_totals(&self, source: usize) -> SourceTotals {
        self.now().sources[source]
    }

    fn take_rows(&self, from: u64, to: u64, take: &mut dyn FnMut(u64, KernelTrack, &KernelRow)) {
        assert!(to - from <= self.config.rows);
        let mut state = self.now();
        let (rows, stopped) = (self.config.rows, state.stopped);
        for row in from..to {
            // A place may hold what was written for an earlier row.
            let held = state.rows.range(..=row).rev().map(|(r, _)| *r);
            let mut held = held.filter(|r| (row - r) % rows == 0 && (stopped || *r == row || !self.config.overwrites));
            if let Some(counts) = held.next().and_then(|held| state.rows.remove(&held)) {
                take(row, KernelTrack::Run, &KernelRow::default());
                take(row, KernelTrack::Run, &counts);
            }
        }
    }

    fn take_histograms(&self, row: u64, take: &mut dyn FnMut(KernelLatency, KernelTrack, usize, u64)) {
        let per = 100_000_000u64.div_ceil(self.config.interval_ns).max(1);
        for (bucket, n) in self.now().histograms.remove(&(row / per)).unwrap_or_default() {
            take(KernelLatency::Actual, KernelTrack::Run, bucket, n);
            take(KernelLatency::Scheduled, KernelTrack::Run, bucket, n);
        }
    }

    fn row_capacity(&self) -> u64 {
        self.config.rows
    }

    fn reasons(&self, port: usize) -> Vec<(Reason, u64)> {
        if port == 0 {
            self.config.reasons.clone()
        } else {
            Vec::new()
        }
    }

    fn counters(&self, port: usize) -> QueueCounters {
        QueueCounters {
            // Nothing of the run's own: the baseline is taken off.
            rx_dropped: 3,
            tx_failed: 0,
            other: vec![("port", port as u64 + if self.now().stopped { 5 } else { 0 })],
        }
    }

    fn check(&self) -> Result<()> {
        let (checks, gone) = {
            let mut state = self.now();
            state.checks += 1;
            (state.checks, self.gone(&state))
        };
        if checks == 2 {
            sleep(self.config.stall);
        }
        match () {
            () if gone => Err(error(ErrorKind::Gone)),
            () if checks <= self.config.down_checks => Err(error(ErrorKind::LinkDown)),
            () => Ok(()),
        }
    }
}
