"""The study of `l2fwd` in C beside one in Rust, made again by this program's own methods: throughput by frame size at
26 sizes (`rfc2544 throughput`), what lies behind it (`compare`'s order of rounds), overload (`overload`), overload by
a transmit side that is slow, and what a packet costs each."""

import concurrent.futures
import contextlib
import os
import re
import signal
import statistics
import time

from harness import between, callgrind, data, dpdk, l2fwd, mpps, testpmd, xdp
from harness.between import C_L2FWD, FORWARD
from harness.proc import BenchError, run, until
from harness.report import say
from harness.stat import percent, rate, times

TITLE = "The `l2fwd` study: `mpps forward --mode l2fwd` beside DPDK's C `l2fwd`"
OTHER = "testpmd macswap"  # where the C program can't be built
SIZES = (64, 68, 72, 128, 256, *range(266, 377, 10), 384, 512, 640, 768, 896, 1024, 1280, 1400, 1518)
FEW = (64, 256, 1518)
SEARCH = ("--quick", "--trial", "500ms", "--first-trial", "250ms", "--resolution", "2%", "--settle", "50ms")
TRIAL = "1s"  # of the overload test
OWN_LOADS = (50, 100, 150, 200)  # % of the reference at which the C program is asked for its own counters
LONGEST = 1800  # s, of one command
OVERLOADS = (100, 150, 200)  # % of what the slow side takes
OUT = "net_af_packet0,iface=eth1"
LONGEST_WORK = 100_000  # ns, of `--work`
CORE, RING = "a port that takes time", "a ring that is full"
LOADED = ("slow", "load_percent", "program", "round", "intended_pps", "taken_pps", "sent_pps", "dropped_pps",
          "mean_burst", "mean_burst_all_polls", "empty_polls_ratio")
COLUMNS = ("program", "round", "frame_size_bytes", "throughput_pps", "upper_pps", "note", "trial_s", "sent", "received",
           "lost", "sent_pps", "received_pps", "layer2_bps", "layer1_bps", "latency_mean_ns", "latency_p50_ns",
           "latency_p999_ns", "latency_max_ns", "pdv_ns", "void_trials", "of_trials")
OWN = ("program", "load_percent", "intended_pps", "offered_pps", "rx_pps", "tx_pps", "dropped_pps", "mean_burst",
       "mean_burst_all_polls", "empty_polls_ratio")


def gap(size):
    """Bits of a frame on the wire: preamble and gap are 20 bytes."""
    return (size + 20) * 8


def row_of(name, turn, size, result):
    """What the search of one size has found: the full trial at its lower bound that came last."""
    trials = [trial for trial in result["trials"] if trial["frame_size_bytes"] == size]
    found = next((r for r in result["results"] if r["frame_size_bytes"] == size), {})
    throughput = found.get("throughput") or {}
    lower = throughput.get("lower_pps")
    row = {"program": name, "round": turn + 1, "frame_size_bytes": size, "throughput_pps": lower,
           "upper_pps": throughput.get("upper_pps"),
           "void_trials": sum(trial["outcome"] == "void" for trial in trials), "of_trials": len(trials),
           "note": "; ".join(found.get("notes") or [])}
    there = [t for t in trials if t["phase"] == "search" and t["outcome"] == "counted" and t["load_pps"] == lower]
    if not there:
        return row
    trial = max(there, key=lambda t: (t["duration_ns"], t["trial"]))
    seconds, delay = trial["duration_ns"] / 1e9, trial["latency_ns"] or {}
    received = trial["received"] / seconds
    row |= {"trial_s": seconds, "sent": trial["sent"], "received": trial["received"], "lost": trial["missing"],
            "sent_pps": trial["sent"] / seconds, "received_pps": received, "layer2_bps": received * size * 8,
            "layer1_bps": received * gap(size)}
    if delay:
        row |= {f"latency_{key}_ns": delay[key] for key in ("mean", "p50", "p999", "max")}
        row["pdv_ns"] = delay["p999"] - delay["min"]
    return row


def programs(ctx):
    return (FORWARD, C_L2FWD) if ctx.l2fwd else (FORWARD, OTHER)


def preparation(ctx, section):
    between.built(ctx, section)
    if not ctx.l2fwd:
        section.text(f"In its place stands `{OTHER}`, which exchanges MAC addresses where `l2fwd` writes them.")
    section.text(f"Both forward from and to one `net_memif`, on core {ctx.core_b}, with bursts of 32; the tester is "
                 f"`mpps` on core {ctx.core_a}. There is no NIC, so no line rate either: throughput is searched for at "
                 "each size. Raw data: `bench/data/l2fwd-study`.")


def throughput(ctx, section):
    rounds = int(os.environ.get("BENCH_STUDY_ROUNDS") or (1 if ctx.quick else 2))
    sizes = [int(size) for size in ctx.words("BENCH_SIZES", [str(s) for s in (FEW if ctx.quick else SIZES)])]
    section.heading(f"Throughput at {len(sizes)} frame sizes")
    names, rows, folders = programs(ctx), [], {}
    with contextlib.closing(between.Memif(ctx)) as rig:
        for turn in range(rounds):
            # A B, then B A: a drift of the host is in neither.
            for name in names if turn % 2 == 0 else reversed(names):
                say(f"  round {turn + 1}/{rounds}: {name}")
                try:
                    with rig.device(f"{name}, throughput", name):
                        args = ["rfc2544", "throughput", *rig.ports(name), *SEARCH, "--sizes",
                                ",".join(map(str, sizes))]
                        result = between.method(ctx, rig, f"rfc2544 throughput of {name}", args, LONGEST)
                except BenchError as error:
                    section.text(f"{name}, round {turn + 1}: {error}")
                    say(f"    failed: {error}")
                    continue
                say(f"    {result['took']:.0f} s, {between.void(result)[0]} of {len(result['trials'])} trials void")
                rows += [row_of(name, turn, size, result) for size in sizes]
                folders.setdefault(name, result["folder"])
                data.keep(ctx, "l2fwd-study", result["folder"], f"{name.replace(' ', '-')}-{turn + 1}")
                data.table(ctx, "l2fwd-study", "throughput.csv", COLUMNS, rows)
    ctx.study = tell(section, names, sizes, rows)
    if len(folders) == len(names):
        picture(ctx, section, {name: folders[name] for name in reversed(names)})


def tell(section, names, sizes, rows):
    """The study's table, medians over the rounds; the throughputs of 64 bytes by program."""
    middle = {}

    def median(name, size, key):
        values = [row[key] for row in rows
                  if row["program"] == name and row["frame_size_bytes"] == size and row.get(key) is not None]
        middle[name, size, key] = statistics.median(values) if values else None
        return middle[name, size, key]

    cells = []
    for size in sizes:
        for name in names:
            get = lambda key, n=name, s=size: median(n, s, key)
            own = [row for row in rows if row["program"] == name and row["frame_size_bytes"] == size]
            known = [row["throughput_pps"] for row in own if row.get("throughput_pps")]
            difference = "–"
            if name == names[0]:
                ours, theirs = (median(n, size, "received") for n in names)
                difference = f"{ours - theirs:+,.0f}" if ours is not None and theirs is not None else "–"
            whole = lambda value: f"{value:,.0f}" if value is not None else "–"
            micro = lambda value: f"{value / 1e3:.1f}" if value is not None else "–"
            giga = lambda value: f"{value / 1e9:.3f}" if value is not None else "–"
            cells.append([f"{size}: {name}", whole(get("throughput_pps")),
                          " / ".join(f"{pps / 1e6:.3f}" for pps in known) or "–", whole(get("sent")),
                          whole(get("received")), whole(get("lost")), whole(get("received_pps")),
                          giga(get("layer1_bps")), micro(get("latency_mean_ns")), micro(get("latency_max_ns")),
                          micro(get("pdv_ns")), difference])
    section.table(["frame: program", "throughput, pps", "by round, Mpps", "sent", "received", "lost", "received/s",
                   "Gbit/s", "mean latency, µs", "max, µs", "jitter, µs", "received, less the other's"], cells)
    section.text("Medians over the rounds, of the last full trial at the lower bound of each search. *Gbit/s*: on "
                 "layer 1, with the 20 bytes of preamble and gap. *Latency*: round trip by the tester's clock, of all "
                 "frames. *Jitter*: packet delay variation of RFC 8219 (7.3.1), the 99.9th percentile less the least. "
                 "*Received, less the other's*: the study's `trex_rx_diff`, each at its own throughput.")
    pairs = [(middle.get((names[0], s, "throughput_pps")), middle.get((names[1], s, "throughput_pps"))) for s in sizes]
    ratios = [ours / theirs for ours, theirs in pairs if ours and theirs]
    found = (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None
    section.target(f"× {names[1]} (throughput, `{names[0]}`, median of {len(ratios)} sizes)", 0.95, found,
                   "no size at which both have one")
    return {name: middle.get((name, sizes[0], "throughput_pps")) for name in names}


def picture(ctx, section, folders):
    """A round of each program over one another, by frame size; the first is the base of differences."""
    words = []
    for name, folder in folders.items():
        # Legends have a result's name from its folder.
        words.append(os.path.join(ctx.tmp, name.replace(" ", "-")))
        os.symlink(folder, words[-1])
    run([ctx.mpps, "plot", *words, "-o", os.path.join(data.folder(ctx, "l2fwd-study"), "throughput.svg")])
    section.text("The first round of each by frame size (`mpps plot`):")
    section.text("![Rates, latency and jitter of both programs by frame size](data/l2fwd-study/throughput.svg)")


def overload(ctx, section):
    section.heading("Overload at 64 bytes")
    names = programs(ctx)
    known = [pps for pps in ctx.study.values() if pps] if ctx.study else []
    if not known:
        section.text("Not measured: there is no throughput that 100 % could be.")
        return
    reference = min(known)
    own = []
    with contextlib.closing(between.Memif(ctx)) as rig:
        for name in names:
            say(f"  overload: {name}")
            try:
                shown(ctx, section, rig, name, reference)
            except BenchError as error:
                section.text(f"{name}: {error}")
                say(f"    failed: {error}")
        if C_L2FWD in names:
            say(f"  overload: {C_L2FWD}, its own counters")
            own = of_itself(ctx, rig, reference)
    if own:
        data.table(ctx, "l2fwd-study", "overload-c-l2fwd-own.csv", OWN, own)
        section.text(f"`{C_L2FWD}` by its own counters, over a run of `sendrecv` at each load:")
        show = lambda row, key, how: how(row[key]) if row.get(key) is not None else "–"
        section.table(["load", "intended", "offered", "rx", "tx", "drops", "mean burst", "over all polls",
                       "empty polls"],
                      [[f"{row['load_percent']} %", *(show(row, key, rate) for key in OWN[2:7]),
                        *(show(row, key, "{:.3g}".format) for key in OWN[7:9]),
                        show(row, "empty_polls_ratio", percent)] for row in own])
    section.text(f"100 % is {rate(reference)}, the lower throughput of the two. *Refused*: the ring to the device was "
                 "full, which for a NIC would be a packet that it missed; the study's *drops* are the device's own, "
                 "when the ring back was full. `mpps forward` ran with `--on-full drop`, as the C program does.")


def shown(ctx, section, rig, name, reference):
    """One program's overload table, from the method's own."""
    lanes, more, joined = ctx.file("-lanes.csv"), [], []
    if name == FORWARD:
        more, joined = ["--on-full", "drop", "--lanes-csv", lanes], ["--device", lanes]
    with rig.device(f"{name}, overload", name, more):
        if joined:
            # It has rows once it has had a link.
            mpps.send(ctx, f"{name}, first packets", ["sendrecv", *rig.ports(name), "--rate", "1kpps"], 0.5, None,
                      ctx.core_a)
            until(lambda: os.path.exists(lanes) and os.path.getsize(lanes) > 0, "rows of the forwarder", 20)
        args = ["overload", *rig.ports(name), "--reference", f"{int(reference)}pps", "--trial", TRIAL, "--rounds", 1,
                "--settle", "200ms", "--pause", "0s", *joined]
        result = between.method(ctx, rig, f"overload of {name}", args, LONGEST)
    say(f"    {result['took']:.0f} s, {between.void(result)[0]} of {len(result['trials'])} trials void")
    tables = [table["name"] for table in result["tables"] if table["name"].startswith("overload")]
    data.keep(ctx, "l2fwd-study", result["folder"], f"overload-{name.replace(' ', '-')}", tables)
    for table in result["tables"]:
        if table["name"] == "overload":
            section.text(f"{name}: {table['caption']}")
            section.table([column["title"] or column["key"] for column in table["columns"]],
                          [[cell(value, column) for value, column in zip(row, table["columns"])]
                           for row in table["rows"]])
    section.text(f"{name}: " + "; ".join(result["verdict"]) + ".")


def cell(value, column):
    """A value in its column's unit."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return {"pps": rate, "ratio": percent, "ns": lambda ns: f"{ns / 1e3:.1f} µs"}.get(
        column["unit"], lambda number: f"{number:,.4g}")(value)


def of_itself(ctx, rig, reference):
    """What the C program counts at some loads."""
    rows = []
    # Its DPDK may crash as a memif's other end goes: one more try.
    for load, last in ((load, last) for load in OWN_LOADS for last in (False, True)):
        if any(row["load_percent"] == load for row in rows):
            continue
        pps = reference * load / 100
        try:
            with rig.device(f"{C_L2FWD}, its own counters", C_L2FWD) as program:
                args = ["sendrecv", *rig.ports(C_L2FWD), "--settle", "200ms", "--rate", f"{int(pps)}pps"]
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    sent = pool.submit(mpps.send, ctx, f"generator of {C_L2FWD}", args, ctx.seconds + 4, None,
                                       ctx.core_a)
                    # Two screens while packets come, so that no poll of an idle time is among them.
                    start = program.counts()["received"]
                    before = until(lambda: (now := program.counts())["received"] > start and now, "packets", 20)
                    time.sleep(ctx.seconds)
                    after = program.counts()
                    s = sent.result()
        except BenchError as error:
            say(f"    {load} % failed{'' if last else ', once more'}: {error}")
            continue
        did = {key: after[key] - before[key] for key in after}
        seconds = did["screens"] * l2fwd.PERIOD
        rows.append({"program": C_L2FWD, "load_percent": load, "intended_pps": pps, "offered_pps": s["offered_pps"],
                     "rx_pps": did["received"] / seconds, "tx_pps": did["sent"] / seconds,
                     "dropped_pps": did["dropped"] / seconds,
                     "mean_burst": did["received"] / did["full"] if did["full"] else None,
                     "mean_burst_all_polls": did["received"] / did["polls"] if did["polls"] else None,
                     "empty_polls_ratio": 1 - did["full"] / did["polls"] if did["polls"] else None})
    return rows


@contextlib.contextmanager
def faced(ctx, label, slow, load, work):
    """Ports and host of a forwarder, and a block that loads it: with `load` packets/s (None: as many as can be), or by
    a receiver that works `work` ns on each packet."""
    link = dpdk.Memif(ctx)
    if slow == CORE:
        ctx.lab.up()
        xdp.free_queue(ctx)
        pace = ["--rate", f"{int(load)}pps"] if load else []
        yield [link.server, OUT], "a", lambda: dpdk.mpps_sends(ctx, f"{label}, generator", link.client, more=pace)
        return
    args = ["forward", f"dpdk:{link.client}", "dpdk:net_null0,size=60,no-rx=1", "--take", "all", "--on-full", "drop",
            *(["--work", f"{work}ns"] if work > 0 else [])]
    yield [dpdk.NULL, link.server], None, lambda: dpdk.listener(ctx, f"{label}, receiver", args, ctx.core_a)


def under_load(ctx, name, slow, load=None, work=0):
    """Counts of a forwarder itself over `ctx.seconds` under a load, packets/s."""
    label = f"{name}, {slow}"
    with faced(ctx, label, slow, load, work) as (ports, host, loaded):
        if name == C_L2FWD:
            with dpdk.c_l2fwd(ctx, label, ctx.l2fwd, ports, ctx.core_b, host) as program, loaded():
                # It forwards only when its links have been up, or 9 s have passed.
                program.wait_until_running()
                start = program.counts()["received"]
                before = until(lambda: (now := program.counts())["received"] > start and now, "packets", 20)
                time.sleep(ctx.seconds)
                after = program.counts()
            did = {key: after[key] - before[key] for key in after}
            did["seconds"] = did["screens"] * l2fwd.PERIOD
        else:
            lanes = ctx.file("-lanes.csv")
            args = ["forward", *(f"dpdk:{port}" for port in ports), "--mode", "l2fwd", "--dest-mac", dpdk.DEST_MAC,
                    "--take", "all", "--on-full", "drop", "--lanes-csv", lanes]
            with dpdk.listener(ctx, label, args, ctx.core_b, host) as program:
                with loaded():
                    until(lambda: any(row["rx_packets"] for row in mpps.rows(lanes)), "packets", 20)
                    time.sleep(ctx.seconds + 1)
                program.stop()
            rows, seconds = mpps.inner(lanes, "rx_packets")
            if not seconds:
                raise BenchError(f"{label}: no row with packets")
            total = lambda field: sum(row[field] for row in rows)
            did = {"received": total("rx_packets"), "sent": total("tx_packets"), "dropped": total("tx_full_packets"),
                   "full": total("rx_bursts"), "polls": total("rx_bursts") + total("empty_polls"), "seconds": seconds}
    of = lambda over, under: did[over] / did[under] if did[under] else None
    return {"rate": of("received", "seconds"), "intended_pps": load, "taken_pps": of("received", "seconds"),
            "sent_pps": of("sent", "seconds"), "dropped_pps": of("dropped", "seconds"),
            "mean_burst": of("received", "full"), "mean_burst_all_polls": of("received", "polls"),
            "empty_polls_ratio": 1 - did["full"] / did["polls"] if did["polls"] else None,
            "ratio": of("received", "sent")}


def overloaded(ctx, section):
    section.heading("Overload by a slow transmit side: taken, sent, dropped")
    names, rows = ([C_L2FWD] if ctx.l2fwd else []) + [FORWARD], []
    columns = (("intended_pps", "offered/s", rate), ("taken_pps", "taken/s", rate), ("sent_pps", "sent/s", rate),
               ("dropped_pps", "dropped/s", rate),
               ("ratio", "taken ÷ sent", times), ("mean_burst", "mean RX burst", "{:.2f}".format),
               ("mean_burst_all_polls", "over all polls", "{:.2f}".format),
               ("empty_polls_ratio", "empty polls", percent))
    for slow in (CORE, RING):
        try:
            say(f"  {slow}: flat out")
            flat_out = under_load(ctx, names[0], slow)
        except BenchError as error:
            section.text(f"Not measured with {slow}: {error}")
            continue
        taken, sent = flat_out["taken_pps"], flat_out["sent_pps"]
        section.text({CORE: f"With {CORE}, 100 % is {rate(sent)}: what {names[0]} sends flat out.",
                      RING: f"With {RING}, 100 % is {rate(sent)}: what a receiver without work takes of the "
                            f"{rate(taken)} that {names[0]} takes. At more it works so long on each packet that it "
                            "is slower by as much."}[slow])
        cells = []
        for percentage in OVERLOADS:
            part = percentage / 100
            load, work = (sent * part, 0) if slow == CORE else (
                None, min(LONGEST_WORK, round(1e9 / sent * (part - 1))))
            samples = ctx.compare({n: lambda n=n: under_load(ctx, n, slow, load, work) for n in names})
            for name in names:
                show = lambda key, how: how(samples.median(name, key)) if samples.values(name, key) else "–"
                why = "" if samples.values(name) else f" (not measured: {samples.why_not(name)})"
                cells.append([f"{percentage} %: {name}{why}", *(show(key, how) for key, _, how in columns)])
                rows += [{"slow": slow, "load_percent": percentage, "program": name, "round": turn + 1, **did}
                         for turn, did in enumerate(samples.rounds[name]) if did]
            data.table(ctx, "l2fwd-study", "overloaded.csv", LOADED, rows)
        section.table([f"load, {slow}", *(title for _, title, _ in columns)], cells)
    section.text(f"Each program by its own counters, on core {ctx.core_b}, with bursts of 32, in turns. *{CORE}*: "
                 "`mpps send` at the load → `net_memif` → forwarder → `net_af_packet`, whose driver waits for room "
                 "itself: the forwarder takes less than is offered, and what it lacks was refused before it. *"
                 f"{RING}*: `net_null`, which gives as much as is asked for → forwarder → `net_memif` to a receiver "
                 "that works on each packet (`mpps forward --work`): the forwarder takes all that it can and "
                 "drops what finds no room, as in the study. Polls are of both ports; the study's forwarder had one.")


def apiece(ctx, section):
    section.heading("A packet's cost on `net_null`")
    names = ([C_L2FWD] if ctx.l2fwd else []) + [FORWARD]
    times_of = {C_L2FWD: cpu_of_c, FORWARD: cpu_of_mpps}
    samples = ctx.compare({name: lambda n=name: {"rate": 1.0, "ns": times_of[n](ctx)} for name in names})
    rows = []
    for name in names:
        ns = samples.values(name, "ns")
        spread = f"{min(ns):.2f} to {max(ns):.2f}" if ns else f"not measured: {samples.why_not(name)}"
        try:
            ctx.need("valgrind")
            say(f"  instructions: {name}")
            each = f"{INSTRUCTIONS[name](ctx):.1f}"
        except BenchError as error:
            section.text(f"{name}: no instructions: {error}")
            each = "–"
        rows.append([name, f"{statistics.median(ns):.2f}" if ns else "–", spread, each])
    section.table(["program", "CPU ns/packet", "over the rounds", "instructions/packet"], rows)
    section.text("One port that gives a full burst whenever it is asked and takes all, so that no poll is empty. CPU "
                 "time: of the thread, over the packets that it sent meanwhile; what others took of its core is not in "
                 "it. Instructions: by callgrind, those of a longer run less those of a shorter one, over the packets "
                 "that it sent more. The C program has its counters of polls.")


def cpu_of_c(ctx):
    label = f"{C_L2FWD} on net_null"
    with dpdk.c_l2fwd(ctx, label, ctx.l2fwd, dpdk.NULL, ctx.core_b) as program:
        program.wait_until_running()
        read = lambda: (program.counts(30)["sent"], program.proc.cpu_seconds())
        (sent1, cpu1), (sent2, cpu2) = read(), (time.sleep(ctx.seconds), read())[1]
    return (cpu2 - cpu1) * 1e9 / (sent2 - sent1)


def alone(mode=("l2fwd", "--dest-mac", dpdk.DEST_MAC)):
    return ["forward", f"dpdk:{dpdk.NULL}", "--mode", *mode, "--take", "all"]


def cpu_of_mpps(ctx):
    lane = mpps.send(ctx, f"{FORWARD} on net_null", [*alone(), *dpdk.lane(ctx.core_b)], ctx.seconds)["lanes"][0]
    return (lane["measured_ns"] - (lane["run_delay_ns"] or 0)) / lane["tx_packets"]


def instructions_of_c(ctx):
    def drive(seconds, proc):
        proc.wait_for("entering main loop", 60)
        time.sleep(seconds)
        os.killpg(proc.pid, signal.SIGINT)
    argv = [ctx.l2fwd, f"--lcores=0@{ctx.core_b}", *testpmd.MEMORY["no-huge"], "--no-pci", "--no-telemetry",
            f"--file-prefix=bench{os.getpid()}g", f"--vdev={dpdk.NULL}", "--", "-p", 1, "-q", 1, "-T", l2fwd.PERIOD]
    total = lambda proc: int(re.findall(r"Sent in all: (\d+)", proc.output())[-1])
    return callgrind.a_packet(*(callgrind.grind(ctx, f"{C_L2FWD}, instructions", argv, total,
                                                lambda proc, s=seconds: drive(s, proc)) for seconds in (1, 4)))


def instructions_of_mpps(ctx):
    runs = []
    for seconds in (1, 4):
        summary = ctx.file(".json")
        argv = [ctx.mpps, *alone(), *dpdk.lane(ctx.core_b), "--eal", "--no-huge -m 512", "--duration", f"{seconds}s",
                "--interval", "1s", "--quiet", "--json", summary]
        runs.append(callgrind.grind(ctx, f"{FORWARD}, instructions", argv,
                                    lambda _, s=summary: mpps.load(s)["tx_packets"]))
    return callgrind.a_packet(*runs)


INSTRUCTIONS = {C_L2FWD: instructions_of_c, FORWARD: instructions_of_mpps}
PARTS = (preparation, throughput, overload, overloaded, apiece)
