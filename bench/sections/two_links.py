"""From link to link on AF_XDP, one core for program and NAPI: the highest rates without loss, one way and both, beside
the crate `afxdp`, plain C and testpmd."""

import contextlib

from harness import data, links
from harness.report import say
from harness.stat import Samples, percent, rate, times
from sections import ndr

TITLE = "Two links on AF_XDP, one core: where loss begins"
NAME = "two_links"
LEAST = {"mpps forward": 0.95}  # its lane spins for as long as recent waits suggest; the others 1
VOID = 0.3  # share of trials: more, and the host was looked at rather than the device
OURS = (*links.FORWARD, links.EXAMPLE)
COLUMNS = (("rate", "highest rate without loss", rate), ("upper_pps", "lowest with loss", rate))


def told(row):
    """The rate that a search found out about the device; None where it found out about this host."""
    return row.get("lower_pps") if row.get("exit_code") == 0 else None


def measured(ctx, rig, names):
    """Rows and samples; round after round, so that a host that drifts does so for all."""
    rows, samples = [], Samples(names)
    for turn in range(ctx.rounds):
        for name in names:
            say(f"  round {turn + 1}/{ctx.rounds}: {name}, {rig.NAME}")
            row = ndr.search(ctx, rig, name, turn, NAME)
            rows.append(row)
            data.table(ctx, NAME, f"{rig.NAME}.csv", ndr.HEADER, rows)
            found = told(row)
            if found:
                samples.add(name, row | {"rate": found})
            else:
                samples.fail(name, row.get("error") or f"{row.get('void')} of {row.get('trials')} trials void: "
                                                       f"{row.get('why_void')}")
    return rows, samples


def judged(section, rows, samples, rig, ours):
    """Beside the best of the others, or that this host does not let it be told."""
    theirs = [name for name in samples.rounds if name not in OURS and samples.values(name)]
    rival = max(theirs, key=samples.median) if theirs else "another"
    what = f"× the best of the others, {rival} ({ours}, {rig.NAME}, highest rate without loss)"
    least = LEAST.get(ours, 1.0)
    pair = [row for row in rows if row["device"] in (ours, rival)]
    void, trials = (sum(row.get(key) or 0 for row in pair) for key in ("void", "trials"))
    spread = max((samples.spread(name) or 1.0 for name in (ours, rival)), default=1.0)
    missed = sum(told(row) is None for row in pair)
    ratio = samples.ratio(ours, rival)
    if ratio and (spread > 1 + ndr.WITHIN or void > VOID * trials or missed):
        section.verdict(f"target ≥ {least:g} {what}: **this host is too unsteady** (measured {ratio[0]:.3g}, rounds "
                        f"{ratio[1]:.3g} to {ratio[2]:.3g}; spread {times(spread)}; {void} of {trials} trials void; "
                        f"{missed} of {len(pair)} searches told nothing of the device)")
    else:
        section.target(what, least, ratio, samples.why_not(ours, rival))


def of_way(rig_class):
    def part(ctx, section):
        chosen = ctx.words("BENCH_LINKS", rig_class.DEVICES)
        if rig_class.NAME not in ctx.words("BENCH_WAYS", links.WAYS):
            return
        section.heading(rig_class.NAME.replace("-", " ").capitalize())
        names = [name for name in rig_class.DEVICES if name in chosen and not links.missing(ctx, name)]
        with contextlib.closing(rig_class(ctx)) as rig:
            rows, samples = measured(ctx, rig, names)
            section.programs(samples, COLUMNS)
            table(section, rows, names)
            section.ratios(samples, [(ours, other) for ours in names if ours in OURS
                                     for other in names if other not in OURS])
            for ours in OURS:
                if ours in names:
                    judged(section, rows, samples, rig, ours)
            section.text(f"Tester (`af_packet`) on core {ctx.core_a}, device on core {ctx.core_b}, a veth pair on "
                         f"each side. NAPI of the device's two links runs on core {ctx.core_b}, too, as soft "
                         f"interrupt, by a timer of {links.DISTANCE // 1000} µs (`gro_flush_timeout`, "
                         "`napi_defer_hard_irqs`): with it their XDP programs and the copy to the sockets. What the "
                         "device sends goes up to the tester's socket on the device's core.")
    part.__name__ = rig_class.NAME
    return part


def table(section, rows, names):
    """What each search met."""
    cells = []
    for name in names:
        own = [row for row in rows if row["device"] == name]
        void, trials = (sum(row.get(key) or 0 for row in own) for key in ("void", "trials"))
        cells.append([name, "<br>".join(row.get("error") or ndr.interval(row) for row in own),
                      sum(told(row) is not None and row.get("upper_pps") is None for row in own),
                      sum(told(row) is None for row in own), f"{void} of {trials}",
                      percent(max((row.get("steal_ratio") or 0 for row in own), default=0))])
    section.table(["device", "lower and upper bound, by round", "the highest that the tester can",
                   "told nothing of the device", "void trials", "time stolen, at most"], cells)


def preparation(ctx, section):
    links.build(ctx, section)
    section.text(f"Each search is `mpps ndr --goal {ndr.QUICK if ctx.quick else ndr.GOAL}` with frames of 64 bytes, "
                 f"{ctx.rounds} for each device and way, in turns; both ways, a rate is of each way and loss of both "
                 "together. Every device forwards frames untouched, copy mode in the driver, a queue of each link, one "
                 f"thread. `xsk l2fwd` is the example of our crate; `{links.CRATE}` does on the crate afxdp 0.4 what "
                 "its sample of that name does (`bench/peers/afxdp_crate`); `C libxdp` is `bench/peers/xsk_links.c`, "
                 "which goes the way of the kernel's sample xdpsock. With `poll` it sleeps while nothing comes, as "
                 "`xsk l2fwd` does; `mpps forward` spins for as long as recent waits suggest; the others always spin. "
                 "Raw data: `bench/data/two_links`.")


PARTS = (preparation, *map(of_way, links.WAYS.values()))
