"""Data frames and histograms, where their packages are installed, and what is said where they are not."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from conftest import ANY_RATE

import mpps
from mpps._row import COLUMNS

ROWS = [mpps.Row(0.0, 0.1, 1_795_533_820_247_517_935, tx_packets=3), mpps.Row(0.1, 0.1, 7, latency_p99_us=1.5)]
RESULT = mpps.Result({"workload": "send", "valid": True}, exit_code=0, rows=ROWS)


def test_rows_become_a_pandas_frame_with_a_type_for_each_column() -> None:
    pytest.importorskip("pandas")
    frame = RESULT.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    # Nanoseconds since 1970 fit no floating-point number.
    assert frame["start_utc_ns"].tolist() == [1_795_533_820_247_517_935, 7]
    assert frame["latency_p99_us"].isna().tolist() == [True, False]
    assert frame["rx_packets"].dtype == "float64"
    assert len(mpps.Result({}, exit_code=0).to_pandas()) == 0


def test_rows_become_a_polars_frame_with_a_type_for_each_column() -> None:
    polars = pytest.importorskip("polars")
    frame = RESULT.to_polars()
    assert frame.columns == list(COLUMNS)
    assert frame["start_utc_ns"].to_list() == [1_795_533_820_247_517_935, 7]
    assert frame["tx_packets"].to_list() == [3, None]
    assert frame["rx_packets"].dtype == polars.Int64


def test_a_table_becomes_a_frame() -> None:
    table = mpps.Table("loads", "", ["load_pps", "mark"], [[1, ""], [2, None]])
    pytest.importorskip("pandas")
    assert table.to_pandas()["load_pps"].tolist() == [1, 2]
    pytest.importorskip("polars")
    assert table.to_polars()["mark"].to_list() == ["", None]


def test_histograms_are_of_every_packet(program: str) -> None:
    pytest.importorskip("hdrh")
    result = mpps.run("sendrecv", "loop:delay=1ms", duration="500ms", hdr=True, **ANY_RATE)
    whole = result.histogram()
    assert whole.get_total_count() == result.rx_packets
    assert sum(one.get_total_count() for one in result.histograms()) == result.rx_packets
    p99 = result.latency_ns.p99
    assert p99 is not None
    # A packet more or less, as both count to a percentile in ways of their own, within the 1 % of a bucket.
    below, above = (whole.get_value_at_percentile(at) for at in (98.8, 99.2))
    assert 0.99 * below <= p99 <= 1.01 * above


def test_a_log_that_was_asked_for_by_name_stays(program: str, tmp_path: Path) -> None:
    result = mpps.run("sendrecv", "loop:", duration="100ms", hdr=tmp_path / "run.hlog", **ANY_RATE)
    assert result.hdr_log == (tmp_path / "run.hlog").read_text()


def test_a_run_without_histograms_says_how_to_have_them() -> None:
    with pytest.raises(ValueError, match="hdr=True"):
        RESULT.histogram()


@pytest.mark.parametrize(("method", "extra"), [("to_pandas", "pandas"), ("to_polars", "polars"), ("histogram", "hdr")])
def test_a_missing_package_is_told_with_the_line_that_installs_it(
    method: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    result = mpps.Result({}, exit_code=0, hdr_log="")
    with pytest.raises(mpps.MissingExtra, match=rf"pip install 'mpps\[{extra}\]'"):
        getattr(result, method)()


def test_rows_have_exactly_the_columns_of_the_streams_schema() -> None:
    schema = Path(__file__).parents[2] / "docs" / "lines.schema.json"
    if not schema.exists():
        pytest.skip("docs/lines.schema.json is not here: no clone of the repository")
    named = json.loads(schema.read_text())["$defs"]["row"]["properties"]
    assert set(COLUMNS) == set(named) - {"event"}
