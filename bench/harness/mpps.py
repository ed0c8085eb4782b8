"""Runs of the program itself: senders that end by their duration, and listeners that are told when to."""

import csv
import json
import time

from harness.proc import BenchError, Proc, Program, Refused

DONE = (0, 3)  # 3: done, but the trial is not valid: flat out, a path that loses is no surprise here


# Reasons for which a reflector sends nothing back though the packet was the test's.
UNANSWERED = ("ttl_expired", "returned", "own_source", "bad_source", "wrong_address", "wrong_port")
REFUSED_SHARE = 0.01  # of what came


def worked(summary):
    """The summary of a listener, if it has not refused its work."""
    reasons = summary.get("reasons") or {}
    refused = {name: reasons[name] for name in UNANSWERED if reasons.get(name)}
    taken = summary.get("rx_packets") or 0
    if sum(refused.values()) > REFUSED_SHARE * (taken + sum(refused.values())):
        told = ", ".join(f"{name} {count}" for name, count in refused.items())
        raise Refused(f"it refused packets ({told}) and took {taken}")
    return summary


def seconds(value):
    return f"{round(value * 1000)}ms"


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise BenchError(f"read the summary of mpps: {error}") from error


def send(ctx, label, args, duration, host=None, core=None, watch_memory=False, prepare=()):
    """Runs `mpps ARGS` for `duration` s and returns its summary, with `peak_rss_kib` if memory was watched; `prepare`:
    words before it, such as `testpmd.WITH_BPFFS`."""
    summary = ctx.file(".json")
    tail = ["--duration", seconds(duration), "--quiet", "--json", summary]
    argv = ctx.command([*prepare, ctx.mpps, *args, *tail], host, core)
    ctx.section.command(label, argv)
    proc = Proc(argv)
    status = proc.wait(duration + 40, watch_memory)
    if status not in DONE:
        raise BenchError(f"mpps {args[0]} ended with {status}: {proc.last_line()}")
    result = load(summary)
    result["peak_rss_kib"] = proc.peak_rss_kib
    return result


class Listener(Program):
    """`mpps drop`, `mpps reflect` or `mpps forward` on a host of the lab."""

    def __init__(self, ctx, label, args, host="b", core=None, prepare=()):
        self.summary = ctx.file(".json")
        # Not --quiet: that would hold back the line that says that the port is open.
        argv = ctx.command([*prepare, ctx.mpps, *args, "--plain", "--json", self.summary], host, core)
        ctx.section.command(label, argv)
        super().__init__(argv, "is ready", 10)

    def stop(self):
        """Lets it empty its buffers, ends it and returns its summary."""
        time.sleep(0.2)
        status = self.proc.stop()
        if status not in DONE:
            raise BenchError(f"mpps listener ended with {status}: {self.proc.last_line()}")
        return worked(load(self.summary))


def rows(path):
    """Rows of a CSV, numbers as floats, empty cells as None."""
    with open(path, newline="") as file:
        # A time of day is a text.
        numbers = ({k: v for k, v in row.items() if k != "start_utc"} for row in csv.DictReader(file))
        return [{k: float(v) if v else None for k, v in row.items()} for row in numbers]


def ports(ctx, path):
    """Ports of host a and host b on a path, and the arguments that a sender needs beside: one of sockets or one of an
    interface."""
    if path in ("udp", "io_uring"):
        return f"{path}:{ctx.lab.A}", f"{path}:{ctx.lab.B}", []
    return f"{path}:eth1", f"{path}:eth1", ["--src", ctx.lab.A]


def place(path, core):
    """How a sender is brought to its core: where to start it (None: anywhere), and its arguments.

    On xdp a lane is inside the kernel all the time, so its core is told to it alone; the rest of the program runs
    beside.
    """
    return (None, ["--cores", core]) if path == "xdp" and core is not None else (core, [])


def listening(path, lanes):
    """A listener's lanes; on xdp it has none."""
    return [] if path == "xdp" else ["--lanes", lanes]


def one_way(ctx, options=("", ""), size=18, args=(), label="mpps", duration=None, path="udp"):
    """`send` on host a's core → `drop` on host b's: what was sent, and what the application got."""
    a, b, target = ports(ctx, path)
    to, of = (("," + o) if o else "" for o in options)
    core, placed = place(path, ctx.core_a)
    with Listener(ctx, f"{label}, receiver", ["drop", b + of, *listening(path, 1)], "b", ctx.core_b) as drop:
        sent = send(ctx, label, ["send", a + to, *target, "--dest", f"{ctx.lab.B}:9000", "--lanes", 1, *placed,
                                 "--payload-size", size, *args], duration or ctx.seconds, "a", core)
        got = drop.stop()
    return {"rate": got["rx_packets"] / sent["duration_s"], "sent": sent["offered_pps"],
            "loss": 1 - got["rx_packets"] / max(sent["tx_packets"], 1)}


def round_trip(ctx, path, args=("--lanes", 1), label="mpps", duration=None, lanes=1, dest_ports="9000", options="",
               pinned=True, reflector_options="", reflector_args=(), cores=None, **kwargs):
    """`sendrecv` on host a's core ↔ `reflect` on host b's; path: as in `ports`. The sender's summary, and in it the
    reflector's as `reflector`.

    `lanes`: the reflector's; `dest_ports`: the destination's; `options`, `reflector_options`: of the two ports, such as
    ",sockets=1000"; `cores`: other cores than the usual two.
    """
    a, b, target = ports(ctx, path)
    core_a, core_b = cores or ((ctx.core_a, ctx.core_b) if pinned else (None, None))
    core_a, placed = place(path, core_a)
    listen = ["reflect", b + reflector_options, *listening(path, lanes), *reflector_args]
    with Listener(ctx, f"{label}, reflector", listen, "b", core_b) as reflector:
        summary = send(ctx, label, ["sendrecv", a + options, *target, "--dest", f"{ctx.lab.B}:{dest_ports}", *args,
                                    *placed],
                       duration or ctx.seconds, "a", core_a, **kwargs)
        summary["reflector"] = reflector.stop()
    return summary


def inner(table, field, margin=0.3):
    """The program's own rows (a CSV) from `margin` s after the first packet to `margin` s before the last, and their
    length in s: 0 when it ran for too short a time."""
    busy = [row for row in rows(table) if row[field] > 0]
    if not busy:
        return [], 0
    first, last = busy[0]["time_s"] + margin, busy[-1]["time_s"] + busy[-1]["interval_s"] - margin
    found = [row for row in busy if row["time_s"] >= first and row["time_s"] + row["interval_s"] <= last]
    return found, sum(row["interval_s"] for row in found)


def inner_rate(table, field, margin=0.3):
    """Packets a second over those rows; None when it ran for too short a time."""
    found, length = inner(table, field, margin)
    return sum(row[field] for row in found) / length if length > 0 else None


def trip_metrics(summary):
    return {"rate": summary["received_pps"], "sent": summary["offered_pps"], "loss": summary["loss_ratio"]}
