"""What scripts/two-hosts.sh measured, as a section of bench/RESULTS.md.

    two_hosts.py highest FOLDER            the median rate that came back flat out, in whole packets a second
    two_hosts.py section FOLDER [RESULTS]  FOLDER/section.md, and the part `two_hosts` of RESULTS
"""

import glob
import json
import os
import statistics
import sys

from harness.report import Results, Section, now, rate

PREAMBLE = """# mpps beside other programs

Parts are written by `make bench` and `scripts/two-hosts.sh`.
"""


def load(folder, name):
    """A result, or None where there is none: the run was not asked for, or told nothing."""
    try:
        with open(os.path.join(folder, name)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def facts(folder, end):
    with open(os.path.join(folder, f"facts-{end}.txt")) as file:
        return dict(line.rstrip("\n").split("\t", 1) for line in file if "\t" in line)


def flat_out(folder):
    names = sorted(glob.glob(os.path.join(folder, "flat-*.json")))
    return [run for run in (load(folder, os.path.basename(name)) for name in names) if run]


def highest(folder):
    found = int(statistics.median([run["received_pps"] or 0 for run in flat_out(folder)] or [0]))
    if found < 2:
        raise SystemExit("two_hosts: no packet came back")
    return found


def link_bps(told, run):
    """Of A's device: as the run has it, else as the host tells."""
    of_run = (run or {}).get("host", {}).get("link_bps")
    mbps = told.get("speed, Mbit/s")
    return int(of_run) if of_run else int(mbps) * 1_000_000 if mbps else None


def share(pps, frame_bytes, link):
    """Of the link's rate on layer 1: preamble and gap are 20 bytes a frame."""
    if not link or pps is None:
        return "–"
    return f"{100 * pps * (frame_bytes + 20) * 8 / link:.2f} %"


def micros(ns):
    return "–" if ns is None else f"{ns / 1000:.1f}"


def pair(section, folder, link):
    runs = [(f"flat out, run {i}", run) for i, run in enumerate(flat_out(folder), 1)]
    half = load(folder, "half.json")
    runs += [("half of that", half)] if half else []
    if not runs:
        return
    section.heading("`sendrecv` on A, `reflect` on B")
    rows = []
    for name, run in runs:
        latency = run.get("latency_ns") or {}
        reasons = "; ".join(reason if isinstance(reason, str) else reason.get("text", str(reason))
                            for reason in run["invalid_reasons"])
        rows.append([name, rate(run["offered_pps"]), rate(run["received_pps"]),
                     share(run["received_pps"], run["frame_size_bytes"], link), f"{run['lost']:,}",
                     f"{100 * run['loss_ratio']:.4f} %" if run["loss_ratio"] is not None else "–",
                     micros(latency.get("p50")), micros(latency.get("p99")), micros(latency.get("max")),
                     "valid" if run["valid"] else f"not valid: {reasons}"])
    section.table(["run", "sent/s", "came back/s", "share of line rate", "lost", "of all", "p50, µs", "p99, µs",
                   "max, µs", "verdict"], rows)


def bounds(found):
    """A search's answer in words."""
    if found.get("none_passes") or not found.get("lower_pps"):
        return "none found"
    if found.get("upper_pps") is None:
        return f"{rate(found['lower_pps'])} or more ({found.get('limited_by')})"
    return f"{rate(found['lower_pps'])} to {rate(found['upper_pps'])}"


def searches(section, folder, link):
    found = load(folder, "ndr.json")
    if found:
        section.heading("Highest rates, by `ndr`")
        size = found["params"]["frame_size_bytes"]
        rows = [[goal_name(found, i), bounds(goal), share(goal.get("lower_pps"), size, link)]
                for i, goal in enumerate(found["results"])]
        section.table(["goal", "rate", "share of line rate"], rows)
        incomplete(section, found)
    found = load(folder, "rfc2544.json")
    if found:
        section.heading("Throughput by frame size, by `rfc2544`")
        rows = []
        for size in found["results"]:
            throughput, bytes_ = size.get("throughput") or {}, size["frame_size_bytes"]
            rows.append([bytes_, bounds(throughput), share(throughput.get("lower_pps"), bytes_, link)])
        section.table(["frame, bytes", "rate", "share of line rate"], rows)
        incomplete(section, found)


def goal_name(found, index):
    return f"loss of {100 * found['params']['goals'][index]['loss_ratio']:g} % at the most"


def incomplete(section, found):
    if not found["complete"]:
        section.text(f"The search is not complete: {found.get('incomplete') or 'no reason is told'}.")


def write(folder, results):
    a, b = facts(folder, "a"), facts(folder, "b")
    runs = flat_out(folder)
    link = link_bps(a, runs[0] if runs else load(folder, "half.json"))
    section = Section("two_hosts", "Two hosts", f"{now()}, {a.get('mpps', 'mpps')}", folder)
    section.heading("The hosts")
    names = list(a) + [name for name in b if name not in a]
    section.table(["", "A", "B"], [[name, a.get(name, "not told"), b.get(name, "not told")] for name in names])
    section.text(f"Line rate of A's device: {link / 1e9:g} Gbit/s. Shares count preamble and gap, 20 bytes a frame."
                 if link else "A's device tells no speed, so there is no share of a line rate.")
    pair(section, folder, link)
    searches(section, folder, link)
    with open(os.path.join(folder, "commands")) as file:
        commands = file.read().splitlines()
    section.lines += ["<details><summary>Commands</summary>", "", "```sh", *commands, "```", "", "</details>", ""]
    with open(os.path.join(folder, "section.md"), "w") as file:
        file.write(section.markdown())
    if results:
        preamble = PREAMBLE
        if os.path.exists(results):
            with open(results) as file:
                preamble = file.read().split("## Targets", 1)[0].rstrip() + "\n"
        Results(results, preamble).put(section)


def main(words):
    if len(words) == 2 and words[0] == "highest":
        print(highest(words[1]))
    elif len(words) in (2, 3) and words[0] == "section":
        write(words[1], words[2] if len(words) == 3 else None)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
