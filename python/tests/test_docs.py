"""The programs that the documentation shows do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = ("docs/use/python.md", "README.md", "python/README.md")


def programs() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        path = REPOSITORY / page
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for at, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
            found.append((f"{page}-{at}", block))
    return found


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in programs()])
def test_every_program_of_the_pages_runs(text: str, program: str, tmp_path: Path) -> None:
    if "mpps.lab(" in text and os.geteuid() != 0:
        pytest.skip("labs need root")
    if "import mpps, pandas" in text:
        pytest.importorskip("pandas")
    environment = {**os.environ, "MPPS_BIN": program}
    # Nothing but the package, and warnings are errors: what a page shows leaves nothing open.
    command = [sys.executable, "-W", "error", "-c", text]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_first_program_has_ten_lines_at_the_most() -> None:
    assert 0 < len(programs()[0][1].splitlines()) <= 10
