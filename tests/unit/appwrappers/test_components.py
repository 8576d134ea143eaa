"""What is wrong with the components of an AppWrapper, one by one and together."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.templates import makes_pods, misplaced_keys, uncounted
from tests.support.appwrappers import job, pod, pod_spec, service

JSON = dict[str, Any]
AT = "spec.components[0]"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
LEADER = "template.spec.leaderWorkerTemplate.leaderTemplate"
WORKER = "template.spec.leaderWorkerTemplate.workerTemplate"


def problems(*components: Any, most: int = 18, name: str = "aw") -> list[str]:
    return list(component_problems({"components": list(components)}, name=name, namespace="ns", most=most))


def wrapped(template: Any, *pod_sets: JSON) -> JSON:
    return {"template": template, **({"podSets": list(pod_sets)} if pod_sets else {})}


def other(**spec: Any) -> JSON:
    """An object of a kind that Berth does not know."""
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def deployment(**spec: Any) -> JSON:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": CONTAINERS}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": spec}


def job_set() -> JSON:
    jobs = [{"name": "a", "replicas": 2, "template": {"spec": {"template": {"spec": pod_spec()}}}}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {},
        "spec": {"replicatedJobs": jobs},
    }


def set_at(obj: JSON, value: Any, *path: str) -> JSON:
    found = deepcopy(obj)
    below = found
    for field in path[:-1]:
        below = below.setdefault(field, {})
    below[path[-1]] = value
    return found


@pytest.mark.parametrize(
    "components",
    [
        [wrapped(pod("p"))],
        [wrapped(pod("p", namespace="ns"))],
        [wrapped(pod("p")), wrapped(service("s"))],
        [wrapped(deployment())],
        [wrapped(deployment(replicas=0)), wrapped(pod())],
        [wrapped(deployment(replicas=3), {"path": "template.spec.template", "replicas": 3})],
        [wrapped(job("j", parallelism=8, completions=4), {"path": "template.spec.template", "replicas": 4})],
        [wrapped(other(template={"spec": CONTAINERS}), {"path": "template.spec.template", "replicas": 7})],
        [
            wrapped(
                other(
                    leaderWorkerTemplate={
                        "leaderTemplate": {"spec": CONTAINERS},
                        "workerTemplate": {"spec": CONTAINERS},
                    }
                ),
                {"path": LEADER},
                {"path": WORKER, "replicas": 3},
            )
        ],
        [wrapped(job_set())],
        [wrapped(pod())] * 18,
    ],
)
def test_what_is_right_is_let_through(components: list[JSON]) -> None:
    assert problems(*components) == []


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        ({}, f"{AT}.template: failed to decode as JSON: want an object with apiVersion and kind"),
        (wrapped("text"), f"{AT}.template: failed to decode as JSON: want an object with apiVersion and kind"),
        (wrapped({"kind": "Pod"}), f"{AT}.template: failed to decode as JSON: want an object with apiVersion and kind"),
        (wrapped({**pod(), "metadata": []}), f"{AT}.template.metadata: want an object, with a name or a generateName"),
        (
            wrapped({"apiVersion": "v1", "kind": "Pod", "spec": CONTAINERS}),
            f"{AT}.template.metadata: want an object, with a name or a generateName",
        ),
        (wrapped({**pod(), "metadata": {"name": 1}}), f"{AT}.template.metadata.name: want text"),
        *(
            (
                wrapped({"apiVersion": f"workload.codeflare.dev/{version}", "kind": "AppWrapper", "metadata": {}}),
                f"{AT}.template: Nested AppWrappers are forbidden: take the components of this one instead",
            )
            for version in ("v1beta2", "v1", "")
        ),
        (
            wrapped(pod("p", namespace="other")),
            (
                f"{AT}.template.metadata.namespace: AppWrappers cannot create objects in other namespaces: "
                "want ns or nothing, got 'other'"
            ),
        ),
        (
            wrapped(pod("p", ownerReferences=[{"controller": True}])),
            (
                f"{AT}.template.metadata.ownerReferences: the AppWrapper is the controller of its objects: "
                "leave out any other"
            ),
        ),
        (
            wrapped(pod(), {"path": ""}),
            f"{AT}.podSets[0].path: podspec must specify path, such as template.spec.template",
        ),
        (wrapped(pod(), {}), f"{AT}.podSets[0].path: podspec must specify path, such as template.spec.template"),
        ({"template": pod(), "podSets": "text"}, f"{AT}.podSets: want a list"),
        (
            wrapped(deployment(), {"path": "template.spec.missing"}),
            (
                f"{AT}.podSets[0].path: path does not refer to a v1.PodSpecTemplate: "
                "'template.spec' has no field 'missing'"
            ),
        ),
        (
            wrapped(deployment(), {"path": "template.spec.template.metadata"}),
            (
                f"{AT}.podSets[0].path: path does not refer to a v1.PodSpecTemplate: "
                "'template.spec.template.metadata' has no spec, as a Pod template has"
            ),
        ),
        (
            wrapped(other(spec={}), {"path": "template.spec"}),
            f"{AT}.podSets[0].path: path does not refer to a v1.PodSpecTemplate: 'template.spec.spec' has no containers",
        ),
        (
            wrapped(set_at(deployment(), "3", "spec", "replicas")),
            f"{AT}.template: error inferring PodSets: template.spec.replicas: want an integer, got '3'",
        ),
        (
            wrapped(deployment(), {"path": "template.spec.template"}, {"path": "template.spec.template"}),
            f"{AT}.podSets: multiple DeclaredPodSets with path 'template.spec.template'",
        ),
        (
            wrapped(deployment(replicas=3), {"path": "template.spec.template", "replicas": 2}),
            (
                f"{AT}.podSets: replica count 2 differs from inferred count 3 for PodSet at path position "
                "'template.spec.template'"
            ),
        ),
        (
            wrapped(other(template={"spec": CONTAINERS}), {"path": "template.spec.template", "replicas": -1}),
            f"{AT}.podSets[0].replicas: want an integer that is 0 or more, got '-1'",
        ),
        (
            wrapped(other(spec={}), {"path": f"template{'.a' * 600}"}),
            f"{AT}.podSets[0].path: path does not refer to a v1.PodSpecTemplate: want at most 1024 characters, got 1208",
        ),
        *(
            (
                wrapped(pod(), {"path": "template", "annotations": annotations}),
                f"{AT}.podSets[0].annotations: want texts by names, got {shown}",
            )
            for annotations, shown in ((["x", "y"], "\"['x', 'y']\""), ({"a": 1}, "\"{'a': 1}\""), ("text", "'text'"))
        ),
        (wrapped(deployment(replicas=-1)), f"{AT}.template.spec.template: want 0 replicas or more, got -1"),
        (
            wrapped(set_at(pod(), {"workload.codeflare.dev/appwrapper": "b"}, "metadata", "labels")),
            (
                f"{AT}.template: template.metadata.labels[workload.codeflare.dev/appwrapper] is written by the controller: "
                "leave it out"
            ),
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_field(component: JSON, expected: str) -> None:
    assert expected in problems(component)


@pytest.mark.parametrize(
    "path",
    [
        "replicatedJobs.template.spec.template",
        "replicatedJobs",
        "replicatedJobs[0].template[0].spec.template",
        "replicatedJobs[10].template.spec.template",
        "replicatedJobs[-1].template.spec.template",
        "replicatedJobs[a10].template.spec.template",
        "replicatedJobs[0",
        "replicatedJobs[0]].template.spec.template",
    ],
)
def test_a_path_that_leads_to_no_pod_template_is_refused(path: str) -> None:
    (found,) = [
        one for one in problems(wrapped(job_set(), {"path": f"template.spec.{path}"})) if "path does not" in one
    ]
    assert found.startswith(f"{AT}.podSets[0].path: path does not refer to a v1.PodSpecTemplate: ")


def test_podsets_that_are_missing_are_named() -> None:
    both = job_set()
    (first,) = both["spec"]["replicatedJobs"]
    both["spec"]["replicatedJobs"] = [first, {**first, "name": "other"}]
    path = "template.spec.replicatedJobs[0].template.spec.template"
    found = problems(wrapped(both, {"path": path, "replicas": 2}))
    assert found == [
        f"{AT}.podSets: DeclaredPodSet count 1 differs from inferred count 2",
        f"{AT}.podSets: PodSet with path {path.replace('[0]', '[1]')!r} is missing",
    ]


def test_problems_of_all_components_are_told_together() -> None:
    found = problems(wrapped(pod("p", namespace="x")), wrapped(pod()), wrapped("text"), wrapped(pod(), {"path": ""}))
    assert [one.partition(".template")[0].partition(".podSets")[0] for one in found] == [
        f"spec.components[{index}]" for index in (0, 2, 3)
    ]


@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ([], "spec.components: components contains no podspecs: want at least one podSet"),
        ([wrapped(service("s"))], "spec.components: components contains no podspecs: want at least one podSet"),
        (
            [wrapped(deployment(replicas=0)), wrapped(deployment(replicas=0))],
            "spec.components: all podSets have 0 replicas: want at least one Pod",
        ),
        (
            [wrapped(pod())] * 9,
            "spec.components: components contains 9 podspecs; at most 8 are allowed, as a Workload has no more",
        ),
    ],
)
def test_what_is_wrong_with_all_together(components: list[JSON], expected: str) -> None:
    assert problems(*components, most=8) == [expected]


@pytest.mark.parametrize("spec", [None, [], "text", {}, {"components": None}, {"components": ["text"]}])
def test_a_spec_without_components_is_refused(spec: Any) -> None:
    found = list(component_problems(spec, name="aw", namespace="ns", most=8))
    assert found == ["spec.components: want a list of components, each with a template"]


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(0, 2) | st.sampled_from(["", "a", "template", "v1"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "labels", "namespace", "spec", "template", "containers", "name", "replicas"]),
            below,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_KINDS = st.sampled_from(
    [
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("ray.io/v1", "RayCluster"),
        ("example.com/v1", "Thing"),
    ]
)


@given(_KINDS, _ANY, _ANY, st.none() | _ANY | st.just([{"path": "template.spec.template"}]))
def test_whatever_is_wrapped_is_judged_without_a_fault(
    kind: tuple[str, str], metadata: Any, spec: Any, sets: Any
) -> None:
    template = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}
    component = {"template": template, "podSets": sets}
    found = {"components": [component]}
    if not list(component_problems(found, name="aw", namespace="ns", most=18)):
        list(uncounted(found))
        makes_pods(component)


def test_pods_that_are_not_counted_are_a_warning() -> None:
    spec = {"components": [wrapped(pod()), wrapped(other(parts=[{"template": {"spec": CONTAINERS}}]))]}
    (found,) = uncounted(spec)
    assert found == (
        "spec.components[1].podSets: Thing is not known, so its Pods are not counted: declare podSets, such as path "
        "template.spec.parts[0].template"
    )
    assert [makes_pods(one) for one in (*spec["components"], wrapped(service("s")))] == [True, True, False]


def test_a_field_of_a_newer_kubernetes_is_a_warning() -> None:
    spec = {"components": [wrapped(set_at(pod(), 1, "spec", "newThing"))]}
    warnings: list[str] = []
    assert list(component_problems(spec, name="aw", namespace="ns", most=18, warnings=warnings)) == []
    assert warnings == [f"{AT}.template.spec.newThing: unknown to Berth; the API server decides about it"]


def test_keys_about_networks_that_no_pod_gets_are_named() -> None:
    networks = "k8s.v1.cni.cncf.io/networks"
    on = {"annotations": {networks: "a"}}
    given_to = {"template": {"metadata": on, "spec": CONTAINERS}}
    spec = {"components": [wrapped({**deployment(), "metadata": on}), wrapped({**pod(), "metadata": on})]}
    home = "spec.components[0].template.spec.template.metadata.annotations"
    assert list(misplaced_keys({"metadata": on, "spec": spec})) == [
        f"metadata.annotations[{networks}]: read on Pods alone",
        f"spec.components[0].template.metadata.annotations[{networks}]: read on Pods alone: put it into {home}",
    ]
    right = {"components": [wrapped({**deployment(), "spec": given_to})]}
    assert list(misplaced_keys({"metadata": {"labels": {"berth.dev/inject-template": "true"}}, "spec": right})) == []


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_templates_are_injected_into_where_the_label_stands_on_a_job_or_an_app_wrapper(part: str) -> None:
    asked = {part: {"berth.dev/inject-template": "true"}}
    spec = {"components": [wrapped({**obj, "metadata": asked}) for obj in (job_set(), deployment(), job("j"))]}
    assert list(misplaced_keys({"metadata": {}, "spec": spec})) == [
        f"spec.components[{index}].template.metadata.{part}[berth.dev/inject-template]: read on Jobs and AppWrappers "
        "alone: take it to the AppWrapper"
        for index in (0, 1)
    ]


@pytest.mark.parametrize(
    "containers", [5, {"a": 1}, [1], "ab", [{"name": "c", "resources": "x"}], [{"resources": {"requests": ["x"]}}]]
)
def test_heads_of_ray_in_other_shapes_are_problems(containers: object) -> None:
    template = other(headGroupSpec={"template": {"spec": {"containers": containers}}}) | {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r", "annotations": {"ray.io/ft-enabled": "true"}},
    }
    assert [*component_problems({"components": [wrapped({**template})]}, name="w", namespace="default", most=18)]
