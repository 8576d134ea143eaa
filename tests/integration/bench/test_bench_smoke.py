"""The benchmark's parts work together: it measures nothing here, it counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import load as loads
from bench import report, rounds
from bench.load import LoadError, Report, ask
from bench.planner import cost
from bench.reviews import Load, pod_of, prepare
from bench.rounds import Duel, MeasureError, patched
from bench.servers import ROOT, Result, Server, load, running, start_berth, start_floor
from bench.shortcuts import SHORTCUTS
from bench.surroundings import Surroundings


def answer(uid: str, *, allowed: bool = True) -> str:
    response = {"uid": uid, "allowed": allowed}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return Surroundings.prepare(tmp_path)


@pytest.fixture
def plain(tmp_path: Path) -> Load:
    return prepare("plain", "distinct", tmp_path, count=50)


@pytest.fixture(params=[1, 2])
def floor(around: Surroundings, request: pytest.FixtureRequest) -> Iterator[Server]:
    answers = around.directory / "answers.json"
    answers.write_text(json.dumps({"/plain-distinct": answer("some"), "/other": answer("others")}))
    with running() as keep:
        server = keep(start_floor(around, answers, workers=request.param))
        assert len(server.workers) == request.param
        yield server


@pytest.mark.parametrize("with_wrk", [True, False])
def test_load_counts_checked_answers_of_the_floor(
    floor: Server, around: Surroundings, plain: Load, monkeypatch: pytest.MonkeyPatch, *, with_wrk: bool
) -> None:
    if not with_wrk:
        monkeypatch.setattr(loads.shutil, "which", lambda _name: None)
    elif not shutil.which("wrk"):
        pytest.skip("there is no wrk on this machine")
    result = load(floor, around, plain, connections=3)
    # Every connection has at least the review that was in flight when the time began.
    assert result.report.answers == floor.sent[plain.name] >= 3
    assert 0 < result.report.p50 <= result.report.p99 <= result.report.seconds
    assert result.rate == result.report.answers / result.report.seconds
    # The answers of the other path are as right in their form, and are not those of this load.
    floor.expected[plain.name] = loads.Expected.of([answer("others").encode()])
    with pytest.raises(LoadError, match="of them wrong"):
        load(floor, around, plain, connections=3)


def test_the_checked_sample_is_of_the_reviews_that_were_sent(plain: Load) -> None:
    (body,) = plain.first(1)
    uid = json.loads(body)["request"]["uid"]
    assert patched(body, answer(uid).encode()) == pod_of(body)
    for wrong in (answer("other"), answer(uid, allowed=False)):
        with pytest.raises(MeasureError):
            patched(body, wrong.encode())


@pytest.mark.parametrize("name", SHORTCUTS)
def test_without_a_shortcut_the_answers_are_the_same(around: Surroundings, tmp_path: Path, name: str) -> None:
    bodies = prepare("webhook-demo", "replicas", tmp_path, count=3).first(3)
    source = ["--manifests", str(around.manifests)]
    with running() as keep:
        whole = keep(start_berth(around, name="whole", source=source))
        without = keep(start_berth(around, name="without", source=source, without=name))
        ours, theirs = (
            ask(server.port, server.path, bodies, certificate=around.certificate) for server in (whole, without)
        )
        assert ours == theirs
        assert whole.memo_hits() == 1
        assert without.memo_hits() == (0 if name == "answers" else 1)


def duel(what: Load, ours: tuple[int, ...], theirs: tuple[int, ...]) -> Duel:
    def results(answers: tuple[int, ...]) -> tuple[Result, ...]:
        return tuple(Result(Report(n, 1.0, p50=1 / n, p99=2 / n, cpu=0.5), server_cpu=1.0) for n in answers)

    return Duel(what, results(ours), results(theirs))


def test_ratios_are_paired_by_round(plain: Load) -> None:
    """One slow moment of the machine hits a pair, not the ratio."""
    found = duel(plain, (50, 10, 40), (100, 20, 100))
    assert found.ratios == [0.5, 0.5, 0.4]
    assert found.throughput == found.economy == 0.5
    assert found.latencies("p50") == [2.0, 2.0, 2.5]
    assert found.latency("p99") == 2.0


def test_a_run_ends_in_a_page_and_a_picture(tmp_path: Path) -> None:
    made = rounds.prepare(tmp_path, count=1)
    duels = tuple(duel(what, (50, 40), (100, 100)) for what in made.values())
    distinct = tuple(one for one in duels if one.load.kind == "distinct")
    found = report.of_baselines(rounds.Baselines(duels, duels, distinct, distinct))
    found += report.of_workers(rounds.Scaling(duels[0], duels[0], cores_busy=1.0))
    found += report.of_attachments(rounds.Attachments(duels[0], few_mib=50, many_mib=60))
    assert len({figure.name for figure in found}) == len(found)
    page = report.page(found, report.warnings_of(duels), rounds.Plan(), sample=1, connections=2)
    assert all(figure.name in page for figure in found)
    assert "{" not in page
    readme = report.summary(found, (ROOT / "README.md").read_text())
    assert readme.count("| asks for nothing | 0.45 | 0.45 | 0.45 |") == 1
    assert report.summary(found, readme) == readme
    from bench.picture import draw  # noqa: PLC0415  it loads matplotlib, which no other test needs

    draw(found, tmp_path / "picture.svg", scaling=report.SCALING)
    assert (tmp_path / "picture.svg").stat().st_size > 0


def test_planner_reads_plans_and_encodes_every_review() -> None:
    found = cost("webhook-demo", calls=1)
    assert min(found.decode, found.plan, found.encode) > 0
