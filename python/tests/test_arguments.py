"""Keyword arguments and the program that they are for."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import mpps
from mpps._program import arguments


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": "1Mpps"}, ["--rate=1Mpps"]),
        ({"busy_poll": True, "plain": False, "seed": None}, ["--busy-poll"]),
        ({"expect": ["loss<1%", "p99<1ms"]}, ["--expect=loss<1%", "--expect=p99<1ms"]),
        ({"lanes": 2, "nice": -5}, ["--lanes=2", "--nice=-5"]),
        ({"csv": Path("a b.csv")}, ["--csv=a b.csv"]),
        ({"resolution": 0.00001, "at": 0.5}, ["--resolution=0.00001", "--at=0.5"]),
        ({"flow": "ingress pattern eth / end"}, ["--flow=ingress pattern eth / end"]),
    ],
)
def test_keyword_arguments_become_long_options(options: dict[str, mpps.Option], words: list[str]) -> None:
    assert arguments(options) == words


def test_numbers_of_other_libraries_are_numbers_and_bytes_are_refused() -> None:
    half: Any = Fraction(1, 2)
    assert arguments({"at": half}) == ["--at=0.5"]
    with pytest.raises(TypeError, match="csv: bytes"):
        arguments({"csv": b"a.csv"})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["json_lines", "print_plan"])
def test_an_option_that_is_not_the_users_to_give_is_refused_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        mpps.run("sendrecv", "loop:", **{name: "x"})  # type: ignore[arg-type]


def test_a_command_is_quoted_as_a_shell_would_read_it() -> None:
    assert mpps.command("send", "null:", eal="--no-huge -m 512") == "send null: '--eal=--no-huge -m 512'"


def test_the_program_is_that_of_the_argument_then_of_mpps_bin_then_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("argument", "variable", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mpps").write_text("#!/bin/sh\n")
        (tmp_path / folder / "mpps").chmod(0o755)
    inside = Path(mpps.__file__).with_name("bin") / "mpps"
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("MPPS_BIN", str(tmp_path / "variable" / "mpps"))
    assert mpps.find_program(tmp_path / "argument" / "mpps") == str(tmp_path / "argument" / "mpps")
    assert mpps.find_program() == str(tmp_path / "variable" / "mpps")
    monkeypatch.delenv("MPPS_BIN")
    assert mpps.find_program() == (str(inside) if inside.exists() else str(tmp_path / "path" / "mpps"))


@pytest.mark.parametrize("name", ["missing", "folder", "text"])
def test_mpps_bin_that_is_no_program_is_named_and_nothing_else_is_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no program")
    monkeypatch.setenv("MPPS_BIN", str(tmp_path / name))
    with pytest.raises(mpps.ProgramNotFound, match=f"MPPS_BIN={tmp_path / name}: want"):
        mpps.run("sendrecv", "loop:")


def test_no_program_at_all_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    if (Path(mpps.__file__).with_name("bin") / "mpps").exists():
        pytest.skip("this package carries the program")
    monkeypatch.delenv("MPPS_BIN", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(mpps.ProgramNotFound, match="want MPPS_BIN to name it, or its folder in PATH"):
        mpps.ndr("null:")


def test_a_program_for_another_machine_is_told_and_not_a_traceback_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpps").write_bytes(b"\x7fELF\x02\x01\x01")
    (tmp_path / "mpps").chmod(0o755)
    monkeypatch.setenv("MPPS_BIN", str(tmp_path / "mpps"))
    with pytest.raises(mpps.ProgramNotFound, match="Exec format error"):
        mpps.run("sendrecv", "loop:")
