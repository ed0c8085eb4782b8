"""What the measurements of AF_XDP and XDP need: packets from outside any socket, one meter for all programs, the veths'
settings."""

import contextlib
import glob
import json
import os
import shutil
import signal
import time

from harness.proc import BenchError, Proc, run, until

SINK_MAC = "02:00:00:00:00:01"  # nobody's: the host drops what is sent to it before its stack looks at it
SOURCE6, TARGET6 = "fd99::1", "fd99::2"
SYSFS = "/sys/class/net/eth1"
STATS = "/proc/sys/kernel/bpf_stats_enabled"
XDP_PROGRAM = "6"  # BPF_PROG_TYPE_XDP
# xdp-tools keep a lock file there as long as they run, so that of two the second would end, and after a kill each. The
# mount is seen by this process only (`lab exec` gives each a mount namespace).
OWN_RUN = ("sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh")


def free_queue(ctx, hosts="ab", interfaces=("eth1",)):
    """Leaves the interfaces as a program wants to find them; `hosts`: as `ctx.command` takes them.

    testpmd that had to be killed leaves its XDP program behind; and a queue stays bound for a moment after its AF_XDP
    socket is closed, and nothing tells when that has passed.
    """
    words = "; ".join(f"ip link set dev {interface} {mode} off 2>&1" for interface in interfaces
                      for mode in ("xdpdrv", "xdpgeneric"))
    for host in hosts:
        run(ctx.command(["sh", "-c", words], host), ok=range(256))
    time.sleep(0.4)


def build_shim(ctx):
    """Compiles bench/peers/trafficgen_shim.c; returns the library."""
    ctx.need("cc")
    library = os.path.join(ctx.tmp, "trafficgen_shim.so")
    if not os.path.exists(library):
        run(["cc", "-shared", "-fPIC", "-O2", "-o", library, os.path.join(ctx.root, "bench/peers/trafficgen_shim.c"),
             "-ldl"], 60)
    return library


def build_rust(ctx, what, arguments, program):
    """Builds by cargo and returns the program's path below the target folder."""
    ctx.need("cargo")
    target = os.path.join(ctx.root, os.environ.get("CARGO_TARGET_DIR") or "target")
    try:
        run(["cargo", "build", "--release", "--quiet", "--target-dir", target, *arguments], 600)
    except BenchError as error:
        raise BenchError(f"build {what}: {error}") from error
    return shutil.copy2(os.path.join(target, "release", program), ctx.file("-" + os.path.basename(program)))


class Traffic:
    """`xdp-trafficgen udp` on host a's core: 64-byte UDP over IPv6 to host b, flat out.

    One destination port: with more (`-d 64`) it updates the checksum without the end-around carry, and nearly every
    packet is corrupt. Without `-d` it sends nothing here. `threads`: as many, on the first cores.
    `mirrored`: from host b's own addresses, too. It writes no header anew: a frame that was turned round in the kernel
    leaves the next time as it came back, and is then still for host b.
    """

    def __init__(self, ctx, threads=1, label="xdp-trafficgen", mirrored=False):
        mac, address = (ctx.lab.MAC_B, TARGET6) if mirrored else (SINK_MAC, SOURCE6)
        ctx.need("xdp-trafficgen")
        self.ctx = ctx
        self.argv = ctx.command([
            *OWN_RUN, "env", f"LD_PRELOAD={build_shim(ctx)}", "xdp-trafficgen", "udp", "-a", TARGET6, "-A", address,
            "-m", ctx.lab.MAC_B, "-M", mac, "-p", 9000, "-d", 1, *(["-t", threads] if threads > 1 else []),
            "eth1"], "a", ",".join(map(str, ctx.cores[:threads])))
        ctx.section.command(label, self.argv)

    def __enter__(self):
        before = self.ctx.lab.received("b")
        self.proc = Proc(self.argv)
        try:
            until(lambda: self.proc.child.poll() is not None or self.ctx.lab.received("b") > before + 1000,
                  "packets of xdp-trafficgen")
            self.check()
        except BenchError:
            self.proc.kill()
            raise
        return self

    def check(self):
        if self.proc.child.poll() is not None:
            raise BenchError(f"xdp-trafficgen ended: {self.proc.last_line()}")

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.check()
                self.proc.stop(signal.SIGINT)
        finally:
            self.proc.kill()


@contextlib.contextmanager
def bench(ctx, action, host, label):
    """`xdp-bench ACTION` on a host's interface, native; its own process, which only prints, on the other core."""
    ctx.need("xdp-bench")
    argv = ctx.command([*OWN_RUN, "env", f"LD_PRELOAD={build_shim(ctx)}", "xdp-bench", action, "eth1"], host,
                       ctx.core_b)
    ctx.section.command(label, argv)
    proc = Proc(argv)
    try:
        proc.wait_for(" packets on eth1", 10)
        yield
        proc.stop()
    finally:
        proc.kill()


@contextlib.contextmanager
def run_times():
    """The kernel counts the runs of each BPF program and their time, as long as the block lasts."""
    with open(STATS, encoding="ascii") as file:
        before = file.read()
    _set(STATS, "1")
    try:
        yield
    finally:
        _set(STATS, before)


def _set(path, value):
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(value)
    except OSError as error:
        raise BenchError(f"{path}: {error}") from error


def _program(ctx, host):
    """The file in which the kernel tells of the XDP program on a host's interface, one of the process's that loaded it.
    """
    listed = json.loads(run(ctx.command(["ip", "-j", "link", "show", "dev", "eth1"], host)))
    number = listed[0].get("xdp", {}).get("prog", {}).get("id")
    for path in glob.iglob("/proc/[0-9]*/fdinfo/*"):
        try:
            info = _fdinfo(path)
        except OSError:
            continue  # closed, or its process has ended
        if info.get("prog_id") == str(number) and "run_time_ns" in info:
            return path
    raise BenchError(f"no process holds the XDP program {number} of host {host}")


def _fdinfo(path):
    with open(path, encoding="ascii") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def runs(ctx, host, seconds):
    """What the XDP program on a host's interface ran over `seconds` of `run_times`: `ns` a run, and `runs` a second."""
    return _over(_program(ctx, host), f"the XDP program of host {host}", seconds)


def sending_runs(proc, seconds):
    """The same of the program that a sender's process runs most, which is at no interface."""
    found = {}
    for path in glob.iglob(f"/proc/{proc.child.pid}/fdinfo/*"):
        info = _fdinfo(path)
        if info.get("prog_type") == XDP_PROGRAM:
            found[path] = int(info.get("run_cnt", 0))
    if not found:
        raise BenchError("the sender has no XDP program")
    return _over(max(found, key=found.get), "the program that sends", seconds)


def _over(path, named, seconds):
    def read():
        try:
            info = _fdinfo(path)
        except OSError as error:
            raise BenchError(f"{named} has ended: {error}") from error
        return time.monotonic(), int(info["run_time_ns"]), int(info["run_cnt"])
    first = read()
    time.sleep(seconds)
    passed, spent, count = (b - a for a, b in zip(first, read()))
    if not count:
        raise BenchError(f"{named} did not run")
    return {"ns": spent / count, "runs": count / passed}


def meter(ctx, seconds):
    """What the interfaces counted over `seconds`, packets a second; the same for every program.

    `offered`: came in at host b; `taken`: of these, what its XDP program could give to a socket; `turned`: came back to
    host a.
    """
    def read():
        (offered, dropped), (turned, _) = ctx.lab.counters("b"), ctx.lab.counters("a")
        return time.monotonic(), offered, offered - dropped, turned
    first = read()
    time.sleep(seconds)
    last = read()
    passed = last[0] - first[0]
    offered, taken, turned = ((b - a) / passed for a, b in zip(first[1:], last[1:]))
    if not offered:
        raise BenchError("no packet came in at host b")
    return {"offered": offered, "taken": taken, "turned": turned}


def _write(ctx, host, values):
    script = "; ".join(f"echo {value} > {SYSFS}/{name}" for name, value in values.items())
    if "threaded" in values:
        # Refused while there is no poll loop; GRO makes one, and the setting outlives it.
        script = f"ethtool -K eth1 gro on; {script}; ethtool -K eth1 gro off"
    run(ctx.command(["sh", "-ec", script], host))


@contextlib.contextmanager
def veth(ctx, **values):
    """Both veths with these files of /sys/class/net/eth1 set to these values; to 0 after it."""
    try:
        for host in "ab":
            _write(ctx, host, values)
        yield
    finally:
        for host in "ab":
            _write(ctx, host, dict.fromkeys(values, 0))
