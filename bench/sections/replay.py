"""Captures sent again (`--pcap`): how near packets leave to their times, and how fast, beside tcpreplay and testpmd."""

import os
import statistics
import struct
import time

from harness import mpps, peers, testpmd
from harness.best import best
from harness.proc import BenchError, Program, run
from harness.stat import rate as pps
from sections.engine import faster_memory
from sections.pairs import micro

TITLE = "Captures sent again (`--pcap`) beside `tcpreplay`, and `dpdk-testpmd` on `net_pcap`"

# Nobody's address: the stack of the other host drops such frames at once.
DEST_MAC = "02:00:00:00:00:09"
FRAME = (f"eth src=02:00:00:00:00:01 dst={DEST_MAC} / ipv4 src=198.18.0.1 dst=198.18.0.2 id=0..{{last}} / "
         "udp src=10000 dst=9000")
SIZES = {"64": "64 bytes", "imix": "IMIX"}
MEAN = {"64": 64, "imix": round((7 * 64 + 4 * 594 + 1518) / 12)}  # with FCS
RATES = (10_000, 100_000, 500_000)
MOST = 250_000  # packets of a capture whose gaps are measured
LOOPED = 4_096  # packets of one that is sent over and over: testpmd has a buffer for each
LAP, HEAD = 10_000, 100  # packets of a lap whose drift is measured, and those of it that are looked at, beside the last
LONG, SHORT = 600, 20  # s

MPPS, SPINS = "mpps send", "mpps send --busy-poll"
TCPREPLAY, NANO = "tcpreplay", "tcpreplay --timer=nano"
# Seconds, ns, bytes captured, bytes of the packet: what is before each packet of a file.
RECORD = struct.Struct("<IIII")


def capture(ctx, rate, size, packets, ids=65_536):
    """A capture file that mpps makes: frames of these sizes at an even rate, numbered by the IPv4 identification."""
    text, made, path = ctx.file(".toml"), ctx.file(".pcapng"), ctx.file(".pcap")
    with open(text, "w") as file:
        file.write(f'[[stream]]\npacket = "{FRAME.format(last=ids - 1)}"\nsize = "{size}"\nrate = "{rate}pps"\n'
                   'tag = "none"\n')
    argv = [ctx.mpps, "traffic", "pcap", text, "-n", packets, "-o", made]
    ctx.section.command(f"capture, {SIZES[size]} at {rate // 1000} kpps", argv)
    run(argv, 60)
    # One format, so that one reader does for what is sent and for what arrives.
    run(["tcpdump", "-r", made, "--nano", "-w", path], 60)
    os.remove(made)
    return path


def packets_of(path):
    """Time in ns, and identification, of each packet of a file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] != b"\x4d\x3c\xb2\xa1":
        raise BenchError("tcpdump wrote no file with times in ns")
    found, at = [], 24
    while at < len(data):
        seconds, ns, length, _ = RECORD.unpack_from(data, at)
        at += RECORD.size
        found.append((seconds * 1_000_000_000 + ns, data[at + 18] << 8 | data[at + 19]))
        at += length
    return found


def arrivals(ctx, label, send, packets, only=""):
    """Packets as host b's interface gets them while `send` runs, with the kernel's times; an error if some are
    missing."""
    path = ctx.file(".pcap")
    # The ring holds them all, so that the reader's pace matters to nobody.
    argv = ctx.command(["tcpdump", "-i", "eth1", "-n", "-Z", "root", "-j", "host", "--nano", "-s", 60, "-B", 131_072,
                        "-c", packets, "-w", path, f"ether dst {DEST_MAC}{only}"], "b", ctx.core_b)
    ctx.section.command("receiver", argv)
    with Program(argv, "listening on", 10) as dump:
        send()
        try:
            dump.proc.wait(10)
        except BenchError:
            raise BenchError(f"{label}: fewer than {packets} packets arrived") from None
    found = packets_of(path)
    os.remove(path)
    return found


def send_mpps(ctx, label, path, more, seconds):
    """Sends a capture to its end; what is late leaves late, as with tcpreplay."""
    return mpps.send(ctx, label, ["send", "af_packet:eth1", "--pcap", path, "--lanes", 1, "--catch-up", "10s", *more],
                     seconds + 10, "a", ctx.core_a)


def send_tcpreplay(ctx, label, path, more, seconds):
    argv = ctx.command(["tcpreplay", "-i", "eth1", "--preload-pcap", *more, path], "a", ctx.core_a)
    ctx.section.command(label, argv)
    run(argv, seconds + 30)


WAYS = {MPPS: (send_mpps, ()), SPINS: (send_mpps, ("--busy-poll",)), TCPREPLAY: (send_tcpreplay, ()),
        NANO: (send_tcpreplay, ("--timer=nano",))}


def share(values, part):
    """The value that this part of them does not exceed."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def errors(got, want):
    """How far gaps and times are from those of the capture."""
    if [number for _, number in got] != [number for _, number in want]:
        raise BenchError("the packets came in another order")
    late = [have - due for (have, _), (due, _) in zip(got, want)]
    gaps = [abs(b - a) for a, b in zip(late, late[1:])]
    # No packet leaves too early, so the earliest one shows what the way takes.
    first = min(late)
    return {"gap_p50": share(gaps, 0.5), "gap_p99": share(gaps, 0.99), "time_p50": share(late, 0.5) - first,
            "time_p99": share(late, 0.99) - first, "last": late[-1] - first}


COLUMNS = (("gap_p99", "error of gaps, p99", micro), ("gap_p50", "p50", micro), ("time_p99", "late, p99", micro),
           ("time_p50", "p50", micro), ("last", "last packet", micro))


def gaps(ctx, section):
    ctx.need("tcpreplay", "tcpdump")
    for size, named in SIZES.items():
        for rate in RATES:
            packets = min(int(rate * ctx.seconds), MOST)
            section.heading(f"Times of departures: {packets:,} packets at {rate // 1000} kpps, {named}")
            path = capture(ctx, rate, size, packets)
            want = packets_of(path)

            def measure(label):
                start, more = WAYS[label]
                send = lambda: start(ctx, f"{label}, {rate // 1000} kpps, {named}", path, more, packets / rate)
                return errors(arrivals(ctx, label, send, packets), want)

            # A sleep takes longer than gaps are at higher rates.
            ways = [label for label in WAYS if label != NANO or rate == min(RATES)]
            samples = ctx.compare({label: lambda label=label: measure(label) for label in ways})
            os.remove(path)
            section.programs(samples, COLUMNS)
            rivals = [label for label in (TCPREPLAY, NANO) if samples.values(label, "gap_p99")]
            rival = min(rivals, key=lambda label: samples.median(label, "gap_p99"), default=TCPREPLAY)
            section.target(f"× {rival} (p99 of the error of gaps, {rate // 1000} kpps, {named})", 0.5,
                           samples.ratio(MPPS, rival, "gap_p99"), samples.why_not(MPPS, rival), most=True)
    section.text(f"Sender on host a, core {ctx.core_a}, over veth; `tcpdump` on host b, core {ctx.core_b}, for both, "
                 "with the kernel's times in ns. The error of a gap is how much longer or shorter it is than in the "
                 "capture; a packet is late against the earliest one. All packets arrived, in order, or the run does "
                 "not count. The target is about the better one of tcpreplay's ways. With `--timer=nano` it sleeps, "
                 "for longer than the gaps of higher rates.")


def flat_out(ctx, section):
    ctx.need("tcpreplay", "tcpdump")
    for size, named in SIZES.items():
        section.heading(f"As fast as the path takes packets: veth, {named}")
        path = capture(ctx, 100_000, size, LOOPED)

        def ours(port):
            return peers.flood(ctx, f"mpps send {port}, {named}", [
                ctx.mpps, "send", f"{port}:eth1", "--pcap", path, "--set", "speed=max", "--set", "loops=0", "--lanes",
                1, "--quiet", "--duration", "10m"])

        def theirs(more):
            return peers.flood(ctx, f"{TCPREPLAY}, {named}", [
                "tcpreplay", "-i", "eth1", "--preload-pcap", "--topspeed", "--loop=0", *more, path])

        options = best(ctx, section, TCPREPLAY, ((), ("--quiet", "--no-flow-stats")), theirs)
        paths = ("af_packet", "af_xdp")
        samples = ctx.compare({f"mpps send {port}": lambda port=port: ours(port) for port in paths}
                              | {TCPREPLAY: lambda: theirs(options)})
        section.programs(samples)
        for port in paths:
            section.target(f"× tcpreplay ({port}, flat out, {named})", 1.5,
                           samples.ratio(f"mpps send {port}", TCPREPLAY),
                           samples.why_not(f"mpps send {port}", TCPREPLAY))
    section.text(f"A capture of {LOOPED:,} packets over and over; packets that the interface of host b counted.")


def _testpmd(ctx, label, path, memory):
    """Packets/s that testpmd takes from a capture and gives to a port that drops them."""
    vdevs = [f"net_pcap0,rx_pcap={path},infinite_rx=1", "net_null0,no-rx=1"]
    with testpmd.Testpmd(ctx, label, "io", vdevs, ctx.core_a, ctx.core_b, memory=memory) as pmd:
        pmd.start()
        time.sleep(0.2)  # out of the first bursts
        _, sent = pmd.rates(ctx.seconds)
        pmd.quit()
    return {"rate": float(sent)}


def on_null(ctx, section):
    ctx.need("tcpdump")
    section.heading("As fast as a core goes: `null:`")
    memory = faster_memory(ctx, section)
    for size, named in SIZES.items():
        path = capture(ctx, 100_000, size, LOOPED)

        def ours(label, *args):
            argv = ["send", "null:", *args, "--lanes", 1, "--cores", ctx.core_b]
            return {"rate": mpps.send(ctx, label, argv, ctx.seconds)["offered_pps"]}

        again, made = f"send null: --pcap, {named}", f"send null: --packet, {MEAN[size]} bytes"
        pmd = f"testpmd net_pcap → net_null, {named}"
        samples = ctx.compare({
            again: lambda: ours(again, "--pcap", path, "--set", "speed=max", "--set", "loops=0"),
            made: lambda: ours(made, "--packet", "eth / ipv4 / udp dst=9000", "--frame-size", MEAN[size]),
            pmd: lambda: _testpmd(ctx, pmd, path, memory),
        })
        section.programs(samples)
        section.ratios(samples, [(again, made), (again, pmd)])
        section.target(f"× one packet of the mean size (`null:`, {named})", 0.8, samples.ratio(again, made),
                       samples.why_not(again, made))
    section.text(f"A capture of {LOOPED:,} packets over and over. Both of mpps write every byte of each frame; testpmd "
                 "copies each packet from one buffer to another, and `net_null` drops it.")


def drift(ctx, section):
    ctx.need("tcpdump")
    seconds = SHORT if ctx.quick and not ctx.long else LONG
    rate = LAP  # a lap takes a second
    section.heading(f"Drift: a capture of 1 s over and over, {seconds} s at {rate // 1000} kpps")
    path = capture(ctx, rate, "64", LAP, LAP)
    more = ("--set", f"loops={seconds}")
    send = lambda: send_mpps(ctx, f"{MPPS}, {seconds} laps", path, more, seconds)
    only = f" and (ip[4:2] < {HEAD} or ip[4:2] = {LAP - 1})"
    step = 1_000_000_000 // rate
    numbers = [*range(HEAD), LAP - 1]
    due = [(lap * LAP + number) * step for lap in range(seconds) for number in numbers]
    middle = lambda some: share(some, 0.5)
    rows, ratios = [], []
    for _ in range(1 if seconds == LONG else ctx.rounds):
        got = arrivals(ctx, MPPS, send, seconds * (HEAD + 1), only)
        if [number for _, number in got] != numbers * seconds:
            raise BenchError("the packets came in another order")
        late = [have - got[0][0] - of for (have, _), of in zip(got, due)]
        gaps_ns = [abs(late[i + 1] - late[i]) for i in range(len(late) - 1) if due[i + 1] - due[i] == step]
        last, p99 = abs(late[-1]), share(gaps_ns, 0.99)
        rows.append([f"{seconds} s, {seconds * LAP:,} packets", micro(last), micro(p99), micro(share(gaps_ns, 0.5)),
                     micro(middle(late[-HEAD - 1:]) - middle(late[:HEAD + 1]))])
        ratios.append(last / p99)
    section.table(["capture over and over", "error of the last packet", "error of gaps, p99", "p50",
                   "last second after the first, median"], rows)
    section.target(f"× the p99 of the error of gaps (error of the last packet after {seconds} s)", 1,
                   (statistics.median(ratios), min(ratios), max(ratios)), most=True)
    section.text(f"The first {HEAD} packets of each lap and the last one, by the kernel's times at the other end of "
                 "the veth pair, against the first packet's time and the times that they are due after it.")


PARTS = (gaps, flat_out, on_null, drift)
