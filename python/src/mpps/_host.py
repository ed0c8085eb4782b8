"""Where the program is run: on this host, or on a host of a lab."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import Union

from ._child import scratch
from ._errors import MppsError, last_line
from ._method import MethodResult, Operand, Progress, operands, run_method
from ._program import Option, arguments, find_program
from ._result import Result
from ._run import Run

PathLike = Union[str, "os.PathLike[str]"]


class Host:
    """A host that the program is run on. The functions of the package are those of this host."""

    def __init__(self, prefix: Sequence[str] = (), *, address: str = "", program: PathLike | None = None) -> None:
        self._prefix = list(prefix)
        self._program = program
        #: Of a lab's host: its IPv4 address.
        self.address = address

    def _command(self, program: PathLike | None, words: Sequence[str]) -> list[str]:
        return [find_program(program or self._program), *words]

    def start(
        self, workload: str, *ports: str, program: PathLike | None = None, keep_rows: bool = True, **options: Option
    ) -> Run:
        """Starts a run, and returns when it has begun: a reflector is then ready.

        `workload` is the command (`sendrecv`, `send`, `drop`, `reflect`, `forward`, `capture`, `run`), `ports` what
        stands behind it, `options` its long options: `rate="1Mpps"`, `busy_poll=True`, `expect=["loss<1%", "p99<1ms"]`.
        `hdr=True` keeps histograms. `keep_rows=False` keeps no rows, for runs of days.
        """
        command = [*self._prefix, *self._command(program, [workload, *ports])]
        return Run(command, options, keep_rows=keep_rows)

    def run(
        self, workload: str, *ports: str, program: PathLike | None = None, keep_rows: bool = True, **options: Option
    ) -> Result:
        """Does a run to its end; arguments as of `start`. What runs until it is stopped needs a `duration`."""
        with self.start(workload, *ports, program=program, keep_rows=keep_rows, **options) as run:
            return run.result()

    def _method(
        self,
        words: Sequence[str],
        options: dict[str, Option],
        out: PathLike | None,
        progress: Progress | None,
        program: PathLike | None,
    ) -> MethodResult:
        return run_method(self._command(program, words), options, out, progress, prefix=self._prefix)

    def ndr(
        self,
        *ports: str,
        out: PathLike | None = None,
        progress: Progress | None = None,
        program: PathLike | None = None,
        **options: Option,
    ) -> MethodResult:
        """Searches for the highest rates without loss, and with little (docs/methods/ndr.md).

        `out` is the folder for its files, if they are to stay. `progress` is called with each line that it tells.
        """
        return self._method(["ndr", *ports], options, out, progress, program)

    def rfc2544(
        self,
        test: str,
        *ports: str,
        out: PathLike | None = None,
        progress: Progress | None = None,
        program: PathLike | None = None,
        **options: Option,
    ) -> MethodResult:
        """Runs a test of RFC 2544 (`throughput`, `latency`, `loss`, …, `all`; docs/methods/rfc2544.md)."""
        return self._method(["rfc2544", test, *ports], options, out, progress, program)

    def overload(
        self,
        *ports: str,
        out: PathLike | None = None,
        progress: Progress | None = None,
        program: PathLike | None = None,
        **options: Option,
    ) -> MethodResult:
        """Shows what a device does with up to twice its highest rate (docs/methods/overload.md)."""
        return self._method(["overload", *ports], options, out, progress, program)

    def compare(
        self,
        *runs: Operand,
        out: PathLike | None = None,
        progress: Progress | None = None,
        program: PathLike | None = None,
        **options: Option,
    ) -> MethodResult:
        """Says which of several runs is better, and by how much (docs/methods/compare.md).

        Each is a run as it is typed (`mpps.command(…)` writes it), a file or folder, or one or several `Result`s.
        """
        with scratch() as folder:
            return self._method(["compare", *operands(runs, folder)], options, out, progress, program)

    def exec(self, *argv: str, check: bool = True, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Runs another program on this host, to its end, and gives its output."""
        command = [*self._prefix, *argv]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise MppsError(f"start {command[0]}: {error.strerror}", command=command) from error
        except subprocess.TimeoutExpired as error:
            raise MppsError(f"{argv[0]}: not over after {timeout} s", command=command) from error
        if check and done.returncode != 0:
            said = done.stderr.splitlines()
            line = last_line(said) or f"{argv[0]}: exit code {done.returncode}"
            raise MppsError(line, exit_code=done.returncode, command=command, stderr=said)
        return done


def command(workload: str, *ports: str, **options: Option) -> str:
    """A run in one word, as `compare` takes it and as it is typed behind `mpps`."""
    return shlex.join([workload, *ports, *arguments(options)])


class Lab:
    """Two hosts, `a` and `b`, joined by a link: their interfaces are both `eth1`."""

    def __init__(self, name: str, program: str) -> None:
        self.name = name
        of_lab = [program, "lab", "--name", name]
        self.a = Host([*of_lab, "exec", "a", "--"], address="10.99.0.1", program=program)
        self.b = Host([*of_lab, "exec", "b", "--"], address="10.99.0.2", program=program)


_numbers = itertools.count(1)


@contextlib.contextmanager
def lab(name: str | None = None, *, program: PathLike | None = None, **options: Option) -> Iterator[Lab]:
    """Makes a lab (root), and removes it at the end of the block, with what still runs in it (`mpps lab up`, `down`).

    Without a name it has one of its own. Options are those of `lab up`: `queues=4`, `mtu=9000`.
    """
    found = find_program(program)
    name = name or f"mpps-py-{os.getpid()}-{next(_numbers)}"
    local = Host()
    of_lab = [found, "lab", "--name", name]
    there = local.exec(*of_lab, "status", check=False)
    if not there.stdout.startswith(f"lab {name}: down"):
        # Standard error may have notes beside the state, such as one that the program waits for another's lock.
        known = there.stdout.startswith(f"lab {name}:")
        said = "" if known else last_line(there.stderr.splitlines())
        said = said or f"lab {name} is there already: want another name, or 'mpps lab --name {name} down' first"
        raise MppsError(said, exit_code=there.returncode, command=of_lab)
    try:
        local.exec(*of_lab, "up", *arguments(options))
        yield Lab(name, found)
    except BaseException:
        # What is not there is no error of it, and what comes first is what is to be known.
        local.exec(*of_lab, "down", check=False)
        raise
    local.exec(*of_lab, "down")
