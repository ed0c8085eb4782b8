"""Devices that forward, and the two ways in which a tester reaches them: one way to start each, so that any of the
program's methods can be run through any of them.

Over `memif` tester and device share one `net_memif`: the device sends back by the port that a packet came by. Over
`veth` the device lies between two veth pairs, in a namespace of its own; there the kernel's bridge and router are
devices, too. Each device has one core, the tester the other one.
"""

import contextlib
import glob
import os
import time

from harness import dpdk, l2fwd, mpps, testpmd
from harness.machine import read
from harness.mpps import load
from harness.proc import BenchError, Proc, run

FORWARD, C_L2FWD = "mpps forward", "C l2fwd"
PMD = {f"testpmd {mode}": mode for mode in ("io", "macswap", "5tswap")}
BRIDGE, ROUTER = "Linux bridge", "Linux router"
NEAR, FAR = "198.18.0.254", "198.18.1.254"  # the router's two addresses
BEHIND = "198.18.1.2"
RPS = "/sys/class/net/{}/queues/rx-0/rps_cpus"


class Memif:
    """One `net_memif` for each device that is started."""

    NAME = "memif"
    DEVICES = (FORWARD, C_L2FWD, *PMD)

    def __init__(self, ctx):
        self.ctx = ctx
        self.link = None
        self.tester = None

    def close(self):
        pass

    def ports(self, _device):
        """Words of a method that name the tester's ports and packets."""
        return [f"dpdk:{self.link.client}", *dpdk.PALINDROME, *dpdk.lane(self.ctx.core_a)]

    @contextlib.contextmanager
    def device(self, label, name, more=()):
        """`more`: further options of `mpps forward`. What is started, with its statistics, until the block ends."""
        ctx = self.ctx
        self.link = dpdk.Memif(ctx)
        port = self.link.server
        if name == FORWARD:
            args = ["forward", f"dpdk:{port}", "--mode", "l2fwd", "--dest-mac", dpdk.DEST_MAC, "--take", "all", *more]
            with dpdk.listener(ctx, label, args, ctx.core_b) as program:
                yield program
        elif name == C_L2FWD:
            with dpdk.c_l2fwd(ctx, label, ctx.l2fwd, port, ctx.core_b) as program:
                # It forwards only when its links have been up, or 9 s have passed.
                mpps.send(ctx, f"{label}, first packets",
                          ["sendrecv", *self.ports(name), "--rate", "1kpps", "--settle", "50ms"], 0.5, None, ctx.core_a)
                program.wait_until_running()
                yield program
        else:
            with dpdk.pmd(ctx, label, PMD[name], port, ctx.core_b) as program:
                yield program


class Veth:
    """Two namespaces of this process's own, joined by two veth pairs: tester and device."""

    NAME = "veth"
    DEVICES = (FORWARD, C_L2FWD, *PMD, BRIDGE, ROUTER)
    PREFIX = "bench-veth-"

    def __init__(self, ctx):
        if os.geteuid() != 0:
            raise BenchError("network namespaces need root")
        self.ctx = ctx
        self.spread = None
        self.names = {end: f"{self.PREFIX}{os.getpid()}-{end}" for end in ("t", "d")}
        self.remove_left_behind()
        self.tester, self.inside = (["ip", "netns", "exec", self.names[end]] for end in "td")
        try:
            self._make()
        except BenchError:
            self.close()
            raise

    @classmethod
    def remove_left_behind(cls):
        """The namespaces of benchmarks that were killed."""
        for path in glob.glob(f"/run/netns/{cls.PREFIX}*"):
            name = os.path.basename(path)
            pid = name[len(cls.PREFIX):].split("-")[0]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                run(["ip", "netns", "del", name], ok=range(256))

    def _make(self):
        tester, device = self.names["t"], self.names["d"]
        for name in (tester, device):
            run(["ip", "netns", "add", name])
            # Neighbours that look for each other by IPv6 are packets that nobody sent.
            run(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                 "net.ipv6.conf.default.disable_ipv6=1"], ok=range(256))
        for port in (1, 2):
            run(["ip", "-n", tester, "link", "add", f"eth{port}", "address", f"02:6d:70:70:00:1{port}", "type", "veth",
                 "peer", "name", f"eth{port}", "netns", device, "address", f"02:6d:70:70:00:2{port}"])
            for name in (tester, device):
                run(["ip", "-n", name, "link", "set", f"eth{port}", "up"])
        # What the kernel forwards would else run on the core of the tester, who hands it the packets.
        mask = f"{1 << self.ctx.core_b:x}"
        words = "; ".join(f"echo {mask} > {RPS.format(f'eth{port}')}" for port in (1, 2))
        try:
            run([*self.inside, "sh", "-ec", words])
            self.spread = True
        except BenchError:
            self.spread = False

    def close(self):
        for name in self.names.values():
            if os.path.exists(f"/run/netns/{name}"):
                run(["ip", "netns", "del", name], ok=range(256))

    def ports(self, device):
        both = ["af_packet:eth1", "af_packet:eth2", "--tx-lanes", 1, "--rx-lanes", 1]
        if device == ROUTER:
            return [*both, "--src", "198.18.0.1", "--dest", f"{BEHIND}:9000", "--gateway", NEAR]
        if device == "testpmd 5tswap":
            # What it turns round looks like what came in.
            return [*both, "--src", BEHIND, "--src-port-range", "9000-9000", "--dest", f"{BEHIND}:9000"]
        return both

    @contextlib.contextmanager
    def device(self, label, name, more=()):
        ctx, vdevs = self.ctx, [f"net_af_packet{n},iface=eth{n + 1},qpairs=1" for n in (0, 1)]
        if name == FORWARD:
            args = ["forward", "af_packet:eth1", "af_packet:eth2", "--mode", "io", "--take", "all", *more, "--lanes", 1,
                    "--cores", ctx.core_b]
            with mpps.Listener(ctx, label, args, self.inside, ctx.core_b) as program:
                yield program
        elif name == C_L2FWD:
            with dpdk.c_l2fwd(ctx, label, ctx.l2fwd, vdevs, ctx.core_b, self.inside) as program:
                program.wait_until_running()
                yield program
        elif name in PMD:
            with testpmd.Testpmd(ctx, label, PMD[name], vdevs, ctx.core_b, ctx.core_b, self.inside, dpdk.memory(ctx),
                                 (f"--burst={dpdk.BURST}",)) as program:
                program.start()
                yield program
        else:
            begin, end = BRIDGED if name == BRIDGE else ROUTED
            ctx.section.command(label, [*self.inside, "sh", "-ec", begin])
            run([*self.inside, "sh", "-ec", begin])
            try:
                yield None
            finally:
                run([*self.inside, "sh", "-c", end], ok=range(256))


BRIDGED = ("ip link add br0 type bridge stp_state 0 forward_delay 0; ip link set eth1 master br0; "
           "ip link set eth2 master br0; ip link set br0 up", "ip link del br0")
ROUTED = (f"ip address add {NEAR}/24 dev eth1; ip address add {FAR}/24 dev eth2; sysctl -qw net.ipv4.ip_forward=1",
          "sysctl -qw net.ipv4.ip_forward=0; ip address flush dev eth1; ip address flush dev eth2")
RIGS = {rig.NAME: rig for rig in (Veth, Memif)}


def built(ctx, section):
    """The C l2fwd is built where it can be; the report says why not."""
    ctx.l2fwd = l2fwd.build_counting(ctx, section)


def missing(ctx, name):
    """Why a device can't be had here, '' where it can."""
    if name == C_L2FWD and not ctx.l2fwd:
        return "it could not be built"
    return ""


def method(ctx, rig, label, args, seconds):
    """Runs a method of mpps on the tester's side until it ends, `seconds` at the most; its `result.json`, and the share
    of the time that the hypervisor took from this host, as `steal`, with the folder."""
    folder = ctx.file("")
    more = os.environ.get("BENCH_METHOD_ARGS", "").split()
    argv = ctx.command([ctx.mpps, *args, *more, "--out", folder], rig.tester, ctx.core_a)
    ctx.section.command(label, argv)
    before, began = stolen(), time.monotonic()
    proc = Proc(argv)
    status = proc.wait(seconds)
    took = time.monotonic() - began
    if status not in mpps.DONE:
        raise BenchError(f"mpps {args[0]} ended with {status}: {proc.last_line()}")
    result = load(os.path.join(folder, "result.json"))
    return result | {"steal": (stolen() - before) / took / os.cpu_count(), "took": took, "folder": folder,
                     "status": status}


def stolen():
    """Seconds that the hypervisor took from all cores since boot."""
    words = read("/proc/stat").split()
    return int(words[8]) / os.sysconf("SC_CLK_TCK") if len(words) > 8 else 0.0


def void(result):
    """Void trials of a result, and the most frequent reason."""
    reasons = [trial["reasons"][0] if trial["reasons"] else "" for trial in result["trials"]
               if trial["outcome"] == "void"]
    short = [reason.split(" (")[0] for reason in reasons]
    kinds = ["this host sends less than asked for" if "offered rate" in why else why for why in short]
    return len(kinds), max(set(kinds), key=kinds.count) if kinds else ""
