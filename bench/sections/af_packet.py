"""AF_PACKET rings over veth: one way beside trafgen, the round trip beside testpmd on net_af_packet."""

from harness import mpps, peers, steady, testpmd
from harness.best import best
from harness.stat import percent, rate

TITLE = "`af_packet:` beside `trafgen` and `dpdk-testpmd` on `net_af_packet`"

MPPS, TRAFGEN, TESTPMD = "mpps", "trafgen", "testpmd flowgen ↔ macswap"
TRAFGEN_WAYS = ((), ("-S", "64KiB"), ("-S", "1MiB"), ("-S", "16MiB"), ("-q",), ("-t", 0))
TESTPMD_WAYS = ("", "qdisc_bypass=1", "qdisc_bypass=1,framecnt=4096,blocksz=65536")


def _send(ctx):
    return peers.flood(ctx, MPPS, [
        ctx.mpps, "send", "af_packet:eth1", "--src", ctx.lab.A, "--src-port-range", "10000-10000",
        "--dest", f"{ctx.lab.B}:9000", "--dest-mac", ctx.lab.MAC_B, "--lanes", 1, "--quiet", "--duration", "10m"])


def one_way(ctx, section):
    section.heading("One way, one core, 64-byte frames")
    options = best(ctx, section, TRAFGEN, TRAFGEN_WAYS, lambda way: peers.trafgen(ctx, way))
    samples = ctx.compare({MPPS: lambda: _send(ctx), TRAFGEN: lambda: peers.trafgen(ctx, options)})
    section.programs(samples)
    section.target("× trafgen (one way, one core)", 1.2, samples.ratio(MPPS, TRAFGEN), samples.why_not(MPPS, TRAFGEN))
    section.text(f"Both on core {ctx.core_a}, one flow, nobody listening on host b: packets that its interface "
                 f"counted. The "
                 "stack of host b takes its share of the sender's core, the same for both. trafgen sends one frame "
                 "again and again; mpps stamps each anew.")


def round_trip(ctx, section):
    section.heading("Round trip, a core for each host, 64-byte frames")
    memory = "hugepages" if ctx.hugepages.have >= 512 else "no-huge"
    options = best(ctx, section, "testpmd", TESTPMD_WAYS, lambda way: testpmd.round_trip(ctx, memory, way))
    samples = ctx.compare({
        MPPS: lambda: mpps.trip_metrics(mpps.round_trip(ctx, "af_packet")),
        TESTPMD: lambda: testpmd.round_trip(ctx, memory, options),
    })
    section.programs(samples, (("rate", "came back/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent)))
    section.target("× testpmd (round trip, packets that came back)", 1.2, samples.ratio(MPPS, TESTPMD),
                   samples.why_not(MPPS, TESTPMD))
    section.text(f"Generator on host a, core {ctx.core_a}; reflector on host b, core {ctx.core_b}; flat out. testpmd's "
                 f"main thread "
                 "only waits at its prompt. `macswap` exchanges the MAC addresses; mpps exchanges IP addresses and "
                 "ports too, and verifies what comes back.")


def no_loss(ctx, section):
    section.heading(f"Round trip at half the maximum, {ctx.steady:g} s")
    steady.loss_verdict(section, "af_packet round trip", steady.run(ctx, "af_packet"))


PARTS = (one_way, round_trip, no_loss)
