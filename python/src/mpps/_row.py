"""Rows of the time series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Row:
    """What was measured in one interval: the columns of the CSV, with its names and units. None: not measured.

    docs/measuring.md says what each is. Loss and latency stand in the row in which a packet was sent.
    """

    time_s: float
    interval_s: float
    start_utc_ns: int
    tx_packets: int | None = None
    rx_packets: int | None = None
    loss_ratio: float | None = None
    latency_avg_us: float | None = None
    lost_packets: int | None = None
    late_packets: int | None = None
    duplicate_packets: int | None = None
    reordered_packets: int | None = None
    corrupt_packets: int | None = None
    foreign_packets: int | None = None
    missed_packets: int | None = None
    latency_min_us: float | None = None
    latency_p50_us: float | None = None
    latency_p90_us: float | None = None
    latency_p99_us: float | None = None
    latency_p999_us: float | None = None
    latency_max_us: float | None = None
    latency_scheduled_avg_us: float | None = None
    latency_scheduled_min_us: float | None = None
    latency_scheduled_p50_us: float | None = None
    latency_scheduled_p90_us: float | None = None
    latency_scheduled_p99_us: float | None = None
    latency_scheduled_p999_us: float | None = None
    latency_scheduled_max_us: float | None = None
    host_wait_us: float | None = None
    host_dropped_packets: int | None = None
    own_threads_us: float | None = None
    blocked_us: float | None = None
    rx_fill_highest_ratio: float | None = None
    rx_fill_mean_ratio: float | None = None
    rx_by_arrival_packets: int | None = None
    start_utc: str | None = None
    untagged_packets: int | None = None
    latency_arrival_avg_us: float | None = None
    latency_arrival_min_us: float | None = None
    latency_arrival_p50_us: float | None = None
    latency_arrival_p90_us: float | None = None
    latency_arrival_p99_us: float | None = None
    latency_arrival_p999_us: float | None = None
    latency_arrival_max_us: float | None = None
    wake_up_avg_us: float | None = None
    wake_up_min_us: float | None = None
    wake_up_p50_us: float | None = None
    wake_up_p90_us: float | None = None
    wake_up_p99_us: float | None = None
    wake_up_p999_us: float | None = None
    wake_up_max_us: float | None = None

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Row:
        """From a line of the stream; keys that this version does not know are left out."""
        return cls(**{name: event[name] for name in COLUMNS if name in event})

    @property
    def tx_pps(self) -> float | None:
        """Packets sent per second."""
        return None if self.tx_packets is None else self.tx_packets / self.interval_s

    @property
    def rx_pps(self) -> float | None:
        """Packets per second of those sent in this row that came back."""
        return None if self.rx_packets is None else self.rx_packets / self.interval_s


_TYPES = {"int": int, "float": float, "str": str}
COLUMNS: dict[str, type] = {field.name: _TYPES[str(field.type).split(" ")[0]] for field in fields(Row)}


@dataclass
class StreamRow:
    """What was measured of one stream, group or size of frames in one interval, by the names of `--streams-csv`."""

    kind: str
    name: str
    time_s: float
    interval_s: float
    start_utc_ns: int
    tx_packets: int | None = None
    rx_packets: int | None = None
    rx_by_arrival_packets: int | None = None
    lost_packets: int | None = None
    loss_ratio: float | None = None
    late_packets: int | None = None
    duplicate_packets: int | None = None
    reordered_packets: int | None = None
    corrupt_packets: int | None = None
    missed_packets: int | None = None
    latency_packets: int | None = None
    latency_min_us: float | None = None
    latency_avg_us: float | None = None
    latency_max_us: float | None = None
    latency_scheduled_avg_us: float | None = None
    untagged_packets: int | None = None
    latency_arrival_min_us: float | None = None
    latency_arrival_avg_us: float | None = None
    latency_arrival_max_us: float | None = None
    wake_up_min_us: float | None = None
    wake_up_avg_us: float | None = None
    wake_up_max_us: float | None = None

    @classmethod
    def all_of(cls, event: Mapping[str, Any]) -> list[StreamRow]:
        """From a line of the stream; keys that this version does not know are left out."""
        names = [field.name for field in fields(cls)]
        shared = {name: event[name] for name in names if name in event}
        return [cls(**shared, **{name: one[name] for name in names if name in one}) for one in event["rows"]]
