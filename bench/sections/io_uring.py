"""`io_uring:` beside `udp:`: the same sockets and packets, other calls. What each option of the ring brings, where many
sockets and large payloads change the answer, and a plain C echo over io_uring."""

import functools

from harness import mpps, peers
from harness.proc import run
from harness.stat import percent, rate

TITLE = "`io_uring:` beside `udp:` and a plain echo over io_uring"

UDP, RING = "udp", "io_uring"
SIZES = (18, 256, 1472, 8192, 65507)
ZEROCOPY = 1


def calls(value):
    return "–" if value is None else f"{value:.3g}"


ONE_WAY = (("rate", "received/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent))
TRIP = (("rate", "came back/s", rate),) + ONE_WAY[1:]


def one_way(ctx, section):
    section.heading("One way, 18 bytes of payload")
    programs = {
        UDP: lambda: mpps.one_way(ctx, label=UDP),
        RING: lambda: mpps.one_way(ctx, path=RING, label=RING),
    }
    for name, options in (
        ("burst 1", ("", "")),
        ("no multishot", ("multishot=off", "multishot=off")),
        ("no registered sockets", ("direct=off", "direct=off")),
        ("taskrun=coop", ("taskrun=coop", "taskrun=coop")),
        ("taskrun=interrupt", ("taskrun=interrupt", "taskrun=interrupt")),
        ("SQPOLL", ("sqpoll=100", "sqpoll=100")),
        ("zero copy", (f"zerocopy={ZEROCOPY}", "")),
        ("gso and gro", ("gso=on", "gro=on")),
    ):
        label = f"{RING}, {name}"
        more = ("--burst", 1) if name == "burst 1" else ()
        programs[label] = functools.partial(mpps.one_way, ctx, options, args=more, path=RING, label=label)
    segmented = f"{UDP}, gso and gro"
    programs[segmented] = lambda: mpps.one_way(ctx, ("gso=on", "gro=on"), label=segmented)
    samples = ctx.compare(programs)
    section.programs(samples, ONE_WAY)
    section.ratios(samples, [(label, RING) for label in programs if label.startswith(RING + ",")]
                   + [(RING, UDP), (f"{RING}, gso and gro", segmented)])
    section.text(f"Sender on host a, core {ctx.core_a}; receiver on host b, core {ctx.core_b}; a socket each. With "
                 "SQPOLL the kernel's thread shares these cores: it would need one of its own.")


def payloads(ctx, section):
    """On loopback: its packets may be of 64 KiB, those of the lab's veth pair are not."""
    section.heading("One way by payload, with and without zero copy")
    for size in SIZES:
        if size > 1472:
            continue
        programs = {
            UDP: lambda size=size: mpps.one_way(ctx, size=size, label=UDP),
            RING: lambda size=size: mpps.one_way(ctx, size=size, path=RING, label=RING),
            f"{RING}, zero copy": lambda size=size: mpps.one_way(ctx, (f"zerocopy={ZEROCOPY}", ""), size, path=RING,
                                                                label=f"{RING}, zero copy"),
        }
        section.text(f"{size} bytes:")
        samples = ctx.compare(programs)
        section.programs(samples, ONE_WAY)
        section.ratios(samples, [(RING, UDP), (f"{RING}, zero copy", RING)])
    for size in SIZES:
        if size <= 1472:
            continue
        section.text(f"{size} bytes, on host a's loopback:")
        samples = ctx.compare({label: functools.partial(loopback, ctx, label, path, options, size)
                               for label, path, options in ((UDP, UDP, ""), (RING, RING, ""),
                                                            (f"{RING}, zero copy", RING, f",zerocopy={ZEROCOPY}"))})
        section.programs(samples, ONE_WAY)
        section.ratios(samples, [(RING, UDP), (f"{RING}, zero copy", RING)])


def loopback(ctx, label, path, options, size):
    with mpps.Listener(ctx, f"{label}, receiver", ["drop", f"{path}:127.0.0.1:9009", "--lanes", 1], "a",
                       ctx.core_b) as drop:
        sent = mpps.send(ctx, label, ["send", f"{path}:127.0.0.1{options}", "--dest", "127.0.0.1:9009", "--lanes", 1,
                                      "--payload-size", size], ctx.seconds, "a", ctx.core_a)
        got = drop.stop()
    return {"rate": got["rx_packets"] / sent["duration_s"], "sent": sent["offered_pps"],
            "loss": 1 - got["rx_packets"] / max(sent["tx_packets"], 1)}


def sockets(ctx, section):
    section.heading("Round trip of many sockets, 18 bytes of payload")
    for flows in (1, 100, 1000):
        more = ("--src-port-range", f"20000-{20000 + flows - 1}", "--flows", flows, "--lanes", 1)
        samples = ctx.compare({path: functools.partial(trip, ctx, path, more, f",sockets={flows}")
                               for path in (UDP, RING)})
        section.text(f"{flows} sockets of the sender:")
        section.programs(samples, TRIP)
        section.ratios(samples, [(RING, UDP)])
    section.text("One lane at each end; each flow is a socket of the sender's, and the reflector has one.")


def trip(ctx, path, more, options):
    return mpps.trip_metrics(mpps.round_trip(ctx, path, more, path, options=options))


def echo(ctx, section):
    section.heading("Round trip, flat out, beside plain echoes, 18 bytes of payload")
    plain, ring = "baseline echo", "io_uring echo"
    samples = ctx.compare({
        UDP: functools.partial(trip, ctx, UDP, ("--lanes", 1), ""),
        RING: functools.partial(trip, ctx, RING, ("--lanes", 1), ""),
        ring: lambda: peers.uring_echo(ctx, 18),
        plain: lambda: peers.baseline_echo(ctx, 18),
    })
    section.programs(samples, TRIP)
    section.ratios(samples, [(RING, UDP), (RING, ring), (ring, plain), (UDP, plain)])
    section.text("`bench/peers/uring_echo.c`: one thread and one ring without flags, 256 requests of one packet each "
                 "way under way, raw system calls; `bench/peers/baseline_echo.c`: a system call a packet.")


def counted(ctx, path, options, more):
    """System calls a packet of a sender and of a receiver, by perf, those of starting and ending among them."""
    found = {}
    for role, argv in (
        ("received", ["drop", f"{path}:127.0.0.1:9010{options}", "--lanes", 1, "--duration",
                      mpps.seconds(ctx.seconds + 1)]),
        ("sent", ["send", f"{path}:127.0.0.1{options}", "--dest", "127.0.0.1:9010", "--lanes", 1, "--rate", "50kpps",
                  "--duration", mpps.seconds(ctx.seconds), *more]),
    ):
        table, summary = ctx.file(".txt"), ctx.file(".json")
        perf = ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o", table]
        command = ctx.command([*perf, ctx.mpps, *argv, "--quiet", "--json", summary], "a")
        found[role] = (table, summary, " ".join(map(str, command)))
    script = f"{found['received'][2]} & sleep 0.5; {found['sent'][2]}; wait"
    run(["sh", "-c", script], ctx.seconds + 60)
    metrics = {}
    for role, (table, summary, _) in found.items():
        with open(table) as file:
            n = next(int(line.split(",")[0]) for line in file if "raw_syscalls:sys_enter" in line and line[0].isdigit())
        packets = mpps.load(summary)["tx_packets" if role == "sent" else "rx_packets"]
        metrics[role] = n / max(packets, 1)
    return metrics


def system_calls(ctx, section):
    section.heading("System calls a packet, at 50 kpps")
    ctx.need("perf")
    samples = ctx.compare({
        f"{path}, {name}": functools.partial(counted, ctx, path, ",sockets=64", more)
        for path in (UDP, RING)
        for name, more in (("one socket", ()), ("one socket, bursts of 32", ("--pacing", "burst=32")),
                           ("64 sockets, bursts of 64",
                            ("--src-port-range", "21000-21063", "--flows", 64, "--pacing", "burst=64")))
    }, rounds=1)
    section.programs(samples, (("sent", "calls a packet sent", calls), ("received", "calls a packet received", calls)))
    section.text("On host a's loopback, by perf (`raw_syscalls:sys_enter`), of the whole process: the calls of "
                 "starting, waiting and ending are among them. Instructions can't be counted on a host without "
                 "performance counters, and valgrind runs no io_uring.")


PARTS = (one_way, payloads, sockets, echo, system_calls)
