"""What is denied and warned of when Pods, RmdWorkloads and RmdConfigs are written, with daemons as backend."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.admission.decision import Decision
from app.admission.parts import Context, ReviewCaches
from app.admission.review import GroupVersionKind, UserInfo
from app.permissions import permissions_of
from app.registry import parts_of
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.settings import AdmissionSettings
from app.rmd.wing import WING
from tests.support.pod_requests import OTHERS, request_for
from tests.support.rmd_reviews import SYSTEM, container, node, pod, reviewing, workload

JSON = dict[str, Any]
NODES = (node("n1", "7", zone="a"), node("n2", "4"))
TWO = {"coreIds": ["0-1"], "nodes": ["n1"], "rdt": {"cache": {"max": 2, "min": 2}}}
NOT_GUARANTEED = "spec: without the quality of service Guaranteed there are no exclusive cores"


def raw(obj: JSON | None) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(obj).encode())


async def validated(
    obj: JSON, *others: JSON, old: JSON | None = None, backend: str = "daemon", proven: bool = True, **fields: Any
) -> Decision:
    """The decision about an object in a cluster with `NODES` and these others; an update with `old`."""
    unreserved = fields.pop("unreserved", "deny")
    group, _, version = obj["apiVersion"].rpartition("/")
    fields = {
        "kind": GroupVersionKind(group, version, obj["kind"]),
        "namespace": obj["metadata"].get("namespace", ""),
        "name": obj["metadata"].get("name", ""),
        **({"operation": "UPDATE", "old_object": raw(old)} if old else {}),
        **fields,
    }
    found = await reviewing(*NODES, *others, rmd_backend=backend, rmd_unreserved=unreserved)
    request = request_for(obj, **fields)
    if proven:
        request.prove()
    return (await found["validate"].review(request)).decision


@pytest.mark.parametrize(
    "given",
    [
        pod(container()),
        pod(container("container1"), container("container2"), container2_mba_percentage="50"),
        pod(container(), c1_pstate_ratio="1.5", c1_pstate_monitoring="on"),
        pod(container(ways=None), container("c2", ways=None, cpu="1500m"), c1_color="blue"),
    ],
)
async def test_the_samples_of_the_operator_pass_without_a_word(given: JSON) -> None:
    decision = await validated(given)
    assert (decision.allowed, decision.warnings) == (True, [])


def with_cpus(name: str, cpus: str | None) -> JSON:
    made = node(name, "4", rack="1")
    made["status"]["capacity"] = {"cpu": cpus} if cpus is not None else {}
    return made


@pytest.mark.parametrize(
    ("cpus", "spec", "warned"),
    [
        ("8", {"coreIds": ["0-7"]}, ""),
        ("8", {"coreIds": ["8"]}, "big has 8 CPUs, and no core 8"),
        ("8", {"coreIds": ["1", "900", "7-9"]}, "big has 8 CPUs, and no core 8-9,900"),
        ("8", {"coreIds": ["0-20"], "nodes": [], "nodeSelector": {"rack": "1"}}, "big has 8 CPUs, and no core 8-20"),
        ("1", {"coreIds": ["1"]}, "big has 1 CPU, and no core 1"),
        ("7900m", {"coreIds": ["7"]}, "big has 7 CPUs, and no core 7"),
        ("8", {"coreIds": ["4-9,^8-9"]}, ""),
        ("8", {"allCores": True, "coreIds": ["900"], "reservedCoreIds": ["900"]}, ""),
        (None, {"coreIds": ["900"]}, ""),
        ("many", {"coreIds": ["900"]}, ""),
        ("0", {"coreIds": ["900"]}, ""),
        ("8", {"coreIds": ["900"], "nodes": ["unknown"]}, ""),
    ],
)
async def test_cores_that_a_node_has_not_are_warned_of(cpus: str | None, spec: JSON, warned: str) -> None:
    written = workload("w", **{**TWO, "nodes": ["big"], **spec})
    decision = await validated(written, with_cpus("big", cpus))
    assert decision.allowed
    found = [one for one in decision.warnings if one.startswith("spec.coreIds: want cores of the machine")]
    assert [warned in one for one in found] == ([True] if warned else [])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (pod(container(cpu="500m")), "spec.containers[0].resources.limits[cpu]: want whole CPUs"),
        (pod(container(), {"name": "other", "image": "i"}), NOT_GUARANTEED),
        (
            pod(container("a", ways=None), init=(container(),)),
            "spec.initContainers[0]: kubelet does not tell the cores",
        ),
        (pod(container(ways="0")), f"spec.containers[0].resources.limits[{L3_CACHE_WAYS}]: want 1 or more ways, got 0"),
        (pod(container(), c1_mba_percentage="0.5"), "metadata.annotations[c1_mba_percentage]: want a whole number"),
        (
            pod(container(), c1_mba_percentage="5", c1_mba_mbps="5"),
            "container c1: percentage and mbps exclude each other",
        ),
        (pod(container(), c1_mba_percentage="5", c1_cache_min="1"), "container c1: wants guaranteed cache"),
    ],
)
async def test_a_pod_that_can_never_get_its_ways(given: JSON, problem: str) -> None:
    decision = await validated(given)
    assert (decision.allowed, decision.reason) == (False, "InvalidCacheRequest")
    assert decision.message.startswith(problem)
    warned = await validated(given, unreserved="warn")
    assert warned.allowed
    assert [line for line in warned.warnings if line.startswith(problem)]


async def test_each_problem_is_said_once() -> None:
    given = pod(container(), container("c2"), {"name": "c3", "image": "i"}, c2_mba_mbps="x")
    message = (await validated(given)).message
    assert message.count(NOT_GUARANTEED) == 1
    assert "metadata.annotations[c2_mba_mbps]: want a whole number" in message


async def test_the_containers_are_named_that_keep_a_pod_from_being_guaranteed() -> None:
    plain = [{"name": f"s{number}", "image": "i"} for number in range(4)]
    message = (await validated(pod(container(), *plain[:1]))).message
    assert message.endswith("want requests as limits of cpu and memory in each container, which these have not: "
                            "s0 (spec.containers[1])")  # fmt: skip
    message = (await validated(pod(container(), *plain[1:], init=tuple(plain[:1])))).message
    assert message.endswith("s0 (spec.initContainers[0]), s1 (spec.containers[1]), s2 (spec.containers[2]) and 1 more")


LONG = "n" * 46


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (pod(container(), c1_polcy="gold"), "metadata.annotations[c1_polcy]: unknown setting: want one of policy"),
        (pod(container(), c9_policy="gold"), "metadata.annotations[c9_policy]: there is no container 'c9'"),
        (pod(container(ways=None), c1_policy="gold"), "metadata.annotations[c1_policy]: has no effect: c1 asks for no"),
        (pod(container(), c1_policy="gold"), "container c1: policy 'gold' wins and has its own cache ways"),
        (
            pod(container(), c1_policy="lead"),
            "metadata.annotations[c1_policy]: 'lead' is no policy that every daemon has: want gold, silver, bronze, or",
        ),
        (
            pod(container(LONG)),
            f"container {LONG}: its name is too long for the annotations of pstate_monitoring: a key has at most 63",
        ),
        (
            pod(container(ways="5"), container("c2", ways="3")),
            f"spec: the containers ask for 8 {L3_CACHE_WAYS} together, and no node has more than 7",
        ),
    ],
)
async def test_a_pod_that_is_warned(given: JSON, warning: str) -> None:
    decision = await validated(given)
    assert decision.allowed
    assert [line for line in decision.warnings if line.startswith(warning)], decision.warnings


@pytest.mark.parametrize("given", [pod(container(LONG[1:])), pod(container(ways="5"), container("c2", ways="2"))])
async def test_what_just_fits_needs_no_warning(given: JSON) -> None:
    assert (await validated(given)).warnings == []


async def test_ways_are_compared_with_nodes_that_are_known() -> None:
    found = await reviewing(rmd_backend="daemon")
    assert (await found["validate"].review(request_for(pod(container(ways="99"))))).decision.warnings == []


async def test_an_update_answers_for_what_it_changes() -> None:
    wrong = pod(container(cpu="500m"), c1_polcy="x")
    assert not (await validated(wrong)).allowed
    same = await validated({**wrong, "metadata": {**wrong["metadata"], "labels": {"a": "b"}}}, old=wrong)
    assert (same.allowed, same.warnings) == (True, [])
    worse = await validated(pod(container(cpu="500m"), c1_polcy="x", c1_mba_mbps="x", c1_color="x"), old=wrong)
    assert not worse.allowed
    assert worse.message == "metadata.annotations[c1_mba_mbps]: want a whole number, got 'x'"
    (warning,) = worse.warnings
    assert warning.startswith("metadata.annotations[c1_color]: unknown setting")
    leaving = pod(container(), c1_mba_mbps="x")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not (await validated(leaving, old=pod(container()))).allowed, "a deletion frees no other change"
    finalized = leaving | {"metadata": leaving["metadata"] | {"finalizers": ["example.com/x"]}}
    assert (await validated(leaving, old=finalized)).allowed


async def test_with_classes_a_change_of_annotations_comes_too_late() -> None:
    before, after = pod(container(cpu="500m")), pod(container(cpu="500m"), c1_policy="gold", c9_policy="x", color="x")
    decision = await validated(after, old=before, backend="runtime")
    assert decision.allowed
    assert decision.warnings == [
        "metadata.annotations[c1_policy]: has no effect any more: a Pod gets its RDT classes when it is created"
    ]
    assert (await validated(after, backend="runtime")).warnings == []
    assert (await validated(before, old=before, backend="runtime")).warnings == []


@pytest.mark.parametrize("namespace", ["kube-system", SYSTEM])
async def test_pods_that_the_cluster_needs_are_left_alone(namespace: str) -> None:
    wrong = pod(container(cpu="500m"))
    wrong["metadata"]["namespace"] = namespace
    assert (await validated(wrong)).allowed
    static = pod(container(cpu="500m"), **{"kubernetes.io/config.mirror": "x"})
    assert (await validated(static, user_info=UserInfo("system:node:n1", ["system:nodes"]))).allowed
    assert not (await validated(static)).allowed


@pytest.mark.parametrize("fields", [one for one in OTHERS if one != {"operation": "UPDATE"}])
async def test_what_is_no_write_of_a_pod_is_left_alone(fields: JSON) -> None:
    found = await reviewing(*NODES, rmd_backend="daemon")
    assert (await found["validate"].review(request_for(pod(container(cpu="1m")), **fields))).decision.allowed


@pytest.mark.parametrize(
    "spec",
    [
        {"allCores": True, "rdt": {"cache": {"max": 2, "min": 2}}, "nodes": ["n1", "n2"]},
        {**TWO, "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}}},
        {"coreIds": ["0-3", "6"], "rdt": {"cache": {"max": 2, "min": 1}}, "nodeSelector": {"zone": "a"}},
        {"coreIds": ["4"], "policy": "gold", "nodes": ["n1"]},
    ],
)
async def test_workloads_that_are_right(spec: JSON) -> None:
    decision = await validated(workload("w", **spec))
    assert (decision.allowed, decision.warnings) == (True, [])


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({**TWO, "coreIds": ["3-1"]}, "spec.coreIds[0]: want the lower core first, got '3-1'"),
        ({**TWO, "rdt": {"cache": {"max": 1, "min": 2}}}, "spec.rdt.cache.min: want at most max, 1, got 2"),
        ({"coreIds": ["0"], "nodes": ["n1"]}, "spec: asks for nothing: want policy"),
        ({**TWO, "nodes": ["n1", "N_1"]}, "spec.nodes[1]: 'N_1' is not a valid name"),
        ({**TWO, "nodeSelector": {"a b": "c"}}, "spec.nodeSelector[a b]: 'a b' is not a qualified name"),
        ({**TWO, "nodeSelector": {"a": "c d"}}, "spec.nodeSelector[a]: 'c d' is not a label value"),
    ],
)
async def test_workloads_that_no_daemon_takes(spec: JSON, problem: str) -> None:
    decision = await validated(workload("w", **spec))
    assert (decision.allowed, decision.reason) == (False, "InvalidRmdWorkload")
    assert decision.message.startswith(problem)


OVERLAP = "a daemon gives a core to one RmdWorkload, and others ask for"


@pytest.mark.parametrize(
    ("spec", "other", "warning"),
    [
        (TWO, TWO, f"spec.coreIds: {OVERLAP} cores 0-1 of n1 for ns/o"),
        (TWO, {**TWO, "coreIds": ["1-9"]}, f"spec.coreIds: {OVERLAP} cores 1 of n1 for ns/o"),
        (TWO, {**TWO, "coreIds": ["2"]}, ""),
        (TWO, {**TWO, "nodes": ["n2"]}, ""),
        (TWO, {**TWO, "nodeSelector": {"zone": "a"}}, f"spec.coreIds: {OVERLAP} cores 0-1 of n1 for ns/o"),
        (TWO, {**TWO, "nodeSelector": {"zone": "b"}}, ""),
        ({**TWO, "nodeSelector": {"zone": "a"}}, TWO, f"spec.coreIds: {OVERLAP} cores 0-1 of n1 for ns/o"),
        (TWO, {**TWO, "coreIds": [], "allCores": True}, f"spec.coreIds: {OVERLAP} cores 0-1 of n1 for ns/o"),
        (TWO, {**TWO, "coreIds": [], "allCores": True, "reservedCoreIds": ["0-1"]}, ""),
        ({**TWO, "coreIds": [], "allCores": True, "reservedCoreIds": ["0-1"]}, TWO, ""),
        ({**TWO, "coreIds": [], "allCores": True}, TWO, f"spec.allCores: {OVERLAP} cores 0-1 of n1 for ns/o"),
        (
            {**TWO, "coreIds": [], "allCores": True},
            {**TWO, "coreIds": [], "allCores": True},
            f"spec.allCores: {OVERLAP} all cores of n1 for ns/o",
        ),
        (TWO, {**TWO, "rdt": {}}, ""),
    ],
)
async def test_cores_that_others_ask_for(spec: JSON, other: JSON, warning: str) -> None:
    decision = await validated(workload("w", **spec), workload("o", **other))
    assert decision.allowed
    found = [line for line in decision.warnings if OVERLAP in line]
    assert found == ([warning] if warning else [])


async def test_a_workload_does_not_overlap_itself_and_one_that_goes() -> None:
    leaving = workload("o", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, **TWO)
    assert (await validated(workload("w", **TWO), workload("w", **TWO), leaving)).warnings == []


@pytest.mark.parametrize(
    ("others", "asked"),
    [
        ((workload("payroll", "bob", **TWO),), "cores 0-1 of n1 for 1 RmdWorkload of another namespace"),
        (
            (workload("payroll", "bob", **TWO), workload("w", "carol", **{**TWO, "coreIds": ["1"]})),
            "cores 0-1 of n1 for 2 RmdWorkloads of other namespaces",
        ),
        (
            (workload("payroll", "bob", **{**TWO, "coreIds": ["1"]}), workload("o", **TWO)),
            "cores 0-1 of n1 for ns/o; cores 1 of n1 for 1 RmdWorkload of another namespace",
        ),
        (
            tuple(workload(f"payroll{number}", "bob", **TWO) for number in range(8)),
            "cores 0-1 of n1 for 8 RmdWorkloads of other namespaces",
        ),
    ],
)
async def test_workloads_of_other_namespaces_are_counted_and_not_named(others: tuple[JSON, ...], asked: str) -> None:
    (warning,) = (await validated(workload("w", **TWO), *others)).warnings
    assert warning == f"spec.coreIds: {OVERLAP} {asked}"


async def test_without_a_namespace_nothing_is_named() -> None:
    """An API server gives one in each review of an RmdWorkload."""
    (warning,) = (await validated(workload("w", **TWO), workload("payroll", "bob", **TWO), namespace="")).warnings
    assert warning.endswith("for 1 RmdWorkload of another namespace")


async def test_many_others_are_counted() -> None:
    others = [workload(f"o{number}", **TWO) for number in range(8)]
    (warning,) = (await validated(workload("w", **TWO), *others)).warnings
    assert warning.endswith("cores 0-1 of n1 for ns/o4; 3 more")


@pytest.mark.parametrize(
    ("obj", "warning"),
    [
        (workload("w", **{**TWO, "nodes": ["n1", "n9"]}), "spec.nodes[1]: there is no node n9"),
        (
            workload("w", coreIds=["0"], policy="gold", nodeSelector={"zone": "z"}),
            "spec.nodeSelector: no node has these",
        ),
        (workload("w", coreIds=["0"], policy="gold"), "spec: neither nodes nor nodeSelector"),
        (workload("w", coreIds=["0"], cache={"max": 2, "min": 2}, nodes=["n1"]), "spec.cache: is the form of v0.1"),
        (workload("p-rmd-workload-c", **TWO), "metadata.name: the node agent gives names with -rmd-workload-"),
        (
            workload("w", metadata={"ownerReferences": [{"kind": "Pod", "name": "p", "controller": True}]}, **TWO),
            "metadata.ownerReferences: the node agent writes it for Pod p, and undoes changes",
        ),
    ],
)
async def test_workloads_that_are_warned_of(obj: JSON, warning: str) -> None:
    (found,) = (await validated(obj)).warnings
    assert found.startswith(warning)


async def test_the_node_agent_is_not_warned_of_its_own() -> None:
    account = UserInfo("system:serviceaccount:berth-system:berth-rmd-node")
    assert (await validated(workload("p-rmd-workload-c", **TWO), user_info=account)).warnings == []


async def test_an_update_that_leaves_the_spec_passes() -> None:
    wrong = workload("w", coreIds=["x"])
    assert not (await validated(wrong)).allowed
    finalized = workload("w", metadata={"finalizers": ["intel.com/rmd-reservations"]}, coreIds=["x"])
    assert (await validated(finalized, old=wrong)).allowed
    assert not (await validated(workload("w", coreIds=["y"]), old=wrong)).allowed
    leaving = workload("w", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, coreIds=["y"])
    assert not (await validated(leaving, old=wrong)).allowed
    assert (await validated(workload("w", coreIds=["y"]), old=wrong, sub_resource="status")).allowed


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"rmdNodeSelector": {"a b": "c"}}, "spec.rmdNodeSelector[a b]: 'a b' is not a qualified name"),
        ({"rmdNodeSelector": {"a": "c d"}}, "spec.rmdNodeSelector[a]: 'c d' is not a label value"),
        ({"rmdImage": "rmd latest"}, "spec.rmdImage: want the name of an image without spaces, got 'rmd latest'"),
        ({"rmdImage": "rmd:latest", "rmdNodeSelector": {"a": "b"}, "deployNodeAgent": True}, ""),
        ({}, ""),
    ],
)
async def test_configs(spec: JSON, problem: str) -> None:
    decision = await validated({**workload("rmdconfig", **spec), "kind": "RmdConfig"})
    assert (decision.allowed, decision.message.startswith(problem)) == (not problem, True)


@pytest.mark.parametrize("spec", ["text", [1], {"coreIds": [1]}, {"rdt": {"cache": {"max": "2", "min": 1}}}])
async def test_objects_of_another_shape_are_refused(spec: Any) -> None:
    decision = await validated({**workload("w"), "spec": spec})
    assert (decision.allowed, decision.code) == (False, 400)
    assert "want the fields and types of its kind" in decision.message


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"nodes": [1]}, "spec.nodes: want a list of names of nodes"),
        ({"nodes": "n1"}, "spec.nodes: want a list of names of nodes"),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector: want a map of labels, whose values are texts"),
    ],
)
async def test_nodes_of_another_shape_are_refused_by_their_field(spec: Any, problem: str) -> None:
    decision = await validated({**workload("w"), "spec": {"coreIds": ["1"], **spec}})
    assert (decision.allowed, decision.code) == (False, 422)
    assert problem in decision.message


@pytest.mark.parametrize("backend", ["off", "runtime"])
async def test_without_daemons_their_objects_are_left_alone(backend: str) -> None:
    assert (await validated(workload("w", coreIds=["x"]), backend=backend)).allowed
    assert (await validated(pod(container(cpu="500m")), backend=backend)).allowed


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [
        ("off", set()),
        ("daemon", {"Node", "RmdWorkload"}),
        ("runtime", {"ConfigMap"}),
        ("auto", {"Node", "RmdWorkload", "ConfigMap"}),
    ],
)
def test_what_is_read_of_the_cluster(backend: str, kinds: set[str]) -> None:
    context = Context(AdmissionSettings.load({"rmd_backend": backend}, environment=False), SYSTEM, ReviewCaches())
    parts = parts_of(context, [WING])
    assert {cached.resource.kind for cached in context.caches.all} == kinds
    assert bool(parts) == (backend != "off")
    granted = set(permissions_of("webhook", rmd_backend=backend)) - set(permissions_of("webhook", rmd_backend="off"))
    assert {plural for one in granted for plural in one.resources} == {f"{kind.lower()}s" for kind in kinds}


async def test_a_caller_that_may_be_anybody_is_told_no_name() -> None:
    """It says any namespace that it likes."""
    others = [workload("theirs", coreIds=["0-1"], nodes=["n1"], rdt={"cache": {"max": 2, "min": 2}})]
    mine = workload("mine", coreIds=["0-1"], nodes=["n1"], rdt={"cache": {"max": 2, "min": 2}})
    assert "theirs" in str((await validated(mine, *others)).warnings)
    told = str((await validated(mine, *others, proven=False)).warnings)
    assert "theirs" not in told
    assert "1 RmdWorkload" in told
