"""What was measured on what: facts for the head of the report, and the hugepages that DPDK likes."""

import os
import platform
import shutil
import subprocess
import time

HUGEPAGES = "/proc/sys/vm/nr_hugepages"


def ask(*argv):
    """First line of a program's output, '' when it can't be had."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[0].strip() if lines and done.returncode == 0 else ""


def package(name):
    return ask("dpkg-query", "-W", "-f", "${Version}\n", name) if shutil.which("dpkg-query") else ""


def lscpu():
    """Lines of lscpu(1), none where it can't be had."""
    try:
        return subprocess.run(["lscpu"], capture_output=True, text=True, timeout=10, check=False).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return []


def cpu():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    # On arm64 a processor is numbers there; lscpu knows the names.
    names = [line.split(":", 1)[1].strip() for line in lscpu() if line.startswith("Model name:")]
    return " + ".join(names) or platform.machine()


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def busy(seconds):
    """How many cores did something over `seconds`, whoever's work it was: soft interrupts are in no process's time."""
    def spent():
        with open("/proc/stat") as stat:
            user, nice, system, idle, iowait, *rest = map(int, stat.readline().split()[1:8])
        return user + nice + system + sum(rest), time.monotonic()
    (before, began), (after, ended) = spent(), (time.sleep(seconds), spent())[1]
    return (after - before) / os.sysconf("SC_CLK_TCK") / (ended - began)


def commit(root):
    """Commit of the tree, '+' when it has changes beyond pages, tests, and what sections write."""
    others = (":!*.md", ":!bench/data", ":!tests")
    head = ask("git", "-C", root, "rev-parse", "--short=12", "HEAD")
    changes = ask("git", "-C", root, "status", "--porcelain", "--untracked-files=no", "--", ".", *others)
    return (head or "unknown") + ("+" if changes else "")


def peers():
    """Name → version of each program that mpps is compared with, or None where it is not installed."""
    ways = {
        "dpdk-testpmd": lambda: "DPDK " + (ask("pkg-config", "--modversion", "libdpdk") or package("dpdk")),
        "sockperf": lambda: package("sockperf"),
        "iperf3": lambda: ask("iperf3", "--version"),
        "trafgen": lambda: package("netsniff-ng"),
        "tcpreplay": lambda: package("tcpreplay"),
        "xdp-trafficgen": lambda: "xdp-tools " + package("xdp-tools"),
        "perf": lambda: ask("perf", "--version"),
        "valgrind": lambda: ask("valgrind", "--version"),
        "cc": lambda: ask("cc", "--version"),
    }
    return {name: (way() or "version unknown") if shutil.which(name) else None for name, way in ways.items()}


def host():
    """The host in a few words, for each section."""
    virtual = ", virtual machine" if "hypervisor" in read("/proc/cpuinfo") else ""
    return f"{cpu()}, {os.cpu_count()} cores{virtual}, Linux {platform.release()}"


def facts(root, mpps):
    """Markdown list."""
    governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "none told"
    clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    lines = [
        f"- CPU: {cpu()}, {os.cpu_count()} cores, governor {governor}, clock source {clock}"
        + (", virtual machine" if "hypervisor" in read("/proc/cpuinfo") else ""),
        f"- kernel: {platform.release()}",
        f"- mpps: {ask(mpps, '--version') or 'unknown'}, commit {commit(root)}",
    ]
    lines += [f"- {name}: {version or 'not installed'}" for name, version in peers().items()]
    return "\n".join(lines)


class Hugepages:
    """Some hugepages for the time of the benchmark, where they can be had; the old number after it."""

    def __init__(self, wanted=512):
        self.before = read(HUGEPAGES)
        self.have = 0
        if not self.before.isdigit() or os.geteuid() != 0:
            return
        self.have = int(self.before)
        if self.have < wanted and self._write(str(wanted)):
            self.have = int(read(HUGEPAGES) or 0)

    def _write(self, number):
        try:
            with open(HUGEPAGES, "w") as file:
                file.write(number)
            return True
        except OSError:
            return False

    def restore(self):
        if self.before.isdigit() and read(HUGEPAGES) != self.before:
            self._write(self.before)
