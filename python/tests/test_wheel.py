"""A wheel that carries the program."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]


def built(program: str, folder: Path) -> Path:
    """A wheel, in its folder."""
    pytest.importorskip("hatchling")
    pytest.importorskip("pip")
    environment = {**os.environ, "MPPS_WHEEL_PROGRAM": program}
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    done = subprocess.run([*pip, str(PACKAGE)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_a_wheel_that_carries_the_program_is_of_this_platform_and_runs_it(program: str, tmp_path: Path) -> None:
    wheel = built(program, tmp_path / "wheels")
    assert "-py3-none-linux_" in wheel.name
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "site"), str(wheel)]
    subprocess.run(pip, check=True)
    script = "import mpps; print(mpps.find_program(), mpps.run('send', 'null:', duration='100ms').tx_packets > 0)"
    environment = {key: value for key, value in os.environ.items() if key != "MPPS_BIN"}
    environment.update(PYTHONPATH=str(tmp_path / "site"), PATH=os.devnull)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(tmp_path / "site" / "mpps" / "bin" / "mpps"), "True"], done.stderr


def test_a_wheel_without_the_program_is_for_every_platform(tmp_path: Path) -> None:
    wheel = built("", tmp_path)
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as files:
        assert not [name for name in files.namelist() if "/bin/" in name]
        assert "mpps/py.typed" in files.namelist()


def test_the_version_is_that_of_the_program(program: str) -> None:
    import importlib.metadata

    import mpps

    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert told.split()[1] == importlib.metadata.version("mpps") == mpps.__version__


def test_an_installed_wheel_brings_the_command_and_never_starts_itself(program: str, tmp_path: Path) -> None:
    wheel = built(program, tmp_path / "wheels")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(pip, check=True)
    environment = {key: value for key, value in os.environ.items() if key != "MPPS_BIN"}
    environment.update(PYTHONPATH=str(site))
    want = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    for words in ([sys.executable, "-m", "mpps"], [str(site / "bin" / "mpps")]):
        done = subprocess.run([*words, "--version"], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, want), done.stderr
        wrong = [*words, "sendrecv", "loop:", "--rate", "x"]
        done = subprocess.run(wrong, env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and "--rate" in done.stderr
    # Without the program inside, and only this command in PATH: it does not find itself.
    (site / "mpps" / "bin" / "mpps").unlink()
    environment["PATH"] = str(site / "bin")
    done = subprocess.run([str(site / "bin" / "mpps"), "--version"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "no program mpps" in done.stderr, done.stderr


def test_a_script_in_path_that_leads_back_here_is_passed_by(program: str, tmp_path: Path) -> None:
    shims, real = tmp_path / "shims", tmp_path / "real"
    for folder in (shims, real):
        folder.mkdir()
    shim = shims / "mpps"
    source = Path(__file__).parents[1] / "src"
    # As pyenv has it: a script without a word of what it starts.
    shim.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {sys.executable} -m mpps "$@"\n')
    shim.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "MPPS_BIN"}
    environment["PATH"] = os.pathsep.join([str(shims), str(real), "/usr/bin", "/bin"])

    def version(**more: str) -> subprocess.CompletedProcess[str]:
        words = [str(shim), "--version"]
        return subprocess.run(words, env={**environment, **more}, capture_output=True, text=True, timeout=60)

    done = version()
    assert done.returncode == 1 and "no program mpps" in done.stderr, done.stderr
    done = version(MPPS_BIN=str(shim))
    assert done.returncode == 1 and "looks for the program" in done.stderr, done.stderr
    (real / "mpps").symlink_to(program)
    done = version()
    assert done.returncode == 0 and done.stdout.startswith("mpps "), done.stderr


def test_a_program_of_another_c_library_is_named(tmp_path: Path) -> None:
    import mpps

    some = Path(sys.executable).resolve().read_bytes()
    here, elsewhere = b"/lib64/ld-linux-x86-64.so.2", b"/lib64/ld-musl-none-64.so.2"
    if here not in some[: 1 << 16]:
        pytest.skip("a Python of glibc on x86-64")
    other = tmp_path / "mpps"
    other.write_bytes(some.replace(here, elsewhere, 1))
    other.chmod(0o755)
    with pytest.raises(mpps.ProgramNotFound, match="built for another C library: its loader /lib64/ld-musl"):
        mpps.run("sendrecv", "loop:", program=other)
