"""What the sizes of the bursts that a sender sends and receives change."""

import functools
import os

from harness import data, dpdk, mpps
from harness.stat import percent
from sections.pairs import micro

TITLE = "Sizes of bursts sent and received: loss and departure gaps at one paced rate"

SIZES = (8, 16, 32, 64, 128, 256)
QUICK_SIZES = (8, 32, 256)
PACED = 500_000  # packets/s
GAP_HEADER = ("tx_burst", "rx_burst", "round", "offered_pps", "lost", "loss_ratio", "missed", "host_dropped",
              "gap_p50_ns", "gap_p99_ns", "gap_max_ns", "mean_tx_burst", "mean_rx_burst", "latency_p50_ns",
              "latency_p99_ns", "valid", "load_average")


def trip(ctx, sizes, turn):
    """A round trip over net_memif whose sender has these bursts, at one paced rate."""
    tx, rx = sizes
    label = f"bursts of {tx} sent, {rx} received"
    link = dpdk.Memif(ctx)
    wait = ["reflect", f"dpdk:{link.server}", "--ip", dpdk.TARGET, *dpdk.lane(ctx.core_b, busy=False)]
    with mpps.Listener(ctx, f"{label}, reflector", wait, None, ctx.core_b):
        s = mpps.send(ctx, label, ["sendrecv", f"dpdk:{link.client}", *dpdk.flow(), "--rate", f"{PACED}pps", "--lanes",
                                   1, "--cores", ctx.core_a, "--tx-burst", tx, "--rx-burst", rx], ctx.seconds, None,
                      ctx.core_a)
    gap, lane, latency = s["departure_gap_ns"], s["lanes"][0], s["latency_ns"]
    return {"tx_burst": tx, "rx_burst": rx, "round": turn + 1, "offered_pps": s["offered_pps"], "lost": s["lost"],
            "loss_ratio": s["loss_ratio"], "missed": s["missed"], "host_dropped": s["host_dropped"],
            "gap_p50_ns": gap["p50"], "gap_p99_ns": gap["p99"], "gap_max_ns": gap["max"],
            "mean_tx_burst": lane["tx_mean_burst"], "mean_rx_burst": lane["rx_mean_burst"],
            "latency_p50_ns": latency["p50"], "latency_p99_ns": latency["p99"], "valid": s["valid"],
            "load_average": round(os.getloadavg()[0], 2)}


BURSTS = (("loss_ratio", "lost", percent), ("gap_p50_ns", "gap p50", micro), ("gap_p99_ns", "gap p99", micro),
          ("gap_max_ns", "gap max", micro), ("mean_tx_burst", "mean burst sent", "{:.2f}".format),
          ("mean_rx_burst", "received", "{:.2f}".format), ("latency_p99_ns", "latency p99", micro))


def bursts(ctx, section):
    section.heading(f"`net_memif`, {PACED // 1000} kpps")
    sizes = QUICK_SIZES if ctx.quick else SIZES
    rows = []

    def kept(pair, turns):
        turns.append(0)
        row = trip(ctx, pair, len(turns) - 1)
        rows.append(row)
        data.table(ctx, "bursts", "bursts.csv", GAP_HEADER, rows)
        return row

    samples = ctx.compare({f"--tx-burst {tx} --rx-burst {rx}": functools.partial(kept, (tx, rx), [])
                           for tx in sizes for rx in sizes})
    cells = [[label, *(show(samples.median(label, key)) for key, _, show in BURSTS)] for label in samples.rounds
             if samples.values(label, "loss_ratio")]
    section.table(["sender", *(name for _, name, _ in BURSTS)], cells)
    for label, why in samples.failures.items():
        section.text(f"A run failed: {label}: {why}")
    section.text(f"`sendrecv` ↔ `reflect` over one `net_memif`, a core each; the reflector has its own burst of "
                 f"{dpdk.BURST}. Departures are evenly spaced, {1e9 / PACED:g} ns apart: a lane that keeps up sends "
                 "packets one by one, and only one that was away sends bursts, of `--tx-burst` at the most. Medians "
                 f"over {ctx.rounds} rounds; each run is in `bench/data/bursts/bursts.csv`.")


PARTS = (bursts,)
