"""What optional packages make of results. Each is asked for when it is used, and named when it is not there."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import MissingExtra

if TYPE_CHECKING:
    import pandas
    import polars
    from hdrh.histogram import HdrHistogram


def _module(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{name.split('.')[0]} is not installed: pip install 'mpps[{extra}]'") from error


def pandas_frame(columns: Mapping[str, Sequence[Any]], types: Mapping[str, type | None]) -> pandas.DataFrame:
    """Types: by column, or None for what the values say. Whole numbers with gaps become floating-point ones."""
    pd = _module("pandas", "pandas")
    frame: pandas.DataFrame = pd.DataFrame(
        {name: pd.Series(values, dtype=_dtype(values, types.get(name))) for name, values in columns.items()}
    )
    return frame


def _dtype(values: Sequence[Any], kind: type | None) -> str | None:
    if kind is int and None not in values:
        return "int64"
    return "float64" if kind in (int, float) else None


def polars_frame(columns: Mapping[str, Sequence[Any]], types: Mapping[str, type | None]) -> polars.DataFrame:
    """Types: by column, or None for what the values say."""
    pl = _module("polars", "polars")
    dtypes: dict[type | None, Any] = {int: pl.Int64, float: pl.Float64, str: pl.String}
    frame: polars.DataFrame = pl.DataFrame(
        [pl.Series(name, values, dtype=dtypes.get(types.get(name)), strict=False) for name, values in columns.items()]
    )
    return frame


def histograms(log: str) -> list[HdrHistogram]:
    """Those of a log of HdrHistogram, with the begin and end of each (`get_start_time_stamp`, ms)."""
    histogram = _module("hdrh.histogram", "hdr").HdrHistogram
    found = []
    start_ms = 0.0
    for line in log.splitlines():
        if line.startswith("#[StartTime: "):
            start_ms = float(line[len("#[StartTime: ") :].split()[0]) * 1000
        if not line[:1].isdigit():
            continue
        at, length, _, packed = line.split(",")
        one = histogram.decode(packed)
        one.set_start_time_stamp(start_ms + float(at) * 1000)
        one.set_end_time_stamp(start_ms + (float(at) + float(length)) * 1000)
        found.append(one)
    return found


def sum_of(parts: Sequence[HdrHistogram]) -> HdrHistogram:
    """All of them together."""
    highest = max((one.highest_trackable_value for one in parts), default=1 << 20)
    total = _module("hdrh.histogram", "hdr").HdrHistogram(1, highest, 3)
    for one in parts:
        total.add(one)
    return total
