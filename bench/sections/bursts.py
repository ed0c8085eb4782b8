"""What the sizes of the bursts that a sender sends and receives change, and those of its reflector."""

import functools
import os

from harness import between, data, dpdk, mpps
from harness.proc import BenchError
from harness.stat import percent, rate
from sections.pairs import GOAL, QUICK, micro

TITLE = "Sizes of bursts sent and received: departure gaps at one paced rate, loss near the highest"

SIZES = (8, 16, 32, 64, 128, 256)
QUICK_SIZES = (8, 32, 256)
PACED = 500_000  # packets/s
GAP_HEADER = ("tx_burst", "rx_burst", "round", "offered_pps", "lost", "loss_ratio", "missed", "host_dropped",
              "gap_p50_ns", "gap_p99_ns", "gap_max_ns", "mean_tx_burst", "mean_rx_burst", "latency_p50_ns",
              "latency_p99_ns", "valid", "load_average")


USUAL = dpdk.BURST  # of the other end, where one end's bursts vary
LOADS = (80, 90, 95, 100)  # % of the highest rate without loss
LOSS_HEADER = ("tx_burst", "reflector_burst", "load_percent", "round", "offered_pps", "lost", "late", "loss_ratio",
               "missed", "host_dropped", "valid", "load_average")
SEARCH = ((40, 180), (6, 45))  # s of the search's trials, and of all of it; of a quick one


def reflector(ctx, label, burst=USUAL):
    """A reflector that waits, and the link that it waits at."""
    link = dpdk.Memif(ctx)
    wait = ["reflect", f"dpdk:{link.server}", "--ip", dpdk.TARGET, "--lanes", 1, "--cores", ctx.core_b, "--burst",
            burst]
    return link, mpps.Listener(ctx, f"{label}, reflector", wait, None, ctx.core_b)


def trip(ctx, sizes, turn):
    """A round trip over net_memif whose sender has these bursts, at one paced rate."""
    tx, rx = sizes
    label = f"bursts of {tx} sent, {rx} received"
    link, waiting = reflector(ctx, label)
    with waiting:
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


def highest(ctx):
    """The highest rate without loss with the usual bursts, by a search."""
    label = "highest rate without loss"
    link, waiting = reflector(ctx, label)
    trials, whole = SEARCH[ctx.quick]
    with waiting:
        found = between.method(ctx, between.Memif(ctx), label, [
            "ndr", f"dpdk:{link.client}", *dpdk.flow(), "--lanes", 1, "--cores", ctx.core_a, "--burst", USUAL,
            "--pacing", f"burst={USUAL}", "--goal", QUICK if ctx.quick else GOAL, "--settle", "50ms", "--search-time",
            f"{trials}s"], whole)
    result = (found["results"] or [{}])[0]
    if not result.get("lower_pps"):
        raise BenchError(f"no highest rate without loss was found ({between.void(found)[1] or 'no trial held'})")
    return result["lower_pps"]


def lossy(ctx, sizes, load, pps, turn):
    """A round trip whose packets depart in bursts, at a share of the highest rate."""
    tx, reflected = sizes
    label = f"bursts of {tx}, reflector's of {reflected}, {load} %"
    link, waiting = reflector(ctx, label, reflected)
    with waiting:
        s = mpps.send(ctx, label, ["sendrecv", f"dpdk:{link.client}", *dpdk.flow(), "--rate", f"{int(pps)}pps",
                                   "--pacing", f"burst={tx}", "--lanes", 1, "--cores", ctx.core_a, "--tx-burst",
                                   tx, "--rx-burst", USUAL],
                      ctx.seconds, None, ctx.core_a)
    return {"tx_burst": tx, "reflector_burst": reflected, "load_percent": load, "round": turn + 1,
            "load_average": round(os.getloadavg()[0], 2),
            **{key: s[key] for key in ("offered_pps", "lost", "late", "loss_ratio", "missed", "host_dropped", "valid")}}


def loss(ctx, section):
    section.heading("`net_memif`, loss by size of bursts near the highest rate without loss")
    top = highest(ctx)
    sizes = QUICK_SIZES if ctx.quick else SIZES
    pairs = [(tx, USUAL) for tx in sizes] + [(USUAL, reflected) for reflected in sizes if reflected != USUAL]
    rows = []

    def kept(pair, load, turns):
        turns.append(0)
        rows.append(lossy(ctx, pair, load, top * load / 100, len(turns) - 1))
        data.table(ctx, "bursts", "loss.csv", LOSS_HEADER, rows)
        return rows[-1]

    label = "burst of {0[0]}, reflector's of {0[1]}, {1} %".format
    samples = ctx.compare({label(pair, load): functools.partial(kept, pair, load, []) for pair in pairs
                           for load in LOADS})
    cells = []
    for pair in pairs:
        row = [f"{pair[0]}, reflector's {pair[1]}"]
        for load in LOADS:
            valid = samples.values(label(pair, load), "valid")
            void = f" ({valid.count(False)} of {len(valid)})" if False in valid else ""
            row.append(percent(samples.median(label(pair, load), "loss_ratio")) + void)
        cells.append(row)
    section.table(["burst sent", *(f"lost at {load} %" for load in LOADS)], cells)
    for what, why in samples.failures.items():
        section.text(f"A run failed: {what}: {why}")
    section.text(f"100 % is {rate(top)}: the lower bound of `mpps ndr --goal {QUICK if ctx.quick else GOAL} --pacing "
                 f"burst={USUAL}`, the reflector's burst {USUAL}. Packets depart in bursts of the size that is named, "
                 f"back to back (`--pacing burst=N --tx-burst N`), so that larger ones are further apart. Medians over "
                 f"{ctx.rounds} rounds; in brackets how many of them were not valid, as this host had no time for the "
                 "lanes. Each run is in `bench/data/bursts/loss.csv`.")


PARTS = (bursts, loss)
