"""What the views of a run cost it where cores are free: the full-screen view, the live page, metrics and JSON Lines,
all on and all read, beside none."""

import contextlib
import shlex

from harness import mpps
from harness.proc import BenchError, Proc
from harness.stat import percent, rate
from sections.latency import micro

TITLE = "Views of a run: full screen, live page, metrics and JSON Lines, all on"
RATE = 20_000
PATHS = ("loop", "udp", "io_uring", "af_packet", "af_xdp", "xdp", "dpdk")
NONE, ALL = "without", "with all views"
MARGIN = 0.02  # of p99
UNSTEADY = 1.5  # runs without views whose p99 are further apart tell nothing
KEPT = 0.999  # of the intended rate: what a run without views may miss, too

# Reads the page's events as they come, and the metrics once a second, until the run has ended.
READER = """
import sys, threading, time, urllib.request
metrics, page = sys.argv[1:]
def scrape():
    while True:
        try:
            urllib.request.urlopen(metrics, timeout=2).read()
        except OSError:
            return
        time.sleep(1)
threading.Thread(target=scrape, daemon=True).start()
count = 0
try:
    with urllib.request.urlopen(page + "events") as events:
        print("reads", flush=True)
        for line in events:
            count += line.startswith(b"data:")
except OSError:
    pass
print(f"{count} events")
"""


def address(proc, what):
    """The address that the run printed before its view had the terminal."""
    start = f"mpps: {what}: "
    proc.wait_for(start)
    proc.wait_for("\n", after=proc.output().index(start))
    return proc.output().split(start)[1].split("\n")[0].strip()


def watched(ctx, argv, lines, host, label):
    """Runs a sender with all views, each of them read; its exit status."""
    ctx.need("script")
    words = [*argv, "--web", "--metrics", "--json-lines", lines]
    ctx.section.command(f"{label}, on a terminal of 100 × 40", words)
    inner = f"stty cols 100 rows 40; TERM=xterm-256color exec {shlex.join(map(str, words))}"
    proc = Proc(["script", "--quiet", "--return", "--command", inner, "/dev/null"])
    addresses = [address(proc, what) for what in ("metrics", "live page")]
    reader = Proc(ctx.command(["python3", "-c", READER, *addresses], host, ctx.core_b))
    status = proc.wait(ctx.seconds + 40)
    reader.wait(10)
    if "\x1b[?1049h" not in proc.output():
        raise BenchError("the view never had the terminal")
    if "reads" not in reader.output() or " 0 events" in f" {reader.last_line()}":
        raise BenchError(f"the page was not read: {reader.last_line()}")
    return status


def once(ctx, path, views):
    """One paced run: `sendrecv loop:`, or `sendrecv` on host a's first core ↔ `reflect xdp:`, which runs there in the
    kernel and leaves the other core free."""
    label = f"{path}, {ALL if views else NONE}"
    host, target, port = None, [], "loop:"
    if path != "loop":
        host = "a"
        if path == "dpdk":
            port, target = "dpdk:net_af_packet0,iface=eth1,qpairs=1", ["--src", ctx.lab.A]
        else:
            port, _, target = mpps.ports(ctx, path)
        target = [*target, "--dest", f"{ctx.lab.B}:9000"]
    summary = ctx.file(".json")
    argv = ctx.command([ctx.mpps, "sendrecv", port, *target, "--lanes", 1, "--cores", ctx.core_a, "--rate",
                        f"{RATE}pps", "--duration", mpps.seconds(ctx.seconds), "--json", summary], host)
    if views:
        status = watched(ctx, argv, ctx.file(".jsonl"), host, label)
    else:
        ctx.section.command(label, [*argv, "--quiet"])
        status = Proc([*argv, "--quiet"]).wait(ctx.seconds + 40)
    if status not in mpps.DONE:
        raise BenchError(f"{label} ended with {status}")
    found = mpps.load(summary)
    if not found["latency_ns"]["count"]:
        raise BenchError(f"{label}: nothing came back")
    return {"p50": found["latency_ns"]["p50"] / 1000, "p99": found["latency_ns"]["p99"] / 1000,
            "rate": found["offered_pps"], "lost": found["loss_ratio"],
            "used": found["housekeeping"]["core_percent"] / 100}


COLUMNS = (("p99", "p99", micro), ("p50", "p50", micro), ("rate", "offered", rate), ("lost", "lost", percent),
           ("used", "threads beside the lanes, of a core", percent))


def measured(ctx, path):
    samples = ctx.compare({NONE: lambda: once(ctx, path, False), ALL: lambda: once(ctx, path, True)})
    ctx.section.programs(samples, COLUMNS)
    judge(ctx.section, samples, path)


def judge(section, samples, path):
    kept = samples.ratio(ALL, NONE)
    section.target(f"× the rate without views, {path} at {RATE // 1000} kpps with all of them", KEPT, kept,
                   samples.why_not(ALL, NONE))
    found = samples.ratio(ALL, NONE, "p99")
    what = f"target p99 with all views less than {1 + MARGIN:g} times that without ({path})"
    if found is None:
        section.verdict(f"{what}: not measured ({samples.why_not(ALL, NONE)})")
        return
    middle, low, high = found
    own = samples.spread(NONE, "p99")
    if own > UNSTEADY or 1 + MARGIN <= middle <= own:
        verdict = "**not told apart**"
    elif middle < 1 + MARGIN:
        verdict = "**met**"
    else:
        verdict = "**not met**"
    section.verdict(f"{what}: {verdict} (measured {middle:.3f}; rounds {low:.3g} to {high:.3g}; runs without views "
                    f"are {own:.3g}× apart)")


def of_path(path):
    def part(ctx, section):
        section.heading(f"`{path}:`")
        if ctx.core_a == ctx.core_b:
            raise BenchError("one core: none is free")
        far_end = contextlib.nullcontext()
        if path != "loop":
            far_end = mpps.Listener(ctx, "reflector", ["reflect", "xdp:eth1"], "b", ctx.core_b)
        with far_end:
            measured(ctx, path)
    part.__name__ = path
    return part


def explain(ctx, section):
    section.text(f"The lane on core {ctx.core_a}; the far end is `reflect xdp:`, which runs in the kernel on that "
                 f"core, so that core {ctx.core_b} is free for views and readers. The page's events are read as they "
                 "come, the metrics once a second, both by a Python program. Where runs without views differ among "
                 "themselves by more than views do, the two are not told apart.")


PARTS = (explain, *map(of_path, PATHS))
