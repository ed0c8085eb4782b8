"""Long and steady: a row each millisecond, the sent rate's dips in them, and the same run without rows."""

import array
import bisect
import csv
import os

from harness import data, dpdk, mpps
from harness.proc import BenchError, Proc, run
from harness.report import say
from harness.stat import percent, rate
from sections.pairs import micro

TITLE = "Long and steady: rows of 1 ms, and none"
LONG = 1200.0  # s, with BENCH_LONG
ROW_NS = 1_000_000
# Packets/s. Both leave a lane time to spare, so that it can keep up with its schedule after it was away.
RATES = {"dpdk": 1_000_000, "af_packet": 100_000}
DIP = 0.9  # of the intended rate: a row below it is a dip, or a part of one
KEPT_DIPS = 2000  # of a path, the longest, in the raw data
DIP_HEADER = ("path", "start_s", "length_ms", "sent_packets", "lacking_packets", "missed_packets", "lost_packets")
COUNTS = ("time_s", "interval_s", "tx_packets", "lost_packets", "missed_packets")


class Rows:
    """What the rows of a CSV say about the sent rate `pps`; read once, as it has a million rows and more."""

    def __init__(self, path, pps):
        self.ratios, self.lost, self.dips = array.array("d"), array.array("d"), []
        self.start = self.end = 0.0
        open_dip = None
        with open(path, newline="") as file:
            lines = csv.reader(file)
            header = next(lines)
            places = [header.index(name) for name in COUNTS]
            for line in lines:
                at, length, sent, lost, missed = (float(line[place]) for place in places)
                # The first packet is sent some ms after the start; what is before it is no dip, nor is what comes
                # after the last row of whole length.
                if length * 1e9 < ROW_NS * 0.99 or (not self.ratios and not sent):
                    continue
                if not self.ratios:
                    self.start = at
                self.end = at + length
                expected = pps * length
                self.ratios.append(sent / expected)
                self.lost.append(lost / sent if sent else 0.0)
                if sent >= DIP * expected:
                    open_dip = None
                    continue
                if open_dip is None:
                    open_dip = dict.fromkeys(DIP_HEADER, 0) | {"start_s": at}
                    self.dips.append(open_dip)
                for key, value in (("length_ms", length * 1000), ("sent_packets", sent), ("missed_packets", missed),
                                   ("lacking_packets", expected - sent), ("lost_packets", lost)):
                    open_dip[key] = round(open_dip[key] + value, 3)
        if not self.ratios:
            raise BenchError(f"no packet in the rows of {path}")
        self.ordered = sorted(self.ratios)

    def share_below(self, ratio):
        return bisect.bisect_left(self.ordered, ratio) / len(self.ordered)

    def at(self, share):
        """The ratio below which this share of the rows is."""
        return self.ordered[min(int(share * len(self.ordered)), len(self.ordered) - 1)]

    def by_minute(self):
        """Dips in each whole minute (in all of it where it is shorter)."""
        minutes = max(int((self.end - self.start) / 60), 1)
        counts = [0] * minutes
        for dip in self.dips:
            minute = int((dip["start_s"] - self.start) / 60)
            if minute < minutes:
                counts[minute] += 1
        return counts


def senders(ctx, seconds):
    """The two runs, `path: argv without its files`: each all on a core of its own, collector and writers with it."""
    common = ["--lanes", 1, "--settle", "200ms", "--duration", mpps.seconds(seconds), "--quiet"]
    ring = [f"dpdk:{dpdk.RING}", *dpdk.PALINDROME]
    return {
        "dpdk": ctx.command([ctx.mpps, "sendrecv", *ring, "--cores", ctx.core_b, "--rate", f"{RATES['dpdk']}pps",
                             *common], None, ctx.core_b),
        "af_packet": ctx.command([ctx.mpps, "sendrecv", "af_packet:eth1", "--src", ctx.lab.A, "--dest",
                                  f"{ctx.lab.B}:9000", "--cores", ctx.core_a, "--rate", f"{RATES['af_packet']}pps",
                                  *common], "a", ctx.core_a),
    }


def both(ctx, seconds, fine):
    """Runs both paths at a time; {path: (summary, CSV or None)}."""
    running = {}
    for path, argv in senders(ctx, seconds).items():
        # The picture has the file's name.
        summary, table = ctx.file(".json"), os.path.join(ctx.tmp, f"{path}.csv") if fine else None
        argv = [*argv, "--json", summary, "--interval", "1ms" if fine else mpps.seconds(seconds)]
        argv += ["--csv", table] if fine else []
        ctx.section.command(f"{path}, {'rows of 1 ms' if fine else 'one row'}", argv)
        running[path] = Proc(argv), summary, table
    found = {}
    for path, (proc, summary, table) in running.items():
        status = proc.wait(seconds + 60)
        if status not in mpps.DONE:
            raise BenchError(f"{path} ended with {status}: {proc.last_line()}")
        found[path] = mpps.load(summary), table
    return found


def totals(path, how, s):
    """A line of the table of runs."""
    gap, latency, lane = s["departure_gap_ns"], s["latency_ns"], s["lanes"][0]
    away = lane.get("run_delay_ns")
    return [f"`{path}:`, {how}", rate(s["offered_pps"]), s["tx_packets"], s["missed"], s["lost"], micro(gap["p50"]),
            micro(gap["p999"]), f"{gap['max'] / 1e6:.2f} ms", micro(latency["p99"]),
            "–" if away is None else percent(away / 1e9 / s["duration_s"]),
            f"{s['housekeeping']['core_percent']:.2f} %" if s["housekeeping"] else "–", "yes" if s["valid"] else "no"]


def dips_of(path, rows, pps):
    """A line of the table of dips."""
    minutes = rows.by_minute()
    longest = max((dip["length_ms"] for dip in rows.dips), default=0)
    lacking = sum(dip["lacking_packets"] for dip in rows.dips)
    starts = [dip["start_s"] for dip in rows.dips]
    gaps = sorted(b - a for a, b in zip(starts, starts[1:]))
    spacing = f"{gaps[len(gaps) // 10]:.3g} / {gaps[len(gaps) // 2]:.3g} / {gaps[len(gaps) * 9 // 10]:.3g} s" \
        if gaps else "–"
    return [f"`{path}:`", len(rows.ratios), f"{rows.at(0.001):.3f} / {rows.at(0.5):.3f} / {rows.at(0.999):.3f}",
            percent(rows.share_below(0.5)), len(rows.dips), f"{min(minutes)} to {max(minutes)}", spacing,
            f"{longest:.0f} ms", percent(lacking / (pps * (rows.end - rows.start))),
            sum(1 for lost in rows.lost if lost > 0), percent(max(rows.lost))]


def steady(ctx, section):
    if ctx.core_a == ctx.core_b:
        raise BenchError("one core: the two runs need one each")
    seconds = LONG if ctx.long else ctx.steady
    half = seconds / 2
    section.heading(f"`dpdk:` and `af_packet:` at a time, {seconds:g} s with rows of 1 ms and {half:g} s without")
    with mpps.Listener(ctx, "reflector of af_packet", ["reflect", "xdp:eth1"], "b", ctx.core_a):
        say(f"  rows of 1 ms, {seconds:g} s")
        fine = both(ctx, seconds, True)
        say(f"  one row, {half:g} s")
        coarse = both(ctx, half, False)
    lines, cells, raw = [], [], []
    for path, (summary, table) in fine.items():
        lines += [totals(path, "rows of 1 ms", summary), totals(path, "one row", coarse[path][0])]
        say(f"  reading the rows of {path}")
        rows = Rows(table, RATES[path])
        cells.append(dips_of(path, rows, RATES[path]))
        longest = sorted(rows.dips, key=lambda dip: -dip["lacking_packets"])[:KEPT_DIPS]
        raw += [dip | {"path": path} for dip in sorted(longest, key=lambda dip: dip["start_s"])]
        data.table(ctx, "long", "dips.csv", DIP_HEADER, raw)
        run([ctx.mpps, "plot", table, "-o", os.path.join(data.folder(ctx, "long"), f"{path}.svg")])
        os.remove(table)
    section.table(["run", "offered", "sent", "departures missed", "lost", "gap p50", "p99.9", "max", "latency p99",
                   "lane kept from its core", "other threads of mpps, of a core", "valid"], lines)
    section.table(["rows of 1 ms", "rows", "rate ÷ intended: 0.1 % / median / 99.9 % of rows", "rows below half",
                   "dips", "in a minute", "spacing: 10 % / median / 90 %", "longest", "lacking in dips",
                   "rows with loss", "highest loss of a row"], cells)
    section.text(f"A *dip* is one row or several in a row with less than {DIP:g} times the intended rate, which is "
                 f"{rate(RATES['dpdk'])} on `dpdk:{dpdk.RING}` (what is sent comes back in) and "
                 f"{rate(RATES['af_packet'])} on `af_packet:` (a veth pair, `reflect xdp:` at its other end). Both run "
                 "at a time, each on one core with all its threads: whatever the collector and the writer of rows "
                 "take, they take from the lane. *Lane kept from its core*: time for which it was ready to run and did "
                 "not. Without rows there are no dips to count; departure gaps and missed departures are counted "
                 f"packet by packet in both. The {KEPT_DIPS} dips of each path that lack most: "
                 "`bench/data/long/dips.csv`.")
    for how, runs in (("rows of 1 ms", fine), ("one row", coarse)):
        for path, (summary, _) in runs.items():
            for told in (*summary["invalid_reasons"], *summary["warnings"]):
                section.text(f"`{path}:`, {how}: {told}.")
    for path in fine:
        section.text(f"![{path}: packets sent and received, loss and latency over {seconds:g} s](data/long/{path}.svg)")


PARTS = (steady,)
