"""However a run ends, and whoever ends it: no process is left, nobody waits for ever, and what was read is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from conftest import ANY_RATE, gone, within

import mpps

Fake = Callable[[str], Path]


def test_an_exception_in_the_block_ends_the_program_and_waits_for_it(program: str) -> None:
    with pytest.raises(RuntimeError, match="of the block"):
        with mpps.start("sendrecv", "loop:", duration="1h", **ANY_RATE) as run:
            next(run)
            raise RuntimeError("of the block")
    assert gone(run.pid)
    with pytest.raises(mpps.MppsError, match="was ended before its result was there"):
        run.result()


@pytest.mark.parametrize("where", ["run", "rows"])
def test_ctrl_c_ends_the_program_and_waits_for_it(program: str, where: str) -> None:
    script = """
import mpps, sys
with mpps.start("sendrecv", "loop:", duration="1h", rate="1kpps", tolerance="100%") as run:
    next(run)
    print(run.pid, flush=True)
    run.result() if sys.argv[1] == "run" else list(run)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as python:
        assert python.stdout is not None
        pid = int(python.stdout.readline())
        # To Python alone, as a notebook's button may; a terminal sends it to both.
        python.send_signal(signal.SIGINT)
        _, said = python.communicate()
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert gone(pid)


def test_a_program_does_not_outlive_an_interpreter_that_has_not_waited_for_it(program: str) -> None:
    script = """
import mpps
run = mpps.start("sendrecv", "loop:", duration="1h", rate="1kpps", tolerance="100%")
print(run.pid, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert gone(int(done.stdout))


def test_a_killed_program_is_an_exception_that_keeps_the_rows_so_far(program: str) -> None:
    with pytest.raises(mpps.ProgramKilled) as raised:
        with mpps.start("sendrecv", "loop:", duration="1h", **ANY_RATE) as run:
            first = [next(run), next(run)]
            os.kill(run.pid, signal.SIGKILL)
            list(run)
    assert raised.value.rows[:2] == first
    assert raised.value.exit_code == -signal.SIGKILL
    assert "SIGKILL" in str(raised.value)
    assert gone(run.pid)


def test_a_line_that_a_killed_program_has_begun_is_no_row(fake: Fake) -> None:
    fake("""
say("start", **START)
row(0)
sys.stdout.write('{"event": "row", "time_s": 0.1, "interval'); sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
""")
    with pytest.raises(mpps.ProgramKilled) as raised:
        mpps.run("sendrecv", "loop:")
    assert [row.time_s for row in raised.value.rows] == [0.0]


def test_a_program_that_says_much_on_standard_error_holds_nothing_up(fake: Fake) -> None:
    # More than any pipe holds, before a line that is waited for, between rows, and after the last.
    fake("""
def much(): sys.stderr.write(("x" * 99 + "\\n") * 40000); sys.stderr.flush()
much(); say("start", **START)
much(); row(0)
much(); say("end", **END)
much(); sys.stderr.write("mpps: the last line\\n")
""")
    result = mpps.run("sendrecv", "loop:")
    assert len(result.rows) == 1
    assert result.stderr[-1] == "mpps: the last line"
    assert len(result.stderr) <= 1000


def test_streams_have_results_and_rows_and_what_is_unknown_of_them_is_passed_over(fake: Fake) -> None:
    fake("""
say("start", **START)
row(0)
gold = dict(kind="stream", name="gold", tx_packets=10, lost_packets=1, latency_avg_us=2.5, later="?")
say("streams", time_s=0.0, interval_s=0.1, start_utc_ns=7, start_utc="?", rows=[gold, dict(kind="size", name="64")])
stream = dict(name="gold", group=None, tx_packets=10, rx_packets=9, lost=1, valid=True, invalid_reasons=[],
              latency_ns=dict(p99=12, count=9), delay_variation_ns=None)
say("end", **END, streams=[stream], groups=[], sizes=[stream])
""")
    result = mpps.run("sendrecv", "loop:")
    gold = result.streams[0]
    assert (gold.name, gold.tx_packets, gold.latency_ns.p99, gold.group) == ("gold", 10, 12, None)
    assert (gold["lost"], gold.delay_variation_ns) == (1, None)
    assert repr(gold) == "<gold: 10 sent, 9 received, 1 lost, valid>"
    assert (result.groups, len(result.sizes)) == ([], 1)
    assert [(row.kind, row.name, row.time_s, row.interval_s) for row in result.stream_rows] == [
        ("stream", "gold", 0.0, 0.1),
        ("size", "64", 0.0, 0.1),
    ]
    assert (result.stream_rows[0].latency_avg_us, result.stream_rows[1].tx_packets) == (2.5, None)
    assert len(result.rows) == 1


def test_results_of_a_program_without_streams_have_none(fake: Fake) -> None:
    fake("""
say("start", **START)
say("end", **END)
""")
    result = mpps.run("sendrecv", "loop:")
    assert (result.streams, result.groups, result.sizes, result.stream_rows) == ([], [], [], [])


def test_a_line_of_streams_without_its_rows_is_none(fake: Fake) -> None:
    fake("""
say("start", **START)
say("streams", time_s=0.0, interval_s=0.1)
say("end", **END)
""")
    with pytest.raises(mpps.MppsError, match="no rows of streams"):
        mpps.run("sendrecv", "loop:")


def test_rows_that_nobody_has_read_hold_the_end_up_neither(fake: Fake) -> None:
    fake("""
say("start", **START)
for at in range(20000): row(at)
say("end", **END)
""")
    assert len(mpps.run("sendrecv", "loop:").rows) == 20000


def test_a_run_that_is_read_late_did_not_wait_for_its_reader(fake: Fake) -> None:
    # More than a pipe holds; the program gives up on a reader who takes none of it.
    fake("""
say("start", **START)
for at in range(5000): row(at)
say("end", **END)
""")
    with mpps.start("sendrecv", "loop:") as run:
        within("the program has ended", lambda: run._child.process.poll() is not None)
        assert len(run.result().rows) == 5000


def test_a_run_that_is_stopped_twice_waits_for_its_packets_all_the_same(program: str) -> None:
    # A second signal would end the settle time, and what is under way would be lost.
    with mpps.start("sendrecv", "loop:delay=500ms", duration="1h", settle="5s", **ANY_RATE) as run:
        run.stop()
        run.stop()
    result = run.result()
    assert result.interrupted
    assert result.lost == 0


def test_the_end_of_the_block_does_not_cut_off_the_settle_time(program: str) -> None:
    with mpps.start("sendrecv", "loop:delay=500ms", duration="200ms", settle="5s", **ANY_RATE) as run:
        within("it has sent", run._has_sent)
        run.stop()
    result = run.result()
    assert not result.interrupted
    assert result.lost == 0


def test_leaving_the_block_ends_a_program_that_waits_for_a_reader(fake: Fake) -> None:
    fake("""
signal.signal(signal.SIGTERM, lambda *_: None)
say("start", **START)
for at in range(20000): row(at)
""")
    with pytest.raises(RuntimeError), mpps.start("sendrecv", "loop:") as run:
        raise RuntimeError
    assert gone(run.pid)


def test_a_program_that_does_not_end_when_it_is_asked_is_killed(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpps._child.GRACE_S", 0.2)
    fake("""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("start", **START)
while True: time.sleep(1)
""")
    with pytest.raises(RuntimeError), mpps.start("sendrecv", "loop:") as run:
        raise RuntimeError
    assert gone(run.pid)


def test_another_thread_may_stop_a_run(program: str) -> None:
    run = mpps.start("sendrecv", "loop:", duration="1h", settle="10ms", **ANY_RATE)
    next(run)
    thread = threading.Thread(target=run.stop)
    thread.start()
    assert run.result().interrupted
    thread.join()


def test_unknown_events_and_keys_are_passed_over(fake: Fake) -> None:
    fake("""
say("hello", of="a later version")
say("start", **START, colour="blue")
say("row", time_s=0.0, interval_s=0.1, start_utc_ns=7, tx_packets=1, colour="blue")
say("note", text="the disk is full", level=3)
say("trial", number=1)
say("end", **END, colour="blue")
""")
    result = mpps.run("sendrecv", "loop:")
    assert (result.rows, result.notes) == ([mpps.Row(0.0, 0.1, 7, tx_packets=1)], ["the disk is full"])
    assert result["colour"] == "blue"


def test_another_format_of_the_stream_is_told(fake: Fake) -> None:
    fake('say("start", **{**START, "schema": "mpps.lines/2"}); time.sleep(60)')
    with pytest.raises(mpps.MppsError, match="writes mpps.lines/2, and this package reads mpps.lines/1"):
        mpps.run("sendrecv", "loop:")


def test_what_is_no_json_is_told(fake: Fake) -> None:
    fake('print("hello"); sys.stdout.flush(); time.sleep(60)')
    with pytest.raises(mpps.MppsError, match="no line of mpps.lines/1: b?'hello"):
        mpps.run("sendrecv", "loop:")


def test_what_is_no_json_among_rows_ends_the_program_and_stays_the_answer(fake: Fake) -> None:
    fake("""
say("start", **START)
row(0)
print("oops", flush=True)
say("end", **END)
while True: time.sleep(1)
""")
    run = mpps.start("sendrecv", "loop:")
    with pytest.raises(mpps.MppsError, match="oops"):
        list(run)
    assert gone(run.pid)
    with pytest.raises(mpps.MppsError, match="oops"):
        run.result()


def test_an_error_after_rows_keeps_them_and_its_line(fake: Fake) -> None:
    fake("""
say("start", **START)
row(0)
say("error", message="eth1: gone", exit_code=1)
sys.stderr.write("mpps: eth1: gone\\n")
sys.exit(1)
""")
    with pytest.raises(mpps.MppsError, match="^eth1: gone$") as raised, mpps.start("sendrecv", "loop:") as run:
        list(run)
    assert (raised.value.exit_code, len(raised.value.rows)) == (1, 1)


def test_a_run_that_was_measured_and_then_failed_keeps_its_result(fake: Fake) -> None:
    fake("""
say("start", **START)
say("end", **END)
sys.stderr.write("mpps: json: /x: No space left on device\\n")
sys.exit(1)
""")
    with pytest.raises(mpps.MppsError, match="No space left") as raised:
        mpps.run("sendrecv", "loop:")
    assert raised.value.result is not None and raised.value.result.lost == 1


def test_a_program_that_knows_no_stream_is_told_by_its_own_line(fake: Fake) -> None:
    fake("sys.stderr.write(\"mpps: unexpected argument '--json-lines'\\n\"); sys.exit(2)")
    with pytest.raises(mpps.MppsError, match="^unexpected argument '--json-lines'$") as raised:
        mpps.run("sendrecv", "loop:")
    assert raised.value.exit_code == 2


def test_the_same_failure_is_told_as_often_as_it_is_asked_for(fake: Fake) -> None:
    fake('say("start", **START); os.kill(os.getpid(), signal.SIGKILL)')
    run = mpps.start("sendrecv", "loop:")
    for _ in range(2):
        with pytest.raises(mpps.ProgramKilled):
            run.result()
    with pytest.raises(mpps.ProgramKilled):
        list(run)


def test_a_method_is_ended_by_an_exception_of_the_one_who_watches_it(fake: Fake) -> None:
    fake('sys.stderr.write(f"mpps: {os.getpid()}\\n"); sys.stderr.flush(); time.sleep(600)')
    seen: list[int] = []

    def watch(line: str) -> None:
        seen.append(int(line.split()[-1]))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mpps.ndr("loop:", progress=watch)
    within("the program is gone", lambda: gone(seen[0]))


STARTS = """
import mpps, multiprocessing, sys, threading, time

def work(how):
    if how == "thread":
        started = threading.Thread(target=start)
        started.start()
        started.join()
    else:
        start()
    time.sleep(3600)

def start():
    global run
    run = mpps.start("sendrecv", "loop:", duration="1h", rate="1kpps", tolerance="100%")
    print("program", run.pid, flush=True)

if __name__ == "__main__":
    how, method = sys.argv[1:]
    process = multiprocessing.get_context(method).Process(target=work, args=(how,))
    process.start()
    print("worker", process.pid, flush=True)
    process.join()
"""


def pids(lines: IO[str]) -> tuple[int, int]:
    """The worker and its program. Numbers of processes begin again, so the worker's may be the higher one."""
    named = dict(lines.readline().split() for _ in range(2))
    return int(named["worker"]), int(named["program"])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_program_ends_with_its_python_however_that_ends(
    program: str, tmp_path: Path, method: str, by: signal.Signals
) -> None:
    script = tmp_path / "starts.py"
    script.write_text(STARTS)
    words = [sys.executable, str(script), "main", method]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as python:
        assert python.stdout is not None
        worker, pid = pids(python.stdout)
        os.kill(worker, by)
        within("the program has ended", lambda: gone(pid))
        python.wait()


def test_a_program_outlives_the_thread_that_started_it(program: str, tmp_path: Path) -> None:
    script = tmp_path / "starts.py"
    script.write_text(STARTS)
    words = [sys.executable, str(script), "thread", "spawn"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as python:
        assert python.stdout is not None
        worker, pid = pids(python.stdout)
        # Rows come on: its reader in Python lives, and it got no signal.
        status = Path(f"/proc/{pid}/status")
        before = status.read_text()
        within("the thread is gone", lambda: len(os.listdir(f"/proc/{worker}/task")) <= 3)
        assert "State:\tZ" not in before and status.exists()
        os.kill(worker, signal.SIGKILL)
        within("the program has ended", lambda: gone(pid))
        python.wait()


def test_a_fork_that_ends_leaves_the_run_of_its_parent_alone(program: str) -> None:
    script = """
import mpps, os, sys
run = mpps.start("sendrecv", "loop:", duration="1h", rate="1kpps", tolerance="100%")
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
next(run)
os.kill(run.pid, 0)
run.stop()
print(run.result().interrupted)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, text=True)
    assert done.stdout == "True\n"


def test_a_run_goes_on_beside_other_tasks_of_asyncio(program: str) -> None:
    import asyncio

    async def both() -> tuple[mpps.Result, int]:
        run = asyncio.create_task(asyncio.to_thread(mpps.run, "sendrecv", "loop:", duration="300ms", **ANY_RATE))
        turns = 0
        while not run.done():
            turns += 1
            await asyncio.sleep(0.01)
        return await run, turns

    result, turns = asyncio.run(both())
    assert result.tx_packets and turns > 5
