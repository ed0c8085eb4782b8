"""DPDK's devices: beside testpmd and the C example l2fwd on net_null, net_ring and net_memif, and under load."""

from functools import partial

from harness import dpdk, l2fwd
from harness.proc import BenchError
from harness.stat import percent, rate
from sections import dpdk_load, dpdk_overload

TITLE = "`dpdk:` beside `dpdk-testpmd` and the C example `l2fwd`"

REFLECT, FILLED, ZERO = "mpps reflect", "testpmd 5tswap", "testpmd 5tswap, buffers of zeros"
L2FWD = "C l2fwd"
ALL = ["--take", "all"]
BACK = (("rate", "came back/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent))
BOTH = (False, True)  # with the peers' burst, with mpps's own


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


PARTS = (preparation, null, ring, memif, *dpdk_load.PARTS, *dpdk_overload.PARTS)
