"""Programs in the kernel over veth: beside xdp-tools, on one core and two, and beside the other paths."""

import contextlib
import functools
import statistics
import threading
import time

from harness import machine, mpps, profile, steady, xdp
from harness.proc import BenchError, Proc, until
from harness.stat import percent, rate, times

TITLE = "`xdp:` beside `xdp-trafficgen` and `xdp-bench`, and beside the other paths"

ONE, FOUR, EIGHT = "one packet", "four counters", "8 streams"
SEND, TRIP = "mpps send", "mpps sendrecv ↔ reflect"
REFLECT, REFLECT6 = "mpps reflect", "mpps reflect, IPv6"
TRAFFICGEN, TX, BOTH = "xdp-trafficgen udp", "xdp-bench tx", "xdp-trafficgen ↔ xdp-bench tx, xdp-bench drop"
WARM = 0.4  # s, out of the first bursts
FLOWS = "10000-10063"
GAP_RATES = (100_000, 1_000_000)
MODEST = 100_000  # pps
MORE_NS = 6.5  # 0.88 of a run of 47 ns
PATHS = (("udp", ""), ("af_packet", ""), ("af_xdp", ""), ("af_xdp", "mode=skb"), ("xdp", ""))


@contextlib.contextmanager
def sender(ctx, label, command, lanes=1, args=(), version=4, packets=None):
    """`mpps send` or `sendrecv` flat out from host a, its lanes on the first cores, until the block ends.
    `packets`: options that say which, in place of UDP between the two hosts."""
    source, target = {4: (ctx.lab.A, ctx.lab.B), 6: (xdp.SOURCE6, f"[{xdp.TARGET6}]")}[version]
    udp = ("--src", source, "--src-port-range", FLOWS, "--dest", f"{target}:9000", "--dest-mac", ctx.lab.MAC_B)
    argv = ctx.command([
        ctx.mpps, command, "xdp:eth1", *(packets or udp), "--lanes", lanes,
        "--cores", ",".join(map(str, ctx.cores[:lanes])), *args, "--quiet", "--duration", "10m"], "a")
    ctx.section.command(label, argv)
    before = ctx.lab.received("b")
    proc = Proc(argv)
    try:
        until(lambda: proc.child.poll() is not None or ctx.lab.received("b") > before + 1000, f"packets of {label}")
        yield proc
        if proc.child.poll() is not None:
            raise BenchError(f"{label} ended early: {proc.last_line()}")
        status = proc.stop()
        if status not in (*mpps.DONE, 130):
            raise BenchError(f"{label} ended with {status}: {proc.last_line()}")
    finally:
        proc.kill()


def reflector(ctx, label):
    return mpps.Listener(ctx, f"{label}, reflector", ["reflect", "xdp:eth1"], "b", ctx.core_b)


@contextlib.contextmanager
def traffic(ctx, threads=1):
    label = "xdp-trafficgen" + (f", {threads} threads" if threads > 1 else "")
    with xdp.Traffic(ctx, threads, label, mirrored=True) as generator:
        yield generator.proc


def metered(ctx, *parts):
    """What the interfaces count while all of `parts` run, started in this order, and the CPU time of the last, the
    sender: `cores`, as many as it kept busy."""
    with contextlib.ExitStack() as stack:
        for part in parts:
            proc = stack.enter_context(part())
        time.sleep(WARM)
        spent, began = proc.cpu_seconds(), time.monotonic()
        counts = xdp.meter(ctx, ctx.seconds)
        counts["cores"] = (proc.cpu_seconds() - spent) / (time.monotonic() - began)
    return counts


def metrics(counts, field):
    return {"rate": counts[field], "cores": counts["cores"]}


def sunk(ctx, *parts):
    """What came in at host b, whose interface drops it."""
    counts = metered(ctx, lambda: xdp.bench(ctx, "drop", "b", "xdp-bench drop on host b"), *parts)
    return metrics(counts, "offered")


def returned(counts):
    return {**metrics(counts, "turned"), "sent": counts["offered"], "loss": 1 - counts["turned"] / counts["offered"]}


def send(ctx, lanes=1, label=SEND):
    return sunk(ctx, lambda: sender(ctx, label, "send", lanes))


def trafficgen(ctx, threads=1):
    return sunk(ctx, lambda: traffic(ctx, threads))


def _sink_a(ctx):
    return xdp.bench(ctx, "drop", "a", "xdp-bench drop on host a")


def _runs(ctx, *parts, version=4):
    """What a run of the program on host b's interface takes while `parts` and then a sender run: `ns`; `runs` a second.
    """
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(part())
        stack.enter_context(xdp.run_times())
        stack.enter_context(sender(ctx, f"{SEND} to a reflector", "send", version=version))
        time.sleep(WARM)
        return xdp.runs(ctx, "b", ctx.seconds)


def reflect(ctx, label, version):
    return _runs(ctx, lambda: reflector(ctx, label), version=version)


def bench_tx(ctx):
    return _runs(ctx, lambda: xdp.bench(ctx, "tx", "b", TX))


def peers(ctx, threads=1):
    return returned(metered(ctx, lambda: xdp.bench(ctx, "tx", "b", TX), lambda: _sink_a(ctx),
                            lambda: traffic(ctx, threads)))


def trip(ctx, lanes=1, label=TRIP):
    return returned(metered(ctx, lambda: reflector(ctx, label), lambda: sender(ctx, label, "sendrecv", lanes)))


def compare(ctx, programs, rounds=None):
    """In turn, each on interfaces that nobody has a program on."""
    def fresh(measure):
        def run():
            xdp.free_queue(ctx)
            return measure()
        return run
    return ctx.compare({label: fresh(measure) for label, measure in programs.items()}, rounds)


CPU = (("cores", "cores that the sender had", "{:.2f}".format),)
RETURNED = (("rate", "came back/s", rate), ("sent", "came in at host b/s", rate), ("loss", "not sent back", percent),
            *CPU)


def ratios(section, samples, pairs):
    """Of the medians, and of the best runs: what else runs on the machine only ever takes away."""
    section.ratios(samples, pairs)
    for over, under in pairs:
        ours, theirs = samples.values(over), samples.values(under)
        if ours and theirs:
            section.text(f"Best runs, {over} / {under}: {rate(max(ours))} / {rate(max(theirs))} = "
                         f"{times(max(ours) / max(theirs))}.")


def within(section, samples, label):
    """The same as time: what our program takes beside xdp-bench's, of which the kernel's own measuring is most."""
    more = [ours["ns"] - theirs["ns"] for ours, theirs in zip(samples.rounds[label], samples.rounds[TX])
            if ours and theirs]
    if not more:
        section.verdict(f"target ≤ {MORE_NS:g} ns a run more than {TX} ({label}): not measured "
                        f"({samples.why_not(label, TX)})")
        return
    middle = statistics.median(more)
    met = "met" if middle <= MORE_NS else "not met"
    section.verdict(f"target ≤ {MORE_NS:g} ns a run more than {TX} ({label}): **{met}** (measured {middle:.1f} ns; "
                    f"rounds {min(more):.1f} to {max(more):.1f})")


def one_core(ctx, section):
    ctx.need("xdp-trafficgen", "xdp-bench")
    section.heading("`send` into a dropping program, one core")
    samples = compare(ctx, {SEND: lambda: send(ctx), TRAFFICGEN: lambda: trafficgen(ctx)})
    section.programs(samples, (("rate", "came in at host b/s", rate), *CPU))
    ratios(section, samples, [(SEND, TRAFFICGEN)])
    section.target(f"× {TRAFFICGEN} (`send xdp:` to a dropping peer)", 0.9, samples.ratio(SEND, TRAFFICGEN),
                   samples.why_not(SEND, TRAFFICGEN))
    section.text("Into `xdp-bench drop` on host b for both; counted by host b's interface. mpps: 64 flows over IPv4, "
                 "60 bytes in memory, each packet with its number and time, data and checksum of its own. "
                 "xdp-trafficgen: one frame of one flow over IPv6, 64 bytes in memory, again and again.")

    section.heading("`reflect`: a run of its program")
    samples = compare(ctx, {**{label: functools.partial(reflect, ctx, label, version)
                               for label, version in ((REFLECT, 4), (REFLECT6, 6))}, TX: lambda: bench_tx(ctx)})
    section.programs(samples, (("ns", "ns a run", "{:.1f}".format), ("runs", "runs/s", rate)))
    section.ratios(samples, [(TX, REFLECT), (TX, REFLECT6)], "ns")
    for label in (REFLECT, REFLECT6):
        section.target(f"× the speed of {TX}, a run of the program ({label})", 0.88, samples.ratio(TX, label, "ns"),
                       samples.why_not(label, TX))
        within(section, samples, label)
    section.text("By the kernel's own count of runs and their time (`kernel.bpf_stats_enabled`), with the two readings "
                 "of the clock that it costs; `mpps send xdp:` flat out is the source for all. xdp-trafficgen can't "
                 "be: it writes no header anew, so a frame that was turned in place comes again as it was returned. "
                 "`xdp-bench tx` exchanges MAC addresses; mpps checks that the packet is the test's, exchanges MAC "
                 "addresses, IP addresses and ports, lowers the hop limit, counts, and looks at one packet in up to "
                 "256 for loops.")

    section.heading("`sendrecv` ↔ `reflect`, everything on one core")
    samples = compare(ctx, {TRIP: lambda: trip(ctx), BOTH: lambda: peers(ctx)})
    section.programs(samples, RETURNED)
    ratios(section, samples, [(TRIP, BOTH)])
    section.target("× the peers together (`sendrecv xdp:` ↔ `reflect xdp:`)", 0.7, samples.ratio(TRIP, BOTH),
                   samples.why_not(TRIP, BOTH))
    section.text(f"All of this runs to completion on core {ctx.core_a}, where the packets are made: veth's poll loops "
                 f"run where they are woken. What else the programs do (mpps: reading rows, reporting; xdp-bench: "
                 f"printing) may use core {ctx.core_b}. Only mpps stamps, and looks at what comes back.")


def two_lanes(ctx, section):
    section.heading("Two lanes on two cores, two queues")
    if len(ctx.cores) < 2:
        raise BenchError("there is one core")
    one, two = "{}, 1 lane", "{}, 2 lanes"
    kinds = ((SEND, lambda n, label: send(ctx, n, label)), (TRAFFICGEN, lambda n, _: trafficgen(ctx, n)),
             (TRIP, lambda n, label: trip(ctx, n, label)), (BOTH, lambda n, _: peers(ctx, n)))
    programs = {way.format(name): functools.partial(measure, n, way.format(name))
                for name, measure in kinds for n, way in ((1, one), (2, two))}
    with ctx.lab.queues(2):
        samples = compare(ctx, programs)
    section.programs(samples, (("rate", "dropped, or came back/s", rate), *CPU))
    ratios(section, samples, [(two.format(name), one.format(name)) for name, _ in kinds])
    for ours, theirs in ((SEND, TRAFFICGEN), (TRIP, BOTH)):
        peer = samples.ratio(two.format(theirs), one.format(theirs))
        beside = f"; {theirs}: {times(peer[0])}" if peer else ""
        section.target(f"× one lane ({ours}, two lanes{beside})", 1.8,
                       samples.ratio(two.format(ours), one.format(ours)),
                       samples.why_not(two.format(ours), one.format(ours)))
    section.text("Each lane has a core, and the queue of that core's number at both interfaces. With both cores taken, "
                 "whatever else runs (reading rows, printing, this benchmark) takes its time from a lane.")


def no_loss(ctx, section):
    section.heading(f"Round trip at half the maximum, {ctx.steady:g} s")
    xdp.free_queue(ctx)
    result = steady.run(ctx, "xdp")
    s = result["summary"]
    turned = s["reflector"]
    section.table(["packets", "count"], [
        ["sent", s["tx_packets"]], ["taken by the reflector", turned["rx_packets"]],
        ["sent back", turned["tx_packets"]],
        ["received", s["rx_packets"]],
        *([name, s[name]] for name in ("lost", "late", "duplicates", "reordered", "corrupt", "foreign", "missed"))])
    steady.loss_verdict(section, "xdp round trip", result)


def _gap(ctx, path, pps):
    """Departure gaps of `send` at a rate, ns; and departures given up."""
    label = f"gaps, {path} at {rate(pps)}"
    core, placed = mpps.place(path, ctx.core_a)
    with xdp.bench(ctx, "drop", "b", "xdp-bench drop on host b"):
        summary = mpps.send(ctx, label, ["send", f"{path}:eth1", "--src", ctx.lab.A, "--dest", f"{ctx.lab.B}:9000",
                                         "--dest-mac", ctx.lab.MAC_B, "--lanes", 1, *placed, "--rate", f"{pps}pps"],
                            ctx.seconds, "a", core)
    gap = summary["departure_gap_ns"]
    return {"rate": summary["offered_pps"], "missed": float(summary["missed"]),
            **{key: float(gap[key]) for key in ("intended_mean", "mean", "p50", "p99", "max")}}


def gaps(ctx, section):
    section.heading("Departure gaps at constant rates")
    programs = {f"{path}, {rate(pps)}": functools.partial(_gap, ctx, path, pps)
                for pps in GAP_RATES for path in ("af_xdp", "xdp")}
    samples = compare(ctx, programs, min(ctx.rounds, 3))
    ns = "{:,.0f}".format
    section.programs(samples, (("rate", "sent/s", rate), *((key, name, ns) for key, name in (
        ("intended_mean", "intended, ns"), ("mean", "mean, ns"), ("p50", "p50, ns"), ("p99", "p99, ns"),
        ("max", "max, ns"), ("missed", "given up")))))
    section.text("One lane, by the stamps; each the median of the rounds. On xdp the program is called again and again "
                 "whether something is due or not, and the clock is read once in 16 packets at the most, so that "
                 "packets of one reading have gap 0.")


def _during(ctx, work):
    """(what `work()` returns, cores that were busy while it had packets under way)."""
    before, result = ctx.lab.received("b"), []

    def job():
        try:
            result.append(work())
        except BenchError as error:
            result.append(error)

    thread = threading.Thread(target=job)
    thread.start()
    try:
        until(lambda: result or ctx.lab.received("b") > before + 1000, "packets", 20)
        used = machine.busy(ctx.seconds * 0.6)
    finally:
        thread.join()
    if isinstance(result[0], BenchError):
        raise result[0]
    return result[0], used


def _path(ctx, path, options):
    label = f"{path} {options}".strip()
    options = f",{options}" if options else ""
    ends = {"options": options, "reflector_options": options}
    flat, flat_busy = _during(ctx, lambda: mpps.round_trip(ctx, path, label=f"{label}, flat out", **ends))
    xdp.free_queue(ctx)
    one_way = mpps.one_way(ctx, (options[1:],) * 2, label=f"{label}, one way", path=path)
    xdp.free_queue(ctx)
    paced, paced_busy = _during(ctx, lambda: mpps.round_trip(
        ctx, path, ("--lanes", 1, "--rate", f"{MODEST}pps"), f"{label}, paced", **ends))
    return {"rate": flat["received_pps"], "one_way": one_way["rate"], "p50": paced["latency_ns"]["p50"] / 1e3,
            "p99": paced["latency_ns"]["p99"] / 1e3, "loss": paced["loss_ratio"], "flat_busy": flat_busy,
            "busy": paced_busy}


def which_path(ctx, section):
    section.heading("Which path when: all paths in one run")
    names = {(path, options): f"`{path}`" + (f", `{options}`" if options else "") for path, options in PATHS}
    idle = machine.busy(1.0)
    samples = compare(ctx, {names[key]: functools.partial(_path, ctx, *key) for key in PATHS}, min(ctx.rounds, 3))
    rows = []
    for name in names.values():
        if not samples.values(name):
            rows.append([f"{name} (not measured: {samples.failures.get(name)})"] + ["–"] * 7)
            continue
        least = lambda metric: f"{min(samples.values(name, metric)):.2f}"
        middle = functools.partial(samples.median, name)
        rows.append([name, rate(middle()), rate(middle("one_way")), f"{middle('p50'):.1f}", f"{middle('p99'):.1f}",
                     percent(middle("loss")), least("flat_busy"), least("busy")])
    at = f"at {rate(MODEST)}"
    section.table(["path", "round trip/s", "one way/s", f"latency {at}, p50, µs", "p99, µs", "loss",
                   "cores busy flat out", at],
                  rows)
    section.ratios(samples, [(names["xdp", ""], names[key]) for key in PATHS[:-1]])
    section.text(f"One lane at each end, 64-byte frames, one flow, defaults; medians of {min(ctx.rounds, 3)} rounds. "
                 f"*One way*: "
                 "what `drop` received. *Cores busy*: of the whole machine, soft interrupts included, the least of the "
                 "rounds; before "
                 f"the first run it was {idle:.2f}. Sender on core {ctx.core_a}, receiver on core {ctx.core_b}; on "
                 f"`xdp` all on core {ctx.core_a}. A lane of `xdp` keeps its core busy at any rate.")


def _innermost(ctx, *parts):
    """(symbol → ns a packet on the sending core, packets a second that came in at host b) while `parts` run."""
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.enter_context(part())
        time.sleep(WARM)
        data = ctx.file(".perf")
        record = Proc(["perf", "record", "-e", "cpu-clock", "-F", profile.FREQUENCY, "-C", ctx.core_a, "-o", data, "--",
                       "sleep", profile.WINDOW])
        counts = xdp.meter(ctx, profile.WINDOW)
        if record.wait(30) != 0:
            raise BenchError(f"perf ended badly: {record.last_line()}")
    shares = profile.symbols(data)
    return {symbol: share * 1e9 / counts["offered"] for symbol, share in shares.items()}, counts["offered"]


def where(ctx, section):
    section.heading("Where the time goes: ns a packet on the sending core, by innermost function")
    ctx.need("perf")
    sink_b = lambda: xdp.bench(ctx, "drop", "b", "xdp-bench drop on host b")
    works = {SEND: (sink_b, lambda: sender(ctx, SEND, "send")),
             TRAFFICGEN: (sink_b, lambda: traffic(ctx)),
             TRIP: (lambda: reflector(ctx, TRIP), lambda: sender(ctx, TRIP, "sendrecv")),
             BOTH: (lambda: xdp.bench(ctx, "tx", "b", TX), lambda: _sink_a(ctx), lambda: traffic(ctx))}
    found = {}
    for label, parts in works.items():
        xdp.free_queue(ctx)
        found[label] = _innermost(ctx, *parts)
    names = sorted({n for spent, _ in found.values() for n in spent},
                   key=lambda n: -max(s.get(n, 0) for s, _ in found.values()))
    shown = [n for n in names if max(spent.get(n, 0) for spent, _ in found.values()) >= 1]
    cell = lambda value: f"{value:.1f}" if value >= 0.05 else "–"
    rows = [[f"`{name}`", *(cell(spent.get(name, 0)) for spent, _ in found.values())] for name in shown]
    rows.append(["all else", *(cell(sum(v for n, v in spent.items() if n not in shown))
                               for spent, _ in found.values())])
    rows.append(["**together**", *(cell(sum(spent.values())) for spent, _ in found.values())])
    section.table(["innermost function", *found], rows)
    section.text("perf's samples of the core over the packets that came in at host b: "
                 + "; ".join(f"{label}: {rate(came)}" for label, (_, came) in found.items())
                 + " (while profiled). Functions that are inlined count to where they are inlined.")


def packets(ctx, section):
    """What fields that vary, sizes and streams cost a run of the program that sends."""
    section.heading("Packets, sizes and streams: a run of the program that sends")
    base = f"eth dst={ctx.lab.MAC_B} / ipv4 src={ctx.lab.A} dst={ctx.lab.B} / udp"
    four = f"eth dst={ctx.lab.MAC_B} / ipv4 src=10.0.0.1*250 dst=10.1.0.1*200 / udp src=1024..2047 dst=9000..9063"

    def streams(count, more=""):
        path = ctx.file(".toml")
        with open(path, "w") as file:
            for number in range(count):
                file.write(f"[[stream]]\npacket = \"{base} src=1024..1087 dst={9000 + number}\"\n{more}")
        return ("--traffic", path)

    ways = {"template": None, ONE: ("--packet", f"{base} src=1024..1087 dst=9000"), FOUR: ("--packet", four),
            EIGHT: streams(8), "one of 8 sizes": streams(1, 'size = "random(64..71)"\n'),
            "8 streams of 8 sizes": streams(8, 'size = "random(64..71)"\n')}

    def sent(label, packets):
        # Each is dropped at the other end by the program that knows it again.
        known = () if packets is None else ("--packet", "eth")
        drop = mpps.Listener(ctx, f"{label}, drop", ["drop", "xdp:eth1", *known], "b", ctx.core_b)
        with drop, xdp.run_times(), sender(ctx, label, "send", packets=packets) as proc:
            time.sleep(WARM)
            return xdp.sending_runs(proc, ctx.seconds)

    samples = compare(ctx, {label: functools.partial(sent, label, packets) for label, packets in ways.items()})
    section.programs(samples, (("ns", "ns a run", "{:.1f}".format), ("runs", "runs/s", rate)))
    section.ratios(samples, [("template", label) for label in list(ways)[1:]], "ns")
    section.ratios(samples, [(label, "template") for label in list(ways)[1:]], "runs")
    section.target("× one template (four counters, packets sent)", 0.8, samples.ratio(FOUR, "template", "runs"),
                   samples.why_not(FOUR, "template"))
    section.text("By the kernel's own count of runs and their time, with the two readings of the clock that it costs. "
                 "A run sends a packet: runs/s are what the sender sends, with all that the path does for it. `drop "
                 "xdp:` takes the packets at the other end, those with a tag by `--packet eth`.")


PARTS = (one_core, packets, two_lanes, which_path, no_loss, gaps, where)
