"""The words for an outage are stable: each change is a write of every object that shows them."""

from __future__ import annotations

from app.tenancy.agent.outages import UNKNOWN, Cause, Outages
from tests.support.clock import Clock

DOWN = Cause("unavailable", "connection refused")
LATE = Cause("deadline_exceeded", "deadline_exceeded")
REFUSED = Cause("permission_denied", "tenant tenant1 is suspended")


def test_words_for_silence_stay_after_the_patience() -> None:
    clock = Clock()
    outages = Outages(patience=30, clock=clock)
    assert [outages.note("rules", cause) for cause in (UNKNOWN, DOWN, LATE, LATE)] == [True, True, True, False]
    clock.now = 30
    assert not outages.note("rules", DOWN)
    assert outages["rules"].cause == LATE
    assert outages["rules"].message.endswith(" because the gateway cannot be reached: deadline_exceeded")


def test_a_refusal_takes_the_place_of_silence_and_not_the_reverse() -> None:
    outages = Outages(patience=30, clock=Clock())
    assert [outages.note("rules", cause) for cause in (DOWN, REFUSED, DOWN, LATE)] == [True, True, False, False]
    assert outages["rules"].message.endswith(" because the gateway refuses the agent: tenant tenant1 is suspended")
    files = Cause("", "the certificate cannot be used")
    assert [outages.note("rules", cause) for cause in (files, DOWN)] == [True, True]


def test_the_next_outage_has_its_own_time_and_cause() -> None:
    outages = Outages(patience=30, clock=Clock())
    outages.note("rules", REFUSED)
    outages.over("rules")
    assert outages.note("rules", DOWN)
    assert outages["rules"].cause == DOWN


def test_a_message_of_another_agent_says_the_same() -> None:
    outages = Outages(patience=30, clock=Clock())
    outages.note("rules", DOWN)
    why = "because the gateway cannot be reached: unavailable: connection refused"
    assert outages["rules"].shown_by(f"not connected since 2026-01-01T00:00:00Z {why}")
    assert not outages["rules"].shown_by(f"not connected since 2026-01-01T00:00:00Z {why} again")
    assert not outages["rules"].shown_by(why)


def test_refusals_that_alternate_are_shown_less_and_less_often() -> None:
    """As where two replicas of a gateway differ: each change is a write of every object."""
    clock, other = Clock(), Cause("permission_denied", "bound to no tenant")
    outages, shown = Outages(patience=30, clock=clock), []
    for second in range(0, 3600, 15):
        clock.now = second
        if outages.note("rules", other if second % 30 else REFUSED):
            shown.append(second)
    assert shown == [0, 15, 60, 135, 270, 525, 1020, 1635, 2250, 2865, 3480]


def test_another_refusal_after_a_while_is_shown_at_once() -> None:
    clock = Clock()
    outages = Outages(patience=30, clock=clock)
    outages.note("rules", REFUSED)
    outages.note("rules", Cause("permission_denied", "not pinned"))
    clock.now = 31
    assert outages.note("rules", REFUSED)
