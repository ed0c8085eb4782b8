"""Instructions a packet, by callgrind: what a rate can't tell apart from the machine."""

import os
import re

from harness import mpps
from harness.proc import BenchError, Proc, run


def instructions(profile):
    """Thread → instructions, from a callgrind profile of one file a thread."""
    folder, stem = os.path.split(profile)
    counts = {}
    for name in os.listdir(folder):
        if re.fullmatch(re.escape(stem) + r"-\d+", name):
            with open(os.path.join(folder, name)) as file:
                counts[name[len(stem):]] = int(re.findall(r"^(?:totals|summary): (\d+)", file.read(), re.M)[-1])
    if not counts:
        raise BenchError("callgrind wrote no profile")
    return counts


def a_packet(short, long):
    """Instructions a packet of the thread that worked most in the longer of two runs (instructions, packets)."""
    (i1, p1), (i2, p2) = short, long
    if p2 <= p1:
        raise BenchError(f"{p1} and {p2} packets under callgrind: nothing to subtract")
    return max(count - i1.get(thread, 0) for thread, count in i2.items()) / (p2 - p1)


def grind(ctx, label, argv, packets, stop=None):
    """(instructions by thread, packets) of one run under callgrind."""
    profile = ctx.file(".callgrind")
    # Fair scheduling: valgrind runs one thread at a time, and a lane that never sleeps would starve the others.
    command = ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--separate-threads=yes",
               f"--callgrind-out-file={profile}", *map(str, argv)]
    ctx.section.command(label, command)
    proc = Proc(command)
    try:
        if stop:
            stop(proc)
        status = proc.wait(60)
    finally:
        proc.kill()
    if status not in mpps.DONE:
        fault = re.search(r"==\d+==\s+at 0x\w+: (.*)", proc.output())
        raise BenchError(f"{label} ended with {status}: {fault[1] if fault else proc.last_line()}")
    return instructions(profile), packets(proc)


def measured(ctx, label, argv):
    """Instructions a packet of the functions named `measured…` alone; the program says `N packets`."""
    command = ["valgrind", "--tool=callgrind", "--toggle-collect=*measured*",
               f"--callgrind-out-file={ctx.file('.callgrind')}", *map(str, argv)]
    ctx.section.command(label, command)
    text = run(command, 60)
    collected, packets = re.search(r"Collected : (\d+)", text), re.search(r"(\d+) packets", text)
    if not (collected and packets and int(packets[1]) and int(collected[1])):
        raise BenchError(f"{label}: callgrind collected nothing: {text.strip().splitlines()[-1]}")
    return int(collected[1]) / int(packets[1])
