//! Computes the programs' constants from the specification of a run, and the sizes of their maps.

use crate::abi::{ADDRESSES, Axis, LANES, Loops, OCTAVES, Octave, Plan, Row, Within, bytes_of, flag};
use crate::config::{Check, Clock, Config};
use crate::spec::{Answer, Arrival, DropSpec, Series, Taken, TrafficSpec, Unanswered};
use mpps_io::{AddressRange, Error, ErrorKind, Result, Step, addresses};
use std::net::IpAddr;

/// Time for which rows stay open beyond the settle time, and for which the reader may be kept from reading them, ns.
const GRACE_NS: u64 = 50_000_000;
const ROW_SLACK_NS: u64 = 1_000_000_000;
/// The same for histograms, of which each takes 115 kB per source.
const PERIOD_SLACK_NS: u64 = 300_000_000;
/// Least length of a histogram period, as in the statistics of other paths, ns.
const MIN_PERIOD_NS: u64 = 100_000_000;
/// Memory for sequence windows, bytes, and of one word of 64 sequence numbers.
const WINDOW_BYTES: u64 = 16 << 20;
const WORD_BYTES: u64 = 16;
/// The same for `drop`, and the most words that a flow gets: a million packets.
const DROP_WINDOW_BYTES: u64 = 64 << 20;
const MAX_DROP_WORDS: u64 = 1 << 14;
/// Words that a flow of `drop` gets at the least.
const MIN_DROP_WORDS: u64 = 4;
/// A flow of `drop` with what is doubted of it, and a place in their table, bytes.
const DROP_FLOW_BYTES: u64 = 64 + 144;
const PLACE_BYTES: u64 = 24;
/// Most memory for rows and histograms, bytes: those of 128 queues at the default interval and settle time take half.
const SERIES_BYTES: u64 = 1 << 30;
/// Most slips that are kept, of 16 bytes.
const MAX_SLIPS: u64 = 1 << 21;
/// Packets that the clock's reading is good for at the most; the sender's bulk is as large.
const CLOCK_EVERY: u32 = 16;
/// Rate that no path of this kind exceeds, packets/s: for what may be in flight if no rate is given.
const FASTEST_PPS: f64 = 3e7;

/// A constant of a program: its name, and how it lies in memory.
pub(crate) type Constant = (&'static str, Vec<u8>);

/// Sizes that depend on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) rows: u32,
    pub(crate) periods: u32,
    pub(crate) rows_per_period: u32,
}

impl Sizes {
    /// Returns the sizes for rows of this length that stay open for the settle time.
    pub(crate) fn of(series: Series) -> Self {
        let rows_per_period = MIN_PERIOD_NS.div_ceil(series.interval_ns).max(1);
        let open = |slack: u64, length: u64| (series.settle_ns + GRACE_NS + slack) / length + 2;
        let rows = open(ROW_SLACK_NS, series.interval_ns).next_power_of_two();
        let periods = open(PERIOD_SLACK_NS, rows_per_period * series.interval_ns).next_power_of_two();
        Self {
            rows: rows as u32,
            periods: periods as u32,
            rows_per_period: rows_per_period as u32,
        }
    }

    /// Refuses more rows and histograms than is fair: their memory is the kernel's, and is never swapped.
    pub(crate) fn check(&self, device: &str, kinds: u32, sources: u32, lanes: usize) -> Result<()> {
        let histograms = u64::from(kinds) * u64::from(sources) * u64::from(self.periods) * OCTAVES as u64;
        let rows = (u64::from(sources) + lanes as u64) * u64::from(self.rows);
        let bytes = histograms * size_of::<Octave>() as u64 + rows * size_of::<Row>() as u64;
        if bytes <= SERIES_BYTES {
            return Ok(());
        }
        let cause = format!(
            "{} MiB for what {sources} receive queues or CPUs count until it is settled: want {} MiB at the most: a \
             shorter --settle, a longer --interval, or fewer queues (ethtool -L)",
            bytes >> 20,
            SERIES_BYTES >> 20
        );
        Err(Error::new("set up", device, cause, ErrorKind::Other))
    }

    /// Octaves of `kinds` histograms of all sources.
    pub(crate) fn octaves(&self, kinds: u32, sources: u32) -> u32 {
        kinds * sources * self.periods * OCTAVES as u32
    }
}

/// Properties of a device and its namespace that the programs know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) sources: u32,
    pub(crate) by_cpu: bool,
    pub(crate) open_checksums: bool,
    pub(crate) devices: [u32; 2],
    pub(crate) mac: [u8; 6],
    /// Listeners take only frames to it.
    pub(crate) own_mac: bool,
    /// Frames come in poll loops, and the kernel reports the end of each.
    pub(crate) polled: bool,
    pub(crate) veth: bool,
    /// The driver moves the start of frames that it is given.
    pub(crate) moved: bool,
}

/// The constants that every program has.
pub(crate) fn common(config: &Config, place: Place, series: Series) -> Plan {
    let sizes = Sizes::of(series);
    let mut flags = 0;
    for (on, bit) in [
        (place.by_cpu, flag::BY_CPU),
        (place.open_checksums, flag::OPEN_CHECKSUMS),
        (config.check == Check::All, flag::CHECK_DATA),
        (place.own_mac, flag::OWN_MAC),
        (place.veth, flag::VETH),
        (place.moved, flag::MOVED),
    ] {
        if on {
            flags |= bit;
        }
    }
    Plan {
        interval_ns: series.interval_ns,
        settle_ns: series.settle_ns,
        seed: 0,
        catch_up_ns: 0,
        key: 0,
        flags,
        sources: place.sources,
        rows: sizes.rows,
        periods: sizes.periods,
        rows_per_period: sizes.rows_per_period,
        clock_every: match config.clock {
            Clock::Poll if place.polled => CLOCK_EVERY,
            _ => 0,
        },
        reserved: 0,
        namespace: namespace(),
        device: place.devices,
        addresses4_count: 0,
        addresses6_count: 0,
        answer4_count: 0,
        answer6_count: 0,
        addresses4: [0; ADDRESSES],
        answer4: [0; ADDRESSES],
        addresses6: [[0; 4]; ADDRESSES],
        answer6: [[0; 4]; ADDRESSES],
        hop4: 0,
        hop6: [0; 4],
        mac: place.mac,
        unused: 0,
        l3: 0,
        l4: 0,
        payload_len: 0,
        frame_len: 0,
        sum: 0,
        open_sum: 0,
        src_first: 0,
        src_count: 1,
        dst_first: 0,
        flows: 1,
        lanes: 0,
        window_words: 1,
        slips: 1,
        src: [0; 4],
        dst: [0; 4],
        back: [0; 5],
        lane_cpu: [0; LANES],
        max_flows: 1,
        table: 1,
        own: Within::default(),
        peer: Within::default(),
        axis: [Axis { count: 1, every: 1 }; 4],
        longest: 0,
        room: 0,
    }
}

/// A range as the programs have it.
fn within(range: &AddressRange) -> Within {
    let (first, v6) = match *range.start() {
        IpAddr::V4(ip) => (ip.to_bits().into(), 0),
        IpAddr::V6(ip) => (ip.to_bits(), 1),
    };
    Within {
        high: (first >> 64) as u64,
        low: first as u64,
        count: addresses::count(range),
        v6,
    }
}

/// Returns the number of the network namespace of this thread; 0 if it can't be read.
fn namespace() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino() as u32)
}

fn too_many(what: &str) -> Error {
    let cause = format!("the programs have room for {ADDRESSES} addresses of a family to {what}");
    Error::new("set up", "xdp", cause, ErrorKind::Unsupported)
}

/// Addresses as the programs have them: how many of IPv4, and which; the same of IPv6.
type Lists = (u32, [u32; ADDRESSES], u32, [[u32; 4]; ADDRESSES]);

fn lists(all: &[IpAddr], what: &str) -> Result<Lists> {
    let (mut n4, mut four, mut n6, mut six) = (0, [0; ADDRESSES], 0, [[0; 4]; ADDRESSES]);
    for address in all {
        let (count, at) = match address {
            IpAddr::V4(_) => (&mut n4, 0),
            IpAddr::V6(_) => (&mut n6, 1),
        };
        let place = *count as usize;
        if place == ADDRESSES {
            return Err(too_many(what));
        }
        if at == 0 {
            four[place] = words(*address)[0];
        } else {
            six[place] = words(*address);
        }
        *count += 1;
    }
    Ok((n4, four, n6, six))
}

/// An address as it lies in a packet; IPv4 in the first word.
pub(crate) fn words(address: IpAddr) -> [u32; 4] {
    match address {
        IpAddr::V4(ip) => [u32::from_ne_bytes(ip.octets()), 0, 0, 0],
        IpAddr::V6(ip) => {
            let bytes = ip.octets();
            std::array::from_fn(|i| {
                u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
            })
        }
    }
}

/// The addresses that the programs answer for.
pub(crate) fn answer(plan: &mut Plan, answer: &Answer) -> Result<()> {
    let single = &answer.addresses.single;
    (plan.answer4_count, plan.answer4, plan.answer6_count, plan.answer6) = lists(single, "answer for")?;
    if let Some(range) = &answer.addresses.range {
        plan.own = within(range);
        plan.flags |= flag::ANSWER_OWN;
    }
    match answer.next_hop {
        Some(hop @ IpAddr::V4(_)) => plan.hop4 = words(hop)[0],
        Some(hop @ IpAddr::V6(_)) => plan.hop6 = words(hop),
        None => {}
    }
    Ok(())
}

/// Which packets a listener takes; returns the bits of its ports, and of those that are the host's.
pub(crate) fn taken(plan: &mut Plan, taken: &Taken) -> Result<Vec<Constant>> {
    (
        plan.addresses4_count,
        plan.addresses4,
        plan.addresses6_count,
        plan.addresses6,
    ) = lists(&taken.addresses.single, "take packets for")?;
    if let Some(range) = &taken.addresses.range {
        plan.own = within(range);
    }
    answer(plan, &taken.answer)?;
    let (mut own, mut hosts) = ([0u64; 1024], [0u64; 1024]);
    for port in taken.ports.clone().unwrap_or(0..=u16::MAX) {
        own[usize::from(port) / 64] |= 1 << (port % 64);
    }
    for &port in &taken.excluded_ports {
        own[usize::from(port) / 64] &= !(1 << (port % 64));
        hosts[usize::from(port) / 64] |= 1 << (port % 64);
    }
    let bytes = |bits: &[u64]| bits.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(vec![("PORTS", bytes(&own)), ("HOST_PORTS", bytes(&hosts))])
}

/// Senders that get no answer, and the secret of the probes.
pub(crate) fn unanswered(spec: &Unanswered) -> Constant {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0).max(1);
    let mut loops = Loops {
        secret: [random(), random()],
        loopback: spec.loopback.into(),
        ..Loops::default()
    };
    for own in &spec.own {
        match own {
            IpAddr::V4(_) => put(&mut loops.own4, &mut loops.own4_count, words(*own)[0]),
            IpAddr::V6(_) => put(&mut loops.own6, &mut loops.own6_count, words(*own)),
        }
    }
    for ip in &spec.broadcasts {
        put(
            &mut loops.broadcasts,
            &mut loops.broadcasts_count,
            words(IpAddr::V4(*ip))[0],
        );
    }
    ("LOOPS", bytes_of(&loops))
}

/// Appends to a list if there is room.
fn put<T>(list: &mut [T], count: &mut u32, value: T) {
    if let Some(place) = list.get_mut(*count as usize) {
        *place = value;
        *count += 1;
    }
}

/// The constants of `send` and `sendrecv`.
pub(crate) fn traffic(plan: &mut Plan, spec: &TrafficSpec) -> Result<()> {
    let flows = u64::from(spec.flows.count());
    let settle = (spec.series.settle_ns + 100_000_000) as f64 / 1e9;
    let in_flight = (spec.rate_pps.unwrap_or(FASTEST_PPS) * settle) as u64 + 256;
    let affordable = |most: u64| {
        let most = (most / flows).max(1);
        1 << (63 - most.leading_zeros())
    };
    let window = (in_flight / flows / 64 + 4).next_power_of_two();
    plan.window_words = window.min(affordable(WINDOW_BYTES / WORD_BYTES)).max(4) as u32;
    if spec.rate_pps.is_some() {
        plan.flags |= flag::PACED;
        if spec.receive {
            plan.slips = (in_flight / flows + 8)
                .next_power_of_two()
                .min(affordable(MAX_SLIPS))
                .max(8) as u32;
        }
    }
    if spec.counted && spec.rate_pps.is_none() {
        plan.flags |= flag::LIMITED;
    }
    if spec.random {
        plan.flags |= flag::RANDOM;
    }
    if spec.receive {
        plan.flags |= flag::RECEIVE;
        several_sources(plan);
    }
    if spec.src.is_ipv6() {
        plan.flags |= flag::IPV6;
    }
    let ip = if spec.src.is_ipv6() { 40 } else { 20 };
    plan.l4 = spec.headers.len() as u32;
    plan.l3 = plan.l4 - ip as u32;
    plan.payload_len = spec.payload_len as u32;
    plan.frame_len = (plan.l4 + 8 + plan.payload_len).max(60);
    plan.sum = u32::from(spec.sum);
    // Without the length in the UDP header, which is the second of the two in the sum.
    let length = u32::from(((8 + spec.payload_len) as u16).swap_bytes());
    let rest = plan.sum + u32::from(!(length as u16));
    plan.open_sum = (rest & 0xffff) + (rest >> 16);
    plan.seed = spec.seed;
    plan.catch_up_ns = spec.catch_up_ns;
    let (src_ports, dst_ports) = (spec.flows.src_ports(), spec.flows.dst_ports());
    plan.src_first = u32::from(*src_ports.start());
    plan.src_count = src_ports.len() as u32;
    plan.dst_first = u32::from(*dst_ports.start());
    plan.flows = spec.flows.count();
    plan.lanes = spec.cores.len() as u32;
    plan.flags |= match spec.arrival {
        Arrival::Back => 0,
        Arrival::Across => flag::ACROSS,
        Arrival::AcrossBack => flag::TURNED,
    };
    let [(from, _), (to, _)] = spec.arriving();
    plan.src = words(to);
    plan.dst = words(from);
    plan.axis = spec.flows.axes().map(|axis| Axis {
        count: axis.count,
        every: axis.every,
    });
    let mut back = [0; 40];
    back[..ip].copy_from_slice(&spec.headers[plan.l3 as usize..]);
    if spec.arrival == Arrival::Back {
        let (at, len) = if ip == 40 { (8, 16) } else { (12, 4) };
        let (source, destination) = back[at..].split_at_mut(len);
        source.swap_with_slice(&mut destination[..len]);
    }
    for (word, bytes) in plan.back.iter_mut().zip(back.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    if spec.cores.len() > LANES {
        let cause = format!("{} lanes: want {LANES} at the most", spec.cores.len());
        return Err(Error::new("set up", "xdp", cause, ErrorKind::Unsupported));
    }
    // The program knows the lane of a flow by their product, in 32 bits (`lane_of` in `xdp/receive.h`).
    if flows * spec.cores.len() as u64 > u64::from(u32::MAX) {
        let (lanes, most) = (spec.cores.len(), u64::from(u32::MAX) / spec.cores.len() as u64);
        let cause = format!("{flows} flows on {lanes} lanes: want {most} flows at the most, or fewer lanes");
        return Err(Error::new("set up", "xdp", cause, ErrorKind::Unsupported));
    }
    for (place, core) in plan.lane_cpu.iter_mut().zip(&spec.cores) {
        *place = *core as u32;
    }
    answer(plan, &spec.answer)?;
    if !spec.flows.is_plain() {
        varying(plan, spec);
    }
    Ok(())
}

/// Adds the constants for flows that differ in their addresses, too.
fn varying(plan: &mut Plan, spec: &TrafficSpec) {
    let [(from, of_from), (to, of_to)] = spec.arriving();
    plan.own = within(&addresses::from(to, of_to));
    plan.peer = within(&addresses::from(from, of_from));
    plan.longest = spec.flows.longest() as u32;
    plan.flags |= flag::ADDRESSES_VARY;
    if spec.flows.step() == Step::Together {
        plan.flags |= flag::TOGETHER;
    }
    // Both sums are now those of all but the addresses.
    let length = u64::from(((8 + spec.payload_len) as u16).swap_bytes());
    let pseudo = u64::from(u16::from(UDP).swap_bytes()) + length;
    plan.sum = u32::from(folded(pseudo + length));
    plan.open_sum = u32::from(folded(pseudo));
}

/// Protocol number of UDP.
const UDP: u8 = 17;

/// The sum of words of 16 bits in 16 bits, carries gone round (RFC 1071).
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The sums of a flow between these addresses: of all that its UDP checksum covers but ports and payload, and the
/// checksum of its IPv4 header; words as they lie in memory.
pub(crate) fn sums(plan: &Plan, header: &[u8], src: IpAddr, dst: IpAddr) -> (u16, u16) {
    let halves = |ip: IpAddr| {
        words(ip)
            .into_iter()
            .map(|word| u64::from(word & 0xffff) + u64::from(word >> 16))
    };
    let ends: u64 = halves(src).chain(halves(dst)).sum();
    // The first ten bytes of an IPv4 header: behind them are checksum and addresses.
    let fixed = header.as_chunks::<2>().0.iter().take(5);
    let fixed: u64 = fixed.map(|bytes| u64::from(u16::from_ne_bytes(*bytes))).sum();
    (folded(u64::from(plan.sum) + ends), !folded(fixed + ends))
}

/// Flags programs with windows that have several sources. With one, the code that several need is not loaded.
fn several_sources(plan: &mut Plan) {
    if plan.sources > 1 {
        plan.flags |= flag::SEVERAL;
    }
}

/// Sizes of what `drop` keeps for its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowSizes {
    pub(crate) flows: u64,
    /// Places of their table: half empty at the least, so that a search is short.
    pub(crate) table: u64,
    /// Words of a window.
    pub(crate) words: u64,
}

impl FlowSizes {
    pub(crate) fn of(max_flows: u32) -> Self {
        let flows = u64::from(max_flows.max(1));
        let share = (DROP_WINDOW_BYTES / WORD_BYTES / flows).max(1);
        Self {
            flows,
            table: (flows * 2).next_power_of_two(),
            words: (1 << (63 - share.leading_zeros())).clamp(MIN_DROP_WORDS, MAX_DROP_WORDS),
        }
    }

    /// The kernel's memory that they take: all of it from the first packet on.
    pub(crate) fn bytes(&self) -> u64 {
        self.table * PLACE_BYTES + self.flows * (DROP_FLOW_BYTES + self.words * WORD_BYTES)
    }

    /// Refuses what there is no memory for. `available`: bytes, if that is known.
    pub(crate) fn check(&self, device: &str, available: Option<u64>) -> Result<()> {
        let most = u64::from(u32::MAX);
        let fits = self.table <= most && self.flows * self.words <= most;
        if fits && available.is_none_or(|available| self.bytes() <= available) {
            return Ok(());
        }
        let have = available.map_or_else(String::new, |bytes| format!(" of {} MiB that are free", bytes >> 20));
        let cause = format!(
            "--max-flows {}: it takes {} MiB of the kernel's memory{have}: want fewer flows, of some 320 bytes each",
            self.flows,
            self.bytes() >> 20
        );
        Err(Error::new("set up", device, cause, ErrorKind::Other))
    }
}

/// Memory that the kernel could give, bytes.
pub(crate) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kb| kb << 10)
}

/// The constants of `drop`.
pub(crate) fn dropping(plan: &mut Plan, spec: &DropSpec, sizes: FlowSizes) {
    plan.max_flows = sizes.flows as u32;
    plan.table = sizes.table as u32;
    plan.window_words = sizes.words as u32;
    plan.seed = spec.seed;
    plan.key = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    if spec.verify {
        plan.flags |= flag::STAMPED;
        several_sources(plan);
    }
}

/// -ln(1 - i / 1024) in units of 2^-24: what random gaps are drawn from.
pub(crate) fn exponential() -> Vec<u8> {
    (0..1024u32)
        .map(|i| (-(1.0 - f64::from(i) / 1024.0).ln() * f64::from(1 << 24)).round() as u32)
        .flat_map(u32::to_ne_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_what_stays_open() {
        for (interval_ns, settle_ns) in [
            (100_000, 1_000_000_000),
            (100_000_000, 0),
            (1_000_000_000, 5_000_000_000),
        ] {
            let sizes = Sizes::of(Series { interval_ns, settle_ns });
            assert!(u64::from(sizes.rows) * interval_ns >= settle_ns + GRACE_NS + ROW_SLACK_NS);
            let period = u64::from(sizes.rows_per_period) * interval_ns;
            assert!(period >= MIN_PERIOD_NS);
            assert!(u64::from(sizes.periods) * period >= settle_ns + GRACE_NS + PERIOD_SLACK_NS);
            assert!(sizes.rows.is_power_of_two() && sizes.periods.is_power_of_two());
        }
    }

    #[test]
    fn memory_for_many_queues_is_bounded() {
        let sizes = |settle_ns| {
            Sizes::of(Series {
                interval_ns: 100_000_000,
                settle_ns,
            })
        };
        assert!(sizes(1_000_000_000).check("eth1", 2, 128, 64).is_ok());
        let error = sizes(60_000_000_000).check("eth1", 2, 128, 64).expect_err("gigabytes");
        assert!(
            error.cause.contains("--settle") && error.cause.contains("128"),
            "{}",
            error.cause
        );
    }

    #[test]
    fn flows_that_there_is_no_memory_for_are_refused_by_name() {
        let sizes = FlowSizes::of(1_000_000);
        assert_eq!((sizes.flows, sizes.table, sizes.words), (1_000_000, 1 << 21, 4));
        // Places, flows, words.
        assert_eq!(sizes.bytes(), (24 << 21) + 208_000_000 + 64_000_000);
        assert!(sizes.check("eth1", None).is_ok() && sizes.check("eth1", Some(sizes.bytes())).is_ok());
        let error = sizes.check("eth1", Some(100 << 20)).expect_err("too little");
        for part in ["--max-flows 1000000", "307 MiB", "100 MiB"] {
            assert!(error.cause.contains(part), "{}", error.cause);
        }
        assert!(FlowSizes::of(u32::MAX).check("eth1", None).is_err());
        assert_eq!(FlowSizes::of(0).flows, 1);
    }

    #[test]
    fn the_table_of_gaps_has_the_distributions_mean() {
        let bytes = exponential();
        let table: Vec<f64> = bytes
            .chunks_exact(4)
            .map(|b| f64::from(u32::from_ne_bytes([b[0], b[1], b[2], b[3]])) / f64::from(1 << 24))
            .collect();
        // Linear between entries. Beyond the last entry, its value plus another draw, so mean = sum / 1023 of the rest.
        let steps: f64 = table.windows(2).map(|w| (w[0] + w[1]) / 2.0).sum();
        let mean = (steps + table[1023]) / 1023.0;
        assert!((mean - 1.0).abs() < 1e-3, "{mean}");
    }
}
