"""Highest rates without loss of several devices, by `mpps ndr`, several times each: do they repeat?"""

import contextlib
import os

from harness import between, data
from harness.proc import BenchError
from harness.report import say
from harness.stat import percent, rate

TITLE = "`mpps ndr` of seven devices, repeated"
# Trials of a quarter of a second, a rate decided by a second and a half, bounds 2 % apart: ten seconds a search.
GOAL = "csit,loss=0,initial=250ms,final=250ms,sum=1500ms,width=2%"
QUICK = "csit,loss=0,initial=200ms,final=200ms,sum=600ms,width=5%"
SETTLE = "50ms"
WITHIN = 0.05  # what repeated searches may be apart
LONGEST = 300  # s, of one search
HEADER = ("rig", "device", "round", "lower_pps", "upper_pps", "conditional_throughput_pps", "regular", "limited_by",
          "trials", "void", "why_void", "steal_ratio", "load_average", "took_s", "exit_code", "error")


def search(ctx, rig, name, turn, section="ndr"):
    """One search: its row. Raw data is kept with that of `section`."""
    row = {"rig": rig.NAME, "device": name, "round": turn + 1, "load_average": round(os.getloadavg()[0], 2)}
    try:
        with rig.device(f"{name}, {rig.NAME}", name):
            goal = os.environ.get("BENCH_GOAL") or (QUICK if ctx.quick else GOAL)
            args = ["ndr", *rig.ports(name), "--goal", goal, "--settle", SETTLE]
            found = between.method(ctx, rig, f"ndr of {name}, {rig.NAME}", args, LONGEST)
    except BenchError as error:
        say(f"    failed: {error}")
        return row | {"error": str(error)}
    data.keep(ctx, section, found["folder"], f"{rig.NAME}-{name.replace(' ', '-')}-{turn + 1}")
    (result, *_), (void, why) = found["results"] or [{}], between.void(found)
    row |= {key: result.get(key) for key in HEADER[3:8]}
    row |= {"trials": len(found["trials"]), "void": void, "why_void": why, "steal_ratio": round(found["steal"], 4),
            "took_s": round(found["took"], 1), "exit_code": found["status"]}
    say(f"    {interval(row)}, {void} of {row['trials']} trials void, {row['took_s']} s")
    return row


def interval(row):
    """`1.2 to 1.25 Mpps`."""
    lower, upper = row.get("lower_pps"), row.get("upper_pps")
    if lower and row.get("upper_pps") is None:
        return f"{rate(lower)} or more"
    return f"{rate(lower)} to {rate(upper)}" if lower else "none"


def spread(rows):
    """By how much the largest bound is above the smallest, of lower and upper bounds the more; None with less than
    two."""
    most = None
    for bound in ("lower_pps", "upper_pps"):
        values = [row[bound] for row in rows if row.get(bound)]
        if len(values) >= 2:
            most = max(most or 0.0, max(values) / min(values) - 1)
    return most


def verdict(rows, wanted):
    """Whether the searches repeat, or what was in the way."""
    apart = spread(rows)
    found = [row for row in rows if row.get("lower_pps")]
    void, trials = (sum(row.get(key) or 0 for row in rows) for key in ("void", "trials"))
    steal = max((row.get("steal_ratio") or 0 for row in rows), default=0)
    most = sum(row.get("upper_pps") is None for row in found)
    evidence = (f"{len(found)} of {wanted} searches found a rate" + (f", {most} the highest tried" if most else "")
                + f"; {void} of {trials} trials void; up to {percent(steal)} of the time stolen")
    if wanted < 2 or len(rows) < 2:
        return "one search: nothing to compare", evidence
    if apart is not None and len(found) == wanted and apart <= WITHIN:
        return "within 5 %", evidence
    return "this host is too unsteady", evidence


def of_rig(rig_class):
    def part(ctx, section):
        if rig_class.NAME not in ctx.words("BENCH_RIGS", between.RIGS):
            return
        section.heading(f"On {rig_class.NAME}")
        with contextlib.closing(rig_class(ctx)) as rig:
            table(ctx, section, rig)
    part.__name__ = rig_class.NAME
    return part


def table(ctx, section, rig):
    names = [name for name in rig.DEVICES if name in ctx.words("BENCH_DEVICES", rig.DEVICES)]
    absent = {name: why for name in names if (why := between.missing(ctx, name))}
    for name, why in absent.items():
        section.text(f"{name} is left out: {why}.")
    names = [name for name in names if name not in absent]
    rows = []
    # Round after round, so that a host that drifts does so for all.
    for turn in range(ctx.rounds):
        for name in names:
            say(f"  round {turn + 1}/{ctx.rounds}: {name}, {rig.NAME}")
            rows.append(search(ctx, rig, name, turn))
            data.table(ctx, "ndr", f"{rig.NAME}.csv", HEADER, rows)
    cells = []
    for name in names:
        own = [row for row in rows if row["device"] == name]
        judged, evidence = verdict(own, ctx.rounds)
        apart = spread(own)
        cells.append([name, "<br>".join(row.get("error") or interval(row) for row in own),
                      percent(apart), judged, evidence])
        section.verdict(f"target intervals within 5 % (ndr of {name}, {rig.NAME}): **{judged}** (spread "
                        f"{percent(apart)}; {evidence})")
    section.table(["device", "lower and upper bound, by round", "largest over smallest", "verdict", "evidence"], cells)
    if rig.NAME == "veth":
        where = "is moved to the device's core (RPS)" if rig.spread else "runs on the core of the tester"
        section.text(f"Tester and device in a namespace each, two veth pairs between: packets leave by one and come "
                     f"back by the other. Tester on core {ctx.core_a}, device on core {ctx.core_b}; what the kernel "
                     f"forwards {where}.")
    else:
        section.text(f"One `net_memif`, by which the device sends back what it gets. Tester on core {ctx.core_a}, "
                     f"device on core {ctx.core_b}, bursts of 32, neither sleeps.")


def preparation(ctx, section):
    between.built(ctx, section)
    section.text(f"Each search is `mpps ndr --goal {QUICK if ctx.quick else GOAL}` with frames of 64 bytes, "
                 f"{ctx.rounds} for each device, in turns. *Largest over smallest*: of the lower or of the upper "
                 "bounds, whichever are further apart. A trial is void where this host did not send as asked or "
                 "others took a core. Raw data: `bench/data/ndr`.")


PARTS = (preparation, *map(of_rig, between.RIGS.values()))
