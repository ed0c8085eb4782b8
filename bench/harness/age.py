"""Age of the sections in bench/RESULTS.md: each says so if the code that it measures has changed since."""

import re
import subprocess

# All sections run through these.
COMMON = ("crates/engine", "crates/io", "crates/stats", "crates/sys", "crates/wire")
CODE = {
    "engine": (),
    "udp": ("crates/udp", "crates/sockets"),
    "io_uring": ("crates/io-uring", "crates/sockets"),
    "af_packet": ("crates/af-packet",),
    "af_xdp": ("crates/af-xdp", "crates/xsk", "xdp"),
    "xdp": ("crates/xdp", "xdp"),
    "dpdk": ("crates/dpdk", "crates/dpdk-sys"),
    "latency": ("crates/udp", "crates/sockets", "crates/af-packet", "crates/af-xdp", "crates/xsk"),
    "stats": ("crates/report", "crates/udp", "crates/af-packet", "crates/dpdk", "crates/dpdk-sys"),
    "growth": ("crates/udp", "crates/af-packet"),
    "ndr": ("crates/methods", "crates/af-packet", "crates/af-xdp", "crates/xsk", "crates/dpdk"),
    "l2fwd_study": ("crates/methods", "crates/dpdk"),
    "pairs": ("crates/udp", "crates/sockets", "crates/dpdk"),
    "bursts": ("crates/dpdk", "crates/methods"),
    "two_links": ("crates/methods", "crates/af-xdp", "crates/xsk", "crates/af-packet"),
    "long": ("crates/report", "crates/dpdk", "crates/af-packet"),
    "isolation": ("crates/host", "crates/af-packet", "crates/dpdk-sys/peer"),
    "replay": ("crates/replay", "crates/af-packet", "crates/af-xdp", "crates/xsk"),
    "views": ("crates/serve", "crates/watch", "crates/report"),
}
# What changes there changes no measured program.
EXCEPT = (":!**/tests/**", ":!**/*_tests.rs", ":!**/*.md", ":!**/README*",
          # What is made of a run once it has ended, and what is looked at before it or beside it.
          ":!crates/engine/src/verdict/**", ":!crates/engine/src/verdict.rs", ":!crates/engine/src/run/summary.rs",
          ":!crates/io/src/around.rs", ":!crates/sys/src/cgroup.rs", ":!crates/sys/src/text.rs",
          ":!crates/sys/src/signal.rs", ":!crates/sys/src/terminal.rs", ":!crates/sys/src/private.rs",
          ":!crates/sys/src/private/**", ":!crates/dpdk/src/memif.rs", ":!crates/dpdk-sys/shim/memif_control.c")
MARK = re.compile(r"^\*(?:Older than the code that it measures|Age unknown): .*\*\n\n", re.M)
FACTS = re.compile(r"^\*\d{4}-.*?commit (?P<commit>\w+)(?P<changed>\+?);.*\*\n\n", re.M)


def _git(root, *args):
    """Output of git; None where it fails."""
    try:
        done = subprocess.run(("git", "-C", root, *args), capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def verdict(root, name, text):
    """What is to be said of a section's age; '' where it measured the code as it is."""
    facts = FACTS.search(text)
    if not facts:
        return "Age unknown: the section names no commit"
    commit = facts["commit"]
    if _git(root, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return f"Age unknown: the history here has no commit {commit}"
    paths = [*COMMON, *CODE.get(name, ("crates", "xdp"))]
    newer = _git(root, "log", "--format=%h of %cs", f"{commit}..HEAD", "--", *paths, *EXCEPT)
    if newer is None:
        return "Age unknown: git can't list what has changed"
    if newer:
        # The first, so that the page does not change with each commit.
        return f"Older than the code that it measures: changed since, first by {newer.splitlines()[-1]}"
    if facts["changed"]:
        return f"Age unknown: it was measured with changes on top of {commit} that were in no commit"
    return ""


def mark(root, name, text):
    """The section with a line on its age below its facts, and without the one it had."""
    text = MARK.sub("", text)
    said = verdict(root, name, text)
    if not said:
        return text
    facts = FACTS.search(text)
    at = facts.end() if facts else text.find("\n\n") + 2
    return f"{text[:at]}*{said}.*\n\n{text[at:]}"
