"""The measurements of the Workload API work from end to end, small: they count and compare, nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import companions, companions_events, companions_memory, companions_processes, fairness
from bench import companions_objects as objects
from tests.support.forking import BerthProcess


def quiet(_text: str) -> None:
    """No progress is shown."""


def test_every_workload_is_matched_by_two_rules() -> None:
    for rules in (2, 10, 200):
        wanted = [objects.rule(number, rules=rules) for number in range(rules)]
        workloads = [objects.workload(number, rules=rules) for number in range(30)]
        pods = objects.companions(workloads, wanted)
        assert len({pod["metadata"]["name"] for pod in pods}) == 30 * objects.MATCHES


def forked(command: Sequence[str], **options: Any) -> BerthProcess:
    python, flag, module, *arguments = command
    assert (python, flag) == (sys.executable, "-m")
    return BerthProcess(*arguments, module=module, **options)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers begin with what they import, and nothing has to calm down for a figure."""
    monkeypatch.setattr(companions_processes, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": forked}))
    monkeypatch.setattr(fairness, "_SETTLE", 0.2)


@pytest.mark.usefixtures("_quick")
async def test_a_small_run_of_everything_ends_in_a_page(tmp_path: Path) -> None:
    """The controller and the bare client make the same Pods: else the run itself is an error."""
    size = companions.Size(workloads=6, rules=4, workers=4, rounds=2)  # each of them is the first once
    convergence = await companions.measure(tmp_path / "companions", size, quiet)
    assert [one.writes for one in convergence.rounds] == [1.0, 1.0]
    events = await companions_events.measure(tmp_path / "events", quiet, workloads=2, samples=2, workers=2, crowd=20)
    assert len(events.few) == len(events.many) == 2
    wanted = [objects.rule(number, rules=4) for number in range(4)]
    workloads = [objects.workload(number, rules=4) for number in range(6)]
    kept = companions_memory.kept(workloads, wanted, objects.companions(workloads, wanted))
    assert 0 < kept.alone < kept.whole
    fair = await fairness.measure(tmp_path / "fairness", quiet, rounds=1, turns=2)
    assert all(len(fair.alone[what]) == len(fair.beside[what]) == 2 for what in fairness.ASKED)
    assert fair.loud["answered"] > 0
    from bench import companions_report as report  # noqa: PLC0415  it loads matplotlib, which no other test needs

    run = report.WorkloadRun(convergence, events, 2, kept, fair)
    page = report.markdown(run, cores=2)
    assert all(figure.name in page for figure in report.found(run))
    assert "{" not in page
    report.draw(run, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 0
