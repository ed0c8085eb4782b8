"""The program as a process: started, read, and always ended and waited for, however its user ends."""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import IO

from ._errors import ProgramNotFound

#: How long a program may take to clean up after a signal, s. Then it is killed.
GRACE_S = 10.0
_LOOK_S = 0.02
#: Lines of standard error that are kept.
LINES_KEPT = 1000


def spawn(argv: Sequence[str], *, stdout: bool) -> subprocess.Popen[bytes]:
    """Starts the program; standard error is a pipe, and standard output, if it is wanted.

    It stays in the process group: Ctrl-C and Ctrl-Z of a terminal reach it as they reach Python.
    """
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise ProgramNotFound(f"{argv[0]}: {error.strerror}: want the program mpps", command=argv) from error


def end(process: subprocess.Popen[bytes], unread: IO[bytes] | None) -> None:
    """Ends a process that still runs, and waits for it. `unread` is its output that nobody reads any longer.

    One that has rows left to write must not wait for a reader, so they are read and thrown away.
    """
    try:
        if process.poll() is None:
            process.terminate()
            if unread is not None:
                os.set_blocking(unread.fileno(), False)
            for _ in range(int(GRACE_S / _LOOK_S)):
                _discard(unread)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
                    return
    finally:
        # After the time of grace, or Ctrl-C while waiting.
        if process.poll() is None:
            process.kill()
        process.wait()


def _discard(pipe: IO[bytes] | None) -> None:
    with contextlib.suppress(BlockingIOError):
        while pipe is not None and os.read(pipe.fileno(), 1 << 16):
            pass


class Child:
    """A program whose standard output is read line by line, while a thread reads its standard error.

    The thread is there so that neither waits for the other: a pipe holds 64 KiB, and then its writer stands still.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.process = spawn(argv, stdout=True)
        self._stderr: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        self._reader = threading.Thread(target=_keep, args=(self.process.stderr, self._stderr), daemon=True)
        self._reader.start()
        # A program must not outlive an interpreter that ends while nobody has waited for it.
        self._finalizer = weakref.finalize(self, end, self.process, self.process.stdout)

    def lines(self) -> Iterator[bytes]:
        """Whole lines of standard output. What a killed program has begun is none."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                yield line

    @property
    def stderr(self) -> list[str]:
        """The last lines of standard error."""
        return list(self._stderr)

    def stop(self) -> None:
        """Asks the program to end with what it has measured."""
        if self.process.poll() is None:
            self.process.terminate()

    def wait(self) -> int:
        """Waits for the end, after the last line was read; the exit code."""
        code = self.process.wait()
        self._close()
        return code

    def end(self) -> None:
        """Ends it whatever it does, and lets go of all that belongs to it."""
        try:
            end(self.process, self.process.stdout)
        finally:
            self._close()

    def _close(self) -> None:
        # What it started may hold standard error open; its last words are there by then.
        self._reader.join(1.0)
        self._finalizer.detach()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self.process.stderr is not None and not self._reader.is_alive():
            self.process.stderr.close()


def _keep(pipe: IO[bytes], kept: collections.deque[str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in pipe:
            kept.append(line.decode(errors="replace").rstrip("\n"))


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """A folder for what the program writes. Under sudo it writes as the user who called, whose folder it then is."""
    with tempfile.TemporaryDirectory(prefix="mpps-") as folder:
        user = os.environ.get("SUDO_UID", "")
        if os.geteuid() == 0 and user.isdigit():
            os.chown(folder, int(user), -1)
        yield folder
