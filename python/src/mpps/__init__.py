"""Runs mpps, which generates, reflects and measures packets, and gives its results to Python.

    result = mpps.run("sendrecv", "udp:10.99.0.1", dest="10.99.0.2:9000", rate="100kpps", duration="5s")
    print(result.valid, result.loss_ratio, result.latency_ns.p99)

Keyword arguments are the program's long options. docs/use/python.md has examples, docs/measuring.md says what the
numbers mean.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from ._errors import MissingExtra, MppsError, ProgramKilled, ProgramNotFound
from ._host import Host, Lab, command, lab
from ._keys import Lane, Spread
from ._method import MethodResult, Table
from ._program import Option, find_program
from ._result import Expectation, Remark, Result, Stream, Summary
from ._row import Row, StreamRow
from ._run import Run

try:
    __version__ = version("mpps")
except PackageNotFoundError:  # Not installed: a folder of sources in PYTHONPATH.
    __version__ = "0+unknown"

_here = Host()
run = _here.run
start = _here.start
ndr = _here.ndr
rfc2544 = _here.rfc2544
overload = _here.overload
compare = _here.compare

__all__ = [
    "__version__",
    "Expectation",
    "Host",
    "Lab",
    "Lane",
    "MethodResult",
    "MissingExtra",
    "MppsError",
    "Option",
    "ProgramKilled",
    "ProgramNotFound",
    "Remark",
    "Result",
    "Row",
    "Run",
    "Spread",
    "Stream",
    "StreamRow",
    "Summary",
    "Table",
    "command",
    "compare",
    "find_program",
    "lab",
    "ndr",
    "overload",
    "rfc2544",
    "run",
    "start",
]
