"""What fields that vary, sizes and streams cost: shares of the rate of one packet without them, and testpmd."""

import statistics

from harness import mpps, testpmd
from harness.proc import BenchError
from harness.stat import rate
from sections.engine import _instructions_mpps, faster_memory

TITLE = "Packets, sizes and streams (`--packet`, `--traffic`) on `null:` beside `dpdk-testpmd` on `net_null`"

BASE = "eth / ipv4 / udp dst=9000"
TEMPLATE, PLAIN = "send null: (template)", "one packet"
COUNTER, TABLE, RANDOM, FOUR = "a counter", "a table", "a random field", "four counters"
RANDOM_IP = "a random field of IPv4"  # in two checksums
EIGHT, MANY, IMIX = "8 streams", "256 streams", "IMIX"
SIZES = {64: 7, 594: 4, 1518: 1}
DROP, DROP_TAG = "drop null: (stamp)", "drop null: (tag at the end)"

PACKETS = {
    PLAIN: BASE,
    COUNTER: "eth / ipv4 / udp src=1024..2047 dst=9000",
    TABLE: "eth / ipv4 / udp src={1024, 1030, 1077, 1099, 1111, 1313, 2024, 2099} dst=9000",
    RANDOM: "eth / ipv4 / udp src=random(1024..2047) dst=9000",
    RANDOM_IP: "eth / ipv4 id=random(0..65535) / udp dst=9000",
    FOUR: "eth / ipv4 src=10.0.0.1*250 dst=10.1.0.1*200 / udp src=1024..2047 dst=9000..9063",
}


def _packet(packet, *more):
    return ["send", "null:", "--packet", packet, *more]


def _streams(ctx, count):
    """A file of so many streams that take turns, which differ by a port."""
    path = ctx.file(".toml")
    with open(path, "w") as file:
        for number in range(count):
            file.write(f"[[stream]]\npacket = \"eth / ipv4 / udp src={1024 + number} dst=9000\"\nsize = 64\n")
    return ["send", "null:", "--traffic", path]


def _imix(ctx):
    path = ctx.file(".toml")
    with open(path, "w") as file:
        file.write(f"[[stream]]\npacket = \"{BASE}\"\nsize = \"imix\"\n")
    return ["send", "null:", "--traffic", path]


def _measure(ctx, label, args):
    def measure():
        summary = mpps.send(ctx, label, [*args, "--lanes", 1, "--cores", ctx.core_b], ctx.seconds)
        pps = summary["received_pps"] if args[0] == "drop" else summary["offered_pps"]
        return {"rate": pps, "ns": 1e9 / pps if pps else None}
    return measure


def _ways(ctx):
    ways = {TEMPLATE: ["send", "null:"]}
    ways |= {label: _packet(packet) for label, packet in PACKETS.items()}
    ways |= {EIGHT: _streams(ctx, 8), MANY: _streams(ctx, 256), IMIX: _imix(ctx)}
    ways |= {f"{size} bytes": _packet(BASE, "--frame-size", size) for size in SIZES if size != 64}
    ways |= {DROP: ["drop", "null:"], DROP_TAG: ["drop", "null:", "--packet", BASE]}
    return ways


def throughput(ctx, section):
    section.heading("One core: rates, and shares of the same round")
    memory = faster_memory(ctx, section)
    ways = _ways(ctx)
    programs = {label: _measure(ctx, label, args) for label, args in ways.items()}
    for mode in ("flowgen", "txonly"):
        programs[f"testpmd {mode}"] = lambda mode=mode: testpmd.on_null(ctx, mode, memory)
    samples = ctx.compare(programs)
    for turn, mixed in enumerate(samples.rounds[IMIX]):
        rounds = [samples.rounds[PLAIN if size == 64 else f"{size} bytes"][turn] for size in SIZES]
        if mixed and all(rounds):
            mean = statistics.fmean(one["ns"] for one, weight in zip(rounds, SIZES.values()) for _ in range(weight))
            mixed["of_mean"] = mean / mixed["ns"]
            mixed["one"] = 1.0
    section.programs(samples, (("rate", "packets/s", rate), ("ns", "ns/packet", lambda v: f"{v:.2f}" if v else "–")))
    section.text("Frames have 64 bytes where nothing else is said. Every packet has whole headers, right checksums, a "
                 "tag of number, run, flow and send time, and data that depend on them. Each stream has a book of its "
                 "own.")
    section.ratios(samples, [(label, PLAIN) for label in
                              (TEMPLATE, COUNTER, TABLE, RANDOM, RANDOM_IP, FOUR, EIGHT, MANY)]
                   + [(DROP_TAG, DROP), (FOUR, "testpmd flowgen"), (FOUR, "testpmd txonly")])
    aims = ((COUNTER, PLAIN, 1 / 1.07), (TABLE, PLAIN, 1 / 1.07), (RANDOM, PLAIN, 1 / 1.11), (EIGHT, PLAIN, 1 / 1.13),
            (MANY, PLAIN, 1 / 1.5), (PLAIN, TEMPLATE, 0.98), (DROP_TAG, DROP, 1 / 1.05), (FOUR, "testpmd flowgen", 1.3),
            (FOUR, "testpmd txonly", 0.75))
    for over, under, least in aims:
        section.target(f"× {under} (`{over}`)", round(least, 3), samples.ratio(over, under),
                       samples.why_not(over, under))
    section.target("× the weighted mean of its sizes (IMIX)", round(1 / 1.05, 3),
                   samples.ratio(IMIX, IMIX, "of_mean", "one"), samples.why_not(IMIX))


def instructions(ctx, section):
    section.heading("Instructions a packet")
    ctx.need("valgrind")
    rows = []
    for label, args in _ways(ctx).items():
        try:
            rows.append([label, f"{_instructions_mpps(ctx, label, *args):.1f}"])
        except BenchError as error:
            rows.append([f"{label} (not measured: {error})", "–"])
    section.table(["packets", "instructions/packet"], rows)


PARTS = (throughput, instructions)
