"""Processes of the benchmark. Each is known to this module and dies with it, however the benchmark ends."""

import ctypes
import os
import pty
import signal
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_running = []


class BenchError(Exception):
    """One measurement failed; the benchmark goes on with the next."""


class Refused(BenchError):
    """The program under test did nothing of the work, or refused it: a figure of it would be none."""


def _child():
    # A benchmark that is killed by SIGKILL cleans up nothing: let the kernel end its children then.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def until(condition, what, seconds=10.0):
    """Waits for `condition()` to be true; BenchError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise BenchError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.01)


class Proc:
    """A child in a session of its own (the terminal's Ctrl-C reaches the benchmark only), its output collected.

    `terminal`: standard output is a pseudo-terminal, for programs that hold their lines back in a pipe.
    """

    def __init__(self, argv, terminal=False, cwd=None):
        self.argv = [str(a) for a in argv]
        self.chunks = []
        self.peak_rss_kib = 0
        master, slave = pty.openpty() if terminal else os.pipe()
        try:
            self.child = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=slave, stderr=slave,
                start_new_session=True, preexec_fn=_child, cwd=cwd)
        except OSError as error:
            os.close(master)
            raise BenchError(f"start {self.argv[0]}: {error}") from error
        finally:
            os.close(slave)
        _running.append(self)
        self.reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self.reader.start()

    def _read(self, fd):
        while True:
            try:
                chunk = os.read(fd, 65536)
            except OSError:  # EIO: the last writer closed the pseudo-terminal
                chunk = b""
            if not chunk:
                os.close(fd)
                return
            self.chunks.append(chunk)

    @property
    def pid(self):
        return self.child.pid

    def output(self):
        """Standard output and error so far."""
        return b"".join(self.chunks).decode(errors="replace").replace("\r\n", "\n")

    def last_line(self):
        lines = [line.strip() for line in self.output().splitlines() if line.strip()]
        return lines[-1] if lines else "(no output)"

    def wait_for(self, text, seconds=20.0, after=0):
        """Waits until `text` is in the output from character `after` on."""
        def seen():
            if text in self.output()[after:]:
                return True
            if self.child.poll() is not None and not self.reader.is_alive():
                raise BenchError(f"{self.name()} ended with {self.child.returncode}: {self.last_line()}")
            return False
        until(seen, f"'{text}' from {self.name()}", seconds)

    def name(self):
        rest = self.argv[self.argv.index("--") + 1:] if "lab" in self.argv[:2] else self.argv
        rest = rest[4:] if rest[:3] == ["ip", "netns", "exec"] else rest
        rest = rest[3:] if rest[0] == "taskset" else rest
        rest = rest[4:] if rest[:2] == ["sh", "-c"] else rest  # sh -c 'prepare && exec "$@"' sh PROGRAM…
        return os.path.basename(rest[0])

    def cpu_seconds(self):
        """CPU time of all threads so far, where the kernel counts soft interrupts to whom they interrupt: theirs,
        too."""
        total = 0
        try:
            tasks = os.listdir(f"/proc/{self.pid}/task")
        except OSError as error:
            raise BenchError(f"{self.name()} has ended: {self.last_line()}") from error
        for task in tasks:
            try:
                with open(f"/proc/{self.pid}/task/{task}/schedstat") as spent:
                    total += int(spent.read().split()[0])
            except OSError:  # the thread has just ended
                pass
        return total / 1e9

    def wait_until_runs(self, program):
        """Waits until the process has become `program` (it is started through others that replace themselves)."""
        def runs():
            with open(f"/proc/{self.pid}/comm") as comm:
                return comm.read().strip() == program
        until(runs, f"'{program}' to run")

    def write(self, line):
        self.child.stdin.write((line + "\n").encode())
        self.child.stdin.flush()

    def wait(self, seconds, watch_memory=False):
        """Waits for the end, notes the peak resident size on the way, and returns the exit status."""
        deadline = time.monotonic() + seconds
        while self.child.poll() is None:
            if time.monotonic() > deadline:
                self.kill()
                raise BenchError(f"{self.name()} did not end within {seconds:g} s")
            if watch_memory:
                self._note_memory()
            time.sleep(0.2 if watch_memory else 0.02)
        self.reader.join(2)
        self._forget()
        return self.child.returncode

    def _note_memory(self):
        try:
            with open(f"/proc/{self.pid}/status") as status:
                for line in status:
                    if line.startswith("VmHWM:"):
                        self.peak_rss_kib = max(self.peak_rss_kib, int(line.split()[1]))
        except OSError:
            pass

    def stop(self, sig=signal.SIGINT, seconds=10.0):
        """Asks the process to end and waits for it; returns its exit status."""
        if self.child.poll() is None:
            os.killpg(self.pid, sig)  # the whole group, as a terminal would: trafgen waits for its workers
        return self.wait(seconds)

    def kill(self):
        if self.child.poll() is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.child.wait()
        self._forget()

    def _forget(self):
        if self in _running:
            _running.remove(self)


def run(argv, seconds=30.0, ok=(0,)):
    """Runs to the end and returns the output; BenchError when it fails."""
    proc = Proc(argv)
    status = proc.wait(seconds)
    if status not in ok:
        raise BenchError(f"{proc.name()} ended with {status}: {proc.last_line()}")
    return proc.output()


def kill_all():
    """Ends every process that is still running."""
    for proc in list(_running):
        proc.kill()


def bound(pid, table, port):
    """Whether a socket is bound to `port` in the network namespace of `pid`; `table`: udp or tcp, both families."""
    for name in (table, table + "6"):
        try:
            with open(f"/proc/{pid}/net/{name}") as sockets:
                if any(line.split()[1].endswith(f":{port:04X}") for line in list(sockets)[1:]):
                    return True
        except OSError:
            pass
    return False


class Program:
    """A program that runs until the end of a `with` block; `proc` is it. Started once `text` is in its output."""

    def __init__(self, argv, text, seconds, terminal=False):
        self.proc = Proc(argv, terminal=terminal)
        try:
            self.proc.wait_for(text, seconds)
        except BenchError:
            self.proc.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.kill()
