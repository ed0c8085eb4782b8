#!/usr/bin/env python3
"""How often mpps names rightly what was done to a run: injects each cause many times and reads the sentences.

    bench/causes.py [--mpps FILE] [--times N] [CAUSE…]

For each cause: how often it was injected, named rightly, wrongly (a sentence about that time that names something else,
or one that names it where it was not), or not at all. As root: the kernel's tracepoints and network namespaces need it.
Causes that come from beside (a busy host) have sentences of their own, and count for nothing here. What was not named
rightly is told with its sentences (--show).
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MS = 1_000_000
# Rows are as short as this, and close soon: loss that is further apart than 100 ms is a stretch of its own.
ROWS = "--interval 20ms --settle 50ms"
# Where others have the core as well, a lane may be kept from it for longer than it makes up for by default. Departures
# that are given up are no late packets, and no sentence about these reaches back to when they were due.
ALL_LATE = "--catch-up 1s"


def now():
    """The clock of mpps, ns."""
    return time.monotonic_ns()


def sleep_ms(ms):
    time.sleep(ms / 1000)


class Run:
    """A traced run of mpps in the background."""

    def __init__(self, setting, words, inside=()):
        self.folder = tempfile.TemporaryDirectory(prefix="mpps-causes-")
        self.path = lambda name: os.path.join(self.folder.name, name)
        # It is told apart from others by its own.
        self.err = open(self.path("err"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*inside, setting.mpps, *words.split(), "--trace", self.path("t.gz"), "--json", self.path("r.json"),
             "--csv", self.path("r.csv"), "--quiet"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.err)

    def rows(self):
        """Rows with packets so far."""
        try:
            with open(self.path("r.csv"), encoding="utf-8") as file:
                return sum(line.split(",")[1] != "0" for line in file.readlines()[1:] if line.count(",") > 3)
        except OSError:
            return 0

    def until_rows(self, more=3):
        """Waits for rows to come, at the most a minute."""
        want, end = self.rows() + more, time.monotonic() + 60
        while self.rows() < want:
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no rows: {self.told()}")
            sleep_ms(10)

    def told(self):
        self.err.seek(0)
        return self.err.read()

    def end(self, interrupt=True):
        """Its summary."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(120)
        if code not in (0, 3):
            raise RuntimeError(f"exit code {code}: {self.told()}")
        with open(self.path("r.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.folder.cleanup()
        return found


class Tally:
    """What came of the injections of a cause."""

    def __init__(self):
        self.injected = self.right = self.wrong = self.missing = 0
        self.shown = []

    def judge(self, summary, spans, right, subjects=("loss", "late", "slow"), never=()):
        """Each span of time must have a sentence that says one of `right`, and no other time may. A sentence with a
        word of `never` is wrong wherever it is."""
        causes = [cause for cause in summary["why"] if cause["subject"] in subjects]
        says = lambda cause: any(word in cause["sentence"] for word in right)
        at = lambda cause, span: cause["at_ns"] <= span[1] and cause["at_ns"] + cause["took_ns"] >= span[0]
        for span in spans:
            self.injected += 1
            near = [cause for cause in causes if at(cause, span)]
            if any(word in cause["sentence"] for cause in near for word in never):
                self.wrong += 1
            elif any(says(cause) for cause in near):
                self.right += 1
                continue
            elif near:
                self.wrong += 1
            else:
                self.missing += 1
            self.shown.append([cause["sentence"] for cause in near[:3]])
        elsewhere = [c for c in causes if says(c) and not any(at(c, span) for span in spans)]
        self.wrong += len(elsewhere)
        self.shown += [["elsewhere: " + cause["sentence"]] for cause in elsewhere]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def in_runs(times, most):
    """So many injections in each of some runs. Of a run the 100 latest packets are explained: an injection that makes
    a hundred of them late must have a run of its own to be among these for certain."""
    while times > 0:
        yield min(times, most)
        times -= most


def stops(setting, tally):
    """SIGSTOP of 3 ms to a sender."""
    for times in in_runs(setting.times, 5):
        run = Run(setting, f"sendrecv loop: --rate 5kpps --duration 1h {ALL_LATE} {ROWS}")
        run.until_rows()
        spans = []
        for _ in range(times):
            begin = now()
            run.process.send_signal(signal.SIGSTOP)
            sleep_ms(3)
            run.process.send_signal(signal.SIGCONT)
            spans.append((begin, now()))
            sleep_ms(random.uniform(40, 60))
        run.until_rows()
        tally.judge(run.end(), spans, ["stopped by a signal"], ("late", "slow"))


# A lane that waits for its next departure gives its core to whoever wants it, and then nothing is late: this one takes
# it, and is gone from it before it ends.
SPINNER = """
import os, sys, time
core, others = int(sys.argv[1]), os.sched_getaffinity(0) - {int(sys.argv[1])}
for _ in range(int(sys.argv[2])):
    os.sched_setaffinity(0, [core])
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    begin, end = time.monotonic_ns(), time.thread_time_ns() + 3_000_000
    while time.thread_time_ns() < end: pass
    over = time.monotonic_ns()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, others or [core])
    print(begin, over, flush=True)
    time.sleep(0.06)
"""


def spinners(setting, tally):
    """A thread that takes the lane's core for 3 ms."""
    for times in in_runs(setting.times, 5):
        words = f"sendrecv loop: --rate 5kpps --duration 1h --busy-poll --cores {setting.core}"
        run = Run(setting, f"{words} {ALL_LATE} {ROWS}")
        run.until_rows()
        # It begins elsewhere: an interpreter that starts on the lane's core has it as well, rightly named for it.
        elsewhere = (os.sched_getaffinity(0) - {setting.core}) or {setting.core}
        spinner = subprocess.Popen([sys.executable, "-c", SPINNER, str(setting.core), str(times)],
                                   stdout=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: os.sched_setaffinity(0, elsewhere))
        told = spinner.communicate()[0]
        spans = [tuple(int(word) for word in line.split()) for line in told.splitlines()]
        run.until_rows()
        tally.judge(run.end(), spans, [f"(thread {spinner.pid}) had the core"], ("late", "slow"))


def reflector(setting, port, options=""):
    process = subprocess.Popen([setting.mpps, "reflect", f"udp:127.0.0.1:{port}{options}"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "is ready on" in line:
            return process
    raise RuntimeError("the reflector does not start")


def over_loopback(setting, port, rate="20kpps"):
    words = f"sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --src-port-range {free_port()} --rate {rate}"
    return Run(setting, f"{words} {ALL_LATE} --duration 1h {ROWS}")


def small_buffers(setting, tally):
    """A receiver that stands still for 60 ms, with a socket buffer that lasts for a tenth of that."""
    for times in in_runs(setting.times, 25):
        port = free_port()
        end = reflector(setting, port, ",rcvbuf=65536")
        run = over_loopback(setting, port)
        run.until_rows()
        spans = []
        for _ in range(times):
            begin = now()
            end.send_signal(signal.SIGSTOP)
            sleep_ms(60)
            end.send_signal(signal.SIGCONT)
            spans.append((begin, now()))
            sleep_ms(250)
        run.until_rows(10)
        tally.judge(run.end(), spans, ["SOCKET_RCVBUFF (a socket's receive buffer was full)"], ("loss",))
        end.kill()
        end.wait()


def killed(setting, tally):
    """A reflector that is killed, and started again."""
    for times in in_runs(setting.times, 10):
        port = free_port()
        run_of, spans = None, []
        end = reflector(setting, port)
        run_of = over_loopback(setting, port, "5kpps")
        run_of.until_rows()
        for _ in range(times):
            begin = now()
            end.kill()
            end.wait()
            sleep_ms(60)
            spans.append((begin, now()))
            end = reflector(setting, port)
            sleep_ms(300)
        run_of.until_rows(10)
        tally.judge(run_of.end(), spans, ["nobody listens on that port any more"], ("loss",))
        end.kill()
        end.wait()


def closed(setting, tally):
    """A port that nobody has ever listened on."""
    for _ in range(setting.times):
        run = over_loopback(setting, free_port(), "5kpps")
        run.until_rows(2)
        summary = run.end()
        start = summary["start_monotonic_ns"]
        tally.judge(summary, [(start, start + int(summary["duration_s"] * 1e9))],
                    ["(nobody listens on that port)"], ("loss",))


def whole(setting, tally, words, right, subjects, never=()):
    """A path that is so all the time: a run each."""
    for _ in range(setting.times):
        run = Run(setting, f"sendrecv {words} --duration 300ms --settle 200ms")
        summary = run.end(interrupt=False)
        start = summary["start_monotonic_ns"]
        # It is all of one kind: one sentence of it will do.
        spans = [(start, start + 500 * MS)]
        tally.judge(summary, spans, right, subjects, never)


BEYOND = "on the path or beyond it: nothing on this host dropped them"


def losses(setting, tally):
    """Packets lost on the path (`loop:loss=1%`)."""
    whole(setting, tally, "loop:loss=1% --rate 20kpps", [BEYOND], ("loss",), ["this host's kernel"])


def capacities(setting, tally):
    """A path without the capacity (`loop:capacity=`)."""
    whole(setting, tally, "loop:capacity=10kpps,queue=20 --rate 20kpps", [BEYOND], ("loss",), ["this host's kernel"])


def delays(setting, tally):
    """A path with a delay of 20 ms (`loop:delay=`): the longest part of the latest packet's time."""
    for _ in range(setting.times):
        summary = Run(setting, "sendrecv loop:delay=20ms --rate 2kpps --duration 300ms --settle 200ms").end(False)
        late = [cause for cause in summary["why"] if cause["subject"] == "late"]
        longest = [max(cause["parts"], key=lambda part: part["amount"])["what"] for cause in late]
        tally.injected += 1
        if any(what == "path" for what in longest):
            tally.right += 1
        elif late:
            tally.wrong += 1
            tally.shown.append([cause["sentence"] for cause in late[:3]])
        else:
            tally.missing += 1


class Bridged:
    """A sender's two ports, and a bridge between them in another network namespace. Beside it, where asked for, another
    run with the same ports in a third, whose packets all find nobody."""

    def __init__(self, setting, stranger):
        name = f"mpps-causes-{os.getpid()}"
        self.a, self.b, self.c = f"{name}-a", f"{name}-b", f"{name}-c"
        self.stranger = None
        for space in (self.a, self.b, self.c):
            self.ip(f"netns add {space}")
            self.ip(f"-n {space} link set lo up")
        self.ip(f"-n {self.b} link add br0 type bridge")
        self.ip(f"-n {self.b} link set br0 up")
        for device in ("eth1", "eth2"):
            self.ip(f"-n {self.a} link add {device} type veth peer name {device} netns {self.b}")
            self.ip(f"-n {self.b} link set {device} master br0 up")
            self.ip(f"-n {self.a} link set {device} up")
        if stranger:
            words = "send udp:127.0.0.1 --dest 127.0.0.1:9000 --src-port-range 10000 --rate 2kpps --duration 1h --quiet"
            self.stranger = subprocess.Popen([*self.inside(self.c), setting.mpps, *words.split()],
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL)

    @staticmethod
    def ip(words):
        subprocess.run(["ip", *words.split()], check=True)

    @staticmethod
    def inside(space):
        return ["ip", "netns", "exec", space]

    def run(self, setting):
        words = "sendrecv af_packet:eth1 af_packet:eth2 --src-port-range 10000 --rate 5kpps --duration 1h"
        return Run(setting, f"{words} {ALL_LATE} {ROWS}", self.inside(self.a))

    def isolate(self, how):
        for device in ("eth1", "eth2"):
            self.ip(f"-n {self.b} link set {device} type bridge_slave isolated {how}")

    def limit(self, how):
        words = "replace dev eth2 root tbf rate 64kbit burst 2k limit 4k" if how == "on" else "del dev eth2 root"
        subprocess.run(["tc", "-n", self.b, "qdisc", *words.split()], check=True)

    def close(self):
        if self.stranger:
            self.stranger.kill()
            self.stranger.wait()
        for space in (self.a, self.b, self.c):
            subprocess.run(["ip", "netns", "del", space], check=False)


def bridged(setting, tally, how, right, stranger=False):
    net = Bridged(setting, stranger)
    try:
        for times in in_runs(setting.times, 25):
            run = net.run(setting)
            run.until_rows()
            spans = []
            for _ in range(times):
                begin = now()
                how(net, "on")
                sleep_ms(60)
                how(net, "off")
                spans.append((begin, now()))
                sleep_ms(250)
            run.until_rows(10)
            tally.judge(run.end(), spans, right, ("loss",), ["NO_SOCKET"])
    finally:
        net.close()


def bridges(setting, tally):
    """A bridge in another network namespace that drops packets, with its ports isolated from each other."""
    bridged(setting, tally, Bridged.isolate, ["(a bridge"])


def strangers(setting, tally):
    """The same, while another run with the same ports has all its packets dropped: these are none of ours."""
    bridged(setting, tally, Bridged.isolate, ["(a bridge"], stranger=True)


def queues(setting, tally):
    """A queueing discipline at a bridge's port that is full."""
    bridged(setting, tally, Bridged.limit, ["(a queueing discipline"])


GROUPS = "/sys/fs/cgroup"


class Quota:
    """A control group with a CPU quota of 10 ms per 100 ms, of version 1 or 2."""

    def __init__(self):
        one = os.path.join(GROUPS, "cpu")
        version_1 = os.path.isdir(one)
        self.name = f"mpps-causes-{os.getpid()}"
        self.folder = os.path.join(one if version_1 else GROUPS, self.name)
        os.mkdir(self.folder)
        values = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "10000"} if version_1 else {
            "cpu.max": "10000 100000"}
        for file, value in values.items():
            with open(os.path.join(self.folder, file), "w", encoding="utf-8") as out:
                out.write(value)
        self.inside = ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', self.folder]

    def close(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                sleep_ms(10)


def quotas(setting, tally):
    """A CPU quota that is used up in each period: a run each. Who has the core meanwhile is not to blame."""
    group = Quota()
    try:
        for _ in range(setting.times):
            run = Run(setting, "send null: --src 10.0.0.1 --dest 10.0.0.2:9000 --rate 1Mpps --duration 500ms",
                      group.inside)
            summary = run.end(interrupt=False)
            start = summary["start_monotonic_ns"]
            tally.judge(summary, [(start, start + int(summary["duration_s"] * 1e9))],
                        [f"the CPU quota of control group /{group.name}"], ("missed",))
    finally:
        group.close()


CAUSES = {
    "stop": stops, "spinner": spinners, "buffer": small_buffers, "killed": killed, "closed": closed, "loss": losses,
    "capacity": capacities, "delay": delays, "bridge": bridges, "stranger": strangers, "queue": queues,
    "quota": quotas,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpps", default=os.environ.get("MPPS_BIN", os.path.join(ROOT, "target/release/mpps")))
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--show", type=int, default=3, help="injections that were not named rightly, of each cause")
    parser.add_argument("causes", nargs="*", metavar="CAUSE", help=", ".join(CAUSES))
    setting = parser.parse_args()
    unknown = [name for name in setting.causes if name not in CAUSES]
    if unknown:
        parser.error(f"no such cause: {', '.join(unknown)}: want {', '.join(CAUSES)}")
    if os.geteuid() != 0:
        sys.exit("causes.py: needs root")
    print(f"{'cause':<10}{'injected':>10}{'rightly':>10}{'wrongly':>10}{'not named':>11}{'rate':>9}", flush=True)
    worst = 1.0
    for name in setting.causes or CAUSES:
        tally = Tally()
        CAUSES[name](setting, tally)
        rate = tally.right / max(tally.injected, 1)
        worst = min(worst, rate)
        print(f"{name:<10}{tally.injected:>10}{tally.right:>10}{tally.wrong:>10}{tally.missing:>11}{rate:>9.1%}",
              flush=True)
        for sentences in tally.shown[:setting.show]:
            print("    " + "\n    ".join(sentences or ["(nothing)"]), flush=True)
    sys.exit(worst < 0.99)


if __name__ == "__main__":
    main()
