"""The program as a process: started, read, and always ended and waited for, however its user ends."""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import queue
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import IO

from ._errors import MppsError, ProgramNotFound
from ._program import environment, unfit

#: How long a program may take to clean up after a signal, s. Then it is killed.
GRACE_S = 10.0
_LOOK_S = 0.02
#: Lines of standard error that are kept.
LINES_KEPT = 1000


#: Tells the program which process it belongs to: it ends when that ends, however that ends.
PARENT = "MPPS_PARENT"


def _this_process() -> str:
    """This process, and the PID namespace in which that is its number."""
    with contextlib.suppress(OSError):
        return f"{os.getpid()}:{os.stat('/proc/self/ns/pid').st_ino}"
    return str(os.getpid())


def spawn(argv: Sequence[str], *, stdout: bool) -> subprocess.Popen[bytes]:
    """Starts the program; standard error is a pipe, and standard output, if it is wanted.

    It stays in the process group: Ctrl-C and Ctrl-Z of a terminal reach it as they reach Python.
    """
    try:
        return subprocess.Popen(
            list(argv),
            env={**environment(argv[0]), PARENT: _this_process()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC):
            why = unfit(argv[0], error.errno) or f"{error.strerror}: want the program mpps"
            raise ProgramNotFound(f"{argv[0]}: {why}", command=argv) from error
        raise MppsError(f"start {argv[0]}: {error.strerror}", command=argv) from error


def end(process: subprocess.Popen[bytes], unread: IO[bytes] | None) -> None:
    """Ends a process that still runs, and waits for it. `unread` is its output that nobody reads any longer.

    One that has lines left to write must not wait for a reader, so they are read and thrown away. Nobody wants its
    result, so a second signal ends its settle time, too.
    """
    try:
        if process.poll() is None:
            process.terminate()
            if unread is not None:
                os.set_blocking(unread.fileno(), False)
            looks = int(GRACE_S / _LOOK_S)
            for look in range(looks):
                if look == looks // 2:
                    process.terminate()
                _discard(unread)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
                    return
    finally:
        # After the time of grace, or Ctrl-C while waiting.
        if process.poll() is None:
            process.kill()
        process.wait()


def _end_of(owner: int, process: subprocess.Popen[bytes]) -> None:
    """Ends a process, if this one has started it: a fork of the interpreter has it from its parent, and may end."""
    if os.getpid() == owner:
        end(process, None)


def _discard(pipe: IO[bytes] | None) -> None:
    with contextlib.suppress(BlockingIOError):
        while pipe is not None and os.read(pipe.fileno(), 1 << 16):
            pass


class Child:
    """A program whose lines of standard output and of standard error are each read by a thread.

    The threads are there so that the program never waits for its user: a pipe holds 64 KiB, and then its writer stands
    still, or gives up the lines that are left.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.process = spawn(argv, stdout=True)
        # A program must not outlive an interpreter that ends while nobody has waited for it.
        self._finalizer = weakref.finalize(self, _end_of, os.getpid(), self.process)
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._stderr: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        self._stderr_lock = threading.Lock()
        self._stdout: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        of_stderr = (self.process.stderr, self._stderr, self._stderr_lock)
        self._readers = [
            threading.Thread(target=_keep, args=of_stderr, daemon=True),
            threading.Thread(target=_feed, args=(self.process.stdout, self._stdout), daemon=True),
        ]
        try:
            for reader in self._readers:
                reader.start()
        except BaseException:
            end(self.process, self.process.stdout)
            raise

    def lines(self) -> Iterator[bytes]:
        """Whole lines of standard output. What a killed program has begun is none."""
        while True:
            line = self._stdout.get()
            if line is None:
                return
            yield line

    @property
    def stderr(self) -> list[str]:
        """The last lines of standard error."""
        with self._stderr_lock:
            return list(self._stderr)

    def stop(self) -> None:
        """Asks the program to end with what it has measured. Once: a second signal would cut off the settle time."""
        with self._stop_lock:
            if not self._stopped and self.process.poll() is None:
                self._stopped = True
                self.process.terminate()

    def wait(self) -> int:
        """Waits for the end, after the last line was read; the exit code."""
        code = self.process.wait()
        self._close()
        return code

    def end(self) -> None:
        """Ends it whatever it does, and lets go of all that belongs to it."""
        try:
            end(self.process, None)
        finally:
            self._close()

    def _close(self) -> None:
        self._finalizer.detach()
        for reader, pipe in zip(self._readers, (self.process.stderr, self.process.stdout)):
            # What it started may hold its pipes open; its last words are there by then.
            reader.join(1.0)
            if pipe is not None and not reader.is_alive():
                pipe.close()


def _keep(pipe: IO[bytes], kept: collections.deque[str], lock: threading.Lock) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in pipe:
            with lock:
                kept.append(line.decode(errors="replace").rstrip("\n"))


def _feed(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    try:
        with contextlib.suppress(OSError, ValueError):
            for line in pipe:
                if line.endswith(b"\n"):
                    lines.put(line)
    finally:
        lines.put(None)


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """A folder for what the program writes. Under sudo it writes as the user who called, whose folder it then is."""
    with tempfile.TemporaryDirectory(prefix="mpps-") as folder:
        user = os.environ.get("SUDO_UID", "")
        if os.geteuid() == 0 and user.isdigit():
            os.chown(folder, int(user), -1)
        yield folder
