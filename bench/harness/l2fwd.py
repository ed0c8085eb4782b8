"""DPDK's C example `l2fwd`: its source had from where the system's own DPDK came from, built here, its rates its
own."""

import glob
import html
import os
import re
import shutil

from harness.machine import package
from harness.proc import BenchError, Proc, Program, run, until
from harness.report import say

INSTALLED = "/usr/share/dpdk/examples/l2fwd/main.c"
SCREEN = "Aggregate statistics"  # each statistics screen has it, and below it the totals
PERIOD = 1  # s, between two screens, by its own clock
# name → program, flag
FLAGS = {"pkg-config's flags": ("l2fwd", ""), "-march=native": ("l2fwd-native", " -march=native")}
# Two counters: polls, and those of them that brought packets. Each is one line of C beside one that is there. And one
# line at the end, as the last screen may be a second old.
COUNTING = (("struct l2fwd_port_statistics port_statistics[RTE_MAX_ETHPORTS];",
             r"\g<0> static uint64_t bench_polls, bench_full;"),
            (r"if (unlikely(nb_rx == 0))", r"bench_polls++; bench_full += nb_rx > 0; \g<0>"),
            (r'printf("\nAggregate statistics', r'printf("\\nPolls: %"PRIu64" with packets: %"PRIu64, bench_polls, '
             r'bench_full); \g<0>'),
            (r'printf("Bye...\n");', r'{ uint64_t all = 0; for (unsigned n = 0; n < RTE_MAX_ETHPORTS; n++) '
             r'all += port_statistics[n].tx; printf("Sent in all: %"PRIu64"\\n", all); } \g<0>'))


def _apt_lists():
    """One-line entries for the sources beside the packages that the host's own apt fetches."""
    entries = []
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        if not path.endswith((".list", ".sources")) or not os.path.exists(path):
            continue
        with open(path) as file:
            text = file.read()
        if path.endswith(".list"):
            entries += [f"deb-src {rest}" for rest in re.findall(r"^deb (.*)$", text, re.M)]
            continue
        for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", text, flags=re.M)):
            fields = dict(re.findall(r"^(\S+): *(.*)$", stanza, re.M))
            if "deb" not in fields.get("Types", "").split() or not fields.get("URIs"):
                continue
            signed = f"[signed-by={fields['Signed-By']}] " if fields.get("Signed-By", "").startswith("/") else ""
            entries += [f"deb-src {signed}{uri} {suite} {fields.get('Components', '')}"
                        for uri in fields["URIs"].split() for suite in fields.get("Suites", "").split()]
    return [entry for entry in entries if re.search(r"debian|ubuntu", entry)]


def _from_source_package(folder, version):
    """`apt-get source`, verified by apt; only the example is unpacked."""
    lists = os.path.join(folder, "lists")
    os.makedirs(os.path.join(lists, "partial"))
    sources = os.path.join(folder, "sources.list")
    with open(sources, "w") as file:
        file.write("\n".join(_apt_lists()) + "\n")
    options = ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-", "-o",
               f"Dir::State::Lists={lists}", "-o", "APT::Sandbox::User=root"]
    run(["apt-get", *options, "-qq", "update"], 120)
    _run_in(folder, ["apt-get", *options, "-qq", "--download-only", "source", f"dpdk={version}"], 120)
    archives = glob.glob(os.path.join(folder, "dpdk_*.orig.tar.*[!c]"))
    if not archives:
        raise BenchError("the source package has no archive")
    _run_in(folder, ["tar", "-xf", archives[0], "--wildcards", "*/examples/l2fwd/main.c"], 60)
    found = glob.glob(os.path.join(folder, "*/examples/l2fwd/main.c"))
    if not found:
        raise BenchError("the source package has no examples/l2fwd/main.c")
    return found[0]


def _from_documentation(folder, version):
    """The same source as the packaged API documentation shows it."""
    _run_in(folder, ["apt-get", "-qq", "download", f"dpdk-doc={version}"], 120)
    packages = glob.glob(os.path.join(folder, "dpdk-doc_*.deb"))
    if not packages:
        raise BenchError("no package dpdk-doc could be had")
    run(["dpkg-deb", "-x", packages[0], os.path.join(folder, "doc")], 60)
    pages = glob.glob(os.path.join(folder, "doc/**/examples_2l2fwd_2main_8c-example.html"), recursive=True)
    if not pages:
        raise BenchError("dpdk-doc does not show the example")
    with open(pages[0]) as file:
        block = re.search(r'<div class="fragment">(.*?)</div><!-- fragment -->', file.read(), re.S)
    if not block:
        raise BenchError("dpdk-doc shows the example in a way not known here")
    code = block[1].split('<div class="ttc"')[0]  # what the page shows when pointed at comes last
    lines = re.sub(r"</div>", "\n", code.replace("\n", "")) if '<div class="line">' in code else code
    path = os.path.join(folder, "main.c")
    with open(path, "w") as file:
        file.write(html.unescape(re.sub(r"<[^>]*>", "", lines)).replace("\xa0", " "))
    return path


def _run_in(folder, argv, seconds):
    proc = Proc(argv, cwd=folder)
    if proc.wait(seconds) != 0:
        raise BenchError(f"{argv[0]}: {proc.last_line()}")


def _source(folder):
    """(path of main.c, where it is from)."""
    if os.path.exists(INSTALLED):
        return INSTALLED, INSTALLED
    version = package("libdpdk-dev")
    if not version:
        raise BenchError("DPDK is not from a package here, and there is no " + INSTALLED)
    reasons = []
    for name, way in (("source package dpdk", _from_source_package), ("package dpdk-doc", _from_documentation)):
        place = os.path.join(folder, way.__name__)
        os.makedirs(place)
        try:
            return way(place, version), f"{name} {version}"
        except (BenchError, OSError) as error:
            reasons.append(f"{name}: {error}")
    raise BenchError("no source: " + "; ".join(reasons))


def build(ctx, section):
    """The built programs by flags (FLAGS → path), once a benchmark; {} with a word in the report when there is none."""
    folder = os.path.join(ctx.tmp, "l2fwd")
    if not os.path.isdir(folder):
        os.makedirs(folder)
        try:
            ctx.need("cc", "pkg-config")
            say("  l2fwd: source and build")
            source, origin = _source(folder)
            for name, (program, flag) in FLAGS.items():
                argv = ["sh", "-ec", 'cc -O3 -w -DALLOW_EXPERIMENTAL_API $(pkg-config --cflags libdpdk)' + flag
                        + ' -o "$0" "$1" $(pkg-config --libs libdpdk)', os.path.join(folder, program), source]
                section.command(f"build l2fwd, {name}", argv)
                run(argv, 120)
            section.text(f"`l2fwd` is DPDK's C example, built here by `cc -O3` from {origin}.")
        except BenchError as error:
            shutil.rmtree(folder)
            os.makedirs(folder)
            section.text(f"The C `l2fwd` could not be built, and is left out ({error}).")
    paths = {name: os.path.join(folder, program) for name, (program, _) in FLAGS.items()}
    return {name: path for name, path in paths.items() if os.path.exists(path)}


def build_counting(ctx, section):
    """The program with two counters more (see COUNTING), or None with a word in the report."""
    folder = os.path.join(ctx.tmp, "l2fwd-counting")
    program = os.path.join(folder, "l2fwd")
    if os.path.exists(program):
        return program
    try:
        ctx.need("cc", "pkg-config")
        say("  l2fwd: source and build")
        os.makedirs(folder, exist_ok=True)
        source, origin = _source(folder)
        with open(source) as file:
            text = file.read()
        for line, instead in COUNTING:
            text, found = re.subn(re.escape(line), instead, text)
            if found != 1:
                raise BenchError(f"main.c has '{line}' {found} times, not once")
        changed = os.path.join(folder, "counting.c")
        with open(changed, "w") as file:
            file.write(text)
        argv = ["sh", "-ec", 'cc -O3 -w -DALLOW_EXPERIMENTAL_API $(pkg-config --cflags libdpdk) -o "$0" "$1" '
                '$(pkg-config --libs libdpdk)', program, changed]
        section.command("build l2fwd", argv)
        run(argv, 120)
    except (BenchError, OSError) as error:
        section.text(f"The C `l2fwd` could not be built, and is left out ({error}).")
        return None
    section.text(f"`l2fwd` is DPDK's C example, built here by `cc -O3` from {origin}, with two counters added: polls, "
                 f"and those of them that brought packets.")
    return program


class L2fwd(Program):
    """`l2fwd` on one core that forwards, and prints once a second: totals by its own clock.

    One port sends back out of itself; of two each sends out of the other.
    """

    def __init__(self, ctx, label, program, vdevs, core, memory, host=None):
        self.ports = len(vdevs)
        argv = ctx.command([
            program, f"--lcores=0@{core}", *memory, "--no-pci", "--no-telemetry", f"--file-prefix=bench{os.getpid()}l2",
            *(f"--vdev={v}" for v in vdevs), "--", "-p", f"{(1 << self.ports) - 1:x}", "-q", self.ports, "-T", PERIOD],
                           host)
        ctx.section.command(label, argv)
        # A port without its peer has no link yet: it waits for one up to 9 s, then goes on all the same.
        super().__init__(argv, "Checking link status", 20)

    def _screens(self):
        """Totals of each whole screen so far: (sent, received)."""
        text = self.proc.output()
        pattern = r"Total packets sent:\s+(\d+)\s+Total packets received:\s+(\d+)\s+Total packets dropped:\s+\d+\s+==="
        return [(int(sent), int(received)) for sent, received in re.findall(pattern, text)]

    def counts(self, seconds=3):
        """Totals since the start as the next screen has them: sent, received, dropped, polls, polls with packets; and
        screens."""
        pattern = (r"Polls: (\d+) with packets: (\d+)\s+Aggregate statistics =+\s+Total packets sent:\s+(\d+)\s+"
                   r"Total packets received:\s+(\d+)\s+Total packets dropped:\s+(\d+)\s+===")
        self._wait_for_screens(len(self._screens()) + 1, seconds * PERIOD)
        screens = re.findall(pattern, self.proc.output())
        polls, full, sent, received, dropped = map(int, screens[-1])
        return {"sent": sent, "received": received, "dropped": dropped, "polls": polls, "full": full,
                "screens": len(screens)}

    def _wait_for_screens(self, count, seconds):
        def there():
            if self.proc.child.poll() is not None:
                raise BenchError(f"l2fwd ended with {self.proc.child.returncode}: {self.proc.last_line()}")
            return len(self._screens()) >= count
        until(there, "l2fwd's statistics", seconds)

    def wait_until_running(self):
        self.proc.wait_for("entering main loop", 15)

    def rates(self, seconds):
        """(received, sent) in pps over as many whole periods, from the next screen on."""
        periods = max(1, round(seconds / PERIOD))
        first = max(1, len(self._screens()))  # the first of all comes before the first packet
        self._wait_for_screens(first + 1 + periods, 12 + periods * PERIOD)
        screens = self._screens()
        (sent1, received1), (sent2, received2) = screens[first], screens[first + periods]
        return (received2 - received1) / (periods * PERIOD), (sent2 - sent1) / (periods * PERIOD)

    def quit(self):
        status = self.proc.stop()
        if status != 0:
            raise BenchError(f"l2fwd ended with {status}: {self.proc.last_line()}")
