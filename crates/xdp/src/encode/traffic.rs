//! Constants of programs that send.

use super::sizes::{WINDOW_BYTES, WORD_BYTES};
use super::{answer, several_sources, tagged, within, words};
use crate::abi::{Axis, Image, LANES, MOST_SIZES, MOST_STREAMS, Plan, Sized, Stream, flag};
use crate::spec::{Arrival, TrafficSpec};
use mpps_io::{Error, ErrorKind, Result, Step, addresses};
use mpps_wire::TAG_LEN;
use mpps_wire::image::Sizes as Order;
use std::net::IpAddr;

/// Most slips that are kept, of 16 bytes.
const MAX_SLIPS: u64 = 1 << 21;
/// Rate that no path of this kind exceeds, packets/s: for what may be in flight if no rate is given.
const FASTEST_PPS: f64 = 3e7;

/// Adds the constants of `send` and `sendrecv`.
pub(crate) fn traffic(plan: &mut Plan, spec: &TrafficSpec) -> Result<()> {
    windows(plan, spec);
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
    plan.flags |= match spec.arrival {
        Arrival::Back => 0,
        Arrival::Across => flag::ACROSS,
        Arrival::AcrossBack => flag::TURNED,
    };
    plan.seed = spec.seed;
    plan.catch_up_ns = spec.catch_up_ns;
    lanes(plan, spec)?;
    answer(plan, &spec.answer)?;
    if let Some(first) = spec.streams.first() {
        tagged(plan, first.packets.first().map_or(spec.seed, |packet| packet.seed));
        plan.streams = spec.streams.len() as u32;
        plan.senders *= plan.streams;
        let classes = spec.streams.iter().flat_map(|stream| &stream.classes);
        plan.places = 1 + plan.streams + classes.max().map_or(0, |class| 1 + *class as u32);
        if spec.streams.iter().any(|stream| stream.packets.len() > 1) {
            plan.flags |= flag::SIZES;
        }
        let lens = spec
            .streams
            .iter()
            .flat_map(|stream| &stream.packets)
            .map(|packet| packet.frame_len);
        plan.frame_len = lens.max().unwrap_or(0) as u32;
        plan.flows = spec.flows.count();
        if spec.rate_pps.is_none() && spec.streams.iter().any(|stream| stream.joins) {
            plan.flags |= flag::JOINS;
        }
        return Ok(());
    }
    if let Some(packet) = &spec.packet {
        tagged(plan, packet.seed);
        plan.frame_len = packet.frame_len as u32;
        plan.flows = spec.flows.count();
        return Ok(());
    }
    frame(plan, spec);
    header_back(plan, spec);
    flows(plan, spec);
    if !spec.flows.is_plain() {
        varying(plan, spec);
    }
    Ok(())
}

/// Adds the sizes of a flow's window of sequence numbers and, if packets have a schedule, of its list of slips.
fn windows(plan: &mut Plan, spec: &TrafficSpec) {
    let flows = u64::from(spec.flows.count());
    // Of streams the one with the most packets in flight for each flow counts.
    let streams = spec.streams.iter();
    let most = streams
        .map(|of| (of.rate_pps, u64::from(of.flows())))
        .max_by(|(a, of_a), (b, of_b)| {
            let each = |pps: Option<f64>, flows: u64| pps.unwrap_or(FASTEST_PPS) / flows as f64;
            each(*a, *of_a).total_cmp(&each(*b, *of_b))
        });
    let (rate_pps, sharing) = most.unwrap_or((spec.rate_pps, flows));
    let settle = (spec.series.settle_ns + 100_000_000) as f64 / 1e9;
    let in_flight = (rate_pps.unwrap_or(FASTEST_PPS) * settle) as u64 + 256;
    let affordable = |most: u64| {
        let most = (most / flows).max(1);
        1 << (63 - most.leading_zeros())
    };
    let window = (in_flight / sharing / 64 + 4).next_power_of_two();
    plan.window_words = window.min(affordable(WINDOW_BYTES / WORD_BYTES)).max(4) as u32;
    if spec.rate_pps.is_some() {
        plan.flags |= flag::PACED;
        if spec.receive {
            plan.slips = (in_flight / sharing + 8)
                .next_power_of_two()
                .min(affordable(MAX_SLIPS))
                .max(8) as u32;
        }
    }
}

/// Adds the places and lengths in a frame, and its sums.
fn frame(plan: &mut Plan, spec: &TrafficSpec) {
    if spec.src.is_ipv6() {
        plan.flags |= flag::IPV6;
    }
    plan.l4 = spec.headers.len() as u32;
    plan.l3 = plan.l4 - ip_header_len(spec) as u32;
    plan.payload_len = spec.payload_len as u32;
    plan.frame_len = (plan.l4 + 8 + plan.payload_len).max(60);
    plan.sum = u32::from(spec.sum);
    // Without the length in the UDP header, which is the second of the two in the sum.
    let length = u32::from(((8 + spec.payload_len) as u16).swap_bytes());
    let rest = plan.sum + u32::from(!(length as u16));
    plan.open_sum = (rest & 0xffff) + (rest >> 16);
}

/// Returns the length of the IP header, bytes.
fn ip_header_len(spec: &TrafficSpec) -> usize {
    if spec.src.is_ipv6() { 40 } else { 20 }
}

/// Adds the IP header of packets that come back.
fn header_back(plan: &mut Plan, spec: &TrafficSpec) {
    let ip = ip_header_len(spec);
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
}

/// Adds the flows: their number, ports, addresses, and the axes along which they differ.
fn flows(plan: &mut Plan, spec: &TrafficSpec) {
    let (src_ports, dst_ports) = (spec.flows.src_ports(), spec.flows.dst_ports());
    plan.src_first = u32::from(*src_ports.start());
    plan.src_count = src_ports.len() as u32;
    plan.dst_first = u32::from(*dst_ports.start());
    plan.flows = spec.flows.count();
    let [(from, _), (to, _)] = spec.arriving();
    plan.src = words(to);
    plan.dst = words(from);
    plan.axis = spec.flows.axes().map(|axis| Axis {
        count: axis.count,
        every: axis.every,
    });
}

/// Adds the lanes, and refuses more than the programs can tell apart.
fn lanes(plan: &mut Plan, spec: &TrafficSpec) -> Result<()> {
    plan.lanes = spec.cores.len() as u32;
    plan.senders = plan.lanes;
    if spec.cores.len() > LANES {
        let cause = format!("{} lanes: want {LANES} at the most", spec.cores.len());
        return Err(Error::new("set up", "xdp", cause, ErrorKind::Unsupported));
    }
    let flows = u64::from(spec.flows.count());
    // The program knows the lane of a flow by their product, in 32 bits (`lane_of` in `xdp/receive.h`).
    if flows * spec.cores.len() as u64 > u64::from(u32::MAX) {
        let (lanes, most) = (spec.cores.len(), u64::from(u32::MAX) / spec.cores.len() as u64);
        let cause = format!("{flows} flows on {lanes} lanes: want {most} flows at the most, or fewer lanes");
        return Err(Error::new("set up", "xdp", cause, ErrorKind::Unsupported));
    }
    for (place, core) in plan.lane_cpu.iter_mut().zip(&spec.cores) {
        *place = *core as u32;
    }
    Ok(())
}

/// Streams, as the programs have them.
pub(crate) struct Streams {
    pub(crate) streams: [Stream; MOST_STREAMS],
    pub(crate) images: [Image; MOST_STREAMS],
    /// By stream, then by size.
    pub(crate) sized: [Sized; MOST_STREAMS * MOST_SIZES],
    /// Words of tables, one after the other.
    pub(crate) tables: Vec<u64>,
    /// Sizes in turn, cycle after cycle.
    pub(crate) turns: Vec<u64>,
}

/// Returns the streams; `None`: one has more headers, fields or sizes than the programs have room for.
pub(crate) fn streams(spec: &TrafficSpec) -> Option<Streams> {
    let mut all = Streams {
        streams: [Stream::default(); MOST_STREAMS],
        images: [Image::default(); MOST_STREAMS],
        sized: [Sized::default(); MOST_STREAMS * MOST_SIZES],
        tables: Vec::new(),
        turns: Vec::new(),
    };
    if spec.streams.len() > MOST_STREAMS {
        return None;
    }
    for (place, of) in spec.streams.iter().enumerate() {
        let stream = &mut all.streams[place];
        stream.first = of.first_flow();
        stream.end = of.first_flow() + of.flows();
        stream.seats = of.lanes.len() as u32;
        stream.sizes = of.packets.len() as u32;
        match &of.order {
            Order::One => {}
            Order::Turns { turns, .. } => {
                (stream.cycle, stream.turns) = (turns.len() as u32, all.turns.len() as u32);
                all.turns.extend(turns.iter().map(|turn| u64::from(*turn)));
            }
            Order::Random { seed, .. } => stream.seed = *seed,
        }
        for (cpu, lane) in stream.cpu.iter_mut().zip(&of.lanes) {
            *cpu = spec.cores.get(*lane).map_or(0, |core| *core as u32);
        }
        if of.packets.is_empty() || of.packets.len() > MOST_SIZES {
            return None;
        }
        for (size, packet) in of.packets.iter().enumerate() {
            let (mut image, tables) = super::image(packet)?;
            if packet.headers.len() + packet.data_len + TAG_LEN != packet.frame_len {
                return None;
            }
            let sized = &mut all.sized[place * MOST_SIZES + size];
            *sized = Sized {
                word: image.word,
                constant: image.writer.map(|writer| writer.constant),
                sum: image.sum.map(|sum| sum.constant),
                rest: image.sum.map(|sum| sum.rest),
                data: image.data,
                place: of
                    .classes
                    .get(size)
                    .map_or(0, |class| (1 + spec.streams.len() + class) as u32),
            };
            if size == 0 {
                // Values by flow are those of all sizes.
                let before = all.tables.len() as u32;
                image.writer.iter_mut().for_each(|writer| writer.table += before);
                all.images[place] = image;
                all.tables.extend(tables);
            }
        }
    }
    Some(all)
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
