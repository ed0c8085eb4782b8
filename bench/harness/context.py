"""What a section is given: settings, the lab, a place for files, and the ways to start things."""

import contextlib
import os
import shutil

from harness.machine import ask
from harness.proc import BenchError, Proc, Refused, run
from harness.report import say
from harness.stat import Samples


def number(name, default, kind=float):
    text = os.environ.get(name, "")
    try:
        value = kind(text) if text else default
    except ValueError:
        raise SystemExit(f"bench: {name}={text}: want a number") from None
    if value <= 0:
        raise SystemExit(f"bench: {name}={text}: want more than 0")
    return value


def worked(metrics):
    """`metrics`, if they are of a program that did something."""
    if metrics.get("rate") == 0:
        raise Refused("did nothing: its rate is 0")
    return metrics


class Lab:
    """Two hosts, `a` and `b`, of a lab of this process's own."""

    A = "10.99.0.1"
    B = "10.99.0.2"
    MAC_A = "02:6d:70:70:73:01"
    MAC_B = "02:6d:70:70:73:02"

    def __init__(self, mpps):
        self.mpps = mpps
        self.name = f"bench-{os.getpid()}"
        self.is_up = False
        self.resident = {}

    def up(self):
        """Makes the lab the first time; removes those that killed benchmarks left."""
        if self.is_up:
            return
        for line in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
            name = line[:-2] if line.startswith("bench-") and line[-2:] in ("-a", "-b") else ""
            if name[6:].isdigit() and not os.path.exists(f"/proc/{name[6:]}"):
                ask(self.mpps, "lab", "down", "--name", name)
        self.is_up = True
        run([self.mpps, "lab", "up", "--name", self.name])
        # A sleeper in each namespace: through its /proc entry the counters can be read without entering.
        for host in "ab":
            self.resident[host] = Proc([self.mpps, "lab", "exec", "--name", self.name, host, "--", "sleep", "infinity"])
            self.resident[host].wait_until_runs("sleep")

    def down(self):
        if self.is_up:
            self.is_up = False
            for sleeper in self.resident.values():
                sleeper.kill()
            run([self.mpps, "lab", "down", "--name", self.name])

    @contextlib.contextmanager
    def queues(self, count):
        """The lab with so many queues at each interface; with one after it."""
        self.up()
        try:
            run([self.mpps, "lab", "up", "--name", self.name, "--queues", str(count)])
            yield
        finally:
            run([self.mpps, "lab", "up", "--name", self.name, "--queues", "1"])

    def counters(self, host):
        """Packets of the host's interface so far: received, and of these dropped."""
        with open(f"/proc/{self.resident[host].pid}/net/dev") as devices:
            for line in devices:
                name, _, counters = line.partition(":")
                if name.strip() == "eth1":
                    _, packets, _, dropped, *_ = map(int, counters.split())
                    return packets, dropped
        raise BenchError(f"no eth1 on host {host}")

    def received(self, host):
        """Packets that the host's interface received so far."""
        return self.counters(host)[0]


class Context:
    """Settings and tools of one benchmark."""

    def __init__(self, root, mpps, tmp, hugepages):
        self.root, self.mpps, self.tmp, self.hugepages = root, mpps, tmp, hugepages
        self.rounds = number("BENCH_ROUNDS", 5, int)
        self.seconds = number("BENCH_SECONDS", 3.0)
        self.steady = number("BENCH_STEADY_SECONDS", 60.0)
        self.long = os.environ.get("BENCH_LONG", "") not in ("", "0")
        self.quick = os.environ.get("BENCH_QUICK", "") not in ("", "0")
        self.lab = Lab(mpps)
        self.cores = sorted(os.sched_getaffinity(0))
        self.section = None
        self.steady_runs = {}
        self.l2fwd = None  # the C example that the section dpdk builds
        self.study = {}  # throughput by program, pps
        self._files = 0

    @property
    def core_a(self):
        """Core of the sender; the receiver's is the next."""
        return self.cores[0]

    @property
    def core_b(self):
        return self.cores[1] if len(self.cores) > 1 else self.cores[0]

    def file(self, suffix):
        """A fresh file name."""
        self._files += 1
        return os.path.join(self.tmp, f"{self._files}{suffix}")

    def words(self, name, default):
        """A list with commas between from the environment, of which only what is in `default` may be."""
        given = [word.strip() for word in os.environ.get(name, "").split(",") if word.strip()]
        for word in given:
            if word not in default:
                raise SystemExit(f"bench: {name}: '{word}': want {', '.join(default)}")
        return given or list(default)

    def command(self, argv, host=None, core=None):
        """`argv` on a host of the lab (or here; or after the words that lead elsewhere) pinned to a core (or not)."""
        prefix = []
        if isinstance(host, list):
            prefix = list(host)
        elif host:
            self.lab.up()
            prefix = [self.mpps, "lab", "exec", "--name", self.lab.name, host, "--"]
        if core is not None:
            prefix += ["taskset", "-c", str(core)]
        return prefix + [str(a) for a in argv]

    def need(self, *programs):
        for program in programs:
            if not shutil.which(program):
                raise BenchError(f"{program} is not installed")

    def compare(self, programs, rounds=None):
        """Runs each of `programs` (label → function that returns metrics) in turn, round after round."""
        samples = Samples(programs)
        hopeless = {}
        rounds = rounds or self.rounds
        for turn in range(rounds):
            for label, measure in programs.items():
                if hopeless.get(label, 0) >= 2:
                    continue
                say(f"  round {turn + 1}/{rounds}: {label}")
                try:
                    samples.add(label, worked(measure()))
                except BenchError as error:
                    if isinstance(error, Refused) and self.section:
                        self.section.fail(f"{label}: {error}")
                    hopeless[label] = hopeless.get(label, 0) + 1
                    samples.fail(label, str(error))
                    say(f"    failed: {error}")
        return samples
