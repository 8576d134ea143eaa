"""Properties that hold for every input: nothing but a denial escapes, patches apply, and a second run is empty."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.admission.chain import MutationPlan
from app.admission.decision import encode
from app.errors import Denied
from app.kube import quantity
from app.networks import selection
from app.networks.model import DEFAULT_NETWORK, INJECTED_RESOURCES, NETWORKS, NODE_SELECTOR, RESOURCE_NAME
from app.networks.settings import NetworksOptions, Switches, parse_switches
from app.networks.userdefined import Injection
from app.networks.webhook import NetworksInjector
from app.wire import encode_json
from tests.support.patches import patched
from tests.support.pod_requests import request_for

from .conftest import attachment, lookup_for

FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RESOURCES = ["example.com/foo", "example.com/bar", "cpu", "hugepages-1Gi"]

text = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)
names = st.sampled_from(["foo", "bar", "other/foo", "foo@net1", "sel", "", "..", "Foo", "missing"])
networks = (
    st.lists(names, max_size=4).map(",".join)
    | st.lists(st.sampled_from(["foo", "bar", "sel"]), max_size=5).map(",".join)
    | st.lists(st.sampled_from(["foo", "bar", "sel"]).map(lambda name: {"name": name}), max_size=4).map(json.dumps)
    | anything.map(json.dumps)
    | text
)
amounts = st.sampled_from(["0", "1", "2", "3", "1k", 1, 2, "500m", "x", ""])
sane_amounts = st.sampled_from(["0", "1", "2", "3", 1])


def sides(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(RESOURCES), values, max_size=3)


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    mounts = st.fixed_dictionaries(
        {"name": st.sampled_from(["podnetinfo", "data"]), "mountPath": st.sampled_from(["/etc/podnetinfo", "/data"])}
    )
    return st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "c"])},
        optional={
            "resources": st.none()
            | st.fixed_dictionaries({}, optional={"requests": sides(values), "limits": sides(values)}),
            "volumeMounts": st.none() | st.lists(mounts, max_size=2),
            "env": st.none() | st.lists(st.just({"name": "CONTAINER_NAME", "value": "a"}), max_size=1),
            "restartPolicy": st.sampled_from(["Always", ""]),
        },
    )


def pods(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    volumes = st.fixed_dictionaries(
        {"name": st.sampled_from(["podnetinfo", "data"])},
        optional={"downwardAPI": st.just({}) | st.just({"items": [{"path": "labels"}]}), "emptyDir": st.just({})},
    )
    metadata = st.fixed_dictionaries(
        {},
        optional={
            "labels": st.none() | st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sampled_from(["true", "no"])),
            "annotations": st.none()
            | st.fixed_dictionaries(
                {},
                optional={
                    NETWORKS: networks,
                    DEFAULT_NETWORK: networks,
                    INJECTED_RESOURCES: anything.map(json.dumps)
                    | st.just('{"a":{"example.com/foo":1}}')
                    | st.just('{"a":{"example.com/foo":-7}}'),
                    "berth.dev/resources-container": st.sampled_from(["a", "b"]),
                },
            ),
        },
    )
    spec = st.fixed_dictionaries(
        {"containers": st.lists(containers(values), min_size=0, max_size=3)},
        optional={
            "initContainers": st.none() | st.lists(containers(values), max_size=2),
            "volumes": st.none() | st.lists(volumes, max_size=2),
            "nodeSelector": st.none() | st.dictionaries(st.sampled_from(["a", "b/c"]), st.sampled_from(["1", "2"])),
        },
    )
    return st.fixed_dictionaries({"metadata": metadata, "spec": spec})


modes = st.sampled_from(["top-up", "skip", "add"])
injections = st.dictionaries(
    st.sampled_from(["x", "y", "z"]),
    st.fixed_dictionaries(
        {
            "op": st.just("add"),
            "path": st.just("/metadata/annotations"),
            "mode": st.sampled_from(["replace", "append", "keep"]),
            "value": st.dictionaries(
                st.sampled_from([NETWORKS, DEFAULT_NETWORK, "note"]),
                st.sampled_from(["foo", "bar,foo", '[{"name":"sel"}]']),
            ),
        }
    ),
)
ATTACHMENTS = [
    attachment("foo", "example.com/foo"),
    attachment("foo", "example.com/foo", namespace="other"),
    attachment("bar", "example.com/bar"),
    attachment("sel", **{NODE_SELECTOR: "a=1,b/c=2"}),
]


def outcome_of(obj: Any, injector: NetworksInjector, plan: MutationPlan | None = None) -> MutationPlan | str:
    """The plan, or the message of a denial; everything else escapes. With a full cache nothing is waited for."""
    plan = MutationPlan() if plan is None else plan
    try:
        waiting = injector.inject(request_for(obj), plan)
        if waiting is not None:
            waiting.__await__().send(None)
            raise AssertionError("the injector waited for something")
    except StopIteration:
        return plan
    except Denied as denial:
        return str(denial)
    return plan


def plan_of(obj: Any, injector: NetworksInjector) -> MutationPlan | None:
    """The plan, or None for a denial, whose message can be shown anywhere."""
    outcome = outcome_of(obj, injector)
    if isinstance(outcome, MutationPlan):
        return outcome
    assert outcome.isprintable()
    return None


@FEW
@given(obj=anything)
def test_arbitrary_json_is_denied_or_planned(obj: Any) -> None:
    """Whatever comes as a Pod, only Denied escapes, and a patch applies."""
    plan = plan_of(obj, NetworksInjector(lookup_for(ATTACHMENTS), switches=Switches))
    if plan is not None:
        patched(obj, plan.patch)


@FEW
@given(pod=pods(amounts), mode=modes, entries=injections, hugepages=st.booleans())
def test_injecting_twice_is_injecting_once(pod: Any, mode: Any, entries: Any, hugepages: bool) -> None:  # noqa: FBT001
    """Every plan applies, changes nothing in its input, and leaves nothing for a second run."""
    switches = parse_switches(
        json.dumps({"user-defined-injections": entries}), initial=Switches(hugepage_down_api=hugepages)
    )
    options = NetworksOptions(existing_resources=mode)
    injector = NetworksInjector(lookup_for(ATTACHMENTS), switches=lambda: switches, options=options)
    before = json.dumps(pod)
    plan = plan_of(pod, injector)
    assert json.dumps(pod) == before
    if plan is None:
        return
    injected = patched(pod, plan.patch)
    again = plan_of(injected, injector)
    assert again is not None
    assert again.patch.operations == []


SIDE = st.sampled_from([{"cpu": "1"}, {"example.com/foo": "1"}, {"hugepages-1Gi": "1Gi"}])
FEW_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "c"])},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"requests": SIDE, "limits": SIDE}),
            "volumeMounts": st.sampled_from(
                [[], [{"name": "podnetinfo", "mountPath": "/x"}], [{"name": "x", "mountPath": "/etc/podnetinfo/"}]]
            )
            | st.just([{"name": "x", "mountPath": "/x"}]),
            "volumeDevices": st.just([{"name": "x", "devicePath": "/etc/podnetinfo"}]),
            "restartPolicy": st.just("Always"),
        },
    ),
    max_size=2,
)
SELECTING = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "annotations": st.fixed_dictionaries(
                    {
                        NETWORKS: st.sampled_from(
                            ["foo", "foo,bar", "sel", "foo,sel", '[{"name": "foo"}]', "missing", ""]
                        )
                    },
                    optional={
                        "berth.dev/resources-container": st.just("b"),
                        DEFAULT_NETWORK: st.sampled_from(["default/bar", ""]),
                        "berth.dev/inject": st.sampled_from(["false", "true"]),
                    },
                )
            },
            optional={"labels": st.sampled_from([{"x": "true"}, {"y": "1"}])},
        ),
        "spec": st.fixed_dictionaries(
            {"containers": FEW_CONTAINERS},
            optional={
                "initContainers": FEW_CONTAINERS,
                "volumes": st.sampled_from([[], [{"name": "x"}], [{"name": "podnetinfo", "downwardAPI": {}}]]),
                "nodeSelector": st.sampled_from([{"z": "1"}, {"a": "1"}, {"a": "2"}]),
                "hostNetwork": st.booleans(),
            },
        ),
    }
)
"""Pods that select networks, of few kinds, so that many are alike."""


FOO = {"example.com/foo": "1"}
EDITS: tuple[tuple[str, Any], ...] = (
    ("/spec/containers/0/resources", {}),
    ("/spec/containers/0/resources", {"requests": {"cpu": "1"}}),
    ("/spec/containers/0/resources", {"limits": {"cpu": "1"}}),
    ("/spec/containers/0/resources", {"limits": FOO}),
    ("/spec/containers/1/resources", {"requests": FOO}),
    ("/spec/containers/1/resources", {"requests": {"hugepages-1Gi": "1Gi"}}),
    ("/spec/containers/1/volumeMounts", [{"name": "x", "mountPath": "/x"}]),
    ("/spec/containers/1/volumeMounts", [{"name": "x", "mountPath": "/etc/podnetinfo/"}]),
    ("/spec/containers/1/volumeMounts", [{"name": "podnetinfo", "mountPath": "/x"}]),
    ("/spec/containers/1/volumeDevices", [{"name": "x", "devicePath": "/etc/podnetinfo"}]),
    ("/spec/containers/2", {"name": "c"}),
    ("/spec/containers", []),
    ("/spec/initContainers", [{"name": "i", "restartPolicy": "Always", "resources": {"limits": FOO}}]),
    ("/spec/volumes", [{"name": "x"}]),
    ("/spec/volumes", [{"name": "podnetinfo", "downwardAPI": {}}]),
    ("/spec/nodeSelector", {"z": "1"}),
    ("/spec/nodeSelector", {"a": "2"}),
    ("/spec/hostNetwork", True),
    ("/metadata/labels", {"y": "1"}),
    ("/metadata/labels", {"x": "true"}),
    ("/metadata/annotations/berth.dev~1resources-container", "b"),
    ("/metadata/annotations/berth.dev~1inject", "false"),
    ("/metadata/annotations/k8s.v1.cni.cncf.io~1networks", "foo"),
    ("/metadata/annotations/v1.multus-cni.io~1default-network", "default/bar"),
)
"""What two Pods may differ in, each with a consequence for the plan."""


@pytest.mark.parametrize("switches", [Switches(), Switches(injections=(Injection("x", {"note": "1"}),))])
@pytest.mark.parametrize("mode", ["top-up", "skip", "add"])
@pytest.mark.parametrize("hugepages", [False, True])
def test_pods_that_differ_in_one_thing_get_plans_of_their_own(switches: Switches, mode: Any, hugepages: bool) -> None:  # noqa: FBT001
    base = {
        "metadata": {"annotations": {NETWORKS: "foo,sel"}},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
    }
    options = NetworksOptions(existing_resources=mode)
    injector = NetworksInjector(
        lookup_for(ATTACHMENTS), switches=lambda: replace(switches, hugepage_down_api=hugepages), options=options
    )
    others = [jsonpatch.apply_patch(base, [{"op": "add", "path": path, "value": value}]) for path, value in EDITS]
    for pod in (base, *others, base):
        # Twice: what the first finishes is what the second may get.
        alone = [everything_of(pod, injector, touched()) for _ in range(2)]
        assert [everything_of(pod, injector, MutationPlan()) for _ in range(2)] == alone


def touched() -> MutationPlan:
    """A plan that shares nothing, since an injector before has looked at it."""
    plan = MutationPlan()
    plan.warnings.clear()
    return plan


@FEW
@given(pods=st.lists(SELECTING, min_size=3, max_size=6), mode=modes, hugepages=st.booleans(), labels=st.booleans())
def test_a_plan_that_pods_share_is_that_of_each_alone(pods: Any, mode: Any, hugepages: bool, labels: bool) -> None:  # noqa: FBT001
    """Whatever was planned before."""
    entries = (Injection("x", {"note": "1", NETWORKS: "bar"}),) if labels else ()
    switches = Switches(hugepage_down_api=hugepages, injections=entries)
    options = NetworksOptions(existing_resources=mode)
    injector = NetworksInjector(lookup_for(ATTACHMENTS), switches=lambda: switches, options=options)
    for pod in pods:
        assert everything_of(pod, injector, MutationPlan()) == everything_of(pod, injector, touched())


def everything_of(obj: Any, injector: NetworksInjector, plan: MutationPlan) -> Any:
    """All that a plan holds, and the answer to the review."""
    found = outcome_of(obj, injector, plan)
    if isinstance(found, str):
        return found
    decision = plan.decision()
    answer = encode(decision, api_version="admission.k8s.io/v1", uid="1")
    members = (plan.patch.reasons, plan.warnings, plan.audit, plan.injected, plan.reason, plan.message)
    return answer, encode_json(plan.patch.operations), decision.injected, members


@FEW
@given(pod=pods(sane_amounts), mode=modes)
def test_requests_equal_limits_afterwards(pod: Any, mode: Any) -> None:
    """For every resource that was needed, in every container that runs with the app; and what is needed is there."""
    options = NetworksOptions(existing_resources=mode)
    plan = plan_of(pod, NetworksInjector(lookup_for(ATTACHMENTS), switches=Switches, options=options))
    annotations = pod["metadata"].get("annotations") or {}
    if plan is None or not annotations:
        return
    needed = {"foo": "example.com/foo", "bar": "example.com/bar"}
    selected = selection.parse(annotations.get(NETWORKS, ""), annotation=NETWORKS, default_namespace="default")
    injected = patched(pod, plan.patch)["spec"]
    for resource in {needed[one.name] for one in selected if one.name in needed}:
        wanted = sum(needed.get(one.name) == resource for one in selected)
        running = injected["containers"] + [
            one for one in injected.get("initContainers") or [] if one.get("restartPolicy") == "Always"
        ]
        held = [amounts_of(container, resource) for container in running]
        assert all(request == limit for request, limit in held)
        if mode == "top-up":
            assert sum(request for request, _ in held) >= wanted


def amounts_of(container: Any, resource: str) -> tuple[int, int]:
    resources = container.get("resources") or {}
    request, limit = ((resources.get(side) or {}).get(resource, 0) for side in ("requests", "limits"))
    return quantity.parse_integer(request), quantity.parse_integer(limit)


@FEW
@given(value=networks | st.text(alphabet='[]{}",/@: \t\nabA.-é\u202e\x00', max_size=40))
def test_arbitrary_annotation_values_are_parsed_or_denied(value: str) -> None:
    """Every selection that comes out has names that are safe in a path."""
    selected: tuple[selection.Selection, ...] = ()
    message = ""
    try:
        selected = selection.parse(value, annotation="networks", default_namespace="default")
    except Denied as denial:
        message = str(denial)
    assert message.isprintable()
    for one in selected:
        assert set(one.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
        assert set(one.namespace) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert ".." not in one.name
        assert one.name
        assert one.namespace


@FEW
@given(resource=text | st.sampled_from([*RESOURCES, " example.com/foo "]), selector=text | st.just("a=b"))
def test_arbitrary_attachment_annotations(resource: str, selector: str) -> None:
    """A broken attachment is a denial that names it, and never a patch that the API server would refuse."""
    values = {RESOURCE_NAME: resource, NODE_SELECTOR: selector}
    lookup = lookup_for([attachment("foo", **values)])
    pod = {"metadata": {"annotations": {NETWORKS: "foo"}}, "spec": {"containers": [{"name": "a"}]}}
    outcome = outcome_of(pod, NetworksInjector(lookup, switches=Switches))
    if isinstance(outcome, MutationPlan):
        patched(pod, outcome.patch)
    else:
        assert "'default/foo'" in outcome


@FEW
@given(
    config=anything.map(json.dumps)
    | text
    | injections.map(lambda entries: json.dumps({"user-defined-injections": entries}))
)
def test_arbitrary_switches(config: str) -> None:
    """No text of the ConfigMap raises."""
    initial = Switches()
    switches = parse_switches(config, initial=initial)
    assert all(problem.isprintable() for problem in switches.problems)
    assert msgspec.json.encode(switches.hugepage_down_api) in (b"true", b"false")
