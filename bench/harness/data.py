"""Raw data of sections, as CSV below bench/data (or BENCH_DATA), where it is kept with the results."""

import csv
import os
import shutil

from harness.report import say


def folder(ctx, section):
    path = os.path.join(os.environ.get("BENCH_DATA") or os.path.join(ctx.root, "bench", "data"), section)
    os.makedirs(path, exist_ok=True)
    return path


def table(ctx, section, name, header, rows):
    """Writes rows (dicts) as a CSV; again and again as they become more."""
    path = os.path.join(folder(ctx, section), name)
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "w", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in rows)
    os.replace(scratch, path)


def keep(ctx, section, results, name, tables=("trials",)):
    """Keeps tables that a method has written to its folder `results`."""
    for table_name in tables:
        source = os.path.join(results, f"{table_name}.csv")
        target = os.path.join(folder(ctx, section), f"{name}-{table_name}.csv")
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            say(f"    keep {source}: {error}")


__all__ = ["folder", "keep", "table"]
