"""The engine alone: what a packet costs when I/O costs next to nothing, beside testpmd on net_null."""

import os
import re
import time

from harness import callgrind, mpps, testpmd
from harness.proc import BenchError
from harness.stat import rate

TITLE = "Engine alone: `null:` and `loop:` beside `dpdk-testpmd` on `net_null`"

SEND, DROP, LOOP = "mpps send null:", "mpps drop null:", "mpps sendrecv loop:"
MODES = ("flowgen", "txonly", "rxonly", "macswap")


def _mpps(ctx, label, *args):
    def measure():
        summary = mpps.send(ctx, label, [*args, "--lanes", 1, "--cores", ctx.core_b], ctx.seconds)
        return {"rate": summary["received_pps"] if args[0] != "send" else summary["offered_pps"]}
    return measure


def _testpmd(ctx, mode, memory):
    return lambda: testpmd.on_null(ctx, mode, memory)


def faster_memory(ctx, section):
    """hugepages or not: whichever testpmd's flowgen is faster with here."""
    choices = ["no-huge"] + (["hugepages"] if ctx.hugepages.have >= 512 else [])
    if len(choices) == 1:
        section.text("No hugepages could be had: testpmd runs with `--no-huge`.")
        return choices[0]
    tried, noted = {}, dict(section.commands)
    for memory in choices:
        try:
            tried[memory] = testpmd.on_null(ctx, "flowgen", memory, min(ctx.seconds, 2))["rate"]
        except BenchError as error:
            section.text(f"testpmd with {memory}: {error}")
    section.commands = noted
    if not tried:
        return "no-huge"
    best = max(tried, key=tried.get)
    section.text("testpmd's memory, whichever was faster with `flowgen`: "
                 + ", ".join(f"{m} {rate(r)}" for m, r in tried.items()) + f"; used: {best}.")
    return best


def throughput(ctx, section):
    section.heading("One core, 64-byte frames")
    memory = faster_memory(ctx, section)
    programs = {SEND: _mpps(ctx, SEND, "send", "null:"), DROP: _mpps(ctx, DROP, "drop", "null:"),
                LOOP: _mpps(ctx, LOOP, "sendrecv", "loop:")}
    programs |= {f"testpmd {mode}": _testpmd(ctx, mode, memory) for mode in MODES}
    samples = ctx.compare(programs)
    for rounds in samples.rounds.values():
        for metrics in filter(None, rounds):
            metrics["ns"] = 1e9 / metrics["rate"] if metrics["rate"] else None
    for turn, (sent, dropped) in enumerate(zip(samples.rounds[SEND], samples.rounds[DROP])):
        if sent and dropped:
            dropped["receive_ns"] = dropped["ns"] - sent["ns"]
    section.programs(samples, (("rate", "packets/s", rate), ("ns", "ns/packet", lambda v: f"{v:.2f}")))
    only = samples.values(DROP, "receive_ns")
    if only:
        section.text(f"`drop null:` makes each packet with the sender's own code and then verifies it. Less the cost "
                     f"of `send null:` in the same round, receiving and verifying alone cost "
                     f"{samples.median(DROP, 'receive_ns'):.1f} ns a packet ({min(only):.1f} to {max(only):.1f}). "
                     "`sendrecv loop:` sends, holds, receives and verifies each packet, latency and sequence included.")
    section.text("Every `mpps` packet has whole headers, both checksums, a sequence number, its own send time and data "
                 "that depends on both. `flowgen` writes whole headers, `txonly` copies a template, `rxonly` only "
                 "frees, `macswap` exchanges two addresses. `net_null` frames are 60 bytes in memory, 64 with FCS, as "
                 "mpps's are.")
    section.ratios(samples, [(SEND, "testpmd flowgen"), (SEND, "testpmd txonly"), (DROP, "testpmd flowgen"),
                             (LOOP, "testpmd flowgen")])
    section.target("× flowgen (`send null:`)", 1.5, samples.ratio(SEND, "testpmd flowgen"),
                   samples.why_not(SEND, "testpmd flowgen"))
    section.target("× txonly (`send null:`; an aim)", 1.0, samples.ratio(SEND, "testpmd txonly"),
                   samples.why_not(SEND, "testpmd txonly"))


def _instructions_mpps(ctx, label, *args):
    runs = []
    for duration in (1, 3):
        summary = ctx.file(".json")
        argv = [ctx.mpps, *args, "--lanes", 1, "--duration", f"{duration}s", "--interval", "1s", "--quiet", "--json",
                summary]
        field = "rx_packets" if args[0] == "drop" else "tx_packets"
        runs.append(callgrind.grind(ctx, f"{label}, instructions", argv, lambda _: mpps.load(summary)[field]))
    return callgrind.a_packet(*runs)


def _instructions_testpmd(ctx, mode):
    runs = []
    for duration in (1, 5):
        def drive(proc):
            proc.wait_for("testpmd>", 60)
            proc.write("start")
            time.sleep(duration)
            proc.write("stop")
            proc.write("quit")
        argv = ["dpdk-testpmd", f"--lcores=0@{ctx.core_a},1@{ctx.core_b}", *testpmd.MEMORY["no-huge"], "--no-pci",
                "--no-telemetry", f"--file-prefix=bench{os.getpid()}g", "--vdev=net_null0,size=60", "--", "-i",
                f"--forward-mode={mode}", "--total-num-mbufs=4096", "--txpkts=" + ("60" if mode == "txonly" else "64")]
        total = lambda proc: int(re.findall(r"TX-total: (\d+)", proc.output())[-1])
        runs.append(callgrind.grind(ctx, f"testpmd {mode}, instructions", argv, total, drive))
    return callgrind.a_packet(*runs)


def instructions(ctx, section):
    section.heading("Instructions a packet")
    ctx.need("valgrind")
    rows = []
    ways = [(SEND, lambda: _instructions_mpps(ctx, SEND, "send", "null:")),
            (DROP, lambda: _instructions_mpps(ctx, DROP, "drop", "null:")),
            (LOOP, lambda: _instructions_mpps(ctx, LOOP, "sendrecv", "loop:")),
            ("testpmd flowgen", lambda: _instructions_testpmd(ctx, "flowgen")),
            ("testpmd txonly", lambda: _instructions_testpmd(ctx, "txonly"))]
    for label, way in ways:
        try:
            rows.append([label, f"{way():.1f}"])
        except BenchError as error:
            rows.append([f"{label} (not measured: {error})", "–"])
    section.table(["program", "instructions/packet"], rows)
    section.text("By callgrind: instructions of the forwarding thread in a longer run less those in a shorter one, "
                 "over the packets that it moved more. Callgrind hides AVX-512, so code that would use it takes its "
                 "other branch.")


PARTS = (throughput, instructions)
