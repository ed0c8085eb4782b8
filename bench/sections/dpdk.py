"""DPDK's devices: beside testpmd and the C example l2fwd on net_null, net_ring and net_memif, with work on each packet,
with two lanes that send, and under load."""

from functools import partial

from harness import dpdk, l2fwd, mpps
from harness.proc import BenchError
from harness.stat import percent, rate
from sections import dpdk_load, dpdk_overload

TITLE = "`dpdk:` beside `dpdk-testpmd` and the C example `l2fwd`"

REFLECT, FILLED, ZERO = "mpps reflect", "testpmd 5tswap", "testpmd 5tswap, buffers of zeros"
L2FWD = "C l2fwd"
ALL = ["--take", "all"]
BACK = (("rate", "came back/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent))
BOTH = (False, True)  # with the peers' burst, with mpps's own
WRITES = (0, 1, 4, 16)  # of each packet's work
WORK_MEMORY = 1 << 20  # bytes that they go to
# testpmd uses the first 64th of the memory that it is given.
NOISY_MEGABYTES = (WORK_MEMORY * 64) >> 20


def duel(ctx, section, heading, ours, peers, targets, columns=(("rate", "packets/s", rate),)):
    """`ours`: what → measure(label, own_burst), run with both bursts; `peers`: label → measure; `targets`: (what, peer,
    least)."""
    section.heading(heading)
    programs = {}
    for what, measure in ours.items():
        for own in BOTH:
            label = dpdk.name(what, own)
            programs[label] = partial(measure, label, own)
    samples = ctx.compare(programs | peers)
    section.programs(samples, columns)
    section.ratios(samples, [(dpdk.name(what, own), peer) for what in ours for peer in peers for own in BOTH])
    for what, peer, least in targets:
        aim = "; an aim" if peer.startswith("testpmd txonly") else ""
        section.target(f"× {peer} ({heading}, `{what}`{aim})", least, samples.ratio(what, peer),
                       samples.why_not(what, peer))


def best_l2fwd(ctx, section, vdevs):
    """The build of the C l2fwd that is faster on these, or None."""
    built = l2fwd.build(ctx, section)
    if not built:
        return None
    tried = {}
    for _ in range(2):
        for flags, program in built.items():
            try:
                got = dpdk.l2fwd_alone(ctx, f"{L2FWD}, {flags}", program, vdevs)["rate"]
                tried[flags] = max(tried.get(flags, 0), got)
            except BenchError as error:
                section.text(f"The C `l2fwd` with {flags}: {error}")
    if not tried:
        return None
    flags = max(tried, key=tried.get)
    section.text("The C `l2fwd`, best of two runs: " +
                 ", ".join(f"{f} {rate(r)}" for f, r in tried.items()) + f"; used: {flags}.")
    return built[flags]


def preparation(ctx, section):
    ctx.need("dpdk-testpmd")
    ctx.l2fwd = best_l2fwd(ctx, section, [dpdk.NULL])
    section.text(f"Every program has one lane (forwarding core) that never sleeps, on core {ctx.core_b} where one "
                 f"program runs alone; bursts of {dpdk.BURST} for all, and mpps once more with its own (*own burst*). "
                 f"Targets are of the "
                 "equal bursts. Frames have 60 bytes in memory, 64 with FCS. Each program counts for itself, over its "
                 "own "
                 f"clock. EAL memory of the peers: `{' '.join(dpdk.memory(ctx))}`; mpps's own choice is alike.")


def forward(ctx, ports, mode, *more):
    """Our forwarder between devices that make and sink packets themselves."""
    args = ["forward", *(f"dpdk:{p}" for p in ports), "--mode", mode, *more, *ALL]
    return lambda label, own: dpdk.mpps_alone(ctx, label, args, "tx_packets", own)


def of_l2fwd(ctx, label, measure):
    return {label: measure} if ctx.l2fwd else {}


def null(ctx, section):
    """One heading each, so that those compared run close to each other."""
    alone, peer = partial(dpdk.mpps_alone, ctx), partial(dpdk.testpmd_alone, ctx)
    port = f"dpdk:{dpdk.NULL}"
    duel(ctx, section, "`net_null`: reflect",
         {REFLECT: lambda label, own: alone(label, ["reflect", port], "tx_packets", own)},
         {FILLED: lambda: peer(FILLED, "5tswap", [dpdk.NULL], True), ZERO: lambda: peer(ZERO, "5tswap", [dpdk.NULL])},
         [(REFLECT, FILLED, 1.0)])
    section.text("`net_null` gives its buffers as they are. mpps puts a UDP packet into each at the start. testpmd's "
                 "hold zeros and 5tswap then only exchanges MAC addresses: for the target it sent with `txonly` first, "
                 "so that its buffers hold UDP packets, too.")
    for mode in ("macswap", "io"):
        duel(ctx, section, f"`net_null`: forward, {mode}", {f"mpps forward {mode}": forward(ctx, [dpdk.NULL], mode)},
             {f"testpmd {mode}": partial(peer, f"testpmd {mode}", mode, [dpdk.NULL])},
             [(f"mpps forward {mode}", f"testpmd {mode}", 1.0)])
    ours = "mpps forward l2fwd"
    duel(ctx, section, "`net_null`: forward, l2fwd",
         {ours: forward(ctx, [dpdk.NULL], "l2fwd", "--dest-mac", dpdk.DEST_MAC)},
         of_l2fwd(ctx, L2FWD, lambda: dpdk.l2fwd_alone(ctx, L2FWD, ctx.l2fwd, [dpdk.NULL])), [(ours, L2FWD, 1.0)])
    send = ["send", port, *dpdk.flow(), "--dest-mac", dpdk.DEST_MAC]
    duel(ctx, section, "`net_null`: send", {"mpps send": lambda label, own: alone(label, send, "tx_packets", own)},
         {f"testpmd {mode}": partial(peer, f"testpmd {mode}", mode, [dpdk.NULL]) for mode in ("flowgen", "txonly")},
         [("mpps send", "testpmd flowgen", 1.5), ("mpps send", "testpmd txonly", 1.0)])
    drop = ["drop", port, "--no-verify"]
    duel(ctx, section, "`net_null`: drop",
         {"mpps drop --no-verify": lambda label, own: alone(label, drop, "rx_packets", own)},
         {"testpmd rxonly": lambda: peer("testpmd rxonly", "rxonly", [dpdk.NULL])}, [])
    section.text("mpps counts UDP packets, so it looks at each; rxonly only frees.")


def ring(ctx, section):
    """`net_ring` makes no packets itself: they come in by net_null."""
    pair = [dpdk.NULL, dpdk.RING]
    heading = "`net_null` ↔ `net_ring`: {}"
    for mode in ("io", "macswap", "5tswap"):
        ours, theirs = f"mpps forward {mode}, ring", f"testpmd {mode}, ring"
        duel(ctx, section, heading.format(mode), {ours: forward(ctx, pair, mode)},
             {theirs: partial(dpdk.testpmd_alone, ctx, theirs, mode, pair, mode == "5tswap")}, [(ours, theirs, 1.0)])
    ours, theirs = "mpps forward l2fwd, ring", f"{L2FWD}, ring"
    duel(ctx, section, heading.format("l2fwd"), {ours: forward(ctx, pair, "l2fwd", "--dest-mac", dpdk.DEST_MAC)},
         of_l2fwd(ctx, theirs, lambda: dpdk.l2fwd_alone(ctx, theirs, ctx.l2fwd, pair)), [(ours, theirs, 1.0)])
    section.text(f"`net_ring`'s port is its own peer: what a program sends to it comes back in. Packets enter by "
                 f"`net_null`, leave into `net_ring`, come back from it and leave by `net_null`; rates are the sum of "
                 f"both directions, all on core {ctx.core_b}. `reflect` has one port, so its work is done by `forward "
                 f"--mode 5tswap` here; testpmd's "
                 "5tswap had UDP packets in its buffers, as above.")


def memif(ctx, section):
    trip, pair = "mpps sendrecv ↔ reflect", "testpmd flowgen ↔ 5tswap"

    def ours(label, own):
        link = dpdk.Memif(ctx)
        s = dpdk.mpps_round_trip(ctx, label, (link.client, link.server), own_burst=own)
        return {"rate": s["received_pps"], "sent": s["offered_pps"], "loss": s["loss_ratio"]}

    duel(ctx, section, "`net_memif`: round trip", {trip: ours},
         {pair: lambda: dpdk.driven(ctx, lambda device: dpdk.pmd(ctx, pair, "5tswap", device, ctx.core_b))},
         [(trip, pair, 1.0)], BACK)
    section.text(f"Generator on core {ctx.core_a}, reflector on core {ctx.core_b}, flat out. mpps stamps each packet, "
                 f"and verifies "
                 "and times each that comes back; flowgen only frees them.")

    sends = "mpps send, memif"
    duel(ctx, section, "`net_memif`: one way into testpmd rxonly",
         {sends: lambda label, own: dpdk.sink(ctx, label, lambda device: dpdk.mpps_sends(ctx, label, device, own))},
         {f"testpmd {mode}, memif": partial(dpdk.sink, ctx, f"testpmd {mode}, memif", lambda device, m=mode: dpdk.pmd(
             ctx, f"testpmd {m}, memif", m, device, ctx.core_a)) for mode in ("flowgen", "txonly")},
         [(sends, "testpmd flowgen, memif", 1.5), (sends, "testpmd txonly, memif", 1.0)])
    section.text("What rxonly received, the same receiver for all.")

    whole = {f"mpps send → drop{more}": lambda label, own, v=verify: dpdk.mpps_one_way(ctx, label, v, own)
             for more, verify in (("", True), (" --no-verify", False))}
    duel(ctx, section, "`net_memif`: one way, both ends", whole,
         {"testpmd txonly → rxonly": lambda: dpdk.sink(ctx, "testpmd txonly → rxonly", lambda device: dpdk.pmd(
             ctx, "testpmd txonly", "txonly", device, ctx.core_a))}, [])

    forwarders(ctx, section)


def forwarders(ctx, section):
    """Each forwarder alone: the generator is testpmd's for all."""
    def ours(*args):
        return lambda label, own: dpdk.driven(ctx, lambda device: dpdk.listener(
            ctx, label, [args[0], f"dpdk:{device}", *args[1:]], ctx.core_b, own_burst=own))

    def theirs(mode):
        label = f"testpmd {mode}, driven"
        return {label: lambda: dpdk.driven(ctx, lambda device: dpdk.pmd(ctx, label, mode, device, ctx.core_b))}

    l2fwd_driven = of_l2fwd(ctx, f"{L2FWD}, driven", lambda: dpdk.driven(
        ctx, lambda device: dpdk.c_l2fwd(ctx, f"{L2FWD}, driven", ctx.l2fwd, device, ctx.core_b)))
    for what, args, peers in (
            ("reflect", ["reflect"], theirs("5tswap")),
            ("forward macswap", ["forward", "--mode", "macswap", *ALL], theirs("macswap")),
            ("forward io", ["forward", "--mode", "io", *ALL], theirs("io")),
            ("forward l2fwd", ["forward", "--mode", "l2fwd", "--dest-mac", dpdk.DEST_MAC, *ALL], l2fwd_driven)):
        label = f"mpps {what}, driven"
        peer = next(iter(peers), f"{L2FWD}, driven")
        duel(ctx, section, f"`net_memif`: {what}, driven by testpmd flowgen", {label: ours(*args)}, peers,
             [(label, peer, 1.0)], BACK)
    section.text(f"flowgen on core {ctx.core_a} for all; the program on core {ctx.core_b}. *Came back*: what flowgen "
                 f"received. It "
                 "sends and receives in one loop, which may be the limit.")


def noisy(ctx, section):
    """A program that does more than to forward: as testpmd's mode of that name has it."""
    section.heading("`net_null`: work on each packet beside testpmd `noisy`")
    programs = {}
    for writes in WRITES:
        work = ["--work", f"0,writes={writes},memory={WORK_MEMORY}"] if writes else []
        more = ["--noisy-lkup-memory", NOISY_MEGABYTES, "--noisy-lkup-num-writes", writes] if writes else []
        ours, theirs = (f"{what}, {writes} writes" for what in ("mpps forward --work", "testpmd noisy"))
        programs[ours] = partial(forward(ctx, [dpdk.NULL], "io", *work), ours, False)
        programs[theirs] = partial(dpdk.testpmd_alone, ctx, theirs, "noisy", [dpdk.NULL], more=more)
    for ns in (100, 1000):
        label = f"mpps forward --work {ns}ns"
        programs[label] = partial(forward(ctx, [dpdk.NULL], "io", "--work", f"{ns}ns"), label, False)
    samples = ctx.compare(programs)
    for rounds in samples.rounds.values():
        for metrics in filter(None, rounds):
            metrics["ns"] = 1e9 / metrics["rate"]
    section.programs(samples, (("rate", "packets/s", rate), ("ns", "ns/packet", "{:.1f}".format)))
    section.text(f"Writes go to random places of {WORK_MEMORY >> 20} MiB. testpmd is given {NOISY_MEGABYTES} MB, as it "
                 "uses the first 64th of it. Its reads are not compared: what it reads it does nothing with, so that a "
                 "compiler may leave them out.")


def lanes(ctx, section):
    """Lanes that send: one, and two."""
    section.heading("Two lanes that send")
    both = f"{ctx.core_a},{ctx.core_b}"

    def alone(label, args, field, count):
        cores = ["--lanes", count, "--cores", both if count > 1 else ctx.core_b, "--busy-poll", "--burst", dpdk.BURST]
        return dpdk.pace(mpps.send(ctx, label, [*args, *cores], ctx.seconds), field)

    def trip(label, count):
        link = dpdk.Memif(ctx)
        # A core for each where there are as many, else one for each end.
        near, far = ctx.cores[:count + 1], ctx.cores[count + 1:2 * count + 1]
        if len(far) < count:
            near, far = [ctx.core_a], [ctx.core_b]
        words = lambda cores: ["--cores", ",".join(map(str, cores)), "--burst", dpdk.BURST]
        wait = ["reflect", f"dpdk:{link.server}", "--ip", dpdk.TARGET, "--lanes", count, *words(far)]
        with mpps.Listener(ctx, f"{label}, reflector", wait, None):
            s = mpps.send(ctx, label, ["sendrecv", f"dpdk:{link.client}", *dpdk.flow(), "--tx-lanes", count,
                                       "--rx-lanes", 1, *words(near)], ctx.seconds)
        return {"rate": s["received_pps"], "sent": s["offered_pps"], "loss": s["loss_ratio"]}

    null = ["send", f"dpdk:{dpdk.NULL}", *dpdk.flow(), "--dest-mac", dpdk.DEST_MAC]
    # As many flows as lanes, each its own reverse.
    looped = ["sendrecv", f"dpdk:{dpdk.RING}", *dpdk.PALINDROME[:2], "--src-port-range", "9000-9001", "--dest",
              f"{dpdk.SOURCE}:9000-9001", "--step", "together", *dpdk.PALINDROME[6:]]
    for heading, ways in {
            "`net_null`, `send`": {n: partial(alone, f"net_null, {n} lanes", null, "tx_packets", n) for n in (1, 2)},
            "`net_ring`, `sendrecv`": {n: partial(alone, f"net_ring, {n} lanes", looped, "rx_packets", n)
                                       for n in (1, 2)},
            "`net_memif`, `sendrecv` ↔ `reflect`": {n: partial(trip, f"net_memif, {n} + 1 lanes", n) for n in (1, 2)},
    }.items():
        names = {n: f"{heading}, {n} lane{'s' * (n > 1)}" for n in ways}
        samples = ctx.compare({names[n]: way for n, way in ways.items()})
        section.programs(samples, BACK if "memif" in heading else (("rate", "packets/s", rate),))
        section.ratios(samples, [(names[2], names[1])])
    section.text(f"Flat out. On `net_null` and `net_ring` a lane has a core for itself (cores {both}), and each its "
                 "own queue; on the ring each receives what it sent. Over `net_memif` one lane receives what the "
                 "others sent and the reflector has as many lanes as the sender has that send, as a queue that nobody "
                 "serves would fill: these are on a core for each end where this host has not one for each lane.")


PARTS = (preparation, null, ring, memif, noisy, lanes, *dpdk_load.PARTS, *dpdk_overload.PARTS)
