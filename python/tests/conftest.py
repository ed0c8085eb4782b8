"""What tests share: the program, a lab, and programs that are made to misbehave."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mpps

#: Far longer than anything here takes, on a busy host too.
DEADLINE_S = 60.0
#: For runs whose rate is not what is tested: a busy host may keep a generator from any.
ANY_RATE: dict[str, Any] = {"rate": "2kpps", "tolerance": "100%"}


def within(what: str, holds: Callable[[], object]) -> None:
    """Waits until it holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended and been waited for: a zombie still has its entry."""
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def program() -> str:
    try:
        return mpps.find_program()
    except mpps.ProgramNotFound as error:
        pytest.skip(str(error))


@pytest.fixture
def lab(program: str) -> Iterator[mpps.Lab]:
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed: apt-get install iproute2")
    with mpps.lab() as made:
        yield made


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes the program one that does what the text says, in Python: `say(event, key=value)` writes a line."""

    def make(text: str) -> Path:
        path = tmp_path / "mpps"
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, signal, sys, time\n"
            "def say(event, **more):\n"
            "    sys.stdout.write(json.dumps({'event': event, **more}) + '\\n')\n"
            "    sys.stdout.flush()\n"
            f"START = json.loads({json.dumps(START)!r})\n"
            f"END = json.loads({json.dumps(END)!r})\n"
            "def row(at): say('row', time_s=at / 10, interval_s=0.1, start_utc_ns=at, tx_packets=10, rx_packets=9)\n"
            + text
        )
        path.chmod(0o755)
        monkeypatch.setenv("MPPS_BIN", str(path))
        return path

    return make


START: dict[str, Any] = {"schema": "mpps.lines/1", "version": "0.1.0", "command": [], "plan": None}
END: dict[str, Any] = {
    "workload": "sendrecv",
    "valid": True,
    "tx_packets": 10,
    "rx_packets": 9,
    "lost": 1,
    "expectations": [],
}
