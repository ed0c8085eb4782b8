"""The keys of a result, as attributes with types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict


@dataclass(frozen=True)
class Spread:
    """A distribution of times, ns. None: not measured."""

    min: float | None = None
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None
    count: int = 0

    @classmethod
    def of(cls, value: dict[str, Any] | None) -> Spread:
        return cls(**{key: (value or {}).get(key, default) for key, default in _SPREAD.items()})


_SPREAD: dict[str, Any] = {name: 0 if name == "count" else None for name in Spread.__dataclass_fields__}


class Values:
    """An object of JSON whose keys may be missing: an older program wrote it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def _count(self, key: str) -> int:
        return int(self.data.get(key) or 0)

    def _count_or_none(self, key: str) -> int | None:
        value = self.data.get(key)
        return None if value is None else int(value)

    def _number(self, key: str) -> float | None:
        value = self.data.get(key)
        return None if value is None else float(value)

    def _flag(self, key: str) -> bool:
        return bool(self.data.get(key))

    def _text(self, key: str) -> str:
        return str(self.data.get(key) or "")

    def _text_or_none(self, key: str) -> str | None:
        value = self.data.get(key)
        return None if value is None else str(value)

    def _texts(self, key: str) -> list[str]:
        return [str(one) for one in self.data.get(key) or []]

    def _spread(self, key: str) -> Spread:
        return Spread.of(self.data.get(key))


# Made of the table in crates/report/src/json: MPPS_WRITE=1 cargo test -p mpps-report fields
class Keys(Values):
    """The keys of a run."""

    @property
    def workload(self) -> str:
        """Kind of the run: sendrecv, send, drop, reflect, forward, capture."""
        return self._text("workload")

    @property
    def run_id(self) -> str:
        """A random number of the run, 64 bits in hexadecimal, as not every reader of JSON has such integers;
        all trials of a session or method have one.
        """
        return self._text("run_id")

    @property
    def tx_packets(self) -> int:
        """Packets sent (Packets)."""
        return self._count("tx_packets")

    @property
    def rx_packets(self) -> int:
        """Packets received: each once, intact, within the settle time."""
        return self._count("rx_packets")

    @property
    def lost(self) -> int:
        """Packets lost: tx_packets − untagged_packets − rx_packets − late."""
        return self._count("lost")

    @property
    def late(self) -> int:
        """Packets that came after the settle time."""
        return self._count("late")

    @property
    def duplicates(self) -> int:
        """Further copies of packets."""
        return self._count("duplicates")

    @property
    def reordered(self) -> int:
        """Packets that came after a later one of their flow."""
        return self._count("reordered")

    @property
    def corrupt(self) -> int:
        """Packets whose checksum, length or data was wrong."""
        return self._count("corrupt")

    @property
    def foreign(self) -> int:
        """Packets that are none of this test's."""
        return self._count("foreign")

    @property
    def untagged_packets(self) -> int:
        """Packets sent without a tag, of which nobody knows whether they came; in no other count but
        tx_packets.
        """
        return self._count("untagged_packets")

    @property
    def untagged_came(self) -> int:
        """Packets that came with the headers of streams without a tag, and do not say which they are."""
        return self._count("untagged_came")

    @property
    def missed(self) -> int:
        """Departures that were due and not sent."""
        return self._count("missed")

    @property
    def due_packets(self) -> int | None:
        """Departures that the schedule had; null where no rate was asked for (Rates)."""
        return self._count_or_none("due_packets")

    @property
    def intended_pps(self) -> float | None:
        """Rate asked for, packets/s."""
        return self._number("intended_pps")

    @property
    def offered_pps(self) -> float | None:
        """Rate sent."""
        return self._number("offered_pps")

    @property
    def received_pps(self) -> float | None:
        """Rate received, over the same time."""
        return self._number("received_pps")

    @property
    def frame_size_bytes(self) -> int | None:
        """Length of a frame with FCS, as the rates count it."""
        return self._count_or_none("frame_size_bytes")

    @property
    def intended_bps(self) -> float | None:
        """Intended_pps in bit/s on layer 1: preamble and gap are counted."""
        return self._number("intended_bps")

    @property
    def offered_bps(self) -> float | None:
        """Offered_pps likewise."""
        return self._number("offered_bps")

    @property
    def received_bps(self) -> float | None:
        """Received_pps likewise."""
        return self._number("received_bps")

    @property
    def loss_ratio(self) -> float | None:
        """Lost ÷ tx_packets; 0 where nothing was sent."""
        return self._number("loss_ratio")

    @property
    def duration_s(self) -> float | None:
        """Length of the time of sending, or of receiving on a receiver, as measured."""
        return self._number("duration_s")

    @property
    def latency_ns(self) -> Spread:
        """Latency from the send time: min mean p50 p90 p99 p999 max count."""
        return self._spread("latency_ns")

    @property
    def latency_scheduled_ns(self) -> Spread:
        """Latency from the scheduled time: a generator that falls behind can't hide it."""
        return self._spread("latency_scheduled_ns")

    @property
    def latency_arrival_ns(self) -> Spread:
        """Latency from the send time to the arrival that kernel or card have noted; null if only the lane
        takes times.
        """
        return self._spread("latency_arrival_ns")

    @property
    def wake_up_ns(self) -> Spread:
        """Time from the arrival to the lane's reading; null if only one of the two is known."""
        return self._spread("wake_up_ns")

    @property
    def latency_note(self) -> str:
        """Where latency was taken, or why there is none."""
        return self._text("latency_note")

    @property
    def departure_gap_ns(self) -> Spread:
        """Departure gaps: as latency, and intended_mean."""
        return self._spread("departure_gap_ns")

    @property
    def valid(self) -> bool:
        """Whether the test was done as asked (the verdict); it does not say that the path is good."""
        return self._flag("valid")

    @property
    def invalid_reasons(self) -> list[str]:
        """Why it was not, a sentence each."""
        return self._texts("invalid_reasons")

    @property
    def warnings(self) -> list[str]:
        """What the reader should know although the numbers are valid."""
        return self._texts("warnings")

    @property
    def interrupted(self) -> bool:
        """Ended by a signal: SIGINT, SIGTERM, SIGHUP unless the program was started with it ignored (nohup),
        or SIGXCPU at a limit of CPU time (a warning names the limit).
        """
        return self._flag("interrupted")

    @property
    def cpu_quota_unread(self) -> str | None:
        """The control group whose quota can't be read, so that nothing is known of it; null: each was read, or
        there is none.
        """
        return self._text_or_none("cpu_quota_unread")

    @property
    def open_ended(self) -> bool:
        """No end was asked for (--duration): a signal is how such a run ends."""
        return self._flag("open_ended")

    @property
    def started_utc(self) -> str | None:
        """Time of day at the start of the run, RFC 3339 with ns; start_utc_ns of the first row."""
        return self._text_or_none("started_utc")

    @property
    def start_monotonic_ns(self) -> int | None:
        """The same by CLOCK_MONOTONIC: the zero of time_s, and the clock of stamps on this host."""
        return self._count_or_none("start_monotonic_ns")

    @property
    def start_error_ns(self) -> int | None:
        """With --start-at: how far from the instant the last lane may have begun; else null."""
        return self._count_or_none("start_error_ns")


class StreamKeys(Values):
    """The keys of a stream, of a group, or of a size."""

    @property
    def name(self) -> str:
        """Name of the stream or of the group; of a size its bytes with FCS, 594, or a range, 512-1023."""
        return self._text("name")

    @property
    def group(self) -> str | None:
        """Group that the stream belongs to."""
        return self._text_or_none("group")

    @property
    def streams(self) -> int:
        """Streams that these results are of."""
        return self._count("streams")

    @property
    def flows(self) -> int:
        """Their flows; 0 of a size."""
        return self._count("flows")

    @property
    def lanes(self) -> int:
        """Lanes that send them; 0 of a size, and of drop."""
        return self._count("lanes")

    @property
    def frame_size_bytes(self) -> float | None:
        """Mean length of a frame with FCS, of the sizes as they were asked for."""
        return self._number("frame_size_bytes")

    @property
    def tx_packets(self) -> int:
        """Packets sent."""
        return self._count("tx_packets")

    @property
    def rx_packets(self) -> int | None:
        """Packets received: each once, intact, within the settle time; null, as lost, loss_ratio, late and
        received_pps, where all are sent without a tag.
        """
        return self._count_or_none("rx_packets")

    @property
    def lost(self) -> int | None:
        """Packets lost: tx_packets − untagged_packets − rx_packets − late."""
        return self._count_or_none("lost")

    @property
    def loss_ratio(self) -> float | None:
        """Lost ÷ (tx_packets − untagged_packets)."""
        return self._number("loss_ratio")

    @property
    def late(self) -> int | None:
        """Packets that came after the settle time."""
        return self._count_or_none("late")

    @property
    def duplicates(self) -> int:
        """Further copies of packets."""
        return self._count("duplicates")

    @property
    def reordered(self) -> int:
        """Packets that came after a later one of their flow."""
        return self._count("reordered")

    @property
    def corrupt(self) -> int:
        """Packets whose checksum or data was wrong; 0 of a size, which such a packet does not show."""
        return self._count("corrupt")

    @property
    def missed(self) -> int:
        """Departures that were due and not sent."""
        return self._count("missed")

    @property
    def due_packets(self) -> int | None:
        """Departures that the schedule had; null where no rate was asked for."""
        return self._count_or_none("due_packets")

    @property
    def intended_pps(self) -> float | None:
        """Mean rate asked for over the whole time of sending, packets/s."""
        return self._number("intended_pps")

    @property
    def offered_pps(self) -> float | None:
        """Rate sent, over the time of sending of the run."""
        return self._number("offered_pps")

    @property
    def received_pps(self) -> float | None:
        """Rate received, over the same time."""
        return self._number("received_pps")

    @property
    def latency_ns(self) -> Spread:
        """Latency from the send time: min mean p50 p90 p99 p999 max count; percentiles are null where only the
        group has them.
        """
        return self._spread("latency_ns")

    @property
    def latency_scheduled_ns(self) -> Spread:
        """Latency from the scheduled time."""
        return self._spread("latency_scheduled_ns")

    @property
    def latency_arrival_ns(self) -> Spread:
        """Latency from the send time to the arrival."""
        return self._spread("latency_arrival_ns")

    @property
    def wake_up_ns(self) -> Spread:
        """Time from the arrival to the lane's reading."""
        return self._spread("wake_up_ns")

    @property
    def delay_variation_ns(self) -> int | None:
        """Variation of the latency from the send time: its 99.9th percentile less its minimum (RFC 8219)."""
        return self._count_or_none("delay_variation_ns")

    @property
    def valid(self) -> bool:
        """Whether these numbers can be trusted (the verdict); of a group those of all its streams, of a size,
        and of all of drop, those of the run.
        """
        return self._flag("valid")

    @property
    def invalid_reasons(self) -> list[str]:
        """Why they can't, a sentence each; reasons of the whole run are the run's alone."""
        return self._texts("invalid_reasons")

    @property
    def untagged_packets(self) -> int:
        """Packets sent without a tag, of which nobody knows whether they came."""
        return self._count("untagged_packets")

    @property
    def untagged_came(self) -> int:
        """Packets that came with the headers of the stream and do not say which of it they are."""
        return self._count("untagged_came")


class Lane(TypedDict):
    """One lane of a run."""

    lane: int
    queue: int
    core: int | None
    rx: bool
    tx: bool
    packets: int
    bursts: int
    empty_polls: int
    mean_burst: float
    share: float
    rx_packets: int
    rx_bursts: int
    rx_burst_sizes: list[Any]
    rx_mean_burst: float
    rx_mean_burst_all_polls: float
    empty_poll_share: float
    rx_share: float
    tx_packets: int
    tx_bursts: int
    tx_mean_burst: float
    tx_share: float
    tx_full: int
    reasons: dict[str, Any]
    waits: int
    busy_ratio: float | None
    busy_ns: int | None
    at_full_load: dict[str, Any]
    blocked_ns: int | None
    link_down_ns: int
    measured_ns: int
    rx_dropped: int
    rx_rings: list[Any]
    tx_failed: int
    away: dict[str, Any] | None
    run_delay_ns: int | None
    preempted: int | None
    path_counters: dict[str, Any]
