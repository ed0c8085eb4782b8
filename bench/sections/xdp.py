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
    section.text("By the kernel's own count of runs and their time, with the two readings of the clock that it costs. "
                 "A run sends a packet: runs/s are what the sender sends, with all that the path does for it. `drop "
                 "xdp:` takes the packets at the other end, those with a tag by `--packet eth`.")


PARTS = (one_core, packets, two_lanes, which_path, no_loss, gaps, where)
