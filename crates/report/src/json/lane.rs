//! Keys of a lane.

use super::keys::{Key, Kind, object};
use super::{counters, share};
use mpps_stats::{LaneSummary, RingFill};
use serde_json::{Value, json};

/// A lane, with the sums over all lanes that its shares are of.
pub struct OfAll {
    lane: LaneSummary,
    rx_packets: u64,
    tx_packets: u64,
}

impl OfAll {
    fn packets(&self) -> u64 {
        self.lane.rx_packets + self.lane.tx_packets
    }

    fn bursts(&self) -> u64 {
        self.lane.rx_bursts + self.lane.tx_bursts
    }

    fn polls(&self) -> u64 {
        self.lane.rx_bursts + self.lane.rx_empty_polls
    }
}

/// Returns the objects of all lanes.
pub(super) fn lanes(all: &[LaneSummary]) -> Value {
    let rx_packets = all.iter().map(|lane| lane.rx_packets).sum();
    let tx_packets = all.iter().map(|lane| lane.tx_packets).sum();
    let of = |lane: &LaneSummary| OfAll {
        lane: lane.clone(),
        rx_packets,
        tx_packets,
    };
    all.iter().map(|lane| object(&LANE, &of(lane))).collect()
}

/// Keys of a lane, in the order of the output.
pub const LANE: [Key<OfAll>; 37] = [
    Key::new("lane", Kind::Count, "number of the lane", |of| of.lane.lane.into()),
    Key::new("queue", Kind::Count, "number of its queue", |of| of.lane.queue.into()),
    Key::or_null("core", Kind::Count, "core, if it is pinned to one", |of| {
        of.lane.core.into()
    }),
    Key::new("rx", Kind::Flag, "it receives", |of| of.lane.rx_role.into()),
    Key::new("tx", Kind::Flag, "it sends", |of| of.lane.tx_role.into()),
    Key::new("packets", Kind::Count, "packets received and sent", |of| {
        of.packets().into()
    }),
    Key::new("bursts", Kind::Count, "`rx_bursts + tx_bursts`", |of| {
        of.bursts().into()
    }),
    Key::new("empty_polls", Kind::Count, "receive calls that gave nothing", |of| {
        of.lane.rx_empty_polls.into()
    }),
    Key::new("mean_burst", Kind::Number, "`packets ÷ bursts`", |of| {
        share(of.packets(), of.bursts()).into()
    }),
    Key::new(
        "share",
        Kind::Number,
        "its part of the packets of all lanes, 0 to 1",
        |of| share(of.packets(), of.rx_packets + of.tx_packets).into(),
    ),
    Key::new(
        "rx_packets",
        Kind::Count,
        "frames received, *the test's or not*",
        |of| of.lane.rx_packets.into(),
    ),
    Key::new("rx_bursts", Kind::Count, "receive calls that gave any", |of| {
        of.lane.rx_bursts.into()
    }),
    Key::new(
        "rx_burst_sizes",
        Kind::List,
        "these calls by how many frames they gave: pairs of size and calls, from the smallest on; 256 stands for \
         larger ones, too. Empty on `xdp`",
        |of| json!(of.lane.rx_burst_sizes),
    ),
    Key::new(
        "rx_mean_burst",
        Kind::Number,
        "`rx_packets ÷ rx_bursts`: *received by a call* in the summary",
        |of| share(of.lane.rx_packets, of.lane.rx_bursts).into(),
    ),
    Key::new(
        "rx_mean_burst_all_polls",
        Kind::Number,
        "packets a receive call, those that gave nothing included",
        |of| share(of.lane.rx_packets, of.polls()).into(),
    ),
    Key::new(
        "empty_poll_share",
        Kind::Number,
        "`empty_polls` ÷ all receive calls",
        |of| share(of.lane.rx_empty_polls, of.polls()).into(),
    ),
    Key::new(
        "rx_share",
        Kind::Number,
        "its part of the frames that all lanes received",
        |of| share(of.lane.rx_packets, of.rx_packets).into(),
    ),
    Key::new("tx_packets", Kind::Count, "test packets sent", |of| {
        of.lane.tx_packets.into()
    }),
    Key::new("tx_bursts", Kind::Count, "transmit calls that took any", |of| {
        of.lane.tx_bursts.into()
    }),
    Key::new("tx_mean_burst", Kind::Number, "`tx_packets ÷ tx_bursts`", |of| {
        share(of.lane.tx_packets, of.lane.tx_bursts).into()
    }),
    Key::new(
        "tx_share",
        Kind::Number,
        "its part of the packets that all lanes sent",
        |of| share(of.lane.tx_packets, of.tx_packets).into(),
    ),
    Key::new(
        "tx_full",
        Kind::Count,
        "transmit calls that took nothing, and times that no buffer was free",
        |of| of.lane.tx_full.into(),
    ),
    Key::new(
        "reasons",
        Kind::Object,
        "its packets by [reason](counts.md#reasons); added up over the lanes they are the run's",
        |of| counters(&of.lane.reasons).into(),
    ),
    Key::new("waits", Kind::Count, "times that it went to sleep", |of| {
        of.lane.waits.into()
    }),
    Key::or_null(
        "busy_ratio",
        Kind::Number,
        "share of the lane's time spent in loops that moved something, 0 to 1: how loaded a lane is that polls",
        |of| of.lane.busy_ratio.into(),
    ),
    Key::or_null(
        "busy_ns",
        Kind::Count,
        "that time; `null` on `xdp`, and for one of two ways",
        |of| of.lane.busy_ns.into(),
    ),
    Key::new(
        "at_full_load",
        Kind::Object,
        "[headroom](#headroom-of-a-lane) (*100 % busy would be*, with `--verbose`): `rx_pps`, `tx_pps`, `assumes`, \
         `not_known`",
        |of| at_full_load(&of.lane),
    ),
    Key::or_null(
        "blocked_ns",
        Kind::Count,
        "time in which it had packets to send and the path took none; `null` on `xdp`",
        |of| of.lane.blocked_ns.into(),
    ),
    Key::new(
        "link_down_ns",
        Kind::Count,
        "time in which it could do nothing because the device was down",
        |of| of.lane.link_down_ns.into(),
    ),
    Key::new(
        "measured_ns",
        Kind::Count,
        "time over which `run_delay_ns` was measured, the settle time included",
        |of| of.lane.measured_ns.into(),
    ),
    Key::new(
        "rx_dropped",
        Kind::Count,
        "packets that this host dropped before `mpps` could take them: *kernel drops*",
        |of| of.lane.rx_dropped.into(),
    ),
    Key::new(
        "rx_rings",
        Kind::List,
        "[how full its receive rings were](#fill-of-receive-rings)",
        |of| of.lane.rx_rings.iter().map(ring).collect::<Value>(),
    ),
    Key::new(
        "tx_failed",
        Kind::Count,
        "packets of this run that the path took and the kernel or device then *refused*. What an interface's \
         statistics say of drops is not in it: they have the host's own packets, too",
        |of| of.lane.tx_failed.into(),
    ),
    Key::or_null(
        "away",
        Kind::Object,
        "times that the lane was not back at its clock though it should have been, each of more than 1 ms: \
         `count`, `total_ns`, `longest_ns`, `longest_at_s` (since the start). It looks in each loop, and wakes \
         from a sleep when it has chosen to. `null` on `xdp`, whose lanes are in the kernel",
        |of| away(&of.lane),
    ),
    Key::or_null(
        "run_delay_ns",
        Kind::Count,
        "time that the thread was ready to run and another had the core: *not running*",
        |of| of.lane.run_delay_ns.into(),
    ),
    Key::or_null("preempted", Kind::Count, "involuntary context switches", |of| {
        of.lane.preempted.into()
    }),
    Key::new(
        "path_counters",
        Kind::Object,
        "the path's own, under \"What is counted\" of its page: [udp](../paths/udp.md#what-is-counted), \
         [io_uring](../paths/io_uring.md#what-is-counted), [af_packet](../paths/af_packet.md#what-is-counted), \
         [af_xdp](../paths/af_xdp.md#what-is-counted), [xdp](../paths/xdp.md#what-is-counted); of `dpdk` DPDK's \
         own by their names, such as `dpdk_imissed`",
        |of| counters(&of.lane.path_counters).into(),
    ),
];

/// Returns the rates that a lane would have if it were busy all the time.
fn at_full_load(l: &LaneSummary) -> Value {
    let known = l.at_full_load();
    json!({
        "rx_pps": known.ok().map(|[rx, _]| Value::from(rx)),
        "tx_pps": known.ok().map(|[_, tx]| Value::from(tx)),
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
        "mean": ring.mean,
        "highest_ratio": ring.highest_ratio(),
        "mean_ratio": ring.mean_ratio(),
        "packet_takes": ring.of_packet,
        "lasts_ns": ring.lasts_ns,
    })
}

/// Returns the times that the lane was away from its clock.
fn away(l: &LaneSummary) -> Value {
    let away = l.away.map(|away| {
        json!({
            "count": away.count,
            "total_ns": away.total_ns,
            "longest_ns": away.longest_ns,
            "longest_at_s": away.longest_at_ns as f64 / 1e9,
        })
    });
    away.into()
}
