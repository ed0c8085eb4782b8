"""A device between two links on AF_XDP, its program and the poll loops (NAPI) of both links on one core: the test of
the crate `afxdp`, one way and both. The ways to start each program."""

import contextlib
import os
import sys
import time

from harness import between, dpdk, mpps, testpmd, xdp
from harness.machine import read
from harness.proc import BenchError, Program, run, until

# Our lane sleeps while nothing comes; with `--busy-poll` it spins, as the programs of others do.
FORWARD = {"mpps forward": (), "mpps forward busy-poll": ("--busy-poll",)}
EXAMPLE, CRATE = "xsk l2fwd", "afxdp l2fwd-2link"
C_LINKS = {"C libxdp": (), "C libxdp poll": ("poll",)}
# Its driver busy-polls by default: a system call for each look that finds nothing.
PMD = {"testpmd io": "", "testpmd io busy_budget=0": ",busy_budget=0"}
LINKS = ("eth1", "eth2")

# A poll that found packets is followed by so many others at this distance before the sender is asked to ask for one.
POLLS, DISTANCE = 2**31 - 1, 100_000  # the most that the kernel takes; ns
WINDOW = 0.1  # s, of which the loops' polls are counted
# Of a device's two links: GRO brings a poll loop that stays when an XDP program goes.
LOOP = (f"echo {POLLS} > /sys/class/net/{{0}}/napi_defer_hard_irqs; "
        f"echo {DISTANCE} > /sys/class/net/{{0}}/gro_flush_timeout; ethtool -K {{0}} gro on")
# A frame that is nobody's (EtherType for experiments) by an interface.
NUDGE = """import socket, sys
for name in sys.argv[1:]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as port:
        port.bind((name, 0))
        port.send(b"\\xff" * 6 + b"\\x02" + bytes(5) + b"\\x88\\xb5" + bytes(46))
"""


class Links(between.Veth):
    """Two veth pairs as in `between.Veth`, where the device's poll loops run on its core.

    veth runs a link's poll loop on the core of who sends to it: the tester's. A NIC runs it where its interrupt is
    handled, at most so often. So here timers run the loops, as with interrupt moderation, and as a timer stays on the
    core that started it, a first frame that is sent from the device's core brings them there.
    """

    DEVICES = (*FORWARD, EXAMPLE, CRATE, *C_LINKS, *PMD)
    WAY = ()

    def __init__(self, ctx):
        super().__init__(ctx)
        try:
            ctx.need("ethtool", "taskset")
            run([*self.inside, "sh", "-ec", "; ".join(LOOP.format(link) for link in LINKS)])
        except BenchError:
            self.close()
            raise

    def ports(self, _device):
        return [*(f"af_packet:{link}" for link in LINKS), *self.WAY]

    @contextlib.contextmanager
    def device(self, label, name, more=()):
        xdp.free_queue(self.ctx, [self.inside], LINKS)
        with self._program(label, name, more) as program:
            # Only with a program attached does what a socket sends go by the loops.
            run([*self.tester, "taskset", "-c", self.ctx.core_b, sys.executable, "-c", NUDGE, *LINKS])
            self._check()
            yield program

    def _program(self, label, name, more):
        ctx = self.ctx
        if name in FORWARD:
            args = ["forward", *(f"af_xdp:{link},mode=copy" for link in LINKS), "--mode", "io", "--take", "all", *more,
                    "--lanes", 1, "--cores", ctx.core_b, *FORWARD[name]]
            return mpps.Listener(ctx, label, args, self.inside, ctx.core_b)
        if name in PMD:
            vdevs = [f"net_af_xdp{n},iface={link},force_copy=1{PMD[name]}" for n, link in enumerate(LINKS)]
            return _started(testpmd.Testpmd(ctx, label, "io", vdevs, ctx.core_b, ctx.core_b, self.inside,
                                            dpdk.memory(ctx), (f"--burst={dpdk.BURST}",)))
        if name in C_LINKS:
            return self._ready(label, [*testpmd.WITH_BPFFS, ctx.links[name], *LINKS, *C_LINKS[name]])
        return self._ready(label, [ctx.links[name], *LINKS])

    def _ready(self, label, words):
        argv = self.ctx.command(words, self.inside, self.ctx.core_b)
        self.ctx.section.command(label, argv)
        return Program(argv, "ready", 10)

    def _check(self):
        """Waits until a poll loop's timer is on the device's core. Two in step are one soft interrupt, so it can't be
        told that both are."""
        def here():
            before = _polls(self.ctx.core_b)
            time.sleep(WINDOW)
            return _polls(self.ctx.core_b) - before > WINDOW * 1e9 / DISTANCE / 2
        until(here, f"the links' poll loops to run on core {self.ctx.core_b}", 5)


class OneWay(Links):
    NAME = "one-way"
    WAY = ("--tx-lanes", 1, "--rx-lanes", 1)


class BothWays(Links):
    NAME = "both-ways"
    # The tester has a lane for each way on one core. A lane's turn lasts milliseconds; the other sends late.
    WAY = ("--both-ways", "--lanes", 1, "--catch-up", "10ms")


WAYS = {way.NAME: way for way in (OneWay, BothWays)}


@contextlib.contextmanager
def _started(pmd):
    with pmd:
        pmd.start()
        yield pmd


def _polls(core):
    """Soft interrupts for receiving on a core since boot."""
    for line in read("/proc/softirqs").splitlines():
        if "NET_RX:" in line:
            return int(line.split()[1 + core])
    raise BenchError("/proc/softirqs has no NET_RX")


def build(ctx, section):
    """Builds what is not installed, into `ctx.links` (name → program); the report says what can't be and why."""
    ctx.links = {}
    for name, how in {EXAMPLE: _example, CRATE: _crate, "C libxdp": _c}.items():
        try:
            program = how(ctx, section)
            ctx.links |= dict.fromkeys(C_LINKS if name in C_LINKS else [name], program)
        except BenchError as error:
            section.text(f"{name} is left out: {error}.")


def _example(ctx, _section):
    return xdp.build_rust(ctx, "the example l2fwd of xsk",
                          ["--manifest-path", f"{ctx.root}/Cargo.toml", "-p", "xsk", "--example", "l2fwd"],
                          "examples/l2fwd")


def _crate(ctx, _section):
    return xdp.build_rust(ctx, "the peer on the crate afxdp",
                          ["--locked", "--manifest-path", f"{ctx.root}/bench/peers/afxdp_crate/Cargo.toml"],
                          "afxdp-crate-l2fwd")


def _c(ctx, section):
    ctx.need("cc", "pkg-config")
    program = os.path.join(ctx.tmp, "xsk_links")
    argv = ["sh", "-ec", 'cc -O2 -o "$0" "$1" $(pkg-config --cflags --libs libxdp)', program,
            os.path.join(ctx.root, "bench/peers/xsk_links.c")]
    section.command("build xsk_links", argv)
    run(argv, 60)
    return program


def missing(ctx, name):
    """Whether a device can't be had here; `build` has said why."""
    return name not in ctx.links and name not in (*FORWARD, *PMD)
