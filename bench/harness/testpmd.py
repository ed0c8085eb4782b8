"""dpdk-testpmd, driven through its prompt. Its rates are its own: packets between two `show port stats` over its
clock."""

import itertools
import os
import re
import time

from harness.proc import BenchError, Program

STATS = "show port stats all"
# net_af_xdp loads its XDP program through libxdp, which wants a BPF file system; the mount is seen by this process only
# (`lab exec` gives each a mount namespace).
WITH_BPFFS = ("sh", "-c", 'mount -t bpf bpf /sys/fs/bpf && exec "$@"', "sh")
END = "####\n"
MEMORY = {"hugepages": ("--in-memory", "-m", "512"), "no-huge": ("--no-huge", "-m", "512", "--no-shconf")}
_started = itertools.count()


class Testpmd(Program):
    """One testpmd with one forwarding core; the main core only waits at the prompt.

    `vdev`: the port, or a list of ports, which are paired; `memory`: a key of MEMORY, or arguments for the EAL.
    """

    def __init__(self, ctx, label, mode, vdev, main, worker, host=None, memory="no-huge", port_args=()):
        ctx.need("dpdk-testpmd")
        vdevs = [vdev] if isinstance(vdev, str) else vdev
        self.ports = len(vdevs)
        prepare = WITH_BPFFS if vdevs[0].startswith("net_af_xdp") else ()
        memory = MEMORY.get(memory, memory) if isinstance(memory, str) else memory
        argv = ctx.command([
            *prepare, "dpdk-testpmd", f"--lcores=0@{main},1@{worker}", *memory, "--no-pci", "--no-telemetry",
            f"--file-prefix=bench{os.getpid()}-{next(_started)}", *(f"--vdev={v}" for v in vdevs), "--", "-i",
            f"--forward-mode={mode}", "--total-num-mbufs=16384", *port_args], host)
        ctx.section.command(label, argv)
        super().__init__(argv, "testpmd>", 30, terminal=True)

    def start(self):
        after = len(self.proc.output())
        self.proc.write("start")
        self.proc.wait_for(f"packet forwarding - ports={self.ports}", 10, after)

    def stop(self):
        """Ends forwarding and returns what testpmd then says of it."""
        after = len(self.proc.output())
        self.proc.write("stop")
        self.proc.wait_for("Done.", 10, after)
        return self.proc.output()[after:]

    def stats(self):
        """Of all ports together."""
        after = at = len(self.proc.output())
        self.proc.write(STATS)
        for _ in range(self.ports):
            self.proc.wait_for("Tx-pps:", 10, at)
            at = self.proc.output().index("Tx-pps:", at) + 1
            self.proc.wait_for(END, 10, at)
        totals = dict.fromkeys(("Rx-pps", "Tx-pps", "RX-packets", "TX-packets"), 0)
        for name, value in re.findall(r"(\w+-(?:packets|pps)):\s+(\d+)", self.proc.output()[after:]):
            totals[name] += int(value)
        return totals

    def rates(self, seconds):
        """(received, sent) in pps over `seconds`, of all ports together."""
        return self.rates_during(lambda: time.sleep(seconds))[:2]

    def rates_during(self, work):
        """(received, sent, what `work` returned), the rates in pps over the time that it took."""
        self.stats()
        result = work()
        stats = self.stats()
        return stats["Rx-pps"], stats["Tx-pps"], result

    def quit(self):
        self.proc.write("stop")
        self.proc.write("quit")
        if self.proc.wait(15) != 0:
            raise BenchError(f"dpdk-testpmd ended badly: {self.proc.last_line()}")


def on_null(ctx, mode, memory, duration=None):
    """Rate of one forwarding core on net_null, pps: of what it sends, or of what it receives for rxonly."""
    length = 60 if mode == "txonly" else 64  # flowgen takes the FCS off by itself; 60 bytes in memory either way
    with Testpmd(ctx, f"testpmd {mode}", mode, "net_null0,size=60", ctx.core_a, ctx.core_b, memory=memory,
                 port_args=(f"--txpkts={length}",)) as testpmd:
        testpmd.start()
        time.sleep(0.2)  # out of the first bursts
        received, sent = testpmd.rates(duration or ctx.seconds)
        testpmd.quit()
    return {"rate": float(received if mode == "rxonly" else sent)}


def vdev(driver, options=""):
    """The lab's interface through a driver: net_af_packet or net_af_xdp."""
    queues = ",qpairs=1" if driver == "net_af_packet" else ""
    return f"{driver}0,iface=eth1{queues}" + (f",{options}" if options else "")


def round_trip(ctx, memory, options, driver="net_af_packet"):
    """flowgen on host a ↔ macswap on host b: what comes back to the generator, pps."""
    device = vdev(driver, options)
    with Testpmd(ctx, "testpmd macswap", "macswap", device, ctx.core_b, ctx.core_b, "b", memory) as echo, \
         Testpmd(ctx, "testpmd flowgen", "flowgen", device, ctx.core_a, ctx.core_a, "a", memory) as generator:
        echo.start()
        generator.start()
        time.sleep(0.5)
        received, sent = generator.rates(ctx.seconds)
        generator.quit()
        echo.quit()
    return {"rate": float(received), "sent": float(sent), "loss": 1 - received / sent if sent else None}
