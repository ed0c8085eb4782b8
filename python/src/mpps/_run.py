"""A run: started, its rows as they come, its result."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from ._child import Child, scratch
from ._errors import MppsError, ProgramKilled, ended, last_line
from ._program import Option, arguments
from ._result import Result
from ._row import Row, StreamRow

#: The stream that this package reads. Under the same name it only gains keys and events.
SCHEMA = "mpps.lines/1"
#: Done: valid and met; not valid; not met.
_DONE = (0, 3, 4)


class Run:
    """A run that goes on. Iterate it for its rows, as they close; `result()` waits for its end.

    As a context manager it stops at the end of the block what still runs, and waits for it. If the block ends in an
    exception (Ctrl-C is one), the program is ended and nothing of it is left.
    """

    def __init__(self, command: Sequence[str], options: dict[str, Option], *, keep_rows: bool = True) -> None:
        self.rows: list[Row] = []
        #: Rows of streams, groups and sizes, if the run has streams.
        self.stream_rows: list[StreamRow] = []
        #: What was to be known at once: a device down, a disk full.
        self.notes: list[str] = []
        #: The first event: version, plan, `started_utc`, `start_monotonic_ns`, the zero of `time_s`.
        self.start: dict[str, Any] = {}
        self._keep_rows = keep_rows
        self._end: dict[str, Any] | None = None
        self._error: dict[str, Any] | None = None
        self._result: Result | None = None
        self._failure: MppsError | None = None
        self._over = False
        self._cleanup = contextlib.ExitStack()
        options = dict(options)
        # Standard error is for what goes wrong. With quiet=False the summary is on it, too.
        options.setdefault("quiet", True)
        self._hdr = options.get("hdr")
        if self._hdr is True:
            options["hdr"] = self._hdr = os.path.join(self._cleanup.enter_context(scratch()), "run.hlog")
        self.command = [*command, *arguments(options), "--json-lines=-"]
        try:
            self._child = Child(self.command)
        except BaseException:
            self._cleanup.close()
            raise
        self._lines = self._child.lines()
        try:
            # Until its ports are open: a run that can't begin fails where it is started.
            if self._next_row(until_start=True) is None and self._over:
                self.result()
        except BaseException:
            self._abandon()
            raise

    @property
    def pid(self) -> int:
        """Of the program."""
        return self._child.process.pid

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if self._failure is not None:
            raise self._failure
        try:
            row = self._next_row()
        except MppsError as failure:
            self._failure = failure
            self._abandon()
            raise
        if row is None:
            # A failure is to be known even by those who only read rows.
            self.result()
            raise StopIteration
        return row

    def stop(self) -> None:
        """Asks the program to end now, with all that it has measured (SIGTERM). `result()` is then soon there.

        May be called by another thread than the one that reads the rows, and more than once.
        """
        # What has sent for as long as it was to waits for the last packets, which a signal would cut off.
        if not self._has_sent():
            self._child.stop()

    def result(self) -> Result:
        """Reads the rows that are left, waits for the end, and gives the result.

        Raises `MppsError` where the run failed, and `ProgramKilled`, with the rows so far, where it was killed.
        """
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            try:
                while self._next_row() is not None:
                    pass
                code = self._child.wait()
                self._result = self._judged(code)
            except MppsError as failure:
                self._failure = failure
                self._abandon()
                raise
            except BaseException:
                self._abandon()
                raise
            self._cleanup.close()
        return self._result

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
        elif self._result is None and self._failure is None:
            self.stop()
            self.result()

    def _has_sent(self) -> bool:
        """Whether the time that the run was given is over."""
        times = (self.start.get("plan") or {}).get("times") or {}
        given = _ns(times.get("duration"))
        return bool(given) and time.monotonic_ns() >= self.start.get("start_monotonic_ns", 0) + given

    def _abandon(self) -> None:
        if self._result is None and self._failure is None:
            # For those who ask all the same, after Ctrl-C.
            self._failure = self._failed(MppsError, "the run was ended before its result was there", None)
        try:
            self._child.end()
        finally:
            self._cleanup.close()

    def _next_row(self, *, until_start: bool = False) -> Row | None:
        """The next row; None at the end of the stream, or when the run has begun. Unknown events are passed over."""
        if self._over:
            return None
        for line in self._lines:
            event = self._parsed(line)
            kind = event.get("event")
            if kind == "row":
                try:
                    row = Row.of(event)
                except (KeyError, TypeError) as error:
                    raise self._failed(MppsError, f"no row of {SCHEMA}: {error}", None) from error
                if self._keep_rows:
                    self.rows.append(row)
                return row
            if kind == "streams" and self._keep_rows:
                try:
                    self.stream_rows.extend(StreamRow.all_of(event))
                except (KeyError, TypeError) as error:
                    raise self._failed(MppsError, f"no rows of streams of {SCHEMA}: {error}", None) from error
            elif kind == "note":
                self.notes.append(str(event.get("text", "")))
            elif kind == "start":
                self._begin(event)
                if until_start:
                    return None
            elif kind == "end":
                self._end = {key: value for key, value in event.items() if key != "event"}
            elif kind == "error":
                self._error = event
        self._over = True
        return None

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise self._failed(MppsError, f"no line of {SCHEMA}: {line[:200].decode(errors='replace')!r}", None)
        return event

    def _begin(self, event: dict[str, Any]) -> None:
        if event.get("schema") != SCHEMA:
            raise self._failed(
                MppsError, f"the program writes {event.get('schema')}, and this package reads {SCHEMA}", None
            )
        self.start = event

    def _failed(self, kind: type[MppsError], line: str, code: int | None, result: Result | None = None) -> MppsError:
        return kind(
            line,
            exit_code=code,
            command=self.command,
            rows=self.rows,
            notes=self.notes,
            stderr=self._child.stderr,
            result=result,
        )

    def _judged(self, code: int) -> Result:
        """The result, by the stream and the exit code."""
        stderr = self._child.stderr
        said = last_line(stderr)
        if self._error is not None:
            raise self._failed(MppsError, str(self._error.get("message") or said), code)
        if self._end is None and code in (1, 2) and said:
            # Refused before there was a stream: another program, or an older one.
            raise self._failed(MppsError, said, code)
        if self._end is None:
            told = f"mpps {ended(code)}, after {len(self.rows)} rows" + (f": {said}" if said else "")
            raise self._failed(ProgramKilled, told, code)
        result = Result(
            self._end,
            exit_code=code,
            rows=self.rows,
            stream_rows=self.stream_rows,
            notes=self.notes,
            command=self.command,
            stderr=stderr,
            hdr_log=self._hdr_log(),
        )
        if code not in _DONE:
            # Measured, but a file could not be written, say.
            raise self._failed(MppsError, said or f"mpps {ended(code)}", code, result)
        return result

    def _hdr_log(self) -> str | None:
        if not isinstance(self._hdr, (str, os.PathLike)) or not os.path.isfile(self._hdr):
            return None
        with open(self._hdr, encoding="utf-8") as file:
            return file.read()


_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}


def _ns(text: object) -> int:
    """A time as a plan has it, `1.5s`; 0: there is none."""
    found = re.fullmatch(r"([0-9.]+)([a-z]+)", text) if isinstance(text, str) else None
    return int(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else 0
