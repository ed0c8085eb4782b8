"""The result of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _extras
from ._keys import Keys, Lane, StreamKeys
from ._row import COLUMNS, Row, StreamRow

if TYPE_CHECKING:
    import pandas
    import polars
    from hdrh.histogram import HdrHistogram


@dataclass(frozen=True)
class Expectation:
    """What one `expect` asked for, and what came of it."""

    expected: str
    #: Packets, parts of one, ns, packets/s or bits/s; None: not measured, and so not met.
    measured: float | None
    #: The same for people.
    told: str
    met: bool
    note: str | None


@dataclass(frozen=True)
class Remark:
    """One reason why a run is not valid, or one warning. docs/use/verdict.md lists the names and their values."""

    name: str
    #: Whether this is a reason why the run is not valid.
    invalid: bool
    #: The text for people.
    sentence: str
    values: dict[str, Any]


class Stream(StreamKeys):
    """The numbers of a stream, of a group of streams, or of frames of one size. `data` is its whole object."""

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __repr__(self) -> str:
        packets = f"{self.tx_packets:,} sent, {self.rx_packets:,} received, {self.lost:,} lost"
        return f"<{self.name}: {packets}, {'valid' if self.valid else 'NOT VALID'}>"


class Summary(Keys):
    """The numbers of a run, or of one of its directions. `data` is the whole object of `--json`."""

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    @property
    def name(self) -> str | None:
        """Of a direction: `A to B`."""
        return self._text_or_none("name")

    @property
    def remarks(self) -> list[Remark]:
        """Reasons and warnings as data. An older program has none."""
        keys = Remark.__dataclass_fields__
        return [Remark(**{key: one[key] for key in keys}) for one in self.data.get("remarks") or []]

    @property
    def host_dropped(self) -> int:
        """Packets that this host dropped before mpps could take them; 0 also where the path can't tell: then
        `result["host_dropped"]` is None.
        """
        return self._count("host_dropped")

    @property
    def lanes(self) -> list[Lane]:
        """What each lane did."""
        return list(self.data.get("lanes") or [])

    @property
    def streams(self) -> list[Stream]:
        """Each stream of `--packet` and `--traffic`, in the order of the file."""
        return self._streams("streams")

    @property
    def groups(self) -> list[Stream]:
        """Each group of streams."""
        return self._streams("groups")

    @property
    def sizes(self) -> list[Stream]:
        """Frames by their size, if they have several."""
        return self._streams("sizes")

    def _streams(self, key: str) -> list[Stream]:
        return [Stream(one) for one in self.data.get(key) or []]

    @property
    def expectations(self) -> list[Expectation]:
        """What `expect` asked for."""
        return [
            Expectation(
                expected=str(one["expected"]),
                measured=one.get("measured"),
                told=str(one.get("told", "")),
                met=bool(one["met"]),
                note=one.get("note"),
            )
            for one in self.data.get("expectations") or []
        ]

    @property
    def met(self) -> bool:
        """Whether the run is valid and reaches all that was expected of it."""
        return self.valid and all(one.met for one in self.expectations)

    def __repr__(self) -> str:
        verdict = "valid" if self.valid else "NOT VALID"
        loss = "" if self.loss_ratio is None else f" ({100 * self.loss_ratio:.3f} %)"
        packets = f"{self.tx_packets:,} sent, {self.rx_packets:,} received, {self.lost:,} lost{loss}"
        return f"<{self.name or self.workload}: {packets}, {verdict}>"


class Result(Summary):
    """What a run measured. "Not valid" and "not met" are said here; only a failure is an exception."""

    def __init__(
        self,
        data: dict[str, Any],
        *,
        exit_code: int,
        rows: Sequence[Row] = (),
        stream_rows: Sequence[StreamRow] = (),
        notes: Sequence[str] = (),
        command: Sequence[str] = (),
        stderr: Sequence[str] = (),
        hdr_log: str | None = None,
    ) -> None:
        super().__init__(data)
        #: 0: valid and met; 3: not valid; 4: not met.
        self.exit_code = exit_code
        self.rows = list(rows)
        #: The rows of streams, groups and sizes; of each interval in this order.
        self.stream_rows = list(stream_rows)
        self.notes = list(notes)
        self.command = list(command)
        #: The last lines of standard error; with `quiet=False` the program's summary is among them.
        self.stderr = list(stderr)
        #: The HdrHistogram log (`hdr=True`, or the name of a file).
        self.hdr_log = hdr_log

    @property
    def directions(self) -> list[Summary]:
        """Of `both_ways`: each way by itself. Rows are of both together."""
        return [Summary(one) for one in self.data.get("directions") or []]

    @property
    def plan(self) -> dict[str, Any] | None:
        """The run as a value, which `mpps.run("run", FILE)` repeats."""
        return self.data.get("plan")

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame, a column for each of the CSV's."""
        return _extras.pandas_frame(_columns(self.rows), COLUMNS)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a DataFrame, a column for each of the CSV's."""
        return _extras.polars_frame(_columns(self.rows), COLUMNS)

    def histograms(self) -> list[HdrHistogram]:
        """Latency by time: an HdrHistogram for each period, ns. Needs `hdr=True` at the run."""
        return _extras.histograms(self._log())

    def histogram(self) -> HdrHistogram:
        """Latency of the whole run, ns. Needs `hdr=True` at the run."""
        return _extras.sum_of(self.histograms())

    def _log(self) -> str:
        if self.hdr_log is None:
            raise ValueError("this run has kept no histograms: run it with hdr=True")
        return self.hdr_log


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [getattr(row, name) for row in rows] for name in COLUMNS}
