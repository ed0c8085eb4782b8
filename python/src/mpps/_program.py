"""Where the program is, and how keyword arguments become its options."""

from __future__ import annotations

import contextlib
import errno
import numbers
import os
import platform
import re
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


#: The loader of a program is named in its first bytes.
_HEAD_BYTES = 1 << 16


def unfit(program: str, number: int | None) -> str | None:
    """Why a program that is there can't be started, by the error's number; None where that says it itself."""
    if number == errno.ENOEXEC:
        return (
            f"{os.strerror(number)}: for another processor than this one ({platform.machine()}), or not whole: want a "
            "program that was built for it, by MPPS_BIN"
        )
    if number != errno.ENOENT:
        return None
    try:
        with open(program, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    found = re.search(rb"/[\w./-]*/ld-[\w.-]+", head) if head[:4] == b"\x7fELF" else None
    if found is None or os.path.exists(found[0]):
        return None
    return (
        f"built for another C library: its loader {found[0].decode()} is not on this host: want a program that was "
        "built here (make build), or one that is linked statically, by MPPS_BIN"
    )


def _is_of_python(path: str) -> bool:
    """Whether this is the command that a wheel installs: it would look for the program again."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return head[:2] == b"#!" and b"mpps.__main__" in head


#: Scripts that this package has started on the way here: one that leads back, such as a shim of pyenv, is no program.
_PASSED = "MPPS_PASSED"


def _passed() -> list[str]:
    return [path for path in os.environ.get(_PASSED, "").split(os.pathsep) if path]


def environment(program: str) -> dict[str, str]:
    """The variables that a program is started with."""
    with contextlib.suppress(OSError), open(program, "rb") as file:
        if file.read(2) == b"#!":
            return {**os.environ, _PASSED: os.pathsep.join([*_passed(), os.path.abspath(program)])}
    return dict(os.environ)


def _in_path() -> str | None:
    """The first program of the name in PATH that is no command of a wheel, and does not lead to one."""
    for folder in os.get_exec_path():
        found = shutil.which("mpps", path=folder)
        if found is not None and not _is_of_python(found) and os.path.abspath(found) not in _passed():
            return found
    return None


def find_program(program: str | os.PathLike[str] | None = None) -> str:
    """The program that is run: `program`, else `$MPPS_BIN`, else the one in this package, else the first in `PATH`."""
    for named, value in (("program", program), ("MPPS_BIN", os.environ.get("MPPS_BIN"))):
        if value:
            path = os.fspath(value)
            if os.path.isdir(path) or not os.access(path, os.X_OK):
                raise ProgramNotFound(f"{named}={path}: want the program mpps, a file that can be run")
            if _is_of_python(path) or os.path.abspath(path) in _passed():
                raise ProgramNotFound(f"{named}={path}: the command of this package, which looks for the program")
            return os.path.abspath(path)
    inside = Path(__file__).with_name("bin") / "mpps"
    if os.access(inside, os.X_OK):
        return str(inside)
    found = _in_path()
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
