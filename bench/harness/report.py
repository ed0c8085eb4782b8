"""bench/RESULTS.md: machine facts, then a part a section. A section run alone replaces its own part only."""

import os
import re
import sys
import time

from harness.stat import percent, rate, times

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ORDER = ("engine", "udp", "io_uring", "af_packet", "af_xdp", "xdp", "dpdk", "latency", "stats", "growth", "ndr",
         "l2fwd_study", "pairs", "bursts", "two_links", "long", "views", "isolation", "streams", "replay")
# And what scripts/two-hosts.sh puts into the file.
PARTS = ORDER + ("two_hosts",)


# Rates of 0 as tables have them.
NOTHING = (rate(0), "0.0 pps")


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Section:
    """The Markdown of one section, collected as it runs."""

    def __init__(self, name, title, facts, folder):
        self.name = name
        self.folder = folder
        self.lines = [f"## {title}", "", f"*{facts}*", ""]
        self.commands = {}
        self.targets = []
        self.failures = []

    def text(self, text):
        self.lines += [text, ""]

    def heading(self, text):
        self.lines += [f"### {text}", ""]
        say(f"{self.name}: {text}")

    def fail(self, reason):
        """A result that is none: the section says so at its top, and the benchmark ends with 1."""
        if reason not in self.failures:
            self.failures.append(reason)
            say(f"{self.name} FAILED: {reason}")

    def table(self, header, rows):
        """The first column is text, the rest are numbers. A rate of 0 is no result, but that of what was dropped."""
        for row in rows:
            for name, cell in zip(header[1:], row[1:]):
                if "drop" not in name and str(cell) in NOTHING:
                    self.fail(f"{row[0]}: {name} is 0")
        self.lines.append("| " + " | ".join(header) + " |")
        self.lines.append("|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|")
        self.lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self.lines.append("")

    def programs(self, samples, columns=(("rate", "rate", rate),)):
        """One row a program: the median of each column's metric, then the spread of the first one."""
        header = ["program"] + [name for _, name, _ in columns] + ["spread (max/min)", "runs"]
        rows = []
        first = columns[0][0]
        for label in samples.rounds:
            if not samples.values(label, first):
                rows.append([f"{label} (not measured: {samples.failures.get(label, 'not run')})"]
                            + ["–"] * (len(columns) + 1) + ["0"])
                continue
            cells = [show(samples.median(label, metric)) for metric, _, show in columns]
            rows.append([label] + cells + [times(samples.spread(label, first)), len(samples.values(label, first))])
        self.table(header, rows)

    def ratios(self, samples, pairs, metric="rate"):
        """A table of ratios of medians with the spread over paired rounds."""
        rows = []
        for over, under in pairs:
            found = samples.ratio(over, under, metric)
            rows.append([f"{over} / {under}"]
                        + ([times(found[0]), f"{found[1]:.3g} to {found[2]:.3g}"] if found else ["–", "–"]))
        self.table(["ratio", "of medians", "paired rounds"], rows)

    def target(self, what, bound, found, missing="", most=False):
        """`found`: (value, low, high) or None with the reason in `missing`; `most`: smaller is better."""
        if found is None:
            verdict = f"not measured ({missing})"
        else:
            value, low, high = found
            met = "met" if (value <= bound if most else value >= bound) else "not met"
            verdict = f"**{met}** (measured {value:.3g}; rounds {low:.3g} to {high:.3g})"
        self.verdict(f"target {'≤' if most else '≥'} {bound:g} {what}: {verdict}")

    def verdict(self, line):
        self.targets.append(line)
        self.lines += [f"- {line}", ""]
        say(line.replace("**", ""))

    def command(self, label, argv):
        """Notes the exact command of a program, once; paths begin in the benchmark's or the project's folder."""
        line = " ".join(_quote(str(a)) for a in argv)
        self.commands.setdefault(label, line.replace(self.folder + "/", "").replace(ROOT + "/", ""))

    def markdown(self):
        out = self.lines[:4]
        if self.failures:
            out += [f"**Failed**: {'; '.join(self.failures)}. The figures of these rows are no results.", ""]
        out += self.lines[4:]
        if self.commands:
            out += ["<details><summary>Commands</summary>", "", "```sh"]
            for label, command in self.commands.items():
                out += [f"# {label}", command]
            out += ["```", "", "</details>", ""]
        return "\n".join(out)


def _quote(word):
    return word if re.fullmatch(r"[\w@%+=:,./\[\]-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def standing(text):
    """What a section's age is, for the list of targets."""
    for said, short in (("Older than the code that it measures:", " (older than the code)"),
                        ("Age unknown:", " (age unknown)")):
        if re.search(rf"^\*{said}", text, re.M):
            return short
    return ""


class Results:
    """The file. Rewritten after each section, so that an interrupted benchmark leaves what it has."""

    def __init__(self, path, preamble, mark=lambda _name, text: text):
        """`mark(name, text)`: a part as it is to be written, whenever the file is."""
        self.path = path
        self.preamble = preamble
        self.mark = mark
        self.parts = {}
        self.targets = {}
        if os.path.exists(path):
            with open(path) as file:
                self._parse(file.read())

    def _parse(self, text):
        for match in re.finditer(r"<!-- part (\w+) -->\n(.*?)<!-- end \1 -->", text, re.S):
            self.parts[match[1]] = match[2]
            self.targets[match[1]] = re.findall(r"^- (target .*)$", match[2], re.M)

    def put(self, section):
        self.parts[section.name] = section.markdown()
        self.targets[section.name] = section.targets
        self.write()

    def write(self):
        self.parts = {name: self.mark(name, text) for name, text in self.parts.items()}
        names = [n for n in PARTS if n in self.parts]
        out = [self.preamble, "", "## Targets", ""]
        for name in names:
            label = name + standing(self.parts[name])
            out += [f"- {label}: {failed}" for failed in re.findall(r"^(\*\*Failed\*\*: .*)$", self.parts[name], re.M)]
            out += [f"- {label}: {target}" for target in self.targets[name]]
        out.append("")
        for name in names:
            out += [f"<!-- part {name} -->\n{self.parts[name]}<!-- end {name} -->", ""]
        scratch = f"{self.path}.{os.getpid()}"
        with open(scratch, "w") as file:
            file.write("\n".join(out))
        os.replace(scratch, self.path)


def now():
    return time.strftime("%Y-%m-%d %H:%M:%S %Z")


__all__ = ["Results", "Section", "now", "percent", "rate", "say", "times", "ORDER"]
