"""Methods and comparisons: `result.json` with ways into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ANY_RATE

import mpps

Fake = Callable[[str], Path]
#: For methods whose trials must not be void on a busy host.
SHORT: dict[str, Any] = {
    "max_rate": "1kpps",
    "catch_up": "1s",
    "settle": "50ms",
}


def test_a_search_gives_its_rates_and_every_trial(program: str, tmp_path: Path) -> None:
    told: list[str] = []
    found = mpps.ndr(
        "loop:",
        goal="loss=0,initial=100ms,final=100ms,sum=200ms,width=50%",
        search_time="5s",
        out=tmp_path / "out",
        progress=told.append,
        **SHORT,
    )
    assert (found.test, found.out) == ("ndr", str(tmp_path / "out"))
    assert found.results[0]["goal"] == 0
    assert {"lower_pps", "upper_pps"} <= found.results[0].keys()
    assert len(found.table("trials").rows) == len(found.trials) > 0
    assert found.table("trials").to_dicts()[0]["trial"] == 1
    # Whether the host let it end is a field.
    assert found.valid == found.complete == (found.incomplete is None) == (found.exit_code == 0)
    assert (tmp_path / "out" / "report.html").exists()
    assert any("trial" in line for line in told)
    again = mpps.MethodResult.load(tmp_path / "out")
    assert again.data == found.data


def test_a_test_of_rfc2544_gives_what_it_found_by_frame_size(program: str) -> None:
    found = mpps.rfc2544(
        "throughput",
        "loop:",
        sizes=64,
        trial="200ms",
        first_trial="200ms",
        resolution="50%",
        search_time="5s",
        pause="0s",
        **SHORT,
    )
    assert found.test == "rfc2544"
    assert found.out is None
    assert [one["frame_size_bytes"] for one in found.results] == [64]


def test_an_overload_gives_a_table_by_load(program: str) -> None:
    found = mpps.overload("loop:", reference="500pps", trial="100ms", rounds=1, pause="0s", **SHORT)
    assert found.test == "overload"
    loads = [row["load_ratio"] for row in found.table("overload").to_dicts()]
    assert (loads[0], loads[-1]) == (0.1, 2.0)
    with pytest.raises(KeyError, match="no table 'loads': want one of overload, "):
        found.table("loads")


def test_runs_are_compared_in_turns(program: str) -> None:
    slow, fast = (
        mpps.command("send", "null:", rate=rate, duration="200ms", catch_up="1s", tolerance="100%")
        for rate in ("200pps", "2kpps")
    )
    found = mpps.compare(slow, fast, rounds=6, pause="0s", metric="offered_pps")
    assert found.test == "compare"
    (one,) = found.results
    assert (one["subject"], one["metric"]) == ("B", "offered_pps")
    assert one["ratio"] > 1


def test_methods_run_on_other_hosts_too(program: str) -> None:
    # A prefix with a `--` of its own, as that of a lab's host.
    elsewhere = mpps.Host(["sh", "-c", 'test "$1" = -- && shift && exec "$@"', "sh", "--"], program=program)
    run = mpps.command("send", "null:", rate="200pps", duration="100ms", catch_up="1s", tolerance="100%")
    found = elsewhere.compare(run, run, rounds=6, pause="0s", metric="offered_pps")
    assert found.test == "compare"


def test_results_of_earlier_runs_are_compared(program: str) -> None:
    first, second = (
        [mpps.run("sendrecv", f"loop:delay={delay}", duration="300ms", **ANY_RATE) for _ in range(2)]
        for delay in ("100us", "20ms")
    )
    found = mpps.compare(first, second, metric="p50", force=True)
    # Two results on a side give values without a verdict.
    fast, slow = (one["median"] for one in found.table("spread-p50").to_dicts())
    assert slow > 2 * fast
    assert found.results[0]["verdict"] is None


def test_wrong_arguments_are_an_exception_with_the_programs_own_line(program: str) -> None:
    with pytest.raises(mpps.MppsError, match="^--rate.*the method chooses it") as raised:
        mpps.ndr("loop:", rate="1kpps")
    assert raised.value.exit_code == 2


def test_a_killed_method_is_an_exception_with_its_last_lines(fake: Fake) -> None:
    fake('sys.stderr.write("mpps: trial 1\\n"); sys.stderr.flush(); os.kill(os.getpid(), signal.SIGKILL)')
    with pytest.raises(mpps.ProgramKilled, match="SIGKILL") as raised:
        mpps.ndr("loop:")
    assert raised.value.stderr == ["mpps: trial 1"]


def test_a_method_that_ended_before_it_found_anything_is_an_exception(fake: Fake) -> None:
    fake('sys.stderr.write("mpps: interrupted\\n"); sys.exit(3)')
    with pytest.raises(mpps.MppsError, match="^interrupted$"):
        mpps.ndr("loop:")
