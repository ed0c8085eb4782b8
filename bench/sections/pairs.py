"""Who sends and who reflects: the pairs of the DPDK article, and every path with itself, under the same loads."""

import contextlib
import os
import shutil

from harness import between, data, dpdk, mpps, peers
from harness.proc import BenchError, run
from harness.report import say
from harness.stat import Samples, percent, rate

TITLE = "Pairs of paths under the same load"

ECHO = "baseline echo"
DPDK = "dpdk:net_af_packet0,iface=eth1"
PORT = 7007  # of the echo
# Those of the article first: sockets with its own plain program, sockets at both ends, DPDK at one, DPDK at both.
PAIRS = (("udp", ECHO), ("udp", "udp"), ("udp", "dpdk"), ("dpdk", "dpdk"), ("af_packet", "af_packet"),
         ("af_xdp", "af_xdp"), ("xdp", "xdp"), ("io_uring", "io_uring"))
LOAD = 200_000  # packets/s: more than some pairs bear, the same for all
CALM = 20_000  # packets/s: of latencies
BEYOND = 1.5  # times the highest rate without loss
GOAL = "csit,loss=0,initial=250ms,final=250ms,sum=1500ms,width=2%"
QUICK = "csit,loss=0,initial=200ms,final=200ms,sum=600ms,width=5%"
LOSSES = {"lower_pps_at_0_1_percent": "0.1%", "lower_pps_at_1_percent": "1%", "lower_pps_at_10_percent": "10%"}
SEARCH = ((100, 240), (15, 60))  # s of a search's trials, and of all of it; of a quick one
NEURING = "neuring"
HEADER = ("pair", "round", "lower_pps", "upper_pps", *LOSSES, "limited_by", "trials", "void", "beyond_pps",
          "loss_beyond", "calm_pps", "p50_ns", "p99_ns", "loss_calm", "load_pps", "sent_at_load_pps",
          "rate_at_load_pps", "loss_at_load", "valid_at_load", "load_average")


def named(pair):
    return f"{pair[0]} ↔ {pair[1]}"


def sender(ctx, pair):
    """Port and packets of who sends, and the core on which it is started (None: its lanes alone have one)."""
    path, other = pair
    target = f"{dpdk.TARGET if other == 'dpdk' else ctx.lab.B}:{PORT if other == ECHO else 9000}"
    core, placed = mpps.place(path, ctx.core_a)
    if path == "dpdk":
        # Its lanes are pinned by themselves; the kernel answers for its own addresses, so it has another.
        words = [DPDK, "--src", dpdk.SOURCE, "--cores", core]
    else:
        port, _, more = mpps.ports(ctx, path)
        words = [port, *more]
    return [*words, "--dest", target, "--lanes", 1, *placed], core


@contextlib.contextmanager
def reflector(ctx, pair, label, program=None):
    """Who reflects, until the block ends; `program`: neuring."""
    path = pair[1]
    if path in (ECHO, NEURING):
        words = [program, "syscall-echo", f"{ctx.lab.B}:{PORT}"] if path == NEURING else [
            peers.build_echo(ctx, "baseline_echo"), "echo", ctx.lab.B, PORT]
        echo = peers.server(ctx, label, words, "udp", PORT)
        try:
            yield
        finally:
            echo.kill()
        return
    words = [DPDK, "--ip", dpdk.TARGET, "--cores", ctx.core_b] if path == "dpdk" else [mpps.ports(ctx, path)[1]]
    with mpps.Listener(ctx, f"{label}, reflector", ["reflect", *words, *mpps.listening(path, 1)], "b", ctx.core_b):
        yield


class Tester:
    """Where a method runs."""

    tester = "a"


def search(ctx, pair, label):
    """The highest rate without loss, and with no more than some, in one search."""
    words, _ = sender(ctx, pair)
    trials, whole = SEARCH[ctx.quick]
    goal = QUICK if ctx.quick else GOAL
    goals = [goal, *(goal.replace("loss=0", f"loss={loss}") for loss in LOSSES.values())]
    args = ["ndr", *words, *(word for goal in goals for word in ("--goal", goal)), "--settle", "50ms",
            "--search-time", f"{trials}s"]
    if pair[0] == "xdp":
        # Programs in the kernel are made for a highest rate.
        args += ["--max-rate", "4Mpps"]
    found = between.method(ctx, Tester, f"ndr of {label}", args, whole)
    results = sorted(found["results"], key=lambda result: result["goal"]) or [{}]
    result = results[0]
    void, _ = between.void(found)
    data.keep(ctx, "pairs", found["folder"], file_name(pair))
    return {key: result.get(key) for key in ("lower_pps", "upper_pps", "limited_by")} | {
        **{key: of["lower_pps"] for key, of in zip(LOSSES, results[1:]) if of["limited_by"] != "host"},
        "trials": len(found["trials"]), "void": void}


def load(ctx, pair, label, pps, table=None):
    """`sendrecv` at a rate; its rows are kept as `table`."""
    words, core = sender(ctx, pair)
    rows = ctx.file(".csv")
    summary = mpps.send(ctx, f"{label}, {pps} pps", ["sendrecv", *words, "--rate", f"{pps}pps", "--settle", "200ms",
                                                     "--interval", "100ms", "--csv", rows], ctx.seconds, "a", core)
    if table:
        shutil.copyfile(rows, os.path.join(data.folder(ctx, "pairs"), table))
    return summary


def measure(ctx, pair, turn):
    label, row = named(pair), {"pair": named(pair), "round": turn + 1, "load_average": round(os.getloadavg()[0], 2)}
    with reflector(ctx, pair, label):
        found = {"trials": 0, "void": 0}
        try:
            found |= search(ctx, pair, label)
        except BenchError as error:
            say(f"    no rate without loss: {error}")
        # What the host was too busy for says nothing of the pair.
        told = found.get("limited_by") != "host" and found.get("lower_pps")
        row |= found if told else {**found, "lower_pps": None, "upper_pps": None}
        if told:
            beyond = round(BEYOND * found["lower_pps"])
            row |= {"beyond_pps": beyond, "loss_beyond": load(ctx, pair, label, beyond)["loss_ratio"]}
        calm = load(ctx, pair, label, CALM)
        row |= {"calm_pps": CALM, "p50_ns": calm["latency_ns"]["p50"], "p99_ns": calm["latency_ns"]["p99"],
                "loss_calm": calm["loss_ratio"]}
        held = load(ctx, pair, label, LOAD, f"{file_name(pair)}.csv")
        row |= {"load_pps": LOAD, "sent_at_load_pps": held["offered_pps"], "rate_at_load_pps": held["received_pps"],
                "loss_at_load": held["loss_ratio"], "valid_at_load": held["valid"]}
    return row


def file_name(pair):
    """What files of a pair begin with."""
    return f"{pair[0]}-to-{pair[1].replace(' ', '-')}"


def micro(ns):
    return "–" if ns is None else f"{ns / 1000:.1f} µs"


COLUMNS = (("rate_at_load_pps", "came back/s at the load", rate), ("sent_at_load_pps", "sent/s", rate),
           ("loss_at_load", "lost", percent), ("p50_ns", "p50", micro), ("p99_ns", "p99", micro),
           ("lower_pps", "highest without loss", rate),
           *((key, f"with {loss.replace('%', ' %')}", rate) for key, loss in LOSSES.items()),
           ("loss_beyond", f"loss at {BEYOND:g} times the highest without", percent))


def together(ctx, section):
    rows, samples = [], Samples(map(named, PAIRS))
    for turn in range(ctx.rounds):
        for pair in PAIRS:
            say(f"  round {turn + 1}/{ctx.rounds}: {named(pair)}")
            try:
                row = measure(ctx, pair, turn)
            except BenchError as error:
                say(f"    failed: {error}")
                samples.fail(named(pair), str(error))
                continue
            samples.add(named(pair), row)
            rows.append(row)
            data.table(ctx, "pairs", "pairs.csv", HEADER, rows)
    section.programs(samples, COLUMNS)
    void, trials = (sum(row[key] for row in rows) for key in ("void", "trials"))
    section.text(f"Sender on host a, core {ctx.core_a}; reflector on host b, core {ctx.core_b}; a lane each, 18 bytes "
                 f"of payload, a veth pair between. *Highest without loss*: `mpps ndr --goal "
                 f"{QUICK if ctx.quick else GOAL}`, its lower bound, and in the same search those with up to 0.1, "
                 f"1 and 10 % of loss; {void} of {trials} trials were void, and where "
                 f"this host was too busy there is no bound. *p50*, *p99*: of round trips at {CALM // 1000} kpps. *The "
                 f"load*: {LOAD // 1000} kpps for all. `dpdk` is `net_af_packet`; the baseline "
                 "echo answers a packet a system call.")
    picture(ctx, section, [pair for pair in PAIRS if samples.values(named(pair), "rate_at_load_pps")])


def picture(ctx, section, pairs):
    """All pairs at the common load over one another."""
    folder = data.folder(ctx, "pairs")
    target = os.path.join(folder, "rows.svg")
    tables = [os.path.join(folder, f"{file_name(pair)}.csv") for pair in pairs]
    if not tables:
        return
    run([ctx.mpps, "plot", *tables, "-o", target])
    section.text(f"Rows of 100 ms at {LOAD // 1000} kpps, packets received by arrival (`mpps plot`; the rows are in "
                 "`bench/data/pairs`):")
    section.text("![Packets received, lost, and latency of each pair over time](data/pairs/rows.svg)")


def article(ctx, section):
    section.heading("The article's own baseline, flat out")
    try:
        program = peers.build_neuring(ctx, section)
    except BenchError as error:
        section.text(f"{NEURING} could not be built, and is left out: {error}.")
        program = None
    names = ([NEURING] if program else []) + ["udp"]
    pairs = [(path, other) for path in names for other in ("dpdk", *([NEURING] if program else [ECHO]))]
    samples = ctx.compare({named(pair): lambda p=pair: flat_out(ctx, p, program) for pair in pairs})
    section.programs(samples, (("rate", "came back/s", rate), ("sent", "sent/s", rate), ("loss", "lost", percent)))
    if program:
        section.text(f"`{NEURING} syscall-send` is the sender of the article's \"Baseline\", `{NEURING} syscall-echo` "
                     "its reflector, both with one socket and a packet a system call; neither can be paced.")
    section.text("Both directions as the interfaces of host b and host a count them, the same for all; 18 bytes of "
                 "payload.")


def flat_out(ctx, pair, program):
    """A sender as fast as it goes, counted at the interfaces."""
    label = f"{named(pair)}, flat out"
    target = f"{dpdk.TARGET if pair[1] == 'dpdk' else ctx.lab.B}:{9000 if pair[1] == 'dpdk' else PORT}"
    if pair[0] == NEURING:
        argv = [program, "syscall-send", target, "--packet-size", 18]
    else:
        argv = [ctx.mpps, "sendrecv", f"udp:{ctx.lab.A}", "--dest", target, "--lanes", 1, "--duration", "10m",
                "--quiet"]
    with reflector(ctx, pair, label, program):
        found = peers.flood(ctx, label, argv)
    if not found["rate"]:
        raise BenchError(f"{label}: nothing was sent")
    return {"rate": found["back"], "sent": found["rate"], "loss": 1 - found["back"] / found["rate"]}


PARTS = (together, article)
