"""What is remembered of the gateway's answers, and for how long."""

from __future__ import annotations

import grpc

from app.tenancy.agent.outages import Answers, GatewayRefused
from tests.support.clock import Clock

ONE, TWO = ("uid", 1), ("uid", 2)


def refused(code: grpc.StatusCode) -> GatewayRefused:
    return GatewayRefused("no", code=code)


IN_THE_WAY = refused(grpc.StatusCode.FAILED_PRECONDITION)


def pause_of(answers: Answers) -> float:
    pause = answers.next("o")
    assert pause is not None
    return pause


def test_a_yes_and_a_no_stand_until_the_object_changes() -> None:
    clock = Clock(100.0)
    answers = Answers(base=1.0, cap=60.0, clock=clock)
    for refusal in (None, refused(grpc.StatusCode.INVALID_ARGUMENT)):
        answers.put("o", ONE, refusal)
        clock.now += 1e6
        answer = answers.get("o", ONE)
        assert answer is not None
        assert answer.refusal is refusal
        assert answers.next("o") is None
        assert answers.get("o", TWO) is None


def test_what_stands_in_the_way_stands_for_a_while() -> None:
    clock = Clock(100.0)
    answers = Answers(base=1.0, cap=60.0, clock=clock)
    answers.put("o", ONE, IN_THE_WAY)
    pause = pause_of(answers)
    assert 0 <= pause <= 1.0
    clock.now += pause / 2
    assert (answers.get("o", ONE) is None) == (pause == 0)
    clock.now += pause
    assert answers.get("o", ONE) is None
    assert answers.next("o") == 0.0


def test_pauses_grow_and_begin_anew_with_a_new_version_or_a_yes() -> None:
    clock = Clock(100.0)
    answers = Answers(base=1.0, cap=1024.0, clock=clock)

    def longest(version: tuple[str, int], times: int) -> float:
        pauses = []
        for _ in range(times):
            answers.put("o", version, IN_THE_WAY)
            answers.clear()
            answers.put("o", version, IN_THE_WAY)
            pauses.append(pause_of(answers))
        return max(pauses)

    assert longest(ONE, 40) > 4.0
    answers.put("o", TWO, IN_THE_WAY)
    assert pause_of(answers) <= 1.0
    assert longest(TWO, 40) > 4.0
    answers.put("o", TWO, None)
    answers.put("o", TWO, IN_THE_WAY)
    assert pause_of(answers) <= 1.0


def test_nothing_is_known_of_what_was_dropped() -> None:
    answers = Answers(base=1.0, cap=60.0, clock=Clock(100.0))
    answers.put("o", ONE, None)
    answers.drop("o")
    assert answers.get("o", ONE) is None
    assert answers.next("o") is None
