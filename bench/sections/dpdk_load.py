"""The part of the section dpdk that is about loss: none at half the maximum, and none where lanes share a core."""

import contextlib
import statistics
import time

from harness import dpdk, mpps, testpmd, xdp
from harness.proc import BenchError, run
from harness.report import say
from harness.stat import percent, rate
from harness.steady import loss_verdict

MODEST = 50_000  # pps: what the published pair lost half of
# A tap that waits for its program, and a wire from it to the lab's interface: u32 and mirred, as the kernel may lack
# flower.
TAP = "dtap0"
TAP_UP = f"""ip tuntap add dev {TAP} mode tap multi_queue && ip link set {TAP} txqueuelen 8192 up
for pair in "eth1 {TAP}" "{TAP} eth1"; do
    set -- $pair
    tc qdisc add dev $1 ingress
    tc filter add dev $1 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev $2
done"""
TAP_DOWN = f"tc qdisc del dev eth1 ingress; ip link del {TAP}"


@contextlib.contextmanager
def no_device(_ctx):
    yield


@contextlib.contextmanager
def own_queue(ctx):
    ctx.lab.up()
    xdp.free_queue(ctx)
    yield


@contextlib.contextmanager
def taps(ctx):
    """A tap on each host of the lab, joined with the lab's wire."""
    try:
        for host in "ab":
            run(ctx.command(["sh", "-ec", TAP_UP], host))
        yield
    finally:
        for host in "ab":
            run(ctx.command(["sh", "-c", TAP_DOWN], host), ok=range(256))


def wire(device):
    return lambda ctx: ((device, device), ("a", "b"))


def memif(ctx):
    link = dpdk.Memif(ctx)
    return (link.client, link.server), (None, None)


# What → (its devices and hosts, what has to be there, words before mpps); None: it has one end.
VDEVS = {
    "net_memif": (memif, no_device, ()),
    "net_af_packet": (wire("net_af_packet0,iface=eth1"), own_queue, ()),
    "net_af_xdp": (wire("net_af_xdp0,iface=eth1"), own_queue, testpmd.WITH_BPFFS),
    "net_tap": (wire(f"net_tap0,iface={TAP}"), taps, ()),
    "net_ring": None,
}


def trip(ctx, what, label, args=(), duration=None):
    if what == "net_ring":
        return dpdk.mpps_ring(ctx, label, args, duration)
    devices, ready, prepare = VDEVS[what]
    with ready(ctx):
        ports, hosts = devices(ctx)
        return dpdk.mpps_round_trip(ctx, label, ports, args, duration, hosts, prepare=prepare)


def at_half(ctx, what, maximum):
    half = int(maximum / 2)
    say(f"  {what}: {ctx.steady:g} s at {half} pps")
    return {"rate": half, "summary": trip(ctx, what, f"{what} at {half} pps", ["--rate", f"{half}pps"], ctx.steady)}


def too_slow(summary):
    """Nothing is wrong with the trial but that the generator could not keep up."""
    reasons = summary["invalid_reasons"]
    return bool(reasons) and not summary["lost"] and not summary["late"] and all(
        reason.startswith("the offered rate is") for reason in reasons)


def no_loss(ctx, section):
    section.heading(f"Round trip at half the maximum, {ctx.steady:g} s, every vdev")
    for what in VDEVS:
        try:
            say(f"  {what}: the maximum, for half of it")
            runs = range(min(3, ctx.rounds))
            top = statistics.median(trip(ctx, what, f"{what} maximum")["received_pps"] for _ in runs)
            trial = at_half(ctx, what, top)
            loss_verdict(section, f"{what} round trip", trial)
            if too_slow(trial["summary"]):
                # A paced sender has more to do: its own maximum is what it reaches when asked for the other.
                asked = ["--rate", f"{int(top)}pps"]
                paced = statistics.median(trip(ctx, what, f"{what} maximum, paced", asked)["received_pps"]
                                          for _ in runs)
                section.text(f"{what}: the maximum above is that of an unpaced sender, {rate(top)}. Asked for as much, "
                             f"a paced one reaches {rate(paced)} (median). What follows is half of that, which is less "
                             f"than the target "
                             "asks for.")
                loss_verdict(section, f"{what} round trip, half of the paced maximum", at_half(ctx, what, paced))
        except BenchError as error:
            section.verdict(f"target no loss at half the maximum ({what} round trip): not measured ({error})")
    section.text("`sendrecv` ↔ `reflect`, a core each, both of mpps. net_af_packet, net_af_xdp and net_tap by the "
                 "lab's veth, whose kernel part runs on the sender's core; the taps are joined to it by `tc` (u32, "
                 "mirred). net_ring gives back what it is sent, so one program is both ends. net_null sinks packets: "
                 "there is nothing to lose.")


def shared_core(ctx, label, busy):
    link = dpdk.Memif(ctx)
    cores = (ctx.core_a, ctx.core_a)
    return dpdk.mpps_round_trip(ctx, label, (link.client, link.server), ["--rate", f"{MODEST}pps"],
                                max(ctx.seconds, 10), cores=cores, busy=busy)


def one_core(ctx, section):
    section.heading(f"Two lanes, one core: {MODEST // 1000} kpps over `net_memif`")
    rows = []
    for label, busy in (("mpps, one core", False), ("mpps --busy-poll, one core", True)):
        say(f"  {label}")
        try:
            s = shared_core(ctx, label, busy)
            rows.append([label, rate(s["offered_pps"]), rate(s["received_pps"]), s["lost"], s["late"],
                         percent(s["loss_ratio"])])
            if not busy:
                met = s["lost"] == 0 and s["late"] == 0
                section.verdict(f"target no loss with both programs on one core (net_memif, {MODEST // 1000} kpps): "
                                f"**{'met' if met else 'not met'}** ({s['lost']} lost and {s['late']} late of "
                                f"{s['tx_packets']} packets in {s['duration_s']:.0f} s)")
        except BenchError as error:
            rows.append([f"{label} (not measured: {error})"] + ["–"] * 5)
    label = "testpmd flowgen ↔ 5tswap, one core, unpaced"
    say(f"  {label}")
    try:
        link = dpdk.Memif(ctx)
        with dpdk.pmd(ctx, f"{label}, 5tswap", "5tswap", link.server, ctx.core_a) as other, \
             dpdk.pmd(ctx, f"{label}, flowgen", "flowgen", link.client, ctx.core_a) as generator:
            time.sleep(dpdk.WARM)
            received, sent = generator.rates(ctx.seconds)
            dpdk.alive(other)
        rows.append([label, rate(sent), rate(received), "–", "–", percent(1 - received / sent if sent else None)])
    except BenchError as error:
        rows.append([f"{label} (not measured: {error})"] + ["–"] * 5)
    section.table(["program", "sent/s", "came back/s", "lost", "late", "loss"], rows)
    section.text(f"All on core {ctx.core_a}. testpmd's generators can't be paced: its row says what two loops that "
                 f"never sleep make "
                 "of one core.")


PARTS = (no_loss, one_core)
