"""Builds the wheel: pure Python, or with the program in it.

`MPPS_WHEEL_PROGRAM=target/release/mpps pip wheel ./python` puts that program into the wheel, which is then one for this
platform only; `make wheel` does both. Without the variable the wheel is pure Python, and finds its program at run time.
"""

import os
import re
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAM = "MPPS_WHEEL_PROGRAM"


def version() -> str:
    """The program's version, from Cargo.toml in a clone, from PKG-INFO where a source distribution is built from."""
    here = Path.cwd()
    for name, pattern in (("../Cargo.toml", r'^version = "(.+)"'), ("PKG-INFO", r"^Version: (.+)")):
        path = here / name
        found = path.is_file() and re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1]
    raise FileNotFoundError(f"{here}: neither ../Cargo.toml nor PKG-INFO tells the version")


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program = os.environ.get(PROGRAM)
        if not program or self.target_name != "wheel" or version != "standard":
            return
        path = Path(program).resolve()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise FileNotFoundError(f"{PROGRAM}={program}: want the program mpps, such as target/release/mpps")
        # Any Python 3 of this platform: nothing is linked with Python.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["force_include"][str(path)] = "mpps/bin/mpps"
