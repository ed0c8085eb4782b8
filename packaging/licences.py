#!/usr/bin/env python3
"""Prints the licences of the works of others that are in the program: THIRD-PARTY.txt of the packages.

    packaging/licences.py [--musl] [--dpdk]

Cargo says which crates the program links (Cargo.lock; build scripts and macros are not in it). The texts are those in
the crates' own packages. Each is printed once, under the names of all works that it is for; of a choice that includes
MIT, the MIT text where there is one. A crate without any text is an error.

--musl and --dpdk add the licences of these two, for programs that have parts of them linked in.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
# Crates that are linked in differ by target. scripts/arm64.sh says for which processor it is.
PROCESSOR = os.environ.get("CARGO_BUILD_TARGET", os.uname().machine).split("-")[0]
TARGET = f"{PROCESSOR}-unknown-linux-" + ("musl" if "--musl" in sys.argv[1:] else "gnu")

# Code and data by third parties that is no crate, or that a crate carries under a licence of its own: name, licence,
# where the text is (below the repository, or below the package of the crate that is named).
CARRIED = [
    ("uPlot", "MIT", None, "crates/pages/src/page/uplot/LICENSE"),
    ("DejaVu fonts", "Bitstream Vera and Arev (DejaVu)", "dejavu", "assets/dejavu-fonts-ttf-*/LICENSE"),
]

# Texts that no crate carries: of the standard library as rustup installs it, and of what is linked in by request.
TEXTS = TOP / "packaging" / "licences"
RUST = ("Rust standard library", "MIT OR Apache-2.0", "rust.txt")
LINKED = {
    "--musl": ("musl libc", "MIT", "musl.txt"),
    "--dpdk": ("DPDK (inlined functions, and drivers of the package's archives)", "BSD-3-Clause", "dpdk.txt"),
}

# Crates whose packages have no text, and the file of TEXTS that stands for it.
WITHOUT_TEXT = {"byteorder_slice": "byteorder_slice.txt"}


def metadata():
    """What cargo knows of the packages, without asking the network where everything is there."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    command += ["--filter-platform", TARGET]
    done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit("licences: cargo metadata failed")
    return json.loads(done.stdout)


def linked(data):
    """The packages of other authors that are linked into the program."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    root = next(p["id"] for p in data["packages"] if p["name"] == "mpps" and p["source"] is None)
    seen, left = set(), [root]
    while left:
        package = left.pop()
        # A macro runs in the compiler: neither it nor what it is made of is in the program.
        if package in seen or any("proc-macro" in target["kind"] for target in packages[package]["targets"]):
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    found = [packages[package] for package in seen if packages[package]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The files of a crate that hold its licence."""
    folder = Path(package["manifest_path"]).parent
    named = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
    files = sorted(f for f in folder.iterdir() if f.is_file() and named.match(f.name) and f.suffix != ".rs")
    if not files and package["license_file"]:
        files = [folder / package["license_file"]]
    mit = [f for f in files if re.search(r"mit", f.name, re.IGNORECASE)]
    if mit and re.search(r"\bMIT\b", package["license"] or "") and " AND " not in package["license"]:
        files = mit + [f for f in files if f.name.upper().startswith("NOTICE")]
    if not files and package["name"] in WITHOUT_TEXT:
        files = [TEXTS / WITHOUT_TEXT[package["name"]]]
    return files


def read(path):
    """A text with the ends of its lines as they are here, so that equal ones are seen to be equal."""
    lines = path.read_text(encoding="utf-8", errors="replace").replace("\f", "").splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def main():
    wanted = sys.argv[1:]
    for word in wanted:
        if word not in LINKED:
            sys.exit(f"licences: unknown argument '{word}': must be --musl or --dpdk")
    packages = linked(metadata())
    parts, missing = [], []
    for package in packages:
        files = texts(package)
        if not files:
            missing.append(f"{package['name']} {package['version']} ({package['license']})")
        parts.append((f"{package['name']} {package['version']}", package["license"], files))
    if missing:
        sys.exit("licences: no text in the packages of " + ", ".join(missing))
    folders = {package["name"]: Path(package["manifest_path"]).parent for package in packages}
    for name, licence, crate, where in CARRIED:
        files = sorted((folders[crate] if crate else TOP).glob(where))
        if not files:
            sys.exit(f"licences: the text of {name} is not at {where}")
        parts.append((name, licence, files))
    for name, licence, file in [RUST] + [LINKED[word] for word in wanted]:
        parts.append((name, licence, [TEXTS / file]))

    print("mpps is under MIT or Apache-2.0, at your choice. It is made of these works of others as well:\n")
    for name, licence, _ in parts:
        print(f"  {name}: {licence}")
    users = {}
    for name, _, files in parts:
        for file in files:
            names = users.setdefault(read(file), [])
            if name not in names:
                names.append(name)
    for text, names in sorted(users.items(), key=lambda item: item[1][0].lower()):
        print("\n" + "=" * 100)
        print("\n".join(names))
        print("=" * 100 + "\n")
        print(text, end="")


if __name__ == "__main__":
    main()
