"""`io_uring:` beside `udp:`: the same sockets and packets, other calls. What each option of the ring brings, where many
sockets and large payloads change the answer, what a packet costs in calls and instructions, and a plain C echo."""

import functools
import signal

from harness import callgrind, data, mpps, peers
from harness.proc import BenchError, Proc
from harness.stat import percent, rate, times

TITLE = "`io_uring:` beside `udp:` and a plain echo over io_uring"

UDP, RING = "udp", "io_uring"
# On veth up to the MTU, on loopback (whose packets may be of 64 KiB) beyond it.
VETH_SIZES, LOOPBACK_SIZES = (18, 256, 1472), (1472, 8192, 32768, 65507)
ZEROCOPY = 1
BURSTS = (1, 8, 64, 256)
SOCKETS = (1, 64, 1024)
# Name, options of the sender or of both ends, options of the receiver.
OPTIONS = (
    ("no multishot", "multishot=off", "multishot=off"),
    ("no registered sockets", "direct=off", "direct=off"),
    ("taskrun=coop", "taskrun=coop", "taskrun=coop"),
    ("taskrun=interrupt", "taskrun=interrupt", "taskrun=interrupt"),
    ("SQPOLL", "sqpoll=100", "sqpoll=100"),
    ("zero copy", f"zerocopy={ZEROCOPY}", ""),
    ("64 buffers", "buffers=64", "buffers=64"),
)

ONE_WAY = (("rate", "received/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent))
TRIP = (("rate", "came back/s", rate),) + ONE_WAY[1:]
HEADER = ("part", "program", "round", "rate_pps", "sent_pps", "loss_ratio")


def compare(ctx, part, programs, rounds=None):
    """As `ctx.compare`; each round is kept in bench/data."""
    samples = ctx.compare(programs, rounds)
    ctx.ring_runs = getattr(ctx, "ring_runs", [])
    for label, rounds_of in samples.rounds.items():
        for turn, found in enumerate(rounds_of):
            if found:
                ctx.ring_runs.append({"part": part, "program": label, "round": turn + 1,
                                      "rate_pps": f"{found['rate']:.0f}", "sent_pps": f"{found['sent']:.0f}",
                                      "loss_ratio": f"{found['loss']:.6f}"})
    data.table(ctx, "io_uring", "runs.csv", HEADER, ctx.ring_runs)
    return samples


def against(samples, over, under):
    """A cell: the ratio of the medians, and those of the rounds."""
    found = samples.ratio(over, under)
    return f"{times(found[0])} ({found[1]:.2f} to {found[2]:.2f})" if found else "–"


def trip(ctx, label, path, options="", of="", more=("--lanes", 1)):
    """A round trip with these options at the sender and, with `of`, at the reflector."""
    return mpps.trip_metrics(mpps.round_trip(ctx, path, more, label, options=options, reflector_options=of))


def with_comma(options):
    return "," + options if options else ""


def options(ctx, section):
    section.heading("What each option brings, 18 bytes of payload, one socket")
    ways, trips = {}, {}
    for path in (UDP, RING):
        ways[path] = functools.partial(mpps.one_way, ctx, path=path, label=path)
        trips[path] = functools.partial(trip, ctx, f"{path}, round trip", path)
    for name, to, of in OPTIONS:
        label = f"{RING}, {name}"
        ways[label] = functools.partial(mpps.one_way, ctx, (to, of), path=RING, label=label)
        trips[label] = functools.partial(trip, ctx, f"{label}, round trip", RING, with_comma(to), with_comma(of or to))
    for path in (UDP, RING):
        label = f"{path}, gso and gro"
        ways[label] = functools.partial(mpps.one_way, ctx, ("gso=on", "gro=on"), path=path, label=label)
        both = ",gso=on,gro=on"
        trips[label] = functools.partial(trip, ctx, f"{label}, round trip", path, both, both)
    one, two = compare(ctx, "options, one way", ways), compare(ctx, "options, round trip", trips)
    rows = []
    for label in ways:
        under = UDP if label == RING else f"{UDP}, gso and gro" if label.endswith("gro") and label[:3] != UDP else RING
        cells = [f"{against(samples, label, under)}" if label != UDP else "1×" for samples in (one, two)]
        rows.append([label, rate(one.median(label)), cells[0], rate(two.median(label)), cells[1],
                     "–" if label == UDP else under])
    section.table(["program", "one way: received/s", "ratio (rounds)", "round trip: came back/s", "ratio (rounds)",
                   "ratio to"], rows)
    section.text(f"Host a on core {ctx.core_a}, host b on core {ctx.core_b}; a lane and a socket each. With SQPOLL the "
                 "kernel's threads share these cores: they would need some of their own.")


def bursts(ctx, section):
    section.heading("Round trip by the largest burst of a lane, 18 bytes of payload, one socket")
    rows = []
    for burst in BURSTS:
        more = ("--lanes", 1, "--burst", burst)
        samples = compare(ctx, f"burst {burst}", {
            path: functools.partial(trip, ctx, f"{path}, burst {burst}", path, more=more) for path in (UDP, RING)})
        rows.append([burst, rate(samples.median(UDP)), rate(samples.median(RING)), against(samples, RING, UDP)])
    section.table(["`--burst` of the sender", UDP, RING, f"{RING} / {UDP} (rounds)"], rows)


def payloads(ctx, section):
    section.heading("One way by payload, with and without zero copy")
    rows = []
    zero = f"{RING}, zero copy"
    cases = [(size, "veth", functools.partial(veth, ctx, size)) for size in VETH_SIZES]
    cases += [(size, "loopback", functools.partial(loopback, ctx, size)) for size in LOOPBACK_SIZES]
    for size, where, measure in cases:
        samples = compare(ctx, f"{size} bytes, {where}", {
            label: functools.partial(measure, label, path, with_zero)
            for label, path, with_zero in ((UDP, UDP, ""), (RING, RING, ""), (zero, RING, f"zerocopy={ZEROCOPY}"))})
        rows.append([f"{size}, {where}", rate(samples.median(UDP)), rate(samples.median(RING)),
                     against(samples, RING, UDP), rate(samples.median(zero)), against(samples, zero, RING)])
    section.table(["payload, over", UDP, RING, f"{RING} / {UDP} (rounds)", "zero copy", f"zero copy / {RING} (rounds)"],
                  rows)
    section.text("Received a second. veth and loopback copy what was sent by zero copy all the same when the packet "
                 "changes hosts or is received: what is saved there is nothing, what it costs is a notification.")


def veth(ctx, size, label, path, options_of_sender):
    return mpps.one_way(ctx, (options_of_sender, ""), size, path=path, label=f"{label}, {size} bytes")


def loopback(ctx, size, label, path, options_of_sender):
    """On host a's loopback."""
    label = f"{label}, {size} bytes, loopback"
    listen = ["drop", f"{path}:127.0.0.1:9009", "--lanes", 1]
    with mpps.Listener(ctx, f"{label}, receiver", listen, "a", ctx.core_b) as drop:
        sent = mpps.send(ctx, label, ["send", f"{path}:127.0.0.1{with_comma(options_of_sender)}", "--dest",
                                      "127.0.0.1:9009", "--lanes", 1, "--payload-size", size],
                         ctx.seconds, "a", ctx.core_a)
        got = drop.stop()
    return {"rate": got["rx_packets"] / sent["duration_s"], "sent": sent["offered_pps"],
            "loss": 1 - got["rx_packets"] / max(sent["tx_packets"], 1)}


def sockets(ctx, section):
    section.heading("Round trip of many sockets, 18 bytes of payload")
    rows = []
    for flows in SOCKETS:
        more = ("--src-port-range", f"20000-{20000 + flows - 1}", "--flows", flows, "--lanes", 1)
        samples = compare(ctx, f"{flows} sockets", {
            path: functools.partial(trip, ctx, f"{path}, {flows} sockets", path, f",sockets={flows}", more=more)
            for path in (UDP, RING)})
        rows.append([flows, rate(samples.median(UDP)), rate(samples.median(RING)), against(samples, RING, UDP),
                     percent(samples.median(UDP, "loss")), percent(samples.median(RING, "loss"))])
    section.table(["sockets of the sender", UDP, RING, f"{RING} / {UDP} (rounds)", f"loss, {UDP}", f"loss, {RING}"],
                  rows)
    section.text("One lane at each end; each flow is a socket of the sender's, and the reflector has one. Each packet "
                 "goes by another socket than the one before.")


def echo(ctx, section):
    section.heading("Round trip, flat out, beside plain echoes, 18 bytes of payload")
    plain, ring = "baseline echo", "io_uring echo"
    samples = compare(ctx, "echo", {
        UDP: functools.partial(trip, ctx, UDP, UDP),
        RING: functools.partial(trip, ctx, RING, RING),
        ring: lambda: peers.uring_echo(ctx, 18),
        plain: lambda: peers.baseline_echo(ctx, 18),
    })
    section.programs(samples, TRIP)
    section.ratios(samples, [(RING, UDP), (RING, ring), (ring, plain), (UDP, plain)])
    section.text("`bench/peers/uring_echo.c`: one thread and one ring without flags, 256 requests of one packet each "
                 "way under way, raw system calls; `bench/peers/baseline_echo.c`: a system call a packet.")


CASES = (("one socket", ()), ("one socket, bursts of 32", ("--pacing", "burst=32")),
         ("64 sockets, bursts of 64", ("--src-port-range", "21000-21063", "--flows", 64, "--pacing", "burst=64")))


def calls(ctx, path, more):
    """System calls a packet of a receiver and a sender on host a's loopback, by perf."""
    found = []
    for role, argv in (
        ("received", ["drop", f"{path}:127.0.0.1:9010,sockets=64", "--lanes", 1, "--duration",
                      mpps.seconds(ctx.seconds + 1.5)]),
        ("sent", ["send", f"{path}:127.0.0.1,sockets=64", "--dest", "127.0.0.1:9010", "--lanes", 1, "--rate",
                  "50kpps", "--duration", mpps.seconds(ctx.seconds), *more]),
    ):
        counts, summary = ctx.file(".txt"), ctx.file(".json")
        perf = ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o", counts]
        argv = ctx.command([*perf, ctx.mpps, *argv, "--plain", "--json", summary], "a")
        ctx.section.command(f"{path}, calls a packet {role}", argv)
        found.append((role, counts, summary, Proc(argv)))
        if role == "received":
            found[0][3].wait_for("is ready")
    metrics = {}
    for role, counts, summary, proc in reversed(found):
        if (status := proc.wait(ctx.seconds + 40)) not in mpps.DONE:
            raise BenchError(f"{path}, {role}: ended with {status}: {proc.last_line()}")
        with open(counts) as file:
            lines = [line for line in file if "raw_syscalls:sys_enter" in line]
        if not lines or not lines[0].split(",")[0].isdigit():
            raise BenchError(f"perf counts no system calls: {lines[0].strip() if lines else 'nothing written'}")
        packets = mpps.load(summary)["tx_packets" if role == "sent" else "rx_packets"]
        metrics[role] = int(lines[0].split(",")[0]) / max(packets, 1)
    return metrics


def system_calls(ctx, section):
    section.heading("System calls a packet, at 50 kpps")
    ctx.need("perf")
    samples = ctx.compare({f"{path}, {name}": functools.partial(calls, ctx, path, more)
                           for path in (UDP, RING) for name, more in CASES}, rounds=1)
    show = "{:.3g}".format
    rows = [[label, *(show(samples.median(label, role)) if samples.values(label, role) else samples.failures[label]
                      for role in ("sent", "received"))] for label in samples.rounds]
    section.table(["program", "calls a packet sent", "calls a packet received"], rows)
    section.text("On host a's loopback, by perf (`raw_syscalls:sys_enter`), of the whole process: the calls of "
                 "starting, waiting and ending are among them.")


def ground_sender(ctx, path, more):
    """Instructions a packet of a sender that sends flat out to a listener on loopback: a longer run less a shorter."""
    runs = []
    listen = ["drop", "udp:127.0.0.1:9011", "--lanes", 1]
    with mpps.Listener(ctx, "receiver of instructions", listen, None, ctx.core_b):
        for length in (0.5, 2.0):
            summary = ctx.file(".json")
            argv = [ctx.mpps, "send", f"{path}:127.0.0.1,sockets=64", "--dest", "127.0.0.1:9011", "--lanes", 1,
                    *more, "--duration", mpps.seconds(length), "--quiet", "--json", summary]
            runs.append(callgrind.grind(ctx, f"{path}, sending, instructions", argv,
                                        lambda _, at=summary: mpps.load(at)["tx_packets"]))
    return callgrind.a_packet(*runs)


def ground_receiver(ctx, path):
    """The same of a receiver that is sent more than it can take."""
    runs = []
    for length in (0.5, 2.0):
        summary = ctx.file(".json")
        argv = [ctx.mpps, "drop", f"{path}:127.0.0.1:9011", "--lanes", 1, "--plain", "--json", summary]
        feed = ["send", "udp:127.0.0.1", "--dest", "127.0.0.1:9011", "--lanes", 1]

        def fed(proc, feed=feed, length=length):
            proc.wait_for("is ready", 30)
            mpps.send(ctx, "feeder of instructions", feed, length, None, ctx.core_a)
            proc.child.send_signal(signal.SIGINT)

        runs.append(callgrind.grind(ctx, f"{path}, receiving, instructions", argv,
                                    lambda _, at=summary: mpps.load(at)["rx_packets"], fed))
    return callgrind.a_packet(*runs)


def instructions(ctx, section):
    section.heading("Instructions a packet in user space")
    ctx.need("valgrind")
    many = ("--src-port-range", "21000-21063", "--flows", 64)
    rows = [[path, *(f"{count:.0f}" for count in (ground_sender(ctx, path, ()), ground_sender(ctx, path, many),
                                                  ground_receiver(ctx, path)))] for path in (UDP, RING)]
    section.table(["path", "sent by one socket", "sent by 64 sockets", "received"], rows)
    section.text("By callgrind, of the lane's thread, flat out on loopback: a run of 2 s less one of 0.5 s. Those of "
                 "the kernel are not among them: this host has no performance counters.")


PARTS = (options, bursts, payloads, sockets, echo, system_calls, instructions)
