"""The other programs: sockperf, iperf3, trafgen and the plain echo. Each returns what was sent and what arrived."""

import json
import os
import re
import signal
import time

from harness.proc import BenchError, Proc, bound, run, until


def server(ctx, label, argv, table, port, core=None):
    """Starts a server on host b, on its usual core or another, and waits until its port is bound."""
    command = ctx.command(argv, "b", ctx.core_b if core is None else core)
    ctx.section.command(f"{label}, receiver", command)
    started = Proc(command)
    try:
        until(lambda: started.child.poll() is not None or bound(started.pid, table, port), f"port {port} of {label}")
        if started.child.poll() is not None:
            raise BenchError(f"{label} server ended: {started.last_line()}")
    except BenchError:
        started.kill()
        raise
    return started


def client(ctx, label, argv, core=None):
    """Runs a client on host a, on its usual core or another; its output."""
    command = ctx.command(argv, "a", ctx.core_a if core is None else core)
    ctx.section.command(label, command)
    return run(command, ctx.seconds + 30)


def _find(pattern, text, what):
    match = re.search(pattern, text)
    if not match:
        raise BenchError(f"{what}: no '{pattern}' in its output")
    return match


def sockperf(ctx, size):
    """`sockperf throughput` → `sockperf server`."""
    ctx.need("sockperf")
    listening = server(ctx, "sockperf", ["sockperf", "server", "-i", ctx.lab.B, "-p", 11111], "udp", 11111)
    try:
        text = client(ctx, "sockperf", ["sockperf", "throughput", "-i", ctx.lab.B, "-p", 11111,
                                         "-t", max(1, round(ctx.seconds)), "-m", size])
        time.sleep(0.2)
        listening.stop(signal.SIGINT)
    finally:
        listening.kill()
    sent = _find(r"Total of (\d+) messages sent in ([\d.]+) sec", text, "sockperf")
    got = int(_find(r"Total (\d+) messages received", listening.output(), "sockperf server")[1])
    return {"rate": got / float(sent[2]), "sent": int(sent[1]) / float(sent[2]), "loss": 1 - got / int(sent[1])}


def iperf3(ctx, size):
    """`iperf3 -u -b 0` → `iperf3 -s`; what the server reports to have received."""
    ctx.need("iperf3")
    listening = server(ctx, "iperf3", ["iperf3", "-s", "-1", "-p", 5201], "tcp", 5201)
    try:
        text = client(ctx, "iperf3", ["iperf3", "-u", "-b", 0, "-l", size, "-t", max(1, round(ctx.seconds)),
                                       "-c", ctx.lab.B, "-p", 5201, "-J"])
        listening.wait(10)
    finally:
        listening.kill()
    try:
        end = json.loads(text[text.index("{"):])["end"]  # warnings may come first
        sent, got = end["sum_sent"], end["sum_received"]["bytes"] / size
        return {"rate": got / sent["seconds"], "sent": sent["packets"] / sent["seconds"],
                "loss": 1 - got / max(sent["packets"], 1)}
    except (ValueError, KeyError) as error:
        raise BenchError(f"iperf3: cannot read its JSON: {error}") from error


def build_echo(ctx, name):
    """Compiles an echo of bench/peers; returns the program."""
    ctx.need("cc")
    program = os.path.join(ctx.tmp, name)
    if not os.path.exists(program):
        run(["cc", "-O2", "-pthread", "-o", program, os.path.join(ctx.root, f"bench/peers/{name}.c")], 60)
    return program


def baseline_echo(ctx, size):
    """The plain echo: two threads of the sender on host a's core, the echo on host b's."""
    return echo(ctx, "baseline_echo", "baseline echo", size)


def uring_echo(ctx, size):
    """The plain echo over io_uring: a thread each."""
    return echo(ctx, "uring_echo", "io_uring echo", size)


def echo(ctx, name, label, size):
    program = build_echo(ctx, name)
    listening = server(ctx, label, [program, "echo", ctx.lab.B, 7007], "udp", 7007)
    try:
        result = json.loads(client(ctx, label, [program, "send", ctx.lab.B, 7007, ctx.seconds, size]))
        listening.stop(signal.SIGINT)
    finally:
        listening.kill()
    return {"rate": result["received"] / result["seconds"], "sent": result["sent"] / result["seconds"],
            "loss": 1 - result["received"] / max(result["sent"], 1)}


NEURING = "https://github.com/micromaomao/neuring"
# The commit that the article names, and a compiler of its day: it uses what later ones have no more.
NEURING_COMMIT, NEURING_RUST = "d37c0b735689117d854992460946e36bbe9f9e58", "nightly-2023-04-07"


def build_neuring(ctx, section):
    """The DPDK article's own baseline program: that of BENCH_NEURING, or fetched and built in the benchmark's folder,
    with its compiler."""
    given = os.environ.get("BENCH_NEURING")
    if given:
        if not os.access(given, os.X_OK):
            raise BenchError(f"BENCH_NEURING={given}: no program there")
        section.text(f"`neuring` is the program that BENCH_NEURING names, {os.path.basename(given)}.")
        # A link in the benchmark's own folder: commands in RESULTS.md then name no folder of this machine.
        link = os.path.join(ctx.tmp, "neuring-given")
        os.symlink(os.path.abspath(given), link)
        return link
    ctx.need("git", "rustup")
    folder = os.path.join(ctx.tmp, "neuring")
    home = ["env", f"RUSTUP_HOME={os.path.join(ctx.tmp, 'rustup')}", "CARGO_NET_RETRY=1"]
    steps = ((60, ["git", "clone", "--quiet", NEURING, folder]),
             (20, ["git", "-C", folder, "checkout", "--quiet", NEURING_COMMIT]),
             (300, [*home, "rustup", "toolchain", "install", NEURING_RUST, "--profile", "minimal", "--no-self-update"]),
             (600, [*home, "rustup", "run", NEURING_RUST, "cargo", "build", "--release", "--locked", "--manifest-path",
                    os.path.join(folder, "Cargo.toml")]))
    for number, (seconds, argv) in enumerate(steps):
        section.command(f"build neuring, step {number + 1}", argv)
        run(argv, seconds)
    section.text(f"`neuring` is commit {NEURING_COMMIT[:12]} of {NEURING}, built here with {NEURING_RUST}.")
    return os.path.join(folder, "target/release/neuring")


def flood(ctx, label, argv):
    """Starts a sender on host a's core and counts what host b's interface receives of it, from its first packets on,
    and as `back` what host a's does meanwhile."""
    command = ctx.command(argv, "a", ctx.core_a)
    ctx.section.command(label, command)
    before = ctx.lab.received("b")
    sender = Proc(command)
    try:
        until(lambda: sender.child.poll() is not None or ctx.lab.received("b") > before + 1000, f"packets of {label}")
        time.sleep(0.2)
        read = lambda: (ctx.lab.received("b"), ctx.lab.received("a"), time.monotonic())
        (first, back1, began), (last, back2, ended) = read(), (time.sleep(ctx.seconds), read())[1]
        if sender.child.poll() is not None:
            raise BenchError(f"{label} ended early: {sender.last_line()}")
        # Under nohup children ignore SIGINT, and neuring has no handler of its own that would end it.
        sender.stop(signal.SIGTERM)
    finally:
        sender.kill()
    return {"rate": (last - first) / (ended - began), "back": (back2 - back1) / (ended - began)}


# Ethernet, IPv4, UDP and 18 bytes: 60 in memory, 64 with FCS, from and to what `mpps send` uses.
FRAME = """{{ {dst}, {src}, 0x08, 0x00,
  0x45, 0x00, 0x00, 0x2e, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x25, 0xf7, 10, 99, 0, 1, 10, 99, 0, 2,
  0x27, 0x10, 0x23, 0x28, 0x00, 0x1a, 0x00, 0x00, fill(0x5a, 18) }}
"""


def trafgen(ctx, options, label="trafgen"):
    """One trafgen process on host a's core."""
    ctx.need("trafgen")
    config = os.path.join(ctx.tmp, "udp64.cfg")
    with open(config, "w") as file:
        hexes = lambda mac: ", ".join("0x" + byte for byte in mac.split(":"))
        file.write(FRAME.format(dst=hexes(ctx.lab.MAC_B), src=hexes(ctx.lab.MAC_A)))
    return flood(ctx, label, ["trafgen", "-i", config, "-o", "eth1", "-P", 1, *options])
