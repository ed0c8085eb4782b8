"""The notebook runs from its first cell to its last, in a lab, and draws its figures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "article.ipynb"
FIGURES = 3


def figures(notebook: object) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]  # type: ignore[attr-defined]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_the_notebook_is_kept_with_its_figures() -> None:
    nbformat = pytest.importorskip("nbformat")
    assert figures(nbformat.read(NOTEBOOK, as_version=4)) == FIGURES


# What Jupyter's own packages warn about is not ours.
@pytest.mark.filterwarnings("default")
def test_the_notebook_runs_and_draws_its_figures(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("ipykernel", "matplotlib", "pandas", "hdrh"):
        pytest.importorskip(package)
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    if os.geteuid() != 0:
        pytest.skip("labs need root")
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed: apt-get install iproute2")
    monkeypatch.setenv("MPPS_BIN", program)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOK.parent)}}
    )
    client.execute()
    assert figures(notebook) == FIGURES
