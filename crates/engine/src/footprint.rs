//! Memory that a plan takes, so that a run too large for its host is refused before anything is opened.
//!
//! Only memory that grows with the plan is counted: flows, rows, lanes. The code that allocates the memory also
//! computes its size.

use crate::books::Layout;
use crate::headers::numbered::Numbered;
use crate::plan::{KnownBy, PacketStream, Packets};
use crate::receive::window_bytes;
use crate::send::sent::SentLog;
use crate::send::slip::Slips;
use crate::workload::drop::flow_bytes;
use crate::workload::span;
use mpps_replay::Ahead;
use mpps_stats::{LaneSeries, Timing};
use mpps_wire::ImageSpec;
use mpps_wire::image::Data;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a lane beside flows and rows: stack, bursts, the heap of its thread.
const LANE: u64 = 4 << 20;
/// Bytes of an image of one size, its headers as they should arrive included.
const IMAGE: u64 = 4 << 10;
/// Bytes of a frame of a capture at a receiver: its content, and counts.
const CONTENT: u64 = 192;
/// Bytes of a flow at the lane that sends it: ports and the next number.
const SENT_FLOW: u64 = 12;

/// Lanes of a run: how many receive, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct LaneCount {
    /// Lanes that receive.
    pub receiving: usize,
    /// All lanes.
    pub all: usize,
    /// The path notes when packets arrive: beside latencies, there are times of arrival.
    pub timed: bool,
}

/// Returns bytes of the flows of `sendrecv` and `send`; `pps` is the rate, if there is one.
pub fn flows_of_traffic(flows: u64, pps: Option<f64>, settle: Duration, receive: bool, lanes: LaneCount) -> u64 {
    let sent = flows.saturating_mul(SENT_FLOW);
    let windows = match receive {
        true => window_bytes(flows, span(pps, settle)).saturating_mul(lanes.receiving as u64),
        false => 0,
    };
    let slips = match pps {
        Some(pps) if receive => Slips::bytes(flows, pps, settle.as_nanos() as u64),
        _ => 0,
    };
    // Each lane that does not receive sends, and each that receives may send, too.
    let log = match receive {
        true => SentLog::bytes(flows, pps, settle.as_nanos() as u64, lanes.all as u64),
        false => 0,
    };
    sent.saturating_add(windows).saturating_add(slips).saturating_add(log)
}

/// Returns bytes of the images, rows, histograms and send times of streams; `pps`: the rate of each, if it has one.
pub fn streams(
    packets: &Packets,
    pps: &[Option<f64>],
    (interval, settle): (Duration, Duration),
    receive: bool,
    lanes: LaneCount,
) -> u64 {
    let specs = packets.streams.iter().flat_map(|stream| &stream.specs);
    let image = |spec: &Arc<ImageSpec>| match spec.data {
        Data::Pattern(_) => IMAGE + spec.frame_len as u64,
        Data::Verified => IMAGE,
    };
    let contents = |stream: &PacketStream| stream.replay.as_ref().map_or(0, |of| of.frames.len() as u64 * CONTENT);
    let contents: u64 = if receive {
        packets.streams.iter().map(contents).sum()
    } else {
        0
    };
    let ahead = packets
        .streams
        .iter()
        .filter_map(|stream| stream.replay.as_ref()?.frames.read_ahead());
    let rings: u64 = ahead.map(Ahead::footprint).sum();
    let images = specs.map(image).sum::<u64>().saturating_mul(lanes.all as u64);
    let (keep_ns, all) = (settle.as_nanos() as u64, packets.streams.len() as u64);
    let times = |(stream, pps): (&PacketStream, &Option<f64>)| {
        let slips = pps.map_or(0, |pps| Slips::bytes(stream.flows().into(), pps, keep_ns));
        let log = |each: bool| SentLog::bytes_of_stream(*pps, keep_ns, (lanes.all as u64, all), each);
        slips.saturating_add(match stream.known_by {
            KnownBy::Tag => log(false),
            KnownBy::Number(_) => log(true).saturating_add(Numbered::bytes(stream.flows())),
            KnownBy::Headers => 0,
        })
    };
    let times: u64 = match receive {
        true => packets.streams.iter().zip(pps).map(times).sum(),
        false => 0,
    };
    let layout = Layout::of(packets);
    let books = layout.bytes(timing(interval, settle), (lanes.receiving, lanes.all), lanes.timed);
    images
        .saturating_add(contents)
        .saturating_add(rings)
        .saturating_add(times)
        .saturating_add(books)
}

/// Returns bytes of the rows and histograms of streams of `drop`.
pub fn streams_of_drop(packets: &Packets, interval: Duration, lanes: LaneCount) -> u64 {
    let layout = Layout::of_streams(packets);
    layout.bytes(
        timing(interval, Duration::ZERO),
        (lanes.receiving, lanes.all),
        lanes.timed,
    )
}

/// Returns bytes of the flows of `drop`.
pub fn flows_of_drop(max_flows: u32, lanes: LaneCount) -> u64 {
    flow_bytes(max_flows).saturating_mul(lanes.receiving as u64)
}

/// Returns bytes of rows and histograms.
pub fn rows(interval: Duration, settle: Duration, lanes: LaneCount) -> u64 {
    let timing = timing(interval, settle);
    let of = |receives, n: usize| LaneSeries::bytes(timing, receives, lanes.timed).saturating_mul(n as u64);
    of(true, lanes.receiving).saturating_add(of(false, lanes.all.saturating_sub(lanes.receiving)))
}

fn timing(interval: Duration, settle: Duration) -> Timing {
    Timing {
        start_ns: 0,
        interval_ns: (interval.as_nanos() as u64).max(1),
        settle_ns: settle.as_nanos() as u64,
    }
}

/// Returns bytes of the lanes themselves.
pub fn lanes(lanes: LaneCount) -> u64 {
    lanes.all as u64 * LANE
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: LaneCount = LaneCount {
        receiving: 1,
        all: 1,
        timed: false,
    };

    #[test]
    fn memory_grows_with_what_is_asked_for_and_never_overflows() {
        let settle = Duration::from_secs(1);
        let flows = |n| flows_of_traffic(n, Some(1e6), settle, true, ONE);
        assert!(flows(1 << 20) < 300 << 20, "{}", flows(1 << 20));
        // What was measured: 262 million flows in 17 GB without --rate, 2^32 would take 275 GB.
        let unpaced = flows_of_traffic(262_000_000, None, settle, true, ONE);
        assert!((10 << 30..20u64 << 30).contains(&unpaced), "{unpaced}");
        assert!(flows(1 << 32) > 200 << 30 && flows(u64::MAX) == u64::MAX);
        assert!(flows_of_drop(4_000_000, ONE) > flows_of_drop(4096, ONE));
        assert!(rows(Duration::from_micros(100), Duration::from_secs(60), ONE) > 200 << 20);
        assert!(rows(Duration::from_millis(100), settle, ONE) < 64 << 20);
        assert!(
            lanes(LaneCount {
                receiving: 0,
                all: 128,
                ..ONE
            }) < 1 << 30
        );
    }
}
