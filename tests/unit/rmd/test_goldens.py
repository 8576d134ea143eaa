"""Goldens of RDT classes: one folder a case; see goldens/README.md for the files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from app.admission.chain import Reviewed
from app.text import MESSAGE
from app.wire import load_yaml
from tests.support.patches import patched
from tests.support.pod_requests import OTHERS, request_for
from tests.support.rmd_reviews import config_map, node, parts, reviewing

GOLDENS = Path(__file__).parent / "goldens"
CASES = sorted(path.parent.name for path in GOLDENS.glob("*/input.yaml"))


def load(case: str, name: str) -> Any:
    return load_yaml((GOLDENS / case / f"{name}.yaml").read_text())


async def mutated(case: str, pod: Any, *, backend: str = "runtime", **fields: Any) -> Reviewed:
    own = GOLDENS / case / "classes.yaml"
    classes = config_map((own if own.exists() else GOLDENS / "classes.yaml").read_text())
    found = await reviewing(classes, node("n1"), rmd_backend=backend)
    before = copy.deepcopy(pod)
    answer = await found["mutate"].review(request_for(pod, **fields))
    assert pod == before
    return answer


@pytest.mark.parametrize("case", CASES)
async def test_golden(case: str) -> None:
    """The patched Pod is the expected one, and a second run plans nothing. It warns of nothing that has been done."""
    outcome, pod = load(case, "outcome"), load(case, "input")
    decision, plan = await mutated(case, pod)
    if "denied" in outcome:
        assert not decision.allowed
        assert [words for words in outcome["denied"] if words not in decision.message] == []
        assert len(outcome["denied"]) == len(decision.message.split("; ")), decision.message
        return
    assert decision.allowed, decision.message
    assert patched(pod, plan.patch) == load(case, "expected")
    assert decision.reason == outcome["reason"]
    expected = outcome.get("warnings", [])
    assert len(decision.warnings) == len(expected), decision.warnings
    assert all(line.startswith(words) for line, words in zip(decision.warnings, expected, strict=True))
    again, plan = await mutated(case, patched(pod, plan.patch))
    assert (again.allowed, plan.patch.operations) == (True, [])
    assert [line for line in again.warnings if line not in decision.warnings] == []


@pytest.mark.parametrize("case", CASES)
async def test_every_operation_has_a_reason_and_is_audited(case: str) -> None:
    decision, plan = await mutated(case, load(case, "input"))
    assert len(plan.patch.reasons) == len(plan.patch.operations)
    assert all(reason.startswith(("container ", "intel.com/l3_cache_ways: ")) for reason in plan.patch.reasons)
    assert all(0 < len(text) <= MESSAGE for text in decision.audit_annotations.values())
    assert ("rdt-classes" in decision.audit_annotations) == ("rdt-class" in plan.injected and decision.allowed)


@pytest.mark.parametrize("backend", ["off", "daemon"])
async def test_without_classes_nothing_is_injected(backend: str) -> None:
    decision, plan = await mutated("ways", load("ways", "input"), backend=backend)
    assert (decision.reason, plan.patch.operations, decision.warnings) == ("Allowed", [], [])


@pytest.mark.parametrize("fields", OTHERS)
async def test_nothing_but_the_creation_of_a_pod_matters(fields: dict[str, Any]) -> None:
    _, plan = await mutated("ways", load("ways", "input"), **fields)
    assert plan.patch.operations == []


async def test_daemons_serve_as_soon_as_a_node_announces_ways() -> None:
    pod, classes = load("ways", "input"), config_map("classes: [{name: four, cacheWays: 4}]")
    for nodes, injected in (((), True), ((node("a"), node("b", "0")), True), ((node("a"), node("b", "7")), False)):
        found = await reviewing(classes, *nodes, rmd_backend="auto")
        decision, _ = await found["mutate"].review(request_for(pod))
        assert bool(decision.operations) == injected
        answer, _ = await found["validate"].review(request_for(pod))
        assert answer.allowed == injected, "a daemon serves Pods with exclusive cores alone"


async def test_an_object_of_another_shape_is_refused() -> None:
    pod = load("ways", "input")
    del pod["spec"]["containers"][0]["name"]
    decision, _ = await mutated("ways", pod)
    assert (decision.allowed, decision.code) == (False, 400)
    assert "want the fields and types of its kind: KeyError: 'name'" in decision.message


async def test_a_mapping_that_cannot_be_read_is_said() -> None:
    found = await parts(config_map("classes: [{name: a}]"), rmd_backend="runtime")
    (problem,) = found.problems()
    assert problem.startswith("configmaps/berth-rmd-classes: data[classes.yaml]: classes[0]: serves nothing")
