"""The benchmark's parts work together: it measures nothing here, it counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import reviews
from bench.load import Generator, LoadError, Result
from bench.planner import cost
from bench.rounds import Duel
from bench.servers import Server, load, start_floor
from bench.surroundings import Surroundings

REVIEW = reviews.read("webhook-demo")


def answer(uid: str, *, allowed: bool = True) -> str:
    response = {"uid": uid, "allowed": allowed}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return Surroundings.prepare(tmp_path)


@pytest.fixture
def floor(around: Surroundings) -> Iterator[Server]:
    """The floor with a right answer, one of another uid and a denial."""
    answers = around.directory / "answers.json"
    paths = {
        "/webhook-demo": answer(REVIEW.uid),
        "/other": answer("other"),
        "/denied": answer(REVIEW.uid, allowed=False),
    }
    answers.write_text(json.dumps(paths))
    server = start_floor(around, answers)
    yield server
    server.stop()


def test_load_counts_checked_answers_of_the_floor(floor: Server, around: Surroundings) -> None:
    result = load(floor, around, REVIEW.name, seconds=0.2, warm_up=0.0, connections=3)
    # Every connection has at least the review that was in flight when the time began.
    assert result.answers >= 3
    assert 0 < result.p50 <= result.p99 <= result.seconds
    assert result.rate == result.answers / result.seconds
    assert json.loads(result.first_answer)["response"]["uid"] == REVIEW.uid


@pytest.mark.parametrize("path", ["/other", "/denied"])
def test_load_refuses_an_answer_that_is_not_the_reviews(floor: Server, around: Surroundings, path: str) -> None:
    with pytest.raises(LoadError, match="want it allowed under its own uid"):
        Generator(("127.0.0.1", floor.port), path, review=REVIEW, connections=1, cafile=around.certificate)


def test_generator_keeps_one_review_in_flight_on_each_connection(floor: Server, around: Surroundings) -> None:
    address = ("127.0.0.1", floor.port)
    generator = Generator(address, "/webhook-demo", review=REVIEW, connections=4, cafile=around.certificate)
    latencies, took = generator.run(0.0)
    generator.close()
    assert len(latencies) == 4
    assert max(latencies) <= took


def test_ratios_are_paired_by_round() -> None:
    """One slow moment of the machine hits a pair, not the ratio."""

    def result(answers: int) -> Result:
        return Result(answers, 1.0, p50=1 / answers, p99=2 / answers, generator_busy=0, server_busy=0, first_answer="")

    duel = Duel("rich", (result(50), result(10), result(40)), (result(100), result(20), result(100)))
    assert duel.ratios == [0.5, 0.5, 0.4]
    assert duel.throughput == 0.5
    assert duel.latency(50) == 2.0


def test_planner_reads_plans_and_encodes_every_review() -> None:
    found = cost("webhook-demo", calls=1)
    assert min(found.decode, found.plan, found.encode) > 0
