"""How the cost grows with flows, frame size, run length and lanes, and whether there is a cliff on the way."""

import functools
from typing import NamedTuple

from harness import mpps
from harness.stat import rate, times

TITLE = "Growth: flows, frame sizes, run lengths, lanes"

FLOWS = (1, 64, 1_000, 10_000, 100_000)
FRAMES = (64, 128, 256, 512, 1024, 1280, 1518)
NEIGHBOURS = (64, 72, 80, 88, 96, 112, 128, 160, 192, 256, 384, 512, 640, 768, 896, 1024, 1280, 1518)
LANES = (1, 2, 3, 4)
CLIFF = 2.0
STEP = 1.3  # between sizes that are close to each other, where no kernel bounds the rate
UDP_FLOWS = 1_000  # a socket each
NULL, LOOP, AF_PACKET, UDP = "null: send", "loop: sendrecv", "af_packet: sendrecv", "udp: sendrecv"


def _measure(ctx, path, duration, args=(), lanes=1, ports="9000", pinned=True, options=""):
    """Packets a second of one run, and its peak memory: sent on null:, come back elsewhere."""
    label = f"{path}, {' '.join(map(str, args)) or 'defaults'}, {lanes} lanes"
    settle = () if path == NULL else ("--settle", "200ms")
    args = ("--lanes", lanes, *settle, *args)
    if path in (NULL, LOOP):
        # "null: send" is the command backwards.
        port, command = path.split()
        summary = mpps.send(ctx, label, [command, port, "--dest", f"10.99.0.2:{ports}", *args], duration,
                            core=ctx.core_b if pinned else None, watch_memory=True)
    else:
        summary = mpps.round_trip(ctx, path.split(":")[0], args, label, duration, lanes, ports, options, pinned,
                                  watch_memory=True)
    return {"rate": summary["offered_pps" if path == NULL else "received_pps"], "rss": summary["peak_rss_kib"]}


def _flows(ctx, path, count, duration):
    sources = min(count, 1000)
    destinations = count // sources
    args = ["--src-port-range", f"10000-{9999 + sources}"]
    return _measure(ctx, path, duration, args, ports=f"9000-{8999 + destinations}" if destinations > 1 else "9000",
                    options=f",sockets={count}" if path == UDP else "")


class Cell(NamedTuple):
    """What one run of a table measures."""

    path: str
    step: int

    def __str__(self):
        return f"{self.path}, {self.step:,}"


def _grow(ctx, section, what, steps, paths, make, duration=None, rounds=None, cliff=CLIFF):
    """One table: a row a step, a column a path; then the largest step down between neighbours."""
    section.heading(what)
    duration = duration or min(ctx.seconds, 1.0)
    programs = {Cell(path, step): functools.partial(make, path, step, duration)
                for step in steps for path in paths if not (path == UDP and what == "Flows" and step > UDP_FLOWS)}
    samples = ctx.compare(programs, rounds or min(ctx.rounds, 3))
    cells = {key: (samples.median(key), samples.spread(key), samples.median(key, "rss")) for key in programs}
    rows = []
    for step in steps:
        row = [f"{step:,}"]
        for path in paths:
            got = cells.get((path, step))
            row.append("–" if not got or got[0] is None else f"{rate(got[0])} ({times(got[1])})")
        memory = max((c[2] or 0 for (_, s), c in cells.items() if s == step), default=0)
        rows.append(row + [f"{memory / 1024:.0f} MiB"])
    section.table([what.lower()] + [f"{path} (spread)" for path in paths] + ["peak memory"], rows)
    for cell, reason in samples.failures.items():
        section.text(f"A run failed: {cell}: {reason}")
    verdicts = []
    for path in paths:
        line = [(s, cells[path, s][0]) for s in steps if (path, s) in cells and cells[path, s][0]]
        falls = [(a[1] / b[1], a[0], b[0]) for a, b in zip(line, line[1:])]
        if falls:
            worst = max(falls)
            verdicts.append((worst[0] > cliff, f"`{path}` {worst[0]:.2f}× less from {worst[1]} to {worst[2]}"
                             if worst[0] > 1 else f"`{path}` never less"))
    bad = any(over for over, _ in verdicts)
    if verdicts:
        section.verdict(f"target no cliff over {what.lower()} (more than {cliff:g}× between neighbours): "
                        f"**{'not met' if bad else 'met'}** (largest step: {'; '.join(text for _, text in verdicts)})")


def flows(ctx, section):
    _grow(ctx, section, "Flows", FLOWS, (NULL, LOOP, AF_PACKET, UDP),
          lambda path, step, duration: _flows(ctx, path, step, duration))
    section.text(f"`udp:` has a socket a flow and is shown up to {UDP_FLOWS:,}.")


def frames(ctx, section):
    _grow(ctx, section, "Frame size, bytes", FRAMES, (NULL, LOOP, AF_PACKET, UDP),
          lambda path, step, duration: _measure(ctx, path, duration, ["--frame-size", step]))
    _grow(ctx, section, "Close frame sizes, bytes", NEIGHBOURS, (NULL, LOOP),
          lambda path, step, duration: _measure(ctx, path, duration / 2, ["--frame-size", step]), cliff=STEP)


def lengths(ctx, section):
    steps = [s for s in (1, 10, 60) if s <= max(ctx.steady, 10)] + ([600] if ctx.long else [])
    _grow(ctx, section, "Run length, s", steps, (NULL, LOOP), lambda path, step, _: _measure(ctx, path, step), rounds=1)
    if not ctx.long:
        section.text("With `BENCH_LONG=1` also 10 min.")


def lanes(ctx, section):
    _grow(ctx, section, "Lanes", LANES, (NULL, LOOP, AF_PACKET, UDP),
          lambda path, step, duration: _measure(ctx, path, duration, lanes=step, pinned=False))
    section.text(f"Not pinned; so many lanes at each end. This machine has {len(ctx.cores)} cores.")


PARTS = (flows, frames, lengths, lanes)
