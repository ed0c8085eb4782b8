"""What goes wrong: failures are exceptions. A run that is not valid, or reaches less than expected, is a result."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._result import Result
    from ._row import Row


class MppsError(Exception):
    """The program failed, or did not begin. Its text is the program's own line.

    `exit_code` is 1 (failed) or 2 (wrong arguments), `-N` where signal N ended the program, None where it never ran.
    `rows`, `notes` and `stderr` (lines) are what was read before, `result` the run's result where it had one.
    """

    def __init__(
        self,
        line: str,
        *,
        exit_code: int | None = None,
        command: Sequence[str] = (),
        rows: Sequence[Row] = (),
        notes: Sequence[str] = (),
        stderr: Sequence[str] = (),
        result: Result | None = None,
    ) -> None:
        super().__init__(line)
        self.line = line
        self.exit_code = exit_code
        self.command = list(command)
        self.rows = list(rows)
        self.notes = list(notes)
        self.stderr = list(stderr)
        self.result = result


class ProgramNotFound(MppsError):
    """There is no program to run."""


class ProgramKilled(MppsError):
    """The program ended without its last words: a signal, or a defect. `rows` has what it had measured."""


class MissingExtra(ImportError):
    """An optional package is not installed. The text has the line that installs it."""


def last_line(stderr: Sequence[str]) -> str:
    """The last line of standard error that says something, without the program's name in front."""
    for line in reversed(stderr):
        if line.strip():
            return line.strip()[len("mpps: ") :] if line.startswith("mpps: ") else line.strip()
    return ""


def ended(code: int) -> str:
    """How a program ended, in words."""
    if code >= 0:
        return f"ended with exit code {code} and without a result"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
