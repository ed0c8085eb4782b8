"""Runs of the real program: rows as they come, results, and what is a field and what an exception."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from conftest import ANY_RATE

import mpps


def test_a_run_gives_its_numbers_by_name_and_its_rows(program: str) -> None:
    result = mpps.run("sendrecv", "loop:delay=1ms", duration="500ms", **ANY_RATE)
    assert (result.workload, result.valid, result.exit_code, result.invalid_reasons) == ("sendrecv", True, 0, [])
    assert result.tx_packets > 0
    assert result.tx_packets == result.rx_packets + result.lost + result.late
    assert sum(row.tx_packets or 0 for row in result.rows) == result.tx_packets
    assert result.latency_ns.count == result.rx_packets
    p50 = result.latency_ns.p50
    assert p50 is not None and p50 >= 1e6
    assert sum(lane["tx_packets"] for lane in result.lanes) == result.tx_packets
    assert (result.due_packets, result.cpu_quota_unread) == (result["due_packets"], None)
    assert result["host"]["path"] == "loop"
    assert result.plan is not None and result.plan["ports"] == ["loop:delay=1ms"]


def test_rows_come_while_the_run_goes_on_and_stop_ends_it_with_a_result(program: str) -> None:
    with mpps.start("sendrecv", "loop:", duration="1h", settle="10ms", **ANY_RATE) as run:
        assert run.start["schema"] == "mpps.lines/1"
        seen = []
        for row in run:
            seen.append(row)
            if len(seen) == 2:
                assert run._child.process.poll() is None
                run.stop()
        result = run.result()
    assert result.interrupted
    assert result.rows == seen
    assert [row.time_s for row in seen[:2]] == [0.0, 0.1]


def test_the_end_of_the_block_stops_a_run_whose_result_is_there_afterwards(program: str) -> None:
    with mpps.start("reflect", "null:") as reflector:
        assert reflector.start["plan"]["workload"] == "reflect"
    assert reflector.result().workload == "reflect"
    assert reflector.result().valid


def test_a_reflector_is_ready_when_start_returns(program: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        end = f"127.0.0.1:{free.getsockname()[1]}"
    with mpps.start("reflect", f"udp:{end}", interval="10ms"):
        result = mpps.run("sendrecv", "udp:127.0.0.1", dest=end, duration="300ms", **ANY_RATE)
    assert result.rx_packets > 0
    # Were it not ready, the first packets would be lost.
    assert next(row for row in result.rows if row.tx_packets).rx_packets


def test_not_valid_is_a_field(program: str) -> None:
    result = mpps.run("send", "null:", rate="900Mpps", duration="100ms")
    assert (result.valid, result.exit_code, result.met) == (False, 3, False)
    assert "the offered rate is" in result.invalid_reasons[0]


def test_a_remark_has_its_name_and_numbers(program: str) -> None:
    result = mpps.run("send", "null:", rate="900Mpps", duration="100ms")
    missed = result.remarks[0]
    assert (missed.name, missed.invalid, missed.sentence) == ("missed_departures", True, result.invalid_reasons[0])
    assert missed.values["missed_packets"] == result.missed
    assert missed.values["off_ratio"] > missed.values["allowed_ratio"] == 0.001
    assert [one.sentence for one in result.remarks] == result.invalid_reasons + result.warnings


def test_an_expectation_that_is_not_met_is_a_field(program: str) -> None:
    result = mpps.run("sendrecv", "loop:loss=0.5", duration="300ms", expect=["loss<1%", "loss<100%"], **ANY_RATE)
    assert (result.valid, result.exit_code, result.met) == (True, 4, False)
    assert [(one.expected, one.met) for one in result.expectations] == [("loss<1%", False), ("loss<100%", True)]
    assert 0 < (result.expectations[0].measured or 0) < 1


@pytest.mark.parametrize(
    ("words", "options", "line"),
    [
        (["sendrecv", "nul:"], {}, "port 'nul:': unknown path 'nul': want one of"),
        (["sendrecv", "loop:"], {"rate": "fast"}, "--rate 'fast': want a number above 0"),
        (["sendrecv", "loop:"], {"no_such_option": True}, "unexpected argument '--no-such-option'"),
        (["fly", "loop:"], {}, "unrecognized subcommand 'fly'"),
        (["sendrecv", "udp:192.0.2.1"], {"dest": "192.0.2.2:9"}, "192.0.2.1"),
    ],
)
def test_a_failure_is_an_exception_with_the_programs_own_line(
    program: str, words: list[str], options: dict[str, Any], line: str
) -> None:
    with pytest.raises(mpps.MppsError) as raised:
        mpps.run(words[0], *words[1:], **options)
    error = raised.value
    assert line in error.line and str(error) == error.line
    assert not error.line.startswith("mpps:")
    assert error.exit_code in (1, 2)
    assert error.command[0] == program


def test_a_failure_is_raised_where_the_run_is_started(program: str) -> None:
    with pytest.raises(mpps.MppsError, match="unknown path"):
        mpps.start("reflect", "nul:")


def test_the_programs_summary_is_there_for_those_who_ask(program: str) -> None:
    result = mpps.run("sendrecv", "loop:", duration="100ms", quiet=False, **ANY_RATE)
    assert any(line.startswith("intended") for line in result.stderr)


def test_a_run_is_repeated_from_its_plan(program: str, tmp_path: Path) -> None:
    first = mpps.run("sendrecv", "loop:", duration="100ms", **ANY_RATE)
    (tmp_path / "plan.json").write_text(json.dumps(first.plan))
    again = mpps.run("run", str(tmp_path / "plan.json"))
    assert again.plan == first.plan


def test_rows_are_not_kept_where_that_is_asked_for(program: str) -> None:
    with mpps.start("sendrecv", "loop:", duration="300ms", keep_rows=False, **ANY_RATE) as run:
        assert len(list(run)) >= 3
    assert run.result().rows == []
