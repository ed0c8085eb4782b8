"""A device between two links on AF_XDP, its program and the kernel's receive loops (NAPI) of both links on one core: the
test of the crate `afxdp`, one way and both. The ways to start each program."""

import contextlib
import glob
import os

from harness import between, dpdk, mpps, testpmd, xdp
from harness.machine import read
from harness.proc import BenchError, Program, run

FORWARD, EXAMPLE, CRATE = "mpps forward", "xsk l2fwd", "afxdp l2fwd-2link"
C_LINKS = {"C libxdp": (), "C libxdp poll": ("poll",)}
# Its driver busy-polls by default: a system call for each look that finds nothing.
PMD = {"testpmd io": "", "testpmd io busy_budget=0": ",busy_budget=0"}
LINKS = ("eth1", "eth2")


class Links(between.Veth):
    """Two veth pairs as in `between.Veth`. veth runs a link's receive loop on the sender's core, which is the tester's
    here, unless the loop has a thread of its own: at the device it has, on the device's core."""

    DEVICES = (FORWARD, EXAMPLE, CRATE, *C_LINKS, *PMD)
    WAY = ()

    def __init__(self, ctx):
        self.foreign = _threads()
        super().__init__(ctx)
        # Refused while there is no loop; with GRO there is one, whether an XDP program is attached or not.
        words = "; ".join(f"ethtool -K {link} gro on; echo 1 > /sys/class/net/{link}/threaded" for link in LINKS)
        try:
            ctx.need("ethtool", "taskset")
            run([*self.inside, "sh", "-ec", words])
            self.threaded = True
        except BenchError:
            self.threaded = False

    def ports(self, _device):
        return [*(f"af_packet:{link}" for link in LINKS), *self.WAY]

    @contextlib.contextmanager
    def device(self, label, name, more=()):
        xdp.free_queue(self.ctx, [self.inside], LINKS)
        with self._program(label, name, more) as program:
            self._place()
            yield program

    def _program(self, label, name, more):
        ctx = self.ctx
        if name == FORWARD:
            args = ["forward", *(f"af_xdp:{link},mode=copy" for link in LINKS), "--mode", "io", "--take", "all", *more,
                    "--lanes", 1, "--cores", ctx.core_b]
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

    def _place(self):
        """Brings the loops' threads to the device's core; with an XDP program there may be new ones."""
        if self.threaded:
            for pid in _threads() - self.foreign:
                run(["taskset", "-pc", self.ctx.core_b, pid])


class OneWay(Links):
    NAME = "one-way"
    WAY = ("--tx-lanes", 1, "--rx-lanes", 1)


class BothWays(Links):
    NAME = "both-ways"
    WAY = ("--both-ways", "--lanes", 1)


WAYS = {way.NAME: way for way in (OneWay, BothWays)}


@contextlib.contextmanager
def _started(pmd):
    with pmd:
        pmd.start()
        yield pmd


def _threads():
    """Kernel threads of receive loops of interfaces that are called as ours are."""
    prefixes = tuple(f"napi/{link}-" for link in LINKS)
    return {path.split("/")[2] for path in glob.glob("/proc/[0-9]*/comm") if read(path).startswith(prefixes)}


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
    return name not in ctx.links and name not in (FORWARD, *PMD)
