"""A lab as a context manager (root)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from conftest import ANY_RATE, gone

import mpps


def namespaces(name: str) -> list[str]:
    folder = Path("/run/netns")
    return [one for one in os.listdir(folder) if one.startswith(name)] if folder.exists() else []


def test_packets_go_from_one_host_of_a_lab_to_the_other(lab: mpps.Lab) -> None:
    with lab.b.start("reflect", "af_packet:eth1") as reflector:
        result = lab.a.run("sendrecv", "af_packet:eth1", dest=f"{lab.b.address}:9000", duration="500ms", **ANY_RATE)
    assert result.rx_packets > 0
    assert reflector.result().rx_packets >= result.rx_packets


def test_another_program_runs_on_a_host_and_its_failure_is_an_exception(lab: mpps.Lab) -> None:
    assert lab.b.address in lab.b.exec("ip", "-brief", "addr").stdout
    with pytest.raises(mpps.MppsError, match="nosuch"):
        lab.a.exec("ip", "link", "show", "nosuch")


def test_a_lab_that_is_there_already_is_left_alone(lab: mpps.Lab) -> None:
    with pytest.raises(mpps.MppsError, match="is there already"), mpps.lab(lab.name):
        pass
    assert len(namespaces(lab.name)) == 2


def test_a_lab_is_removed_with_what_runs_in_it_however_the_block_ends(lab: mpps.Lab) -> None:
    with pytest.raises(RuntimeError), mpps.lab() as own:
        assert len(namespaces(own.name)) == 2
        run = own.b.start("reflect", "udp:10.99.0.2:9000")
        raise RuntimeError
    assert namespaces(own.name) == []
    # The lab has ended it: how it took that is its own matter.
    with contextlib.suppress(mpps.MppsError):
        run.result()
    assert gone(run.pid)


def test_two_labs_at_a_time_have_names_of_their_own(lab: mpps.Lab) -> None:
    with mpps.lab(mtu=9000) as other:
        assert other.name != lab.name
        assert "mtu 9000" in other.a.exec("ip", "link", "show", "eth1").stdout


def test_a_lab_that_can_not_be_made_is_an_exception_with_the_programs_own_line(lab: mpps.Lab) -> None:
    with pytest.raises(mpps.MppsError, match="lab name"), mpps.lab("no/name"):
        pass


def test_both_ways_have_a_summary_each(lab: mpps.Lab) -> None:
    lab.a.exec("ip", "link", "add", "eth2", "type", "veth", "peer", "name", "eth3")
    for name in ("eth2", "eth3"):
        lab.a.exec("ip", "link", "set", name, "up")
    result = lab.a.run("sendrecv", "af_packet:eth2", "af_packet:eth3", both_ways=True, duration="300ms", **ANY_RATE)
    assert [way.name for way in result.directions] == ["A to B", "B to A"]
    assert sum(way.tx_packets for way in result.directions) == result.tx_packets
