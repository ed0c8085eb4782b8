"""Where the program is, and how keyword arguments become its options."""

from __future__ import annotations

import numbers
import os
import shutil
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Union

from ._errors import ProgramNotFound

Word = Union[str, int, float, "os.PathLike[str]"]
#: The value of an option: True for one without a value, False or None to leave it out, several to repeat it.
Option = Union[Word, bool, None, Iterable[Word]]

#: Options that are not the user's to give here, and why.
_REFUSED = {
    "json_lines": "the package gives this option itself, and reads the rows from it",
    "print_plan": "it prints a plan and runs nothing; a result has its plan (`result.plan`)",
}


def find_program(program: str | os.PathLike[str] | None = None) -> str:
    """The program that is run: `program`, else `$MPPS_BIN`, else the one in this package, else the first in `PATH`."""
    for named, value in (("program", program), ("MPPS_BIN", os.environ.get("MPPS_BIN"))):
        if value:
            path = os.fspath(value)
            if os.path.isdir(path) or not os.access(path, os.X_OK):
                raise ProgramNotFound(f"{named}={path}: want the program mpps, a file that can be run")
            return os.path.abspath(path)
    inside = Path(__file__).with_name("bin") / "mpps"
    if os.access(inside, os.X_OK):
        return str(inside)
    found = shutil.which("mpps")
    if found is None:
        raise ProgramNotFound("no program mpps: want MPPS_BIN to name it, or its folder in PATH")
    return os.path.abspath(found)


def _word(value: Word) -> str:
    """A value as it is typed. Numbers have no exponent: the program reads none."""
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        # Those of numpy are such, and have another repr.
        return format(Decimal(repr(float(value))), "f")
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def arguments(options: dict[str, Option]) -> list[str]:
    """Options as the program reads them: `busy_poll=True` is `--busy-poll`, `rate="1Mpps"` is `--rate=1Mpps`."""
    words: list[str] = []
    for name, value in options.items():
        if name in _REFUSED:
            raise TypeError(f"{name}: {_REFUSED[name]}")
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (bytes, bytearray)):
            raise TypeError(f"{name}: bytes: want str")
        elif isinstance(value, (str, numbers.Real, os.PathLike)):
            words.append(f"{option}={_word(value)}")
        else:
            words.extend(f"{option}={_word(one)}" for one in value)
    return words
