"""What a generator reports is read strictly: a round with one wrong answer measures nothing."""

from __future__ import annotations

import json

import pytest

from bench.load import Expected, LoadError, Report

GOOD = {"answers": 8066, "seconds": 1.003229, "p50": 0.001612, "p99": 0.004628, "cpu": 0.29, "bad": 0, "broken": 0}
WRK = "Running 1s test @ https://127.0.0.1:1\n  1 threads and 16 connections\nRequests/sec:   8040.00\n"


def test_the_report_is_the_line_after_what_wrk_prints_itself() -> None:
    report = Report.parse(f"{WRK}{json.dumps(GOOD)}\n")
    assert (report.answers, report.seconds, report.p99, report.cpu) == (8066, 1.003229, 0.004628, 0.29)


@pytest.mark.parametrize(("field", "value"), [("bad", 1), ("broken", 1), ("answers", 0)])
def test_a_wrong_answer_or_none_spoils_the_round(field: str, value: int) -> None:
    with pytest.raises(LoadError):
        Report.parse(f"{WRK}{json.dumps(GOOD | {field: value})}\n")


def test_what_answers_have_in_common_is_expected_of_all() -> None:
    expected = Expected.of([b'{"uid":"aab","patch":"x"}', b'{"uid":"acd","patch":"x"}'])
    assert (expected.prefix, expected.suffix) == ('{"uid":"a', '","patch":"x"}')
    assert expected.met_by(b'{"uid":"azz","patch":"x"}')
    assert not expected.met_by(b'{"uid":"azz","patch":"y"}')
    assert not expected.met_by(b'{"uid":"azzz","patch":"x"}')


def test_one_answer_is_expected_whole() -> None:
    expected = Expected.of([b"always"])
    assert expected.met_by(b"always")
    assert not expected.met_by(b"aalways")


def test_answers_of_several_sizes_cannot_be_checked() -> None:
    with pytest.raises(LoadError, match="2 sizes"):
        Expected.of([b"a", b"ab"])
