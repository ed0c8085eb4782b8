"""What the AF_XDP measurements need: packets from outside any socket, one meter for all programs, the veths' settings."""

import contextlib
import os
import shutil
import signal
import time

from harness.proc import BenchError, Proc, run, until

SINK_MAC = "02:00:00:00:00:01"  # nobody's: the host drops what is sent to it before its stack looks at it
SOURCE6, TARGET6 = "fd99::1", "fd99::2"
SYSFS = "/sys/class/net/eth1"


def free_queue(ctx):
    """Leaves both interfaces as a program wants to find them.

    testpmd that had to be killed leaves its XDP program behind; and a queue stays bound for a moment after its AF_XDP
    socket is closed, and nothing tells when that has passed.
    """
    for host in "ab":
        run(ctx.command(["sh", "-c", "for mode in xdpdrv xdpgeneric; do ip link set dev eth1 $mode off; done 2>&1"], host),
            ok=range(256))
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
    packet is corrupt. Without `-d` it sends nothing here.
    """

    def __init__(self, ctx):
        ctx.need("xdp-trafficgen")
        self.ctx = ctx
        self.argv = ctx.command([
            "env", f"LD_PRELOAD={build_shim(ctx)}", "xdp-trafficgen", "udp", "-a", TARGET6, "-A", SOURCE6,
            "-m", ctx.lab.MAC_B, "-M", SINK_MAC, "-p", 9000, "-d", 1, "eth1"], "a", ctx.core_a)
        ctx.section.command("xdp-trafficgen", self.argv)

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
