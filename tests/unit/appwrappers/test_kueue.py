"""The podSets of a Workload are those that Kueue's own code makes: `goldens/kueue.json` has its answers and its version."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import product
from typing import Any

import pytest

from app.appwrappers.admission.components import component_problems
from app.appwrappers.controller.caches import AppWrapperCaches
from app.appwrappers.controller.stored import stored_app_wrapper
from app.appwrappers.kueue.caches import jobs_of
from app.appwrappers.kueue.model import ADMISSION_GATED_BY, PREBUILT_WORKLOAD, PROVISIONING, WORKLOADS
from app.appwrappers.kueue.templates import counted_spec, same_pod_sets
from app.appwrappers.kueue.workloads import Priority, new_workload
from app.appwrappers.model import ANNOTATIONS
from app.appwrappers.sizes import component_status
from app.explain.model import Manifest
from app.explain.wrapped import Wrapped, explained
from app.kinds.defaults import apply_builtin_defaults
from app.kinds.requests import Amounts, added, amounts_of, pod_requests
from app.kinds.shapes import decode_builtin
from app.kube.kit import Kit
from app.kube.quantity import canonical
from app.wire import JSON
from tests.peers import ANSWERS, FOLDER
from tests.support.kits import offline_kit
from tests.support.kueue_cases import OBJECTS, PAIRS, TEMPLATES, pod_sets_of_object
from tests.support.ray_cases import RAY

KUEUE: JSON = json.loads(ANSWERS["kueue"].read_text())
MADE: dict[str, JSON] = {name: said for name, said in KUEUE["objects"].items() if "error" not in said}
REFUSED: dict[str, str] = {name: said["error"] for name, said in KUEUE["objects"].items() if "error" in said}
OVERHEADS: dict[str, JSON] = {"kata": {"cpu": "250m", "memory": "64Mi"}, "plain": {}}
"""Of the RuntimeClasses that the program of `tests/peers` has."""
ELSEWHERE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def test_each_case_has_an_answer_of_the_versions_that_are_named() -> None:
    assert KUEUE["objects"].keys() == OBJECTS.keys()
    assert KUEUE["pairs"].keys() == PAIRS.keys()
    assert KUEUE["ray"].keys() == RAY.keys()
    modules = (FOLDER / "kueue" / "go.mod").read_text()
    assert all(f"\t{module} {version}\n" in modules for module, version in KUEUE["versions"].items())
    assert "sigs.k8s.io/kueue" in KUEUE["versions"]


@pytest.mark.parametrize("name", MADE)
def test_a_pod_set_has_the_template_the_count_and_the_topology_that_kueue_gives_it(name: str) -> None:
    made = pod_sets_of_object(OBJECTS[name])
    assert [one["count"] for one in made] == [one["count"] for one in MADE[name]["podSets"]]
    assert [one.get("topologyRequest") for one in made] == [one.get("topologyRequest") for one in MADE[name]["podSets"]]
    assert [one["template"] for one in made] == [as_stored(one["template"]) for one in MADE[name]["podSets"]]


@pytest.mark.parametrize("name", RAY)
def test_admission_refuses_what_kuberay_refuses(name: str) -> None:
    """And nothing else. Each problem names a field and what would be right."""
    components = [{"template": RAY[name]}, {"template": ELSEWHERE}]
    problems = list(component_problems({"components": components}, name="w", namespace="ns", most=18))
    assert bool(problems) == bool(KUEUE["ray"][name]), (problems, KUEUE["ray"][name])
    assert all(problem.startswith("spec.components[0].") for problem in problems)


def as_stored(template: JSON) -> JSON:
    """With the defaults of the API server: Kueue sees templates of custom resources without them."""
    stored = deepcopy(template)
    apply_builtin_defaults("PodTemplateSpec", stored)
    return stored


@pytest.mark.parametrize("name", MADE)
def test_the_stand_in_counts_what_kueue_counts(name: str) -> None:
    made = pod_sets_of_object(OBJECTS[name])
    counted = [pod_requests({"spec": counted_spec(one["template"]["spec"], OVERHEADS)}) for one in made]
    assert counted == [amounts_of(rounded(requests)) for requests in MADE[name]["requests"] or ()]


def rounded(requests: JSON) -> JSON:
    """As the API server stores quantities, in thousandths."""
    return {resource: canonical(amount, 3) for resource, amount in requests.items()}


@pytest.mark.parametrize("name", MADE)
def test_admission_and_explain_find_the_same_pod_sets(name: str) -> None:
    components = [{"template": OBJECTS[name]}, {"template": ELSEWHERE}]
    assert list(component_problems({"components": components}, name="w", namespace="n", most=18)) == []
    said = explanation(components)
    assert said.problems == ()
    assert [pod_set.replicas for _, pod_set in said.pod_sets] == [*(one["count"] for one in MADE[name]["podSets"]), 1]


@pytest.mark.parametrize("name", [name for name in MADE if "RuntimeClass" not in name])
def test_explain_adds_up_what_kueue_counts(name: str) -> None:
    """But for the overhead of a RuntimeClass, which only a cluster knows."""
    total: Amounts = {}
    for pod_set, requests in zip(MADE[name]["podSets"], MADE[name]["requests"], strict=True):
        for resource, amount in amounts_of(rounded(requests)).items():
            total = added(total, {resource: amount * pod_set["count"]})
    said = explanation([{"template": OBJECTS[name]}, {"template": ELSEWHERE}])
    assert amounts_of(rounded({resource: str(amount) for resource, amount in (said.asked or {}).items()})) == total


@pytest.mark.parametrize("name", [name for name in TEMPLATES if "RuntimeClass" not in name])
def test_a_pod_by_itself_counts_as_the_api_server_stores_it(name: str) -> None:
    """Kueue sees a Pod with the requests that an API server has filled in, and a template without them."""
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": TEMPLATES[name]["spec"]}
    (pod_set,) = pod_sets_of_object(obj)
    decoded, _ = decode_builtin("Pod", "v1", obj)
    apply_builtin_defaults("Pod", decoded)
    assert pod_requests({"spec": counted_spec(pod_set["template"]["spec"], {})}) == pod_requests(decoded)
    asked = explanation([{"template": obj}]).asked or {}
    assert amounts_of(rounded({resource: str(amount) for resource, amount in asked.items()})) == pod_requests(decoded)
    component = {"template": obj}
    state = {"admitted": False, "waiting": True}
    assert same_pod_sets([component], [component_status(component)], [pod_set], **state)


def explanation(components: list[JSON]) -> Wrapped:
    metadata = {"name": "w", "namespace": "n"}
    wrapper: JSON = {"kind": "AppWrapper", "metadata": metadata, "spec": {"components": components}}
    return explained(Manifest("f:1", "AppWrapper", "w", "n", wrapper))


@pytest.mark.parametrize("name", REFUSED)
def test_an_annotation_that_kueue_cannot_read_is_refused_with_its_name(name: str) -> None:
    (problem,) = component_problems({"components": [{"template": OBJECTS[name]}]}, name="w", namespace="n", most=18)
    assert "metadata.annotations[kueue.x-k8s.io/podset-" in problem
    assert "want " in problem
    with pytest.raises(ValueError, match=r"metadata\.annotations"):
        pod_sets_of_object(OBJECTS[name])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("admitted", [False, True])
def test_pod_sets_are_equivalent_where_kueue_says_so(name: str, *, admitted: bool) -> None:
    expected = KUEUE["pairs"][name]["admitted" if admitted else "waiting"]
    if name == "an environment variable":
        expected = True  # Templates never change here, and Kueue's own integration of AppWrappers leaves these out.
    assert equivalent(name, admitted=admitted, waiting=False) is expected


@pytest.mark.parametrize("name", MADE)
def test_a_workload_fits_the_objects_that_it_was_made_of(name: str) -> None:
    component = {"template": OBJECTS[name]}
    for admitted, waiting in product((False, True), repeat=2):
        state = {"admitted": admitted, "waiting": waiting}
        assert same_pod_sets([component], [component_status(component)], pod_sets_of_object(OBJECTS[name]), **state)


@pytest.mark.parametrize("name", ["Pod-level resources", "a RuntimeClass"])
def test_a_workload_that_waits_and_counts_something_else_is_made_anew(name: str) -> None:
    assert equivalent("the same", admitted=False, waiting=True)
    assert not equivalent(name, admitted=False, waiting=True)


def equivalent(name: str, **state: Any) -> bool:
    stored, now = PAIRS[name]
    component = {"template": now}
    return same_pod_sets([component], [component_status(component)], pod_sets_of_object(stored), **state)


def test_a_workload_has_the_annotations_of_its_app_wrapper_that_are_for_kueue() -> None:
    ours = {f"{ANNOTATIONS}retryLimit": "1", "example.com/note": "x"}
    for_kueue = {ADMISSION_GATED_BY: "example.com/gate", PREBUILT_WORKLOAD: "w", f"{PROVISIONING}class": "c"}
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1", "annotations": ours | for_kueue}
    made = new_workload(stored_app_wrapper({"metadata": metadata, "spec": {}}), WORKLOADS, Priority())
    assert made["metadata"]["annotations"] == for_kueue


async def test_both_controllers_of_a_process_have_one_cache_of_app_wrappers() -> None:
    framework = offline_kit()
    workloads = Kit(framework.client, watches=framework.watches)
    caches = AppWrapperCaches(framework, config_name="config", namespace="system")
    assert jobs_of(workloads) is caches.app_wrappers
