"""When the status of a rule is written, by a clock that the test moves."""

from __future__ import annotations

import pytest

from app.workloads.controller.writing import Pace
from app.workloads.model import ObjectKey

RULE: ObjectKey = ("tenant-tenant1", "r")


class Stage:
    """A rule-status worker that looks when it may, and always has something to write."""

    def __init__(self) -> None:
        self.now, self.writes = 1000.0, list[float]()
        self.pace, self._due = Pace(1.0, clock=lambda: self.now), False

    def changed(self) -> bool:
        looks = self.pace.changed(RULE)
        self._due = self._due or looks
        return looks

    def running_changed(self) -> bool:
        looks = self.pace.running_changed(RULE)
        self._due = self._due or looks
        return looks

    def until(self, end: float) -> None:
        """Let the time pass; a status is written when it is due."""
        while self._due and (due := self.now + max(0.0, self.pace.wait(RULE))) <= end:
            self.now = due
            self._due = False
            self.pace.begin(RULE)
            self.pace.wrote(RULE)
            self.writes.append(round(due - 1000.0, 3))
        self.now = end


def test_a_change_is_written_soon_and_further_ones_once_in_an_interval() -> None:
    stage = Stage()
    for _ in range(50):
        stage.changed()
        stage.until(stage.now + 0.05)
    stage.until(1100.0)
    assert stage.writes == [0.1, 1.1, 2.1, 3.1]


def test_a_wave_of_companions_that_start_is_written_when_it_is_over() -> None:
    stage = Stage()
    for _ in range(100):
        stage.running_changed()
        stage.until(stage.now + 0.02)
    assert not stage.writes
    stage.until(1100.0)
    assert stage.writes == [2.48]


def test_a_long_wave_is_written_now_and_then() -> None:
    """10,000 companions that the scheduler binds at 50 a second."""
    stage = Stage()
    for _ in range(10_000):
        stage.running_changed()
        stage.until(stage.now + 0.02)
    stage.until(1300.0)
    assert len(stage.writes) == 20
    assert stage.writes[0] == 10.0


def test_companions_that_start_and_fail_again_cost_no_more_than_a_write_in_an_interval() -> None:
    stage = Stage()
    for _ in range(100):
        stage.running_changed()
        stage.until(stage.now + 0.6)
    assert len(stage.writes) <= 61


def test_any_other_change_does_not_wait_for_the_end_of_a_wave() -> None:
    stage = Stage()
    assert stage.running_changed()
    assert not stage.running_changed()
    assert stage.changed(), "it has to be looked at earlier"
    assert not stage.changed()
    assert not stage.running_changed()
    stage.until(1100.0)
    assert stage.writes == [0.1]


def test_nothing_is_kept_of_a_rule_that_is_gone() -> None:
    stage = Stage()
    stage.running_changed()
    stage.until(1001.0)
    stage.pace.forget(RULE)
    assert stage.pace.wait(RULE) <= 0
    assert stage.changed()
    assert stage.pace.wait(RULE) == pytest.approx(0.1), "as of a rule that was never written"
