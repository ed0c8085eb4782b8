"""Methods: tests of many trials (`ndr`, `rfc2544`, `overload`) and comparisons. Each gives a `result.json`."""

from __future__ import annotations

import collections
import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from . import _extras
from ._child import LINES_KEPT, end, scratch, spawn
from ._errors import MppsError, ProgramKilled, ended, last_line
from ._program import Option, arguments
from ._result import Result

if TYPE_CHECKING:
    import pandas
    import polars

#: Called with each line of progress.
Progress = Callable[[str], object]
#: A run as it is typed, a file or folder, or results: what `compare` takes.
Operand = Union[str, "os.PathLike[str]", Result, Sequence[Result]]


@dataclass(frozen=True)
class Table:
    """A table of a result. Numbers are in base units: packets/s, bits/s, bytes, ns, s, parts of one."""

    name: str
    caption: str
    #: The names of the columns, each with its unit at the end.
    columns: list[str]
    rows: list[list[Any]]

    def to_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row)) for row in self.rows]

    def _by_column(self) -> dict[str, list[Any]]:
        return {name: [row[at] for row in self.rows] for at, name in enumerate(self.columns)}

    def to_pandas(self) -> pandas.DataFrame:
        return _extras.pandas_frame(self._by_column(), {})

    def to_polars(self) -> polars.DataFrame:
        return _extras.polars_frame(self._by_column(), {})


class MethodResult:
    """The `result.json` of a method, `data`, and ways into it. docs/test.schema.json has its form."""

    def __init__(
        self,
        data: dict[str, Any],
        *,
        exit_code: int = 0,
        out: str | None = None,
        command: Sequence[str] = (),
        stderr: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.exit_code = exit_code
        #: The folder with all files, where one was asked for.
        self.out = out
        self.command = list(command)
        self.stderr = list(stderr)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MethodResult:
        """From `result.json`, or the folder that holds it."""
        folder = os.fspath(path) if os.path.isdir(path) else os.path.dirname(os.fspath(path))
        file = os.path.join(path, "result.json") if os.path.isdir(path) else path
        with open(file, encoding="utf-8") as text:
            return cls(json.load(text), out=folder or ".")

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    @property
    def test(self) -> str:
        """`ndr`, `rfc2544`, `overload` or `compare`."""
        return str(self.data["test"])

    @property
    def complete(self) -> bool:
        """Whether all was done that was asked for, and is valid."""
        return bool(self.data["complete"])

    @property
    def incomplete(self) -> str | None:
        """Why not."""
        return self.data.get("incomplete")

    @property
    def valid(self) -> bool:
        """As `complete`: the name that runs have for it."""
        return self.complete

    @property
    def verdict(self) -> list[str]:
        """The answer, a sentence each."""
        return list(self.data.get("verdict") or [])

    @property
    def results(self) -> list[dict[str, Any]]:
        """What was found: of `ndr` an object per goal, of `rfc2544` per frame size, of `compare` per comparison."""
        return list(self.data.get("results") or [])

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Every trial, those that this host disturbed too (`outcome`)."""
        return list(self.data.get("trials") or [])

    @property
    def tables(self) -> dict[str, Table]:
        """What was found, for people. Table `trials` holds every trial."""
        return {
            one["name"]: Table(one["name"], one["caption"], [column["key"] for column in one["columns"]], one["rows"])
            for one in self.data.get("tables") or []
        }

    def table(self, name: str) -> Table:
        tables = self.tables
        if name not in tables:
            raise KeyError(f"{self.test} has no table {name!r}: want one of {', '.join(tables)}")
        return tables[name]

    def __repr__(self) -> str:
        state = "complete" if self.complete else f"not complete: {self.incomplete}"
        return f"<{self.test}, {state}: {'; '.join(self.verdict)}>"


def run_method(
    command: Sequence[str],
    options: Mapping[str, Option],
    out: str | os.PathLike[str] | None,
    progress: Progress | None,
    *,
    prefix: Sequence[str] = (),
) -> MethodResult:
    """Runs a method to its end, by `prefix` on another host; its files stay in `out`, if that is given."""
    with contextlib.ExitStack() as stack:
        folder = os.path.join(stack.enter_context(scratch()), "out") if out is None else os.fspath(out)
        # `--` is for operands that begin with a dash; options come before it.
        at = command.index("--") if "--" in command[1:] else len(command)
        argv = [*prefix, *command[:at], *arguments(dict(options)), f"--out={folder}", *command[at:]]
        process = spawn(argv, stdout=False)
        stderr: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        assert process.stderr is not None
        with process.stderr as lines:
            try:
                for line in lines:
                    text = line.decode(errors="replace").rstrip("\n")
                    stderr.append(text)
                    if progress is not None:
                        progress(text)
                code = process.wait()
            finally:
                end(process, lines)
        said = list(stderr)
        failure: Any = {"exit_code": code, "command": argv, "stderr": said}
        if code not in (0, 3):
            kind = MppsError if code in (1, 2) else ProgramKilled
            raise kind(last_line(said) if code > 0 else f"mpps {ended(code)}", **failure)
        try:
            with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
                data = json.load(file)
        except FileNotFoundError:
            # Ended before anything was found.
            raise MppsError(last_line(said) or f"mpps {ended(code)}", **failure) from None
        return MethodResult(data, exit_code=code, out=None if out is None else folder, command=argv, stderr=said)


def operands(given: Sequence[Operand], folder: str) -> list[str]:
    """What `compare` is to be given: results are written to files of the folder first."""
    words = []
    for at, one in enumerate(given):
        if isinstance(one, (str, os.PathLike)):
            words.append(os.fspath(one))
            continue
        files = []
        for turn, result in enumerate([one] if isinstance(one, Result) else one):
            path = os.path.join(folder, f"{at}-{turn}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(result.data, file)
            files.append(path)
        words.append(",".join(files))
    return words
