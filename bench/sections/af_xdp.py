"""AF_XDP sockets over veth: the round trip, reflector and forwarder under overload, one way, and where the time
goes."""

import functools
import time

from harness import callgrind, mpps, peers, profile, steady, testpmd, xdp
from harness.best import best
from harness.proc import BenchError, Proc
from harness.stat import percent, rate, times

TITLE = "`af_xdp:` beside `dpdk-testpmd` on `net_af_xdp`, and the crate `xdp`"

DRIVER = "net_af_xdp"
TESTPMD_WAYS = ("", "busy_budget=0", "busy_budget=256")
MPPS, SKB, FLOWGEN = "mpps", "mpps, mode=skb", "testpmd flowgen ↔ macswap"
REFLECT, FORWARD, MACSWAP = "mpps reflect", "mpps forward, macswap", "testpmd macswap"
CRATE = "crate xdp 0.8, macswap"
RETURNED = (("rate", "came back/s", rate), ("sent", "sent/s", rate), ("loss", "loss", percent))
WARM = 0.3  # s, out of the first bursts


def memory(ctx):
    return "hugepages" if ctx.hugepages.have >= 512 else "no-huge"


def fresh(ctx, measure):
    """`measure`, when the queues that the program before it had are free."""
    def run():
        xdp.free_queue(ctx)
        return measure()
    return run


def compare(ctx, programs, rounds=None):
    return ctx.compare({label: fresh(ctx, measure) for label, measure in programs.items()}, rounds)


def trip(ctx, label, options="", args=("--lanes", 1), **kwargs):
    """One round trip of mpps, the same options on both ports."""
    options = f",{options}" if options else ""
    return mpps.trip_metrics(mpps.round_trip(ctx, "af_xdp", args, label, options=options, reflector_options=options,
                                             **kwargs))


def round_trip(ctx, section):
    section.heading("Round trip, a core for each host, 64-byte frames")
    options = best(ctx, section, "testpmd", TESTPMD_WAYS,
                   lambda way: fresh(ctx, lambda: testpmd.round_trip(ctx, memory(ctx), way, DRIVER))())
    samples = compare(ctx, {
        MPPS: lambda: trip(ctx, MPPS),
        SKB: lambda: trip(ctx, SKB, "mode=skb"),
        FLOWGEN: lambda: testpmd.round_trip(ctx, memory(ctx), options, DRIVER),
    })
    section.programs(samples, RETURNED)
    section.ratios(samples, [(MPPS, FLOWGEN), (SKB, FLOWGEN), (SKB, MPPS)])
    section.target("× testpmd (round trip, packets that came back)", 1.5, samples.ratio(MPPS, FLOWGEN),
                   samples.why_not(MPPS, FLOWGEN))
    section.text(f"Generator on host a, core {ctx.core_a}; reflector on host b, core {ctx.core_b}; flat out, defaults "
                 f"except "
                 "where told. testpmd's main thread only waits at its prompt. `macswap` exchanges the MAC addresses; "
                 "mpps exchanges IP addresses and ports too, and verifies what comes back.")


# What was tried: (name, options of both ports, arguments of sender and of reflector, what else).
SETTINGS = (
    ("defaults", "", {}),
    ("mode=skb", "mode=skb", {}),
    ("ring=512", "ring=512", {}),
    ("ring=4096", "ring=4096", {}),
    ("fill=256", "fill=256", {}),
    ("fill=4096", "fill=4096", {}),
    ("need_wakeup=off", "need_wakeup=off", {}),
    ("tx_budget=32", "tx_budget=32", {}),
    ("unaligned=off", "unaligned=off", {}),
    ("unaligned=off,chunk=4096", "unaligned=off,chunk=4096", {}),
    ("pages=huge", "pages=huge", {}),
    ("--burst 32", "", {"both": ("--burst", 32)}),
    ("--burst 256", "", {"both": ("--burst", 256)}),
    ("--busy-poll (lanes never sleep)", "", {"both": ("--busy-poll",)}),
    ("busy_budget=64", "busy_budget=64", {}),
    ("busy_budget=64, NAPI deferred", "busy_budget=64",
     {"veth": {"napi_defer_hard_irqs": 2, "gro_flush_timeout": 200_000}}),
    ("threaded NAPI", "", {"veth": {"threaded": 1}}),
    ("separate lanes", "", {"lanes": ("--tx-lanes", 1, "--rx-lanes", 1)}),
    ("both programs on one core", "", {"one_core": True}),
)


def _try(ctx, label, options, how):
    both = how.get("both", ())
    args = how.get("lanes", ("--lanes", 1)) + both
    cores = (ctx.core_b, ctx.core_b) if how.get("one_core") else None
    with xdp.veth(ctx, **how.get("veth", {})):
        return trip(ctx, f"settings: {label}", options, args, duration=min(ctx.seconds, 1.0), reflector_args=both,
                    cores=cores)


def settings(ctx, section):
    section.heading("What was tried: settings of the round trip")
    samples = compare(ctx, {label: functools.partial(_try, ctx, label, options, how)
                            for label, options, how in SETTINGS},
                      min(ctx.rounds, 3))
    rows = []
    for label, *_ in SETTINGS:
        ratio = samples.ratio(label, "defaults")
        rows.append([label if samples.values(label) else f"{label} (not measured: {samples.failures.get(label)})",
                     rate(samples.median(label)), times(samples.spread(label)), times(ratio[0]) if ratio else "–",
                     f"{ratio[1]:.3g} to {ratio[2]:.3g}" if ratio else "–", percent(samples.median(label, "loss"))])
    section.table(["setting, both ends", "came back/s", "spread (max/min)", "of defaults", "paired rounds", "loss"],
                  rows)
    section.text("Runs of 1 s. *NAPI deferred*: `napi_defer_hard_irqs` 2 and `gro_flush_timeout` 200 µs on both veths, "
                 "so that the poll loop runs in our system calls and nowhere else; *threaded NAPI*: `threaded` 1 on "
                 "both, the kernel's threads on whichever core the scheduler picks.")


def _fed(ctx, work, start=lambda: None):
    """What the interfaces count while xdp-trafficgen feeds a program on host b; `work(measure)` wraps the measuring."""
    start()
    with xdp.Traffic(ctx):
        time.sleep(WARM)
        return work(lambda: xdp.meter(ctx, ctx.seconds))


def _metrics(counts, own, field):
    return {"rate": counts[field], "own": own, "offered": counts["offered"],
            "loss": 1 - counts[field] / counts["offered"], "refused": 1 - counts["taken"] / counts["offered"]}


def _fed_mpps(ctx, label, args, field="turned"):
    table = ctx.file(".csv")
    with mpps.Listener(ctx, label, [*args, "--lanes", 1, "--interval", "100ms", "--csv", table], "b",
                       ctx.core_b) as listener:
        counts = _fed(ctx, lambda measure: measure())
        listener.stop()
    return _metrics(counts, mpps.inner_rate(table, "tx_packets" if field == "turned" else "rx_packets"), field)


def _fed_testpmd(ctx, label, mode, options, field="turned"):
    with testpmd.Testpmd(ctx, label, mode, testpmd.vdev(DRIVER, options), ctx.core_b, ctx.core_b, "b",
                         memory(ctx)) as pmd:
        received, sent, counts = _fed(ctx, pmd.rates_during, pmd.start)
        pmd.quit()
    return _metrics(counts, float(sent if field == "turned" else received), field)


def _fed_proc(ctx, label, argv, ready, field):
    """Any other program on host b that says when it is ready; its own count is not asked for."""
    command = ctx.command(argv, "b", ctx.core_b)
    ctx.section.command(label, command)
    proc = Proc(command)
    try:
        proc.wait_for(ready, 10)
        counts = _fed(ctx, lambda measure: measure())
        proc.stop()
    finally:
        proc.kill()
    return _metrics(counts, None, field)


def _crate(ctx, section):
    """The Rust peer's program, or None with a word about why not."""
    try:
        return xdp.build_rust(ctx, "the peer on the crate xdp",
                              ["--locked", "--manifest-path", f"{ctx.root}/bench/peers/xdp_crate/Cargo.toml"],
                              "xdp-crate-macswap")
    except BenchError as error:
        section.text(f"{CRATE}: left out ({error}).")
        return None


FED = (("own", "by its own count", rate), ("offered", "came in/s", rate), ("loss", "loss", percent),
       ("refused", "loss in front of the socket", percent))


def overload(ctx, section):
    section.heading("Overload: what comes in by `xdp-trafficgen` goes back, 64-byte frames")
    ctx.need("xdp-trafficgen")
    crate = _crate(ctx, section)
    options = best(ctx, section, MACSWAP, TESTPMD_WAYS,
                   lambda way: fresh(ctx, lambda: _fed_testpmd(ctx, MACSWAP, "macswap", way))())
    programs = {
        REFLECT: lambda: _fed_mpps(ctx, REFLECT, ["reflect", "af_xdp:eth1"]),
        FORWARD: lambda: _fed_mpps(ctx, FORWARD, ["forward", "af_xdp:eth1", "--mode", "macswap", "--take", "all"]),
        MACSWAP: lambda: _fed_testpmd(ctx, MACSWAP, "macswap", options),
    }
    if crate:
        programs[CRATE] = lambda: _fed_proc(ctx, CRATE, [crate, "eth1"], "ready", "turned")
    samples = compare(ctx, programs)
    section.programs(samples, (("rate", "turned/s", rate), *FED))
    theirs = [label for label in (MACSWAP, CRATE) if samples.values(label)]
    section.ratios(samples, [(ours, peer) for ours in (REFLECT, FORWARD) for peer in theirs])
    rival = max(theirs, key=samples.median) if theirs else MACSWAP
    for ours in (REFLECT, FORWARD):
        section.target(f"× the best of the others, {rival} (overload, {ours}, turned)", 1.2, samples.ratio(ours, rival),
                       samples.why_not(ours, rival))
    section.text(f"xdp-trafficgen on host a, core {ctx.core_a}; the program on host b, core {ctx.core_b}. *Turned* is "
                 f"what came back "
                 "to host a's interface, counted there alike for all; it is addressed to nobody, so host a drops it at "
                 "once. *Loss in front of the socket*: its RX ring was full, or it had no chunk to fill; the rest was "
                 "not sent on. veth runs host b's poll loop, its XDP program and the copy to the socket on the "
                 "generator's core. `xsk-rs` wraps libxdp in C, and is left out; `afxdp`, over libbpf, is in "
                 "`two_links`.")


IDLE_RATE = 1000  # pps
MOST_IDLE = 0.05  # of a core


def _idle(ctx, args):
    """What a forwarder's process takes of a core at IDLE_RATE, and how many packets it moved a second."""
    label = " ".join(["mpps forward at 1 kpps", *args])
    with mpps.Listener(ctx, label, ["forward", "af_xdp:eth1", "--mode", "macswap", "--take", "all", "--lanes", 1,
                                    *args], "b", ctx.core_b) as listener:
        spent, began = listener.proc.cpu_seconds(), time.monotonic()
        mpps.send(ctx, f"{label}, sender", ["send", "af_packet:eth1", "--src", ctx.lab.A, "--dest", f"{ctx.lab.B}:9000",
                                            "--dest-mac", ctx.lab.MAC_B, "--rate", f"{IDLE_RATE}pps"],
                  ctx.seconds, "a", ctx.core_a)
        cores = (listener.proc.cpu_seconds() - spent) / (time.monotonic() - began)
        summary = listener.stop()
    return {"rate": summary["rx_packets"] / ctx.seconds, "cores": cores}


def idle_cost(ctx, section):
    section.heading("`forward` at 1 kpps: what its process takes of a core")
    names = {"mpps forward": (), "mpps forward busy-poll": ("--busy-poll",)}
    samples = compare(ctx, {name: functools.partial(_idle, ctx, args) for name, args in names.items()})
    section.programs(samples, (("rate", "received/s", rate), ("cores", "cores", "{:.3f}".format)))
    found = samples.values("mpps forward", "cores")
    if found:
        middle = samples.median("mpps forward", "cores")
        met = "met" if middle < MOST_IDLE else "not met"
        verdict = f"**{met}** (measured {middle:.3f}; rounds {min(found):.3f} to {max(found):.3f})"
    else:
        verdict = f"not measured ({samples.why_not('mpps forward')})"
    section.verdict(f"target < {MOST_IDLE:g} of a core at 1 kpps (`forward af_xdp`): {verdict}")


def _send_mpps(ctx):
    return peers.flood(ctx, "mpps send", [
        ctx.mpps, "send", "af_xdp:eth1", "--src", ctx.lab.A, "--src-port-range", "10000-10000", "--dest",
        f"{ctx.lab.B}:9000", "--dest-mac", xdp.SINK_MAC, "--lanes", 1, "--quiet", "--duration", "10m"])


def _txonly(ctx, host_mac, label, options):
    return testpmd.Testpmd(ctx, label, "txonly", testpmd.vdev(DRIVER, options), ctx.core_a, ctx.core_a, "a",
                           memory(ctx),
                           ("--txpkts=60", f"--eth-peer=0,{host_mac}", f"--tx-ip={ctx.lab.A},{ctx.lab.B}",
                            "--tx-udp=10000,9000"))


def _send_testpmd(ctx, options):
    with _txonly(ctx, xdp.SINK_MAC, "testpmd txonly", options) as pmd:
        pmd.start()
        time.sleep(WARM)
        counts = xdp.meter(ctx, ctx.seconds)
        pmd.quit()
    return {"rate": counts["offered"]}


def _both_testpmd(ctx, options):
    receiver = testpmd.Testpmd(ctx, "testpmd rxonly", "rxonly", testpmd.vdev(DRIVER, options), ctx.core_b, ctx.core_b,
                               "b", memory(ctx))
    with receiver, _txonly(ctx, ctx.lab.MAC_B, "testpmd txonly", options) as sender:
        receiver.start()
        sender.start()
        time.sleep(WARM)
        received, _, (_, sent, _) = receiver.rates_during(lambda: sender.rates_during(lambda: time.sleep(ctx.seconds)))
        sender.quit()
        receiver.quit()
    return {"rate": float(received), "sent": float(sent), "loss": 1 - received / sent if sent else None}


def one_way(ctx, section):
    section.heading("One way: `send` to nobody, 64-byte frames")
    samples = compare(ctx, {"mpps send": lambda: _send_mpps(ctx), "testpmd txonly": lambda: _send_testpmd(ctx, "")})
    section.programs(samples)
    section.target("× testpmd txonly (`send` to nobody)", 1.0, samples.ratio("mpps send", "testpmd txonly"),
                   samples.why_not("mpps send", "testpmd txonly"))
    section.text("What host b's interface counted; the frames are addressed to nobody, so host b drops them at once. "
                 "txonly sends one frame again and again; mpps stamps each anew.")

    section.heading("One way: `drop` fed by `xdp-trafficgen`")
    ceiling = "xdp-bench drop (in the kernel)"
    shim = xdp.build_shim(ctx)
    samples = compare(ctx, {
        "mpps drop": lambda: _fed_mpps(ctx, "mpps drop", ["drop", "af_xdp:eth1", "--no-verify"], "taken"),
        "testpmd rxonly": lambda: _fed_testpmd(ctx, "testpmd rxonly", "rxonly", "", "taken"),
        ceiling: lambda: _fed_proc(ctx, ceiling, ["env", f"LD_PRELOAD={shim}", "xdp-bench", "drop", "eth1"],
                                   "Dropping packets", "taken"),
    })
    section.programs(samples, (("rate", "taken/s", rate), *FED[:-1]))
    section.target("× testpmd rxonly (`drop`, fed)", 1.0, samples.ratio("mpps drop", "testpmd rxonly"),
                   samples.why_not("mpps drop", "testpmd rxonly"))
    section.text("*Taken*: what came in less what found no room at the socket, by host b's interface. The generator's "
                 "core does the kernel's share, so a receiver that takes more leaves the generator less. The last row "
                 "drops in the XDP program: what the generator gives at the most.")

    section.heading("One way: `send` → `drop`")
    pair = "testpmd txonly → rxonly"
    samples = compare(ctx, {
        "mpps": lambda: mpps.one_way(ctx, label="mpps send → drop", path="af_xdp"),
        SKB: lambda: mpps.one_way(ctx, ("mode=skb", "mode=skb"), label="mpps send → drop, mode=skb", path="af_xdp"),
        pair: lambda: _both_testpmd(ctx, ""),
    })
    section.programs(samples, (("rate", "received/s", rate), *RETURNED[1:]))
    section.ratios(samples, [("mpps", pair), (SKB, pair), (SKB, "mpps")])
    section.target("× testpmd (`send` → `drop`, received)", 1.0, samples.ratio("mpps", pair),
                   samples.why_not("mpps", pair))


def no_loss(ctx, section):
    section.heading(f"Round trip at half the maximum, {ctx.steady:g} s")
    xdp.free_queue(ctx)
    steady.loss_verdict(section, "af_xdp round trip", steady.run(ctx, "af_xdp"))


def instructions(ctx, section):
    section.heading("Our own instructions a packet")
    ctx.need("valgrind")
    count = xdp.build_rust(ctx, "the count example",
                           ["--manifest-path", f"{ctx.root}/Cargo.toml", "-p", "xsk", "--features", "fake", "--example",
                            "count"],
                           "examples/count")
    rows = []
    for work, what in (("forward", "receive, send on untouched"), ("macswap", "receive, swap MAC addresses, send on"),
                       ("drop", "receive, drop"), ("send", "allocate, send")):
        try:
            rows.append([f"{work}: {what}", f"{callgrind.measured(ctx, f'{work}, instructions', [count, work]):.1f}"])
        except BenchError as error:
            rows.append([f"{work} (not measured: {error})", "–"])
    section.table(["work, bursts of 64", "instructions/packet"], rows)
    section.text("By callgrind over the fake kernel (`crates/xsk/examples/count.rs`): all that the crate does, ring "
                 "accesses, completions and refill included, and nothing of the kernel.")


def where(ctx, section):
    section.heading("Where the time goes: the round trip under `perf`")
    ctx.need("perf")
    for label, options in ((MPPS, ""), (SKB, "mode=skb")):
        xdp.free_queue(ctx)
        profile.write(ctx, section, label,
                      lambda seconds, o=options, l=label: trip(ctx, f"{l}, profiled", o, duration=seconds))


PARTS = (round_trip, settings, overload, idle_cost, one_way, no_loss, instructions, where)
