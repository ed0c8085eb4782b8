"""`mpps`, and `python -m mpps`: the program itself, in the place of Python."""

from __future__ import annotations

import os
import sys

from ._errors import MppsError
from ._program import environment, find_program, unfit


def main() -> int:
    try:
        program = find_program()
    except MppsError as error:
        print(f"mpps: {error}", file=sys.stderr)
        return 1
    try:
        os.execve(program, ["mpps", *sys.argv[1:]], environment(program))
    except OSError as error:
        print(f"mpps: {program}: {unfit(program, error.errno) or error.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
