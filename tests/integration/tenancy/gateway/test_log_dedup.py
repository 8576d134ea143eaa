"""What a caller can cause at will does not fill the log; the metrics count all of it."""

from __future__ import annotations

import grpc
import pytest

from app.logs import LogDedup
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from tests.support.gateway_calls import Sender, admin_rules, fails
from tests.support.tenancy import Door
from tests.support.waiting import PATIENCE

ADMIN = "universe.admin.workload.v1.AdminWorkloadRuleService"


def lines(capsys: pytest.CaptureFixture[str], event: str) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if event in line]


async def test_equal_refusals_are_one_line(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    channel, other = door.tenant("tenant1"), door.tenant("tenant2")
    for _ in range(20):
        error = await fails(admin_rules(channel).List(admin_pb.ListRequest(), timeout=PATIENCE))
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    await fails(admin_rules(other).List(admin_pb.ListRequest(), timeout=PATIENCE))
    first, second = lines(capsys, "call refused")
    assert "tenant1.tenant.local" in first
    assert "tenant2.tenant.local" in second
    assert door.seen.refusals == [(ADMIN, "wrong_service")] * 21


async def test_equal_events_that_are_dropped_are_one_line(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    sender = Sender(door.tenant("tenant1"))
    for number in range(50):
        await sender.raw_delete(f"BAD{number}")
    await sender.close()
    (line,) = lines(capsys, "event dropped")
    assert "BAD0" in line
    assert door.seen.dropped == [("tenant1", "id")] * 50


def test_what_is_left_out_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    spared = LogDedup(window=10.0, clock=lambda: now[0])
    for _ in range(5):
        spared.warning("spared", {"who": "a"}, peer="p")
    now[0] = 10.0
    spared.warning("spared", {"who": "a"}, peer="p")
    first, second = lines(capsys, "spared")
    assert ("left_out=0" in first, "left_out=4" in second) == (True, True)


def test_the_rest_is_told_when_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """The end of a flood is not followed by another line that could say how many there were."""
    now = [0.0]
    spared = LogDedup(window=10.0, clock=lambda: now[0])
    for _ in range(3):
        spared.warning("spared", {"who": "a"}, peer="p")
    spared.warning("spared", {"who": "b"}, peer="p")
    spared.review()
    assert len(lines(capsys, "spared")) == 2
    now[0] = 10.0
    spared.review()
    spared.review()
    (line,) = lines(capsys, "spared")
    assert "who=a" in line
    assert "left_out=2" in line


def test_what_is_kept_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever comes with ever new names fills neither the log nor the memory."""
    spared = LogDedup(clock=lambda: 0.0)
    for number in range(5000):
        spared.warning("spared", {"who": str(number)})
    assert len(lines(capsys, "spared")) == 1001
