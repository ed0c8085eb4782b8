"""The benchmark: runs the sections, writes bench/RESULTS.md, leaves nothing behind. See run.sh for the settings."""

import glob
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time

from harness import age, machine
from harness.context import Context
from harness.proc import BenchError, Refused, kill_all
from harness.report import ORDER, ROOT, Results, Section, now, say

FOLDER = "mpps-bench-"

PREAMBLE = """# mpps beside other programs

Written by `make bench`; `bench/run.sh SECTION…` renews a part. Each program is run in turn, round after round
(A B A B …), on the same cores. A rate is the median over the rounds, its spread the largest over the smallest; a ratio
is that of the medians, with the smallest and largest ratio of the rounds beside it. Ratios carry over to other
machines, rates do not.

{facts}
"""


def remove_left_behind():
    """The folders of benchmarks that were killed (their processes died with them, their lab goes when ours is made)."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), FOLDER + "*-*")):
        pid = os.path.basename(path)[len(FOLDER):].split("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(path, ignore_errors=True)


def interrupted(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def measure(ctx, results, name):
    module = importlib.import_module(f"sections.{name}")
    facts = (f"{now()}, {machine.ask(ctx.mpps, '--version')}, commit {machine.commit(ROOT)}; on "
             f"{machine.host()}; {ctx.rounds} rounds of {ctx.seconds:g} s, steady runs of {ctx.steady:g} s; "
              f"load average before {os.getloadavg()[0]:.2f}")
    ctx.section = Section(name, module.TITLE, facts, ctx.tmp)
    started = time.monotonic()
    say(f"{name}: {module.TITLE}")
    for part in module.PARTS:
        try:
            part(ctx, ctx.section)
        except BenchError as error:
            if isinstance(error, Refused):
                ctx.section.fail(f"{part.__name__}: {error}")
            ctx.section.text(f"Not measured: {error}")
            say(f"{name}: {part.__name__} not measured: {error}")
    ctx.section.text(f"Took {time.monotonic() - started:.0f} s.")
    results.put(ctx.section)
    return not ctx.section.failures


def marking(name, text):
    return age.mark(ROOT, name, text)


def mark():
    """Says of each section whether it is older than the code, and measures nothing."""
    path = os.environ.get("BENCH_RESULTS") or os.path.join(ROOT, "bench/RESULTS.md")
    try:
        with open(path, encoding="utf-8") as file:
            preamble = file.read().partition("\n## Targets\n")[0].rstrip("\n") + "\n"
    except OSError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    Results(path, preamble, marking).write()
    return 0


def main(names):
    if names == ["--mark"]:
        return mark()
    unknown = [n for n in names if n not in ORDER]
    if unknown:
        print(f"bench: unknown section '{unknown[0]}': want {', '.join(ORDER)}", file=sys.stderr)
        return 2
    program = os.path.abspath(os.environ.get("MPPS_BIN") or os.path.join(ROOT, "target/release/mpps"))
    if not os.access(program, os.X_OK):
        print(f"bench: no program at {program}: run `make build`, or set MPPS_BIN", file=sys.stderr)
        return 1
    if os.geteuid() != 0:
        say("not root: what needs network namespaces will be missing")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    remove_left_behind()
    tmp = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")
    hugepages = ctx = None
    status = 0
    try:
        # A copy: a rebuild while the benchmark runs must not change what is measured.
        mpps = shutil.copy2(program, os.path.join(tmp, "mpps"))
        hugepages = machine.Hugepages()
        ctx = Context(ROOT, mpps, tmp, hugepages)
        path = os.environ.get("BENCH_RESULTS") or os.path.join(ROOT, "bench/RESULTS.md")
        results = Results(path, PREAMBLE.format(facts=machine.facts(ROOT, mpps)), marking)
        for name in ORDER:
            if (not names or name in names) and not measure(ctx, results, name):
                status = 1
        say(f"written: {path}")
    except KeyboardInterrupt:
        say("interrupted: sections that were finished are in the report")
        status = 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # cleaning up is not to be interrupted
        kill_all()
        if ctx:
            try:
                ctx.lab.down()
            except BenchError as error:
                say(f"remove the lab: {error}")
        if hugepages:
            hugepages.restore()
        shutil.rmtree(tmp, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
