"""Bounds on components, and on what the API server has to store of an AppWrapper."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app.appwrappers.admission.components import component_problems
from app.appwrappers.controller.observing import Creation, Deletion, Step
from app.appwrappers.controller.outcomes import Outcome, remember_end
from app.appwrappers.controller.phases import next_step
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.appwrappers.model import DELETING_RESOURCES, ENDED, FINALIZER, UNHEALTHY
from app.appwrappers.options import FaultTolerance, read_options
from app.appwrappers.permissions import KINDS
from app.appwrappers.sizes import MOST_BYTES, MOST_COMPONENTS, MOST_PODS, sizes_of
from app.definitions import read_definitions
from app.kube.conditions import condition
from app.wire import encode_as_go
from tests.support.appwrappers import app_wrapper, job, pod, result_of, service

JSON = dict[str, Any]
NOW = datetime(2026, 11, 27, tzinfo=UTC)


def problems(*templates: JSON, most: int = 18, **said: Any) -> list[str]:
    spec = {"components": [{"template": one, **said} for one in templates]}
    return list(component_problems(spec, name="aw", namespace="ns", most=most))


def services(count: int) -> list[JSON]:
    return [service(f"s-{index}") for index in range(count)]


def stored(*templates: JSON, deleting: bool = False, **said: Any) -> AppWrapper:
    obj = app_wrapper("aw", *templates)
    obj["spec"]["components"] = [component | said for component in obj["spec"]["components"]]
    obj["metadata"] |= {"namespace": "ns", "uid": "u" * 36, "resourceVersion": "1", "generation": 2**63 - 1}
    obj["metadata"]["finalizers"] = [FINALIZER]
    if deleting:
        obj["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z"
    return stored_app_wrapper(obj)


def step(wrapper: AppWrapper, status: JSON, *outcomes: Creation | Deletion) -> Step:
    """The next step, where this is what comes of what it asks for."""
    options = read_options({}, FaultTolerance())
    return result_of(next_step(replace(wrapper, status=status), options, NOW), *outcomes)


def test_as_many_components_as_may_be() -> None:
    assert problems(pod("p"), *services(MOST_COMPONENTS - 1)) == []
    (problem,) = problems(pod("p"), *services(MOST_COMPONENTS))
    assert problem == (
        f"spec.components: got {MOST_COMPONENTS + 1} components, want at most {MOST_COMPONENTS}: put objects that need "
        "not be admitted together into AppWrappers of their own"
    )


def test_the_number_is_looked_at_before_any_component() -> None:
    assert len(problems(*[{"kind": "no"}] * 100_000)) == 1


def test_the_definition_has_the_same_bound() -> None:
    (definition,) = [one for one in read_definitions(KINDS) if one["spec"]["names"]["kind"] == "AppWrapper"]
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["components"]
    assert schema["maxItems"] == MOST_COMPONENTS


def test_more_pods_than_a_workload_counts() -> None:
    assert problems(job("j", parallelism=MOST_PODS)) == []
    (problem,) = problems(job("j", parallelism=MOST_PODS), job("k"))
    assert problem.startswith(f"spec.components: all podSets have {MOST_PODS + 1} Pods together: want at most")


@pytest.mark.parametrize("character", ["x", "<", "\u2028"])
def test_a_spec_with_a_status_that_could_not_be_stored(character: str) -> None:
    """What a podSet says stands in the status again; characters count as the API server stores them."""
    size = len(encode_as_go(character)) - 2
    template, path = job("j"), "template.spec.template"

    def said(length: int) -> list[str]:
        annotations = {"note": character * (length // size)}
        return problems(template, podSets=[{"path": path, "annotations": annotations}])

    assert said(MOST_BYTES // 2 - 8192) == []
    (problem,) = said(MOST_BYTES // 2)
    assert problem.startswith("spec.components: 52")
    assert f"want at most {MOST_BYTES} together" in problem


def test_pod_templates_grow_by_the_defaults_that_a_workload_has() -> None:
    def found(containers: int) -> list[str]:
        spec = {"containers": [{"name": f"c{number}", "image": "i"} for number in range(containers)]}
        return problems({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})

    assert found(4000) == []
    (problem,) = found(8000)
    assert "in all podSets: want at most 1048576, as they are in one Workload" in problem


def test_pod_sets_that_are_parts_of_each_other() -> None:
    """A Workload has no fields that a Pod template has not, so that none of them is in another."""
    large = {"containers": [{"name": "c", "image": "i" * (MOST_BYTES // 16)}]}
    nested: JSON = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}, "spec": large}
    paths = [{"path": "template"}]
    alone = sizes_of([{"template": nested, "podSets": paths}]).workload
    assert MOST_BYTES // 16 < alone < MOST_BYTES // 16 + 1024
    for depth in range(1, 6):
        nested = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}, "spec": large | {"of": nested}}
        paths.append({"path": "template" + ".spec.of" * depth})
    assert sizes_of([{"template": nested, "podSets": paths}]).workload == 6 * alone


@pytest.mark.parametrize(
    "said",
    [
        {},
        {
            "podSets": [
                {"path": "template.spec.template", "replicas": 2**31 - 1, "annotations": {"a<&>": "\u2028" * 99}}
            ]
        },
    ],
)
@pytest.mark.parametrize("name", ["j", "j" * 253])
def test_no_status_becomes_larger_than_was_computed(name: str, said: JSON) -> None:
    """Each component with the longest remark of a creation that failed, and of a deletion."""
    template = job(name)
    wrapper = stored(template, template, **said)
    most = sizes_of(wrapper.components).status
    worst = "<\u2028\n\x01" * 10_000
    status = step(wrapper, {}).status
    status = step(wrapper, status).status
    assert status["phase"] == "Resuming"
    for index in range(2):
        failing = Creation({}, index, worst)
        status = step(wrapper, status, failing).status
        assert len(encode_as_go(status["componentStatus"])) <= most
    wrapper = stored(template, template, deleting=True, **said)
    status = step(wrapper, status, Deletion({0: worst, 1: worst})).status
    assert condition(status, DELETING_RESOURCES)
    assert len(encode_as_go(status["componentStatus"])) <= most
    assert len(encode_as_go({**status, "componentStatus": []})) < 64 * 1024


def test_one_that_admission_has_not_seen_fails_before_anything_is_created() -> None:
    annotations = {"note": "x" * (MOST_BYTES // 2)}
    wrapper = stored(job("j"), podSets=[{"path": "template.spec.template", "annotations": annotations}])
    failed = step(wrapper, {})
    assert failed.status["phase"] == "Failed"
    assert condition(failed.status, UNHEALTHY)["reason"] == "TooLarge"
    assert "componentStatus" not in failed.status
    assert failed.event is not None


def test_one_with_more_components_from_before_the_bound_goes_on() -> None:
    wrapper = stored(*services(4 * MOST_COMPONENTS))
    assert step(wrapper, {}).status["phase"] == "Suspended"


def test_the_longest_end_that_is_remembered_is_computed_too() -> None:
    """Of each component with Pods, beside the longest remark."""
    template = job("j")
    wrapper = stored(template, template)
    worst = "<\u2028\n\x01" * 10_000
    status = step(wrapper, {}).status
    status = step(wrapper, status).status
    status = step(wrapper, status, Creation({0: "j", 1: "j"})).status
    wrapper = stored(template, template, deleting=True)
    deployed = step(wrapper, status, Deletion({0: worst, 1: worst})).status
    for component in deployed["componentStatus"]:
        remember_end(component, Outcome(True, "failed", worst, terminal=True), now=NOW)
    assert all(condition(one, ENDED) for one in deployed["componentStatus"])
    assert len(encode_as_go(deployed["componentStatus"])) <= sizes_of(wrapper.components).status
