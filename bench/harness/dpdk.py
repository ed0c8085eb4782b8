"""mpps, testpmd and the C l2fwd on the same DPDK devices, cores and bursts: one way to run each, rates by its own
count."""

import contextlib
import time

from harness import l2fwd, mpps, testpmd
from harness.machine import read
from harness.proc import BenchError, Proc, until

BURST = 32  # testpmd's and l2fwd's own
NULL = "net_null0,size=60"  # 60 bytes in memory, 64 with FCS, as mpps's packets are
RING = "net_ring0"  # the PMD joins its one port's ends: what is sent comes back in
SOURCE, TARGET = "10.99.0.11", "10.99.0.12"  # nobody's: on a lab's interface the kernel would answer for its own
DEST_MAC = "02:00:00:00:00:00"  # what the C l2fwd writes for its first port
# Its own reverse: what leaves addresses and ports as they are sends it back as `sendrecv` expects it.
PALINDROME = ["--src", SOURCE, "--src-port-range", "9000-9000", "--dest", f"{SOURCE}:9000", "--dest-mac", DEST_MAC]
WARM = 0.3  # s, out of the first bursts
FREE = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
PAGES = 64  # of 2 MiB: enough for each peer


def memory(ctx):
    """EAL arguments of the peers: hugepages where two of them can have enough beside mpps."""
    size = ("-m", str(2 * PAGES))
    enough = ctx.hugepages.have >= 4 * PAGES and int(read(FREE) or 0) >= 2 * PAGES
    return ("--in-memory", *size) if enough else ("--no-huge", *size, "--no-shconf")


def name(what, own_burst=False):
    return f"{what}, own burst" if own_burst else what


def lane(core, own_burst=False, busy=True):
    """Arguments of an mpps that has one lane."""
    return ["--lanes", 1, "--cores", core, *(["--busy-poll"] if busy else []),
            *([] if own_burst else ["--burst", BURST])]


def flow():
    """What a sender is told."""
    return ["--src", SOURCE, "--dest", f"{TARGET}:9000"]


def pace(summary, field):
    return {"rate": summary[field] / summary["duration_s"]}


def mpps_alone(ctx, label, args, field, own_burst=False):
    """mpps on a device that makes or sinks packets itself: its own total over its own time."""
    return pace(mpps.send(ctx, label, [*args, *lane(ctx.core_b, own_burst)], ctx.seconds), field)


def flowgen_length(mode):
    # flowgen takes the FCS off by itself; 60 bytes in memory either way
    return f"--txpkts={64 if mode == 'flowgen' else 60}"


def testpmd_alone(ctx, label, mode, vdevs, fill=False, more=()):
    """testpmd likewise. `fill`: it sent UDP packets before, and finds them in its buffers then."""
    first = "txonly" if fill else mode
    with testpmd.Testpmd(ctx, label, first, vdevs, ctx.core_a, ctx.core_b, memory=memory(ctx),
                         port_args=(flowgen_length(mode), f"--burst={BURST}", *more)) as pmd:
        if fill:
            ctx.section.command(label + ", at its prompt", ["printf", rf"start\nstop\nset fwd {mode}\nstart\n"])
            pmd.start()
            time.sleep(0.2)
            pmd.stop()
            pmd.proc.write(f"set fwd {mode}")
        pmd.start()
        time.sleep(WARM)
        received, sent = pmd.rates(ctx.seconds)
        pmd.quit()
    return {"rate": float(received if mode == "rxonly" else sent)}


def l2fwd_alone(ctx, label, program, vdevs):
    with l2fwd.L2fwd(ctx, label, program, vdevs, ctx.core_b, memory(ctx)) as forwarder:
        forwarder.wait_until_running()
        _, sent = forwarder.rates(ctx.seconds)
        forwarder.quit()
    return {"rate": sent}


class Memif:
    """The two ends of a fresh net_memif, in the peers' words; `dpdk:` before it makes it mpps's."""

    def __init__(self, ctx):
        socket = ctx.file(".sock")
        self.server, self.client = (f"net_memif0,role={role},socket={socket},socket-abstract=no"
                                    for role in ("server", "client"))


@contextlib.contextmanager
def pmd(ctx, label, mode, vdev, core, host=None):
    """testpmd on one core, started."""
    with testpmd.Testpmd(ctx, label, mode, vdev, core, core, host, memory(ctx),
                         (flowgen_length(mode), f"--burst={BURST}")) as program:
        program.start()
        yield program


@contextlib.contextmanager
def listener(ctx, label, args, core, host=None, own_burst=False, busy=True):
    """mpps that waits for packets, its `summary` there after the block."""
    with mpps.Listener(ctx, label, [*args, *lane(core, own_burst, busy)], host, core) as program:
        yield program


@contextlib.contextmanager
def c_l2fwd(ctx, label, program, vdevs, core, host=None):
    """The C l2fwd on one core, waiting for its links."""
    with l2fwd.L2fwd(ctx, label, program, [vdevs] if isinstance(vdevs, str) else vdevs, core, memory(ctx),
                     host) as forwarder:
        yield forwarder


def driven(ctx, forwarder):
    """What comes back to testpmd's flowgen from `forwarder(device)`, a context manager. It is the server: it is there
    first."""
    link = Memif(ctx)
    with forwarder(link.server) as other, pmd(ctx, "testpmd flowgen", "flowgen", link.client, ctx.core_a) as generator:
        if isinstance(other, l2fwd.L2fwd):
            other.wait_until_running()
        time.sleep(WARM)
        received, sent = generator.rates(ctx.seconds)
        alive(other)
        generator.quit()
    return {"rate": float(received), "sent": float(sent), "loss": 1 - received / sent if sent else None}


def alive(program):
    """True; BenchError when a program that should still run has ended."""
    proc = getattr(program, "proc", program)
    if proc.child.poll() is not None:
        raise BenchError(f"{proc.name()} ended early: {proc.last_line()}")
    return True


def sink(ctx, label, sender):
    """What testpmd's rxonly gets over net_memif from `sender(device)`, a context manager."""
    link = Memif(ctx)
    with pmd(ctx, f"{label}, receiver", "rxonly", link.server, ctx.core_b) as receiver, sender(link.client) as program:
        until(lambda: alive(program) and receiver.stats()["RX-packets"] > 1000, f"packets of {label}")
        time.sleep(WARM)
        received, _ = receiver.rates(ctx.seconds)
        alive(program)
        receiver.quit()
    return {"rate": float(received)}


@contextlib.contextmanager
def mpps_sends(ctx, label, device, own_burst=False, more=()):
    """`mpps send` until the block ends; nobody answers its ARP where a peer listens."""
    argv = ctx.command([ctx.mpps, "send", f"dpdk:{device}", *flow(), "--dest-mac", DEST_MAC,
                        *lane(ctx.core_a, own_burst), *more, "--duration", "10m", "--quiet"], None, ctx.core_a)
    ctx.section.command(label, argv)
    proc = Proc(argv)
    try:
        yield proc
        proc.stop()
    finally:
        proc.kill()


def mpps_round_trip(ctx, label, ports, args=(), duration=None, hosts=(None, None), cores=None, own_burst=False,
                    busy=True, prepare=()):
    """`sendrecv` ↔ `reflect` on the two ends of `ports` (device of the sender, of the reflector); both programs are
    kept on their cores as a whole. The sender's summary, the reflector's in it as `reflector`."""
    core_a, core_b = cores or (ctx.core_a, ctx.core_b)
    near, far = ports
    wait = ["reflect", f"dpdk:{far}", "--ip", TARGET, *lane(core_b, own_burst, busy)]
    with mpps.Listener(ctx, f"{label}, reflector", wait, hosts[1], core_b, prepare) as other:
        summary = mpps.send(ctx, label, ["sendrecv", f"dpdk:{near}", *flow(), *args, *lane(core_a, own_burst, busy)],
                            duration or ctx.seconds, hosts[0], core_a, prepare=prepare)
        summary["reflector"] = other.stop()
    return summary


def mpps_ring(ctx, label, args=(), duration=None):
    """`sendrecv` on a ring that gives back what is sent to it."""
    return mpps.send(ctx, label, ["sendrecv", f"dpdk:{RING}", *PALINDROME, *args, *lane(ctx.core_b)],
                     duration or ctx.seconds)


def mpps_one_way(ctx, label, verify, own_burst=False):
    """`send` → `drop` over net_memif: what drop counted over the time that send sent."""
    link = Memif(ctx)
    drop = ["drop", f"dpdk:{link.server}", "--ip", TARGET, *([] if verify else ["--no-verify"])]
    with listener(ctx, f"{label}, receiver", drop, ctx.core_b, own_burst=own_burst) as receiver:
        sent = mpps.send(ctx, label, ["send", f"dpdk:{link.client}", *flow(), *lane(ctx.core_a, own_burst)],
                         ctx.seconds, None, ctx.core_a)
        got = receiver.stop()
    return {"rate": got["rx_packets"] / sent["duration_s"], "sent": sent["offered_pps"]}
