"""Kernel UDP sockets over veth: one way beside sockperf and iperf3, with GSO and GRO, and the round trip."""

import functools

from harness import mpps, peers, steady
from harness.stat import percent, rate

TITLE = "`udp:` beside `sockperf`, `iperf3` and a plain echo"

RECEIVED = (("rate", "received/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent))
SIZES = (18, 1472)
MPPS, SEGMENTED, SOCKPERF, IPERF3 = "mpps", "mpps, gso and gro", "sockperf", "iperf3"


def one_way(ctx, section):
    for size in SIZES:
        section.heading(f"One way, {size} bytes of payload")
        samples = ctx.compare({
            MPPS: lambda: mpps.one_way(ctx, size=size),
            SOCKPERF: lambda: peers.sockperf(ctx, size),
            IPERF3: lambda: peers.iperf3(ctx, size),
            SEGMENTED: lambda: mpps.one_way(ctx, ("gso=on", "gro=on"), size, label=SEGMENTED),
        })
        section.programs(samples, RECEIVED)
        pairs = [(ours, theirs) for ours in (MPPS, SEGMENTED) for theirs in (SOCKPERF, IPERF3)]
        section.ratios(samples, pairs + [(SEGMENTED, MPPS)])
        for ours, least in ((MPPS, 1.1), (SEGMENTED, 10)):
            for theirs in (SOCKPERF, IPERF3):
                section.target(f"× {theirs} (one way, {size} bytes, {ours}, received)", least,
                               samples.ratio(ours, theirs), samples.why_not(ours, theirs))
    section.text(f"Sender on host a, core {ctx.core_a}; receiver on host b, core {ctx.core_b}; a socket each. "
                 f"*Received* is what "
                 "the receiving application counted, over the time that the sender sent. A receiver that keeps up is "
                 "paid for by the sender's core too: veth runs the receiving host's stack there.")


def round_trip(ctx, section):
    section.heading("Round trip, flat out, 18 bytes of payload")
    shared, separate, plain = "mpps, one shared lane", "mpps, separate lanes", "baseline echo"

    def trip(label, *lanes):
        return mpps.trip_metrics(mpps.round_trip(ctx, "udp", lanes, label))

    samples = ctx.compare({
        shared: functools.partial(trip, shared, "--lanes", 1),
        separate: functools.partial(trip, separate, "--tx-lanes", 1, "--rx-lanes", 1),
        plain: lambda: peers.baseline_echo(ctx, 18),
    })
    section.programs(samples, (("rate", "came back/s", rate),) + RECEIVED[1:])
    section.ratios(samples, [(shared, separate), (shared, plain), (separate, plain)])
    section.text(f"Sending host on core {ctx.core_a}, reflecting host on core {ctx.core_b}. The baseline "
                 "(`bench/peers/baseline_echo.c`) has one thread that sends flat out and one that receives, spinning "
                 "on each other for the sender's core, as published tools do.")


def no_loss(ctx, section):
    section.heading(f"Round trip at half the maximum, {ctx.steady:g} s")
    steady.loss_verdict(section, "udp round trip", steady.run(ctx, "udp"))


PARTS = (one_way, round_trip, no_loss)
