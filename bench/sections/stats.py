"""What statistics cost, and whether the send rate dips when they are written."""

from harness import mpps, steady
from harness.stat import rate

TITLE = "Statistics: the cost of short intervals, and dips"

FINE, COARSE = "--interval 1ms --csv FILE", "--interval 1s"
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


PARTS = (cost, dips)
