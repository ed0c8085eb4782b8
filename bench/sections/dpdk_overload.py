"""The part of the section dpdk that is the overload test: forwarders at growing load, and what they say of their
core."""

import contextlib
import re
import statistics
import threading
import time

from harness import dpdk, mpps, testpmd, xdp
from harness.proc import BenchError
from harness.report import say
from harness.stat import percent, rate

LOADS = (50, 75, 100, 150, 200)  # % of what the reference forwards
OUT = "net_af_packet0,iface=eth1"
L2FWD, OURS, MACSWAP, TESTPMD = "C l2fwd", "mpps forward l2fwd", "mpps forward macswap", "testpmd macswap"
ALL = ["--take", "all"]


class Test:
    """One way to load a forwarder.

    `onward`: memif in, the lab's interface out of host a, counted at host b; else back into the memif it came by.
    """

    def __init__(self, ctx, onward):
        self.ctx, self.onward, self.kind = ctx, onward, "onward" if onward else "back"
        self.host = "a" if onward else None

    def ports(self, device):
        return [device, OUT] if self.onward else [device]

    def generator(self, device, pps, settle="200ms"):
        pace = ["--rate", f"{int(pps)}pps"] if pps else []
        if self.onward:
            return ["send", f"dpdk:{device}", *dpdk.flow(), "--dest-mac", dpdk.DEST_MAC, *dpdk.lane(self.ctx.core_a),
                    *pace]
        return ["sendrecv", f"dpdk:{device}", *dpdk.PALINDROME, *dpdk.lane(self.ctx.core_a), "--settle", settle, *pace]

    def label(self, name):
        return f"{name}, {self.kind}"

    def run(self, name, pps):
        """Metrics of one forwarder at a load; pps None: flat out."""
        link, told = dpdk.Memif(self.ctx), {}
        ctx, forwarder = self.ctx, {L2FWD: self.l2fwd, OURS: self.mpps, MACSWAP: self.mpps, TESTPMD: self.testpmd}[name]
        if self.onward:
            ctx.lab.up()
            xdp.free_queue(ctx)
        with forwarder(name, link.server, told) as wait:
            before = ctx.lab.received("b") if self.onward else 0
            args = self.generator(link.client, pps, told.pop("settle", "200ms"))
            s = mpps.send(ctx, self.label(f"generator of {name}"), args, ctx.seconds, None, ctx.core_a)
            wait()
            passed = ctx.lab.received("b") - before if self.onward else s["rx_packets"]
        got = passed / s["duration_s"]
        if told.get("busy_s") and passed:
            told |= {"busy": told["busy_s"] / s["duration_s"], "ns": told["busy_s"] * 1e9 / passed}
        return {"rate": got, "offered": s["offered_pps"], "loss": 1 - got / (pps or s["offered_pps"]), **told}

    @contextlib.contextmanager
    def mpps(self, name, device, told):
        mode = ["l2fwd", "--dest-mac", dpdk.DEST_MAC] if name == OURS else ["macswap"]
        args = ["forward", *(f"dpdk:{p}" for p in self.ports(device)), "--mode", *mode, *ALL]
        with dpdk.listener(self.ctx, self.label(name), args, self.ctx.core_b, self.host) as program:
            def wait():
                summary = program.stop()
                total = lambda field: sum(lane[field] or 0 for lane in summary["lanes"])
                bursts, empty = total("rx_bursts"), total("empty_polls")
                if bursts:
                    told.update(burst=total("rx_packets") / bursts, empty=empty / (bursts + empty))
                told["busy_s"] = total("busy_ratio") * summary["duration_s"]
            yield wait

    @contextlib.contextmanager
    def testpmd(self, name, device, told):
        ctx = self.ctx
        with testpmd.Testpmd(ctx, self.label(name), "macswap", self.ports(device), ctx.core_b, ctx.core_b, self.host,
                             dpdk.memory(ctx), (f"--burst={dpdk.BURST}",)) as program:
            for setting in ("record-burst-stats", "record-core-cycles"):
                program.proc.write(f"set {setting} on")
            program.start()
            note = lambda: told.update(recorded(program.stop()))
            if self.onward:
                yield note
                return
            # net_memif forgets its counters with its peer, so testpmd is stopped while the generator waits for what is
            # late.
            told["settle"] = "3s"

            def note_when_idle():
                time.sleep(ctx.seconds)
                before, now = None, 0
                try:
                    while not now or now != before:
                        time.sleep(0.3)
                        before, now = now, program.stats()["RX-packets"]
                    note()
                except (BenchError, OSError) as error:
                    say(f"    {name} said nothing of itself: {error}")

            watcher = threading.Thread(target=note_when_idle, daemon=True)
            watcher.start()
            yield lambda: watcher.join(10)

    @contextlib.contextmanager
    def l2fwd(self, _name, device, _told):
        ctx = self.ctx
        with dpdk.c_l2fwd(ctx, self.label(L2FWD), ctx.l2fwd, self.ports(device), ctx.core_b, self.host) as program:
            # It forwards only when its links have been up, or 9 s have passed: a first run of the generator is for that
            # alone.
            args = self.generator(device.replace("role=server", "role=client"), 1000)
            mpps.send(ctx, self.label(f"generator before {L2FWD}"), args, 0.5, None, ctx.core_a)
            program.wait_until_running()
            yield lambda: dpdk.alive(program)


def recorded(text):
    """What testpmd says after `stop` with both recordings on: mean burst, share of empty polls, time spent on
    packets."""
    total = lambda what: sum(map(int, re.findall(rf"{what}-bursts : (\d+)", text)))
    polls, sends = total("RX"), total("TX")  # it sends once for each poll that brought something
    packets = re.findall(r"TX-total: (\d+)", text)
    cycles = re.search(r"total cycles=(\d+) .* at (\d+) MHz", text)
    found = {"busy_s": int(cycles[1]) / (int(cycles[2]) * 1e6) if cycles else None}
    if polls and sends and packets:
        found |= {"burst": int(packets[-1]) / sends, "empty": 1 - sends / polls,
                  "spread": re.findall(r"RX-bursts : \d+ \[(.*?)\]", text)[0]}
    return found


def table(ctx, section, test):
    """Every forwarder at every load; the samples of the highest."""
    names = ([L2FWD] if ctx.l2fwd else []) + [OURS, MACSWAP, TESTPMD]
    reference = names[0] if ctx.l2fwd else TESTPMD
    if test.onward:
        top = statistics.median(test.run(reference, None)["rate"] for _ in range(min(3, ctx.rounds)))
        section.text(f"100 % is what {reference} forwards flat out: {rate(top)}.")
    else:
        start = {L2FWD: lambda d: dpdk.c_l2fwd(ctx, L2FWD, ctx.l2fwd, d, ctx.core_b),
                 TESTPMD: lambda d: dpdk.pmd(ctx, TESTPMD, "macswap", d, ctx.core_b)}[reference]
        top = statistics.median(dpdk.driven(ctx, start)["rate"] for _ in range(min(3, ctx.rounds)))
        section.text(f"100 % is what {reference} sends back to testpmd's flowgen flat out: {rate(top)}.")
    rows, samples = [], None
    for load in LOADS:
        samples = ctx.compare({name: lambda n=name, pps=top * load / 100: test.run(n, pps) for name in names},
                              min(ctx.rounds, 3))
        for name in names:
            if not samples.values(name):
                rows.append([f"{load} %: {name} (not measured: {samples.why_not(name)})"] + ["–"] * 8)
                continue
            show = lambda metric, how: how(samples.median(name, metric)) if samples.values(name, metric) else "–"
            rows.append([f"{load} %: {name}", rate(top * load / 100), show("offered", rate), show("rate", rate),
                         show("loss", percent), show("burst", "{:.1f}".format), show("empty", percent),
                         show("busy", percent), show("ns", "{:.1f}".format)])
    section.table(["load: forwarder", "intended/s", "sent/s", "forwarded/s", "of intended not forwarded",
                   "mean RX burst", "empty polls", "busy", "busy ns/packet"], rows)
    if ctx.l2fwd:
        section.target(f"× {L2FWD} (overload, {test.kind}, `{OURS}`, forwarded at {LOADS[-1]} %)", 1.0,
                       samples.ratio(OURS, L2FWD), samples.why_not(OURS, L2FWD))


def onward(ctx, section):
    section.heading("Overload: `send --rate` over `net_memif` → forwarder → `net_af_packet`")
    table(ctx, section, Test(ctx, True))
    section.text(f"Generator on core {ctx.core_a}, forwarder on core {ctx.core_b}, where the kernel's part of sending "
                 f"runs, too: it "
                 "is slow enough to be overloaded by one core. *Sent* is what the ring to the forwarder took; the "
                 "generator tries again what it did not take, so what is missing of *intended* was refused there, as a "
                 "NIC would miss it. *Forwarded*: what came in at host b's interface, the same count for all. *Mean RX "
                 "burst*: of polls that brought something. *Empty polls*: of both ports, also while the generator "
                 "starts and ends. *Busy*: time that went into polls with packets (mpps: its lane's busy share; "
                 "testpmd: `record-core-cycles`), of the time that the generator sent. The C `l2fwd` tells none of "
                 "these.")


def back(ctx, section):
    section.heading("Growing load: `sendrecv --rate` → forwarder → back, over `net_memif`")
    table(ctx, section, Test(ctx, False))
    section.text("As above, but back to the generator, which stamps, receives and verifies on its one core: where "
                 "*sent* stays below *intended*, it is the limit, or the ring was full. Its one flow is its own "
                 "reverse, so a forwarder that changes MAC addresses alone sends it back as expected. testpmd is "
                 "stopped while the generator waits for what is late.")


PARTS = (onward, back)
