#!/usr/bin/env python3
"""Runs every test, and ends with a list of those that failed: where each is and the last lines of what it said.

    scripts/test.py [--all] [--retry] [WORDS of a test's name]

Everything is built first. Then TEST_JOBS tests run side by side: two and a half for each processor, since most of them
wait for packets most of the time. Each whole-program test (tests/, crates/*/tests) is a process of its own, with a
limit of TEST_LIMIT seconds; of the crates' unit tests each binary is one. Tests make labs, sockets and files of their
own under names that no other process has, so they share the processors and nothing else. Those of tests/quiet run by
themselves after all others.

--all adds what many hosts can't do or need not do each time: Miri, the build without DPDK and its tests, the oldest
compiler that is promised, packages; and Wireshark reads the packets of 10,000 random traffic files in place of 200.

--retry, for the continuous integration, runs each failed test once more, by itself. One that passes then is named as
UNSURE and fails nothing: it is a test to mend, not a change to refuse. Without it one failure is a failure.

What each test printed is in target/test/logs, the tests that were skipped in target/test/skips, the end of what this
prints in target/test/summary. MPPS_BIN is the program that the whole-program tests run.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "target/test"
CARGO = os.environ.get("CARGO", "cargo")
JOBS = int(os.environ.get("TEST_JOBS") or min(10, (os.cpu_count() or 2) * 5 // 2 + 1))
LIMIT = float(os.environ.get("TEST_LIMIT") or 600)
# So many failures are no chance: none of them is tried again.
MANY = 4
# Lines of a failed test's output that the list shows.
LINES_SHOWN = 15
# A step builds a program of its own: its limit is this many times that of a test.
STEP_LIMITS = 4
# What --all adds.
STEPS = ["scripts/no-dpdk.sh", "scripts/msrv.sh", "scripts/miri.sh", "scripts/packages.sh"]
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)


class Job:
    """One process: a test, a binary of unit tests, or a step that tests something as a whole."""

    def __init__(self, where, name, argv, cwd, quiet=False):
        self.where, self.name, self.argv, self.cwd, self.quiet = where, name, argv, cwd, quiet
        self.limit = LIMIT * (STEP_LIMITS if where in STEPS else 1)
        self.text, self.seconds, self.status = "", 0.0, None

    @property
    def title(self):
        return f"{self.where}::{self.name}" if self.name else self.where

    def run(self):
        began = time.monotonic()
        # In a process group of its own: with it all that the test has started can be ended.
        child = subprocess.Popen(
            self.argv, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, text=True, errors="replace", env=environment(self.cwd))
        running.add(child)
        late = threading.Timer(self.limit, end_group, [child.pid])
        late.start()
        self.text = child.stdout.read()
        self.status = child.wait()
        if late.finished.is_set():
            self.text += f"\nended after {self.limit:.0f} s (TEST_LIMIT)\n"
            self.status = self.status or 1
        late.cancel()
        running.discard(child)
        end_group(child.pid)
        self.seconds = time.monotonic() - began
        return self

    def counts(self):
        """Passed, failed, ignored."""
        found = [tuple(map(int, match)) for match in RESULT.findall(self.text)]
        total = [sum(column) for column in zip(*found)] if found else [0, 0, 0]
        if self.status and not total[1]:
            total[1] = 1
        if not self.status and not found:
            total[0] = 1
        return total


running = set()


def environment(cwd):
    return {**os.environ, "CARGO_MANIFEST_DIR": str(cwd), "CARGO_TERM_COLOR": "never", "RUST_BACKTRACE": "0"}


def end_group(pid):
    """Ends what is left of a process group, with as much time as a run of mpps takes to clean up."""
    for number, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 0)):
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            return
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)
            try:
                os.killpg(pid, 0)
            except (ProcessLookupError, PermissionError):
                return


def build(words):
    """Builds all test binaries; their jobs."""
    command = [CARGO, "test", "--workspace", "--lib", "--bins", "--tests", "--no-run",
               "--message-format=json-render-diagnostics"]
    cargo = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if cargo.returncode:
        sys.exit(f"test result: FAILED. The build failed (exit code {cargo.returncode})")
    # Tests of xsk run its examples.
    examples = subprocess.run([CARGO, "build", "-p", "xsk", "--examples"], cwd=ROOT)
    if examples.returncode:
        sys.exit(f"test result: FAILED. The build of the examples failed (exit code {examples.returncode})")
    for line in cargo.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("reason") == "compiler-artifact" and artifact["profile"]["test"] and artifact["executable"]:
            yield from jobs_of(artifact, words)


def jobs_of(artifact, words):
    binary, target = artifact["executable"], artifact["target"]
    package = Path(artifact["manifest_path"]).parent
    source = Path(target["src_path"])
    whole = target["kind"] == ["test"]
    at = source.parent if source.name == "main.rs" or not whole else source
    where = str(at.relative_to(ROOT))
    listed = subprocess.run([binary, "--list", "--format", "terse"], cwd=package, capture_output=True, text=True,
                            check=True, env=environment(package)).stdout
    names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
    wanted = [name for name in names if all(word in f"{where}::{name}" for word in words)]
    if whole:
        for name in wanted:
            yield Job(where, name, [binary, "--exact", name, "--show-output"], package, target["name"] == "quiet")
    elif wanted:
        some = ["--exact", *wanted] if len(wanted) < len(names) else []
        yield Job(where, "", ["nice", "-n", "10", binary, "--show-output", *some], package)


def message(text):
    """The first line of what a test said when it failed: the line after the panic's place, or else the last one."""
    lines = [line for line in text.splitlines() if line.strip()] or ["it said nothing"]
    for n, line in enumerate(lines[:-1]):
        if "panicked at " in line and line.endswith(":"):
            return lines[n + 1]
    return lines[-1]


def failed_names(job):
    """Names of the failed tests of a binary that holds several."""
    lists = job.text.split("\nfailures:\n")
    return re.findall(r"^    (\S+)$", lists[-1], re.M) if len(lists) > 1 else []


def ended(job, done):
    done.append(job)
    passed, failed, _ = job.counts()
    with open(HERE / "logs" / (job.where.replace("/", "-") + ".log"), "a") as log:
        log.write(f"# {job.title}, {job.seconds:.1f} s\n{job.text}\n")
    skips = sorted(set(re.findall(r"^ *SKIPPED: .*$", job.text, re.M)))
    with open(HERE / "skips", "a") as file:
        file.writelines(f"{line.strip()}\n" for line in skips)
    how = "FAILED" if failed else "ok"
    many = f", {passed} tests" if passed > 1 else ""
    print(f"{how:6} {job.title} ({job.seconds:.1f} s{many})", *skips, sep="\n       ", flush=True)


def main(words):
    retry, everything = "--retry" in words, "--all" in words
    words = [word for word in words if word not in ("--retry", "--all")]
    if everything:
        os.environ.setdefault("MPPS_TRAFFIC_FILES", "10000")
    began = time.monotonic()
    shutil.rmtree(HERE, ignore_errors=True)
    (HERE / "logs").mkdir(parents=True)
    jobs = list(build(words))
    if not words:
        # What takes long begins first.
        steps = [Job("scripts/python.sh", "", ["scripts/python.sh"], ROOT),
                 Job("doc tests", "", ["nice", "-n", "10", CARGO, "test", "--workspace", "--doc", "--no-fail-fast"],
                     ROOT)]
        if everything:
            steps += [Job(script, "", ["nice", "-n", "10", script], ROOT) for script in STEPS]
        jobs = steps + jobs
        # The last but those that want a quiet host: it packages what no-dpdk.sh has built.
        jobs.sort(key=lambda job: job.where == "scripts/packages.sh")
    print(f"{len(jobs)} processes, built after {time.monotonic() - began:.0f} s; {JOBS} at a time (TEST_JOBS)",
          flush=True)
    done = []
    lock = threading.Lock()

    def run(job):
        job.run()
        with lock:
            ended(job, done)

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(run, (job for job in jobs if not job.quiet)))
    for job in jobs:
        if job.quiet:
            run(job)
    return summary(done, retry, began)


def again(job):
    """Whether a failed test passes when it is run once more, by itself."""
    print(f"\nOnce more, by itself: {job.title}", flush=True)
    names = failed_names(job) if not job.name else []
    argv = [*job.argv, "--exact", *names] if names else job.argv
    second = Job(job.where, job.name, argv, job.cwd).run()
    print(second.text, flush=True)
    return not second.status


def summary(done, retry, began):
    failed = [job for job in done if job.status]
    passed, wrong, ignored = map(sum, zip(*(job.counts() for job in done)))
    unsure = []
    if retry and len(failed) > MANY:
        print(f"more than {MANY} tests failed: none is tried again")
    elif retry:
        unsure = [job for job in failed if again(job)]
    lines = ["slowest: " + ", ".join(f"{job.seconds:.0f} s {job.title}" for job in
                                     sorted(done, key=lambda job: -job.seconds)[:12])]
    for job in failed:
        if job in unsure:
            lines.append(f"UNSURE: {job.title} failed once and passed when run alone: {message(job.text)}")
        else:
            lines.append(f"FAILED: {', '.join([job.title, *([] if job.name else failed_names(job))])}")
        said = [line for line in job.text.splitlines() if line.strip()]
        lines += ["    " + line for line in said[-LINES_SHOWN:]]
    for job in unsure:
        wrong, passed = wrong - job.counts()[1], passed + job.counts()[1]
    lines.append(f"test result: {'FAILED' if wrong else 'ok'}. {passed} passed; {wrong} failed; {ignored} ignored; "
                 f"0 measured; 0 filtered out; finished in {time.monotonic() - began:.0f}.00s")
    print("", *lines, sep="\n", flush=True)
    (HERE / "summary").write_text("\n".join(lines) + "\n")
    return 1 if wrong else 0


def stop(number, _):
    for child in list(running):
        end_group(child.pid)
    os._exit(128 + number)


if __name__ == "__main__":
    # What a shell has its background jobs ignore, tests would ignore, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, stop)
    sys.exit(main(sys.argv[1:]))
