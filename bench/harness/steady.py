"""The long run at half the maximum, once a path: one section asks it for loss, another for dips."""

import statistics

from harness import mpps
from harness.report import say

ROW = "100ms"


def _half(rates):
    return int(statistics.median(rates) / 2)


def run(ctx, path):
    """Paced at half the maximum for `ctx.steady` s; path: null or one of `mpps.ports`. Summary, rows and rate in
    pps."""
    if path not in ctx.steady_runs:
        ctx.steady_runs[path] = _run(ctx, path)
    result = ctx.steady_runs[path]
    for label, argv in result["commands"].items():
        ctx.section.commands.setdefault(label, argv)
    return result


def _run(ctx, path):
    label = f"{path} at half the maximum"
    args = ["send", "null:", "--lanes", 1, "--cores", ctx.core_b]
    if path == "null":
        measure = lambda: mpps.send(ctx, f"{path} maximum", args, ctx.seconds)["offered_pps"]
    else:
        measure = lambda: mpps.round_trip(ctx, path, label=f"{path} maximum")["received_pps"]
    say(f"  {path}: the maximum, for half of it")
    rate = _half([measure() for _ in range(min(3, ctx.rounds))])
    table = ctx.file(".csv")
    paced = ["--rate", f"{rate}pps", "--interval", ROW, "--csv", table]
    say(f"  {path}: {ctx.steady:g} s at {rate} pps")
    before = set(ctx.section.commands)
    if path == "null":
        summary = mpps.send(ctx, label, args + paced, ctx.steady)
    else:
        summary = mpps.round_trip(ctx, path, ("--lanes", 1, *paced), label, ctx.steady)
    commands = {k: v for k, v in ctx.section.commands.items() if k not in before}
    return {"rate": rate, "summary": summary, "rows": mpps.rows(table), "commands": commands}


def loss_verdict(section, what, result):
    """The target "no loss at half the maximum": met only by a trial that is valid, so one that sent what it should."""
    s = result["summary"]
    whole = s["tx_packets"] == s["rx_packets"] + s["lost"] + s["late"]
    met = s["lost"] == 0 and whole and s["valid"]
    reasons = "; ".join(s["invalid_reasons"])
    section.verdict(
        f"target no loss at half the maximum ({what}): **{'met' if met else 'not met'}** ({s['lost']} lost and "
        f"{s['late']} late of {s['tx_packets']} packets in {s['duration_s']:.0f} s at {result['rate'] / 1e6:.3f} Mpps; "
        f"tx {'=' if whole else '≠'} rx + lost + late; trial {'valid' if s['valid'] else 'not valid: ' + reasons})")
