"""Latency of echoes: mpps's round trips and sockperf's, one way (half of a round trip), in µs."""

import re

from harness import mpps, peers
from harness.proc import BenchError

SIZE = 18  # bytes of payload of both programs
FIELDS = ("p50", "p99", "p999", "max")
PERCENTILES = {"p50": "50.000", "p99": "99.000", "p999": "99.900", "max": "<MAX>"}


def half(latency):
    """`latency_ns` of a summary, in µs one way."""
    return {field: latency[field] / 2000 for field in FIELDS}


def trip(ctx, path, rate, cores, busy=False, label=None, duration=None):
    """`sendrecv` ↔ `reflect` at `rate` packets/s."""
    poll = ["--busy-poll"] if busy else []
    label = label or f"mpps {path}{', busy' if busy else ''}, {rate} pps, cores {cores[0]} and {cores[1]}"
    summary = mpps.round_trip(ctx, path, ["--lanes", 1, "--rate", f"{rate}pps", *poll], label, duration,
                              reflector_args=poll, cores=cores)
    found = summary["latency_ns"]
    if not found["count"]:
        raise BenchError(f"{label}: nothing came back")
    if summary["loss_ratio"] > 0.01:
        raise BenchError(f"{label}: {summary['loss_ratio']:.1%} were lost")
    return half(found) | {"rate": summary["received_pps"], "loss": summary["loss_ratio"], "summary": summary}


def sockperf(ctx, mode, rate, cores, busy=False, duration=None):
    """`sockperf ping-pong` or `under-load` ↔ `sockperf server`. `rate`: messages/s, None: as fast as the echoes
    come."""
    ctx.need("sockperf")
    label = f"sockperf {mode}{', nonblocked' if busy else ''}, {rate or 'max'} mps, cores {cores[0]} and {cores[1]}"
    seconds = max(1, round(duration or ctx.seconds))
    poll = ["--nonblocked"] if busy else []
    server = peers.server(ctx, label, ["sockperf", "server", "-i", ctx.lab.B, "-p", 11111, *poll], "udp", 11111,
                          cores[1])
    try:
        text = peers.client(ctx, label, ["sockperf", mode, "-i", ctx.lab.B, "-p", 11111, "-t", seconds, "-m", SIZE,
                                         *poll, *(["--reply-every", 1] if mode == "under-load" else []),
                                         *(["--mps", rate] if rate else [])], cores[0])
    finally:
        server.kill()
    return parse(text)


def parse(text):
    """Percentiles in µs of sockperf's output; they are half round trips."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    found = {}
    for field, name in PERCENTILES.items():
        match = re.search(rf"percentile {re.escape(name)}\s*=\s*([\d.]+)|{re.escape(name)} "
                          rf"observation\s*=\s*([\d.]+)", text)
        if not match:
            raise BenchError(f"sockperf: no percentile {name} in its output: {text.strip().splitlines()[-1]}")
        found[field] = float(match[1] or match[2])
    sent = re.search(r"SentMessages=(\d+); ReceivedMessages=(\d+)", text)
    time = re.search(r"RunTime=([\d.]+) sec", text)
    if not (sent and time and int(sent[1])):
        raise BenchError("sockperf: no count of messages in its output")
    return found | {"rate": int(sent[2]) / float(time[1]), "loss": 1 - int(sent[2]) / int(sent[1])}
