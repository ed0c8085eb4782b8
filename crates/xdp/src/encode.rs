//! Computes the programs' constants from the specification of a run, and the sizes of their maps ([`sizes`]).

mod image;
mod sizes;
mod traffic;

pub(crate) use image::image;
pub(crate) use sizes::{FlowSizes, Sizes, available_memory, writers};
pub(crate) use traffic::{Streams, exponential, streams, sums, traffic};

use crate::abi::{ADDRESSES, Axis, LANES, Loops, MOST_STREAMS, Plan, Stream, Within, bytes_of, flag};
use crate::config::{Check, Clock, Config};
use crate::spec::{Answer, DropSpec, Series, Taken, Unanswered};
use mpps_io::{AddressRange, Error, ErrorKind, Result, addresses};
use std::net::IpAddr;

/// Packets that the clock's reading is good for at the most; the sender's bulk is as large.
const CLOCK_EVERY: u32 = 16;

/// A constant of a program: its name, and how it lies in memory.
pub(crate) type Constant = (&'static str, Vec<u8>);

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
        streams: 0,
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
        scheduled: 0,
        senders: 0,
        places: 1,
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

/// Packets are known by tags of this seed.
pub(crate) fn tagged(plan: &mut Plan, seed: u64) {
    plan.seed = seed;
    plan.flags |= flag::TAGGED;
}

/// Appends to a list if there is room.
fn put<T>(list: &mut [T], count: &mut u32, value: T) {
    if let Some(place) = list.get_mut(*count as usize) {
        *place = value;
        *count += 1;
    }
}

/// Flags programs with windows that have several sources. With one, the code that several need is not loaded.
fn several_sources(plan: &mut Plan) {
    if plan.sources > 1 {
        plan.flags |= flag::SEVERAL;
    }
}

/// The flows of streams that others send, by the end of each.
pub(crate) fn ends(plan: &mut Plan, ends: &[u32]) -> Option<Constant> {
    let mut streams = [Stream::default(); MOST_STREAMS];
    let mut first = 0;
    for (stream, end) in streams.iter_mut().zip(ends) {
        (stream.first, stream.end) = (first, *end);
        first = *end;
    }
    plan.streams = ends.len().min(MOST_STREAMS) as u32;
    plan.places = plan.streams + 1;
    (plan.streams > 0).then(|| ("STREAMS", bytes_of(&streams)))
}

/// The constants of `drop`.
pub(crate) fn dropping(plan: &mut Plan, spec: &DropSpec, sizes: FlowSizes) {
    plan.max_flows = sizes.flows as u32;
    plan.table = sizes.table as u32;
    plan.window_words = sizes.words as u32;
    plan.seed = spec.seed;
    plan.key = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    if let Some(header_len) = spec.tagged {
        tagged(plan, spec.seed);
        plan.l4 = header_len as u32;
        if !spec.verify {
            plan.flags &= !flag::CHECK_DATA;
        }
    }
    if spec.followed() {
        plan.flags |= flag::STAMPED;
        several_sources(plan);
    }
}
