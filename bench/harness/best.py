"""The settings that suit another program best: it is measured with those."""

from harness.proc import BenchError
from harness.report import say
from harness.stat import rate


def best(ctx, section, what, ways, measure):
    """Tries each way twice, shortly, and returns the one with the highest rate; says what it found."""
    tried, whole = {}, ctx.seconds
    noted = dict(section.commands)
    ctx.seconds = min(whole, 1.0)
    try:
        for turn in range(2):
            for way in ways:
                say(f"  which settings suit {what}: {way or 'defaults'}")
                try:
                    tried[way] = max(tried.get(way, 0), measure(way)["rate"])
                except BenchError as error:
                    say(f"    failed: {error}")
    finally:
        ctx.seconds = whole
        section.commands = noted
    if not tried:
        raise BenchError(f"{what} runs with no settings")
    name = lambda way: f"`{way if isinstance(way, str) else ' '.join(map(str, way))}`" if way else "defaults"
    first = max(tried, key=tried.get)
    section.text(f"{what}, best of two short runs: " + ", ".join(f"{name(w)} {rate(r)}" for w, r in tried.items())
                 + f". Used below: {name(first)}.")
    return first
