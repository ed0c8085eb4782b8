"""One run on a core that another program shares, and on the same core isolated from it: of mpps, and of testpmd between
two TAP devices."""

import contextlib
import os

from harness import mpps, testpmd
from harness.proc import BenchError, Proc, Program, run, until
from harness.report import say
from harness.stat import percent

TITLE = "Isolation: a run on a shared and on an isolated core"
RATE = os.environ.get("BENCH_RATE", "20kpps")
ALONE, SHARED, ISOLATED = "nothing beside it", "shared core", "isolated core"
# A program that always wants to run, and begins on the core of the run.
LOAD = "taskset -pc %s $$ >/dev/null; while :; do :; done"
COLUMNS = (("lost", "lost", percent), ("p99.9, us", "p999_us", lambda us: f"{us:.4g}"),
           ("missed departures", "missed", percent))


@contextlib.contextmanager
def load(core, name):
    """A busy loop beside the run, unless this is the run that has nothing beside it."""
    busy = None if name == ALONE else Proc(["sh", "-c", LOAD % core])
    try:
        if busy:
            # Before anything isolates the core: it would come back to it later.
            until(lambda: os.sched_getaffinity(busy.pid) == {core}, "the load on its core")
        yield
    finally:
        if busy:
            busy.kill()


def isolated(ctx, core, name):
    """Words before a command of the run: keeps all else off the core, and measures nothing by itself."""
    if name != ISOLATED:
        return []
    return [ctx.mpps, "isolate", str(core), "--move-threads", "--measure", "0", "--quiet", "--"]


def metrics(summary):
    late = summary["latency_ns"]
    if not late or not summary["tx_packets"]:
        raise BenchError("no packet was sent")
    return {"rate": summary["received_pps"], "lost": summary["loss_ratio"], "p999_us": late["p999"] / 1e3,
            "missed": summary["missed"] / max(summary["due_packets"] or 0, 1)}


def own(ctx, name):
    """`sendrecv` on the core, and a reflector in the kernel, which takes no core of its own."""
    ctx.lab.up()
    core = ctx.core_b
    summary = ctx.file(".json")
    with load(core, name), mpps.Listener(ctx, f"{name}, reflector", ["reflect", "xdp:eth1"], "b"):
        inside = [ctx.mpps, "lab", "exec", "--name", ctx.lab.name, "a", "--", ctx.mpps, "sendrecv", "af_packet:eth1",
                  "--src", ctx.lab.A, "--dest", f"{ctx.lab.B}:9000", "--lanes", 1, "--cores", core, "--rate", RATE,
                  "--duration", mpps.seconds(ctx.seconds), "--quiet", "--json", summary]
        finish(ctx, name, [*isolated(ctx, core, name), *inside])
    return metrics(mpps.load(summary))


def finish(ctx, name, words):
    argv = ctx.command(words)
    ctx.section.command(name, argv)
    proc = Proc(argv)
    if proc.wait(ctx.seconds + 60) not in mpps.DONE:
        raise BenchError(f"{name}: {proc.last_line()}")


def taps(ctx, name):
    """Through testpmd on the core, as `mpps trace peer` counts it, one way and by one clock."""
    ctx.need("dpdk-testpmd")
    ctx.lab.up()
    core, counts, summary = ctx.core_b, ctx.file(".json"), ctx.file(".json")
    main = ctx.core_a
    # An isolated command may run on its core alone. testpmd's main thread is there each time, and waits for an Enter.
    peer = [*isolated(ctx, core, name), ctx.mpps, "lab", "exec", "--name", ctx.lab.name, "b", "--", ctx.mpps, "trace",
            "peer", "--quiet", "--json", counts, "--", "dpdk-testpmd", "-d", "{plugin}", f"--lcores=(0,1)@{core}",
            *testpmd.MEMORY["no-huge"], "--no-pci", "--no-telemetry", f"--file-prefix=isolation{os.getpid()}",
            "--vdev=net_tap0,iface=in0", "--vdev=net_tap1,iface=out0", "--", "--disable-link-check",
            "--no-mlockall", "--total-num-mbufs=16384", "--no-flush-rx"]
    argv = ctx.command(peer)
    ctx.section.command(f"{name}, testpmd", argv)
    with load(core, name), Program(argv, "Press enter to exit", 60, terminal=True) as device:
        run(ctx.command(["sh", "-ec", "for tap in in0 out0; do ip link set $tap up; done"], "b"))
        # The tester is to have its core whatever else runs there: what is late is then the device's.
        tester = ["sendrecv", "af_packet:in0", "af_packet:out0", "--nice", -20, "--cores", main, "--rate", RATE,
                  "--duration", mpps.seconds(ctx.seconds), "--quiet", "--json", summary]
        finish(ctx, name, ctx.command([ctx.mpps, *tester], "b"))
        device.proc.write("")
        if device.proc.wait(20) != 0:
            raise BenchError(f"testpmd ended badly: {device.proc.last_line()}")
    counted = mpps.load(counts)
    worker = max(counted["threads"], key=lambda thread: thread["ran_ns"], default=None)
    if worker is None:
        raise BenchError("the kernel said nothing of testpmd's threads")
    longest = max(max(lane["receive"]["max_ns"], lane["empty"]["max_ns"], lane["rest_max_ns"])
                  for lane in counted["lanes"])
    away = worker["waited_ns"] / max(worker["waited_ns"] + worker["ran_ns"], 1)
    return {**metrics(mpps.load(summary)), "longest_ms": longest / 1e6, "away": away,
            "switches": worker["involuntary_switches"]}


def table(ctx, section, heading, measure, columns):
    section.heading(heading)
    say(f"  {heading}")
    samples = ctx.compare({name: lambda name=name: measure(ctx, name) for name in (ALONE, SHARED, ISOLATED)})
    rows = []
    for name in (ALONE, SHARED, ISOLATED):
        medians = [samples.median(name, key) for _, key, _ in columns]
        rows.append([name] + ["–" if value is None else show(value)
                              for value, (_, _, show) in zip(medians, columns)])
    section.table(["run", *(title for title, _, _ in columns)], rows)
    for name, why in samples.failures.items():
        section.text(why if why.startswith(name) else f"{name}: {why}")


def of_mpps(ctx, section):
    table(ctx, section, f"`mpps sendrecv af_packet`, {RATE}, reflected by `xdp`", own, COLUMNS)
    section.text("Medians. Latency is the round trip. Beside the run a program that always wants to run may use its "
                 "core alone; `mpps isolate CORE --move-threads` moves it away.")


def of_testpmd(ctx, section):
    more = (("involuntary switches", "switches", lambda n: f"{n:.0f}"), ("ready, not running", "away", percent),
            ("longest poll or pause, ms", "longest_ms", lambda ms: f"{ms:.3g}"))
    table(ctx, section, f"testpmd between two TAP devices, {RATE}, under `mpps trace peer`", taps, COLUMNS + more)
    section.text("Medians. Latency is one way, through testpmd. The tester has the other core, with `--nice "
                 "-20`, so that the moved program takes little of that core. Switches and time are those of testpmd's "
                 "worker.")


PARTS = (of_mpps, of_testpmd)
