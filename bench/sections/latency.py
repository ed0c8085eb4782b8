"""Latency of echoes at a given rate: mpps's round trips beside `sockperf ping-pong` and `under-load`."""

from harness import latency

TITLE = "Latency at a given rate beside `sockperf`"

RATES = (5_000, 20_000, 100_000)
PATHS = ("udp", "af_packet", "af_xdp")
PING_PONG, UNDER_LOAD = "sockperf ping-pong", "sockperf under-load"
LARGEST_PING_PONG = 20_000  # one message in flight: the round trip must be shorter than the distance of two


def micro(value):
    return "–" if value is None else f"{value:.1f} µs"


COLUMNS = (("p50", "p50", micro), ("p99", "p99", micro), ("p999", "p99.9", micro), ("max", "max", micro),
           ("rate", "answered/s", lambda value: "–" if value is None else f"{value:.0f}"))


def programs(ctx, rate, cores, busy):
    """Label → a run of it. Each round begins anew with the first."""
    runs = {f"mpps {path}": lambda path=path: latency.trip(ctx, path, rate, cores, busy) for path in PATHS}
    if rate <= LARGEST_PING_PONG:
        runs[PING_PONG] = lambda: latency.sockperf(ctx, "ping-pong", rate, cores, busy)
    runs[UNDER_LOAD] = lambda: latency.sockperf(ctx, "under-load", rate, cores, busy)
    return runs


def judge(section, samples, where):
    """udp is to be no worse than either of sockperf's in p50 and p99, the other paths better."""
    for path in PATHS:
        ours, results = f"mpps {path}", []
        for theirs in (PING_PONG, UNDER_LOAD):
            for field in ("p50", "p99"):
                found = samples.ratio(ours, theirs, field)
                if found:
                    met = found[0] <= 1 if path == "udp" else found[0] < 1
                    results.append((met, f"{field} {found[0]:.2f}× of {theirs.split()[1]}'s ({found[1]:.2f} to "
                                         f"{found[2]:.2f})"))
        least = "no worse" if path == "udp" else "better"
        if not results:
            section.verdict(f"target p50 and p99 {least} than sockperf's ({path}, {where}): "
                            f"not measured ({samples.why_not(ours, UNDER_LOAD)})")
            continue
        verdict = "met" if all(met for met, _ in results) else "not met"
        section.verdict(f"target p50 and p99 {least} than sockperf's ({path}, {where}): **{verdict}** "
                        f"({'; '.join(text for _, text in results)})")


def compare(ctx, section, busy):
    mode = "`--busy-poll`, sockperf with `--nonblocked`" if busy else "defaults"
    for count in (1, 2):
        cores = (ctx.core_a, ctx.core_a if count == 1 else ctx.core_b)
        if count == 2 and ctx.core_a == ctx.core_b:
            continue
        for rate in RATES:
            where = f"{rate // 1000} kpps, {'both ends on one core' if count == 1 else 'a core for each end'}, {mode}"
            section.heading(where)
            samples = ctx.compare(programs(ctx, rate, cores, busy))
            section.programs(samples, COLUMNS)
            judge(section, samples, where)


def explain(_ctx, section):
    section.text(f"All latencies are one way, which is half of a round trip, with {latency.SIZE} bytes of payload. "
                 f"mpps measures "
                 "each packet: `sendrecv` ↔ `reflect`, one lane each. `ping-pong` has one message in flight and waits "
                 "for its answer before the next, so a slow answer delays what would have been measured after it, and "
                 "it is compared at "
                 f"rates up to {LARGEST_PING_PONG // 1000} kpps only. `under-load` sends by the clock, as mpps does; "
                 f"with "
                 "`--reply-every 1` each of its messages is answered and measured. The client on host a, the server on "
                 "host b. Ratios are of the medians over the rounds, in brackets the smallest and the largest of a "
                 "round; below 1 mpps is faster.")


def defaults(ctx, section):
    compare(ctx, section, False)


def busy_poll(ctx, section):
    compare(ctx, section, True)


PARTS = (explain, defaults, busy_poll)
