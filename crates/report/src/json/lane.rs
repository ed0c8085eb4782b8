//! A lane in the JSON summary.

use super::{counters, number, share};
use mpps_stats::{LaneSummary, RingFill};
use serde_json::{Value, json};

/// Returns a lane, with its shares of all lanes.
pub(super) fn lane(l: &LaneSummary, all: &[LaneSummary]) -> Value {
    let total_rx: u64 = all.iter().map(|l| l.rx_packets).sum();
    let total_tx: u64 = all.iter().map(|l| l.tx_packets).sum();
    let (packets, bursts) = (l.rx_packets + l.tx_packets, l.rx_bursts + l.tx_bursts);
    json!({
        "lane": l.lane,
        "queue": l.queue,
        "core": l.core,
        "rx": l.rx_role,
        "tx": l.tx_role,
        "packets": packets,
        "bursts": bursts,
        "empty_polls": l.rx_empty_polls,
        "mean_burst": share(packets, bursts),
        "share": share(packets, total_rx + total_tx),
        "rx_packets": l.rx_packets,
        "rx_bursts": l.rx_bursts,
        "rx_burst_sizes": l.rx_burst_sizes,
        "rx_mean_burst": share(l.rx_packets, l.rx_bursts),
        "rx_mean_burst_all_polls": share(l.rx_packets, l.rx_bursts + l.rx_empty_polls),
        "empty_poll_share": share(l.rx_empty_polls, l.rx_bursts + l.rx_empty_polls),
        "rx_share": share(l.rx_packets, total_rx),
        "tx_packets": l.tx_packets,
        "tx_bursts": l.tx_bursts,
        "tx_mean_burst": share(l.tx_packets, l.tx_bursts),
        "tx_share": share(l.tx_packets, total_tx),
        "tx_full": l.tx_full,
        "reasons": counters(&l.reasons),
        "waits": l.waits,
        "busy_ratio": l.busy_ratio.map(number),
        "busy_ns": l.busy_ns,
        "at_full_load": at_full_load(l),
        "blocked_ns": l.blocked_ns,
        "link_down_ns": l.link_down_ns,
        "measured_ns": l.measured_ns,
        "rx_dropped": l.rx_dropped,
        "rx_rings": l.rx_rings.iter().map(ring).collect::<Vec<_>>(),
        "tx_failed": l.tx_failed,
        "away": l.away.map(|away| json!({
            "count": away.count,
            "total_ns": away.total_ns,
            "longest_ns": away.longest_ns,
            "longest_at_s": number(away.longest_at_ns as f64 / 1e9),
        })),
        "run_delay_ns": l.run_delay_ns,
        "preempted": l.preempted,
        "path_counters": counters(&l.path_counters),
    })
}

/// Returns the rates that a lane would have if it were busy all the time.
fn at_full_load(l: &LaneSummary) -> Value {
    let known = l.at_full_load();
    json!({
        "rx_pps": known.ok().map(|[rx, _]| number(rx)),
        "tx_pps": known.ok().map(|[_, tx]| number(tx)),
        "assumes": known.ok().map(|_| ASSUMED),
        "not_known": known.err(),
    })
}

/// Assumption behind rates at full load.
pub(crate) const ASSUMED: &str =
    "a packet takes as much of the lane's time as in this run, at its burst sizes, and nothing but the lane limits";

/// Returns the fill level of a receive ring.
fn ring(ring: &RingFill) -> Value {
    json!({
        "port": ring.port,
        "size": ring.size,
        "unit": ring.unit.as_str(),
        "rings": ring.rings,
        "looks": ring.looks,
        "highest": ring.highest,
        "mean": number(ring.mean),
        "highest_ratio": number(ring.highest_ratio()),
        "mean_ratio": number(ring.mean_ratio()),
        "packet_takes": ring.of_packet.map(number),
        "lasts_ns": ring.lasts_ns,
    })
}
