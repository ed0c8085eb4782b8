"""Names the functions that bench/peers/functions.c has counted, and prints them thread by thread as trees.

    bench/functions.py calls.tsv [LEAST [FUNCTION]]

LEAST: share of a thread's time that a row has at least (0.005); FUNCTION: this one and what it calls, alone.
"""

import bisect
import subprocess
import sys


def symbols(path):
    """Functions of a file, by offset."""
    nm = subprocess.run(["nm", "--defined-only", "-n", path], capture_output=True, text=True, check=False)
    table = []
    for line in nm.stdout.splitlines():
        offset, kind, name = line.split(maxsplit=2)
        if kind in "tTwWi":
            table.append((int(offset, 16), name))
    return table


def read(path):
    """By thread: rows of (depth, name, calls, total, self, longest, standard deviation), ns."""
    files, threads = {}, {}
    with open(path) as file:
        for line in file:
            tid, thread, depth, calls, *times, where, offset = line.rstrip("\n").split("\t")
            if where not in files:
                files[where] = symbols(where)
            table = files[where]
            at = bisect.bisect_right(table, (int(offset, 16), chr(sys.maxunicode))) - 1
            name = table[at][1] if at >= 0 else f"{where}+{offset}"
            threads.setdefault((int(tid), thread), []).append((int(depth), name, int(calls), *map(int, times)))
    return threads


HEADS = ("calls", "total ms", "self ms", "self/total", "mean ns", "sd ns", "longest us")


def cells(calls, total, own, longest, deviation):
    return (f"{calls}", f"{total / 1e6:.2f}", f"{own / 1e6:.2f}", f"{100 * own / max(total, 1):.1f} %",
            f"{total / max(calls, 1):.0f}", f"{deviation}", f"{longest / 1e3:.1f}")


def show(rows):
    """Rows of (cells, name), the cells to the right."""
    widths = [max(len(row[0][i]) for row in [(HEADS, ""), *rows]) for i in range(len(HEADS))]
    for row, name in [(HEADS, "function"), *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) + "  " + name)


def below(rows, function):
    """Rows of a function and what it calls, as deep as they are below it."""
    found, top = [], None
    for depth, *row in rows:
        if top is not None and depth <= top:
            top = None
        if top is None and row[0] == function:
            top = depth
        if top is not None:
            found.append((depth - top, *row))
    return found


def main(path, least="0.005", function=None):
    threads = read(path)
    if function:
        threads = {thread: below(rows, function) for thread, rows in threads.items()}
    for (tid, thread), rows in sorted(threads.items(), key=lambda of: -sum(row[3] for row in of[1])):
        if not rows:
            continue
        whole = sum(row[3] for row in rows if row[0] == 0)
        calls = sum(row[2] for row in rows)
        mean = sum(row[6] for row in rows) / len(rows)
        print(f"thread {thread} ({tid}): {calls} calls of {len({row[1] for row in rows})} functions, "
              f"{whole / 1e6:.1f} ms; mean of the standard deviations {mean:.0f} ns")
        worth = [row for row in rows if row[3] >= float(least) * whole]
        show([(cells(*row[2:]), "  " * row[0] + row[1]) for row in worth])
        print()


if __name__ == "__main__":
    main(*sys.argv[1:])
