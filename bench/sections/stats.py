"""What statistics cost, what a receiver's looks at each packet do, and whether the send rate dips when rows are
written."""

import re
import statistics

from harness import callgrind, dpdk, mpps, steady, xdp
from harness.proc import BenchError, run
from harness.stat import rate

TITLE = "Statistics: the cost of short intervals, and dips"

FINE, COARSE = "--interval 1ms --csv FILE", "--interval 1s"
NONE = "no rows"  # but the one of the whole run
# Works of the example `count` on a packet, with the size of its frame in bytes and their name in the table.
WORKS = (("known", 64, "verifying: headers, checksum, data, 64 bytes"),
         ("known", 1518, "verifying: headers, checksum, data, 1518 bytes"),
         ("alone", 64, "duplicates: flows take turns"), ("order", 64, "duplicates: a burst of 32 in order"),
         ("row", 64, "row and histogram: a burst of 32"))
FEW, MANY = 100_000, 400_000  # packets under callgrind
TIMED = 20_000_000
DIP = 0.01


def _null(ctx, label, args):
    # The collector shares the lane's core: on a core of its own its cost would not show.
    return lambda: {"rate": mpps.send(ctx, f"null, {label}", ["send", "null:", "--lanes", 1, *args()], ctx.seconds,
                                      core=ctx.core_b)["offered_pps"]}


def _udp(ctx, label, args):
    return lambda: {"rate": mpps.one_way(ctx, args=args(), label=f"udp, {label}")["sent"]}


def _trip(ctx, label, args):
    return lambda: mpps.trip_metrics(mpps.send(ctx, f"loop, {label}", ["sendrecv", "loop:", "--lanes", 1, *args()],
                                               ctx.seconds, core=ctx.core_b))


def _dpdk(ctx, label, args, what):
    if what == "send":
        words, field = ["send", f"dpdk:{dpdk.NULL}", *dpdk.flow(), "--dest-mac", dpdk.DEST_MAC], "offered_pps"
    else:
        words, field = ["sendrecv", f"dpdk:{dpdk.RING}", *dpdk.PALINDROME], "received_pps"
    return lambda: {"rate": mpps.send(ctx, f"dpdk {what}, {label}", [*words, *dpdk.lane(ctx.core_b), *args()],
                                      ctx.seconds, core=ctx.core_b)[field]}


def on_dpdk(ctx, section):
    for path, what in (("dpdk:net_null: send", "send"), ("dpdk:net_ring: sendrecv", "sendrecv")):
        section.heading(f"`{path}`, flat out, with statistics and without")
        samples = ctx.compare({
            FINE: _dpdk(ctx, FINE, lambda: ("--interval", "1ms", "--csv", ctx.file(".csv")), what),
            NONE: _dpdk(ctx, NONE, lambda: ("--interval", "1h"), what),
        })
        section.programs(samples)
        section.ratios(samples, [(FINE, NONE)])
    section.text("*No rows*: one interval that is longer than the run, and no file. What remains is a counter for each "
                 "burst, and on `net_ring` what makes a packet a received one: its stamp, sequence number and latency. "
                 "Lane and collector share one core.")


def cost(ctx, section):
    for path, program in (("null: send", _null), ("loop: sendrecv", _trip), ("udp: send", _udp)):
        section.heading(f"`{path}`, statistics each ms beside each s")
        samples = ctx.compare({
            FINE: program(ctx, FINE, lambda: ("--interval", "1ms", "--csv", ctx.file(".csv"))),
            COARSE: program(ctx, COARSE, lambda: ("--interval", "1s")),
        })
        section.programs(samples)
        section.target(f"× the rate with rows of 1 s, `{path}` with rows of 1 ms in a CSV", 0.98,
                       samples.ratio(FINE, COARSE), samples.why_not(FINE, COARSE))
    section.text("Lane and collector share one core: what the statistics cost is taken from the packets.")


def off_rows(result):
    """Rows of the send rate that are off by more than 1 %, each as (row, deviation, explained by the host).

    A row that lacks packets is explained when the host kept lanes from running for as long as the lacking packets take
    (`host_wait_us` of the row); one that has too many when it makes good for what the row before it lacked.
    """
    found, owed = [], False
    end = result["summary"]["duration_s"] - 1e-6
    for row in result["rows"]:
        length = row["interval_s"]
        if row["time_s"] + length > end + 2e-6 or length <= 0:
            break
        expected = result["rate"] * length
        deviation = row["tx_packets"] / expected - 1
        waited = (row.get("host_wait_us") or 0) / 1e6
        if abs(deviation) <= DIP:
            owed = False
            continue
        explained = waited >= -deviation * length * 0.9 if deviation < 0 else owed
        found.append((row, deviation, explained))
        owed = explained and deviation < 0
    return found


def dips(ctx, section):
    section.heading(f"Paced at half the maximum, {ctx.steady:g} s, rows of 100 ms")
    summary, details = [], []
    for path in ("null", "udp", "af_packet"):
        result = steady.run(ctx, path)
        off = off_rows(result)
        ours = [o for o in off if not o[2]]
        s = result["summary"]
        summary.append([f"{path}:", rate(result["rate"]), len(result["rows"]), len(off), len(off) - len(ours),
                        len(ours), s["missed"], s["lost"], "yes" if s["valid"] else "no"])
        for row, deviation, explained in off[:10]:
            details.append([f"{path}:", f"{row['time_s']:.1f}", f"{deviation * 100:+.2f} %",
                            f"{(row.get('host_wait_us') or 0) / 1000:.2f}", "host" if explained else "not explained"])
        # A run that the host disturbed so much that it is not valid shows nothing about dips of ours.
        verdict = "**not met**" if ours else "**met**" if s["valid"] else "not measured: the trial is not valid"
        section.verdict(f"target no 100 ms row off by more than 1 % for a cause of ours ({path}): {verdict} "
                        f"({len(off)} of {len(result['rows'])} rows off, {len(off) - len(ours)} of them while the host "
                        f"kept the lane waiting)")
    section.table(["path", "rate", "rows", "off by > 1 %", "explained by the host", "not explained", "missed", "lost",
                   "valid"],
                  summary)
    section.text("A row that lacks packets counts as explained when `host_wait_us` of that row (time for which the "
                 "scheduler or the hypervisor kept the lanes from running) covers what it lacks; a row with too many "
                 "when it makes good for one. The lane of `null:` has its core to itself; on the others the collector "
                 "shares the lane's core.")
    if details:
        section.text("Rows that are off (the first ten of each path):")
        section.table(["path", "time, s", "off by", "host kept lanes waiting, ms", "cause"], details)


def apart(ctx, section):
    section.heading("Verifying, looking for duplicates, and booking, each by itself")
    program = xdp.build_rust(ctx, "the example count of mpps-wire",
                             ["--manifest-path", f"{ctx.root}/Cargo.toml", "-p", "mpps-wire", "--example", "count"],
                             "examples/count")

    def count(work, size, packets):
        argv = ctx.command([program, work, size, packets], None, ctx.core_b)
        section.command(f"{work}, {size} bytes", argv)
        return float(re.search(r"([\d.]+) ns each", run(argv, 60))[1])

    def instructions(work, size):
        ctx.need("valgrind")
        return callgrind.a_packet(*(callgrind.grind(ctx, f"{work}, {size} bytes, instructions",
                                                    [program, work, size, packets], lambda _, n=packets: n)
                                    for packets in (FEW, MANY)))

    samples = ctx.compare({what: lambda w=work, s=size: {"ns": count(w, s, TIMED if s < 1000 else TIMED // 10)}
                           for work, size, what in WORKS})
    rows = []
    for work, size, what in WORKS:
        ns = samples.values(what, "ns")
        try:
            each = f"{instructions(work, size):.1f}"
        except BenchError as error:
            section.text(f"{what}: no instructions: {error}")
            each = "–"
        rows.append([what, f"{statistics.median(ns):.2f}" if ns else "–",
                     f"{min(ns):.2f} to {max(ns):.2f}" if ns else samples.why_not(what), each])
    section.table(["work", "ns/packet", "over the rounds", "instructions/packet"], rows)
    section.text("The code that a receiving lane runs, in a loop by itself (`crates/wire/examples/count.rs`), so that "
                 "each has the caches to itself; in a lane they overlap. All of a lane together: `drop null:` in "
                 "section engine.")


PARTS = (cost, on_dpdk, apart, dips)
