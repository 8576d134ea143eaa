"""How much a tenant's Pod may give the scheduler to look at, at each border, and what Berth and the cluster add to it."""

from __future__ import annotations

from typing import Any

import pytest

from app.placement.model import PlacementOptions
from app.placement.plan import placed, requirements
from app.workloads.templates.guards import forbidden_fields
from app.workloads.templates.problems import manifest_problems, template_problems

JSON = dict[str, Any]
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
CONTAINERS = [{"name": "c", "image": "nginx"}]
BOTH = requirements(host="host-a", tenant="t1", options=PlacementOptions())


def selecting(**selector: Any) -> JSON:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}


def weighted(**selector: Any) -> JSON:
    return {"weight": 1, "podAffinityTerm": selecting(**selector)}


def spread(**selector: Any) -> JSON:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}


def preference(**term: Any) -> JSON:
    return {"weight": 1, "preference": term}


def node_term(**term: Any) -> JSON:
    return term


TERMS = [
    pytest.param(f"affinity.{kind}.{when}", make, where, id=f"{kind}-{when[:9]}")
    for kind in ("podAffinity", "podAntiAffinity")
    for when, make, where in (
        (REQUIRED, selecting, ".labelSelector"),
        (PREFERRED, weighted, ".podAffinityTerm.labelSelector"),
    )
]
TERMS += [
    pytest.param("topologySpreadConstraints", spread, ".labelSelector", id="spread"),
    pytest.param(f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", node_term, "", id="node-required"),
    pytest.param(f"affinity.nodeAffinity.{PREFERRED}", preference, ".preference", id="node-preferred"),
]


def pod(field: str, items: Any) -> JSON:
    """The spec of a Pod with this list."""
    spec: JSON = {"containers": CONTAINERS}
    at = spec
    *above, last = field.split(".")
    for segment in above:
        at = at.setdefault(segment, {})
    at[last] = items
    return spec


def findings(spec: Any, *, admitted: bool = False) -> list[str]:
    return list(forbidden_fields(spec, "spec", admitted=admitted))


def exists(count: int) -> list[JSON]:
    return [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]


def one_of(count: int) -> JSON:
    return {"key": "a", "operator": "In", "values": [f"v{number}" for number in range(count)]}


@pytest.mark.parametrize("admitted", [False, True])
@pytest.mark.parametrize(("field", "make", "_where"), TERMS)
def test_sixteen_terms_pass_and_seventeen_do_not(field: str, make: Any, _where: str, *, admitted: bool) -> None:
    items = [make(matchExpressions=exists(1))] * 17
    assert findings(pod(field, items[:16]), admitted=admitted) == []
    (line,) = findings(pod(field, items), admitted=admitted)
    assert line.startswith(f"spec.{field}: 17 ")
    assert line.endswith("; a tenant's Pod has at most 16")


@pytest.mark.parametrize(("field", "make", "where"), TERMS)
def test_thirty_two_conditions_pass_and_thirty_three_do_not(field: str, make: Any, where: str) -> None:
    assert findings(pod(field, [make(matchExpressions=exists(32))])) == []
    items = [make(matchExpressions=exists(1)), make(matchExpressions=exists(33))]
    (line,) = findings(pod(field, items))
    assert line.startswith(f"spec.{field}[1]{where.removesuffix('.labelSelector')}: 33 match expressions")
    assert line.endswith("; a tenant's Pod has at most 32")


@pytest.mark.parametrize(("field", "make", "where"), [term for term in TERMS if str(term.id).startswith("node")])
def test_256_values_pass_and_257_do_not(field: str, make: Any, where: str) -> None:
    (line,) = findings(pod(field, [make(matchExpressions=[one_of(256), one_of(257)])]))
    assert line.startswith(f"spec.{field}[0]{where}.matchExpressions[1].values: 257 values")
    assert line.endswith("; a tenant's Pod has at most 256")


@pytest.mark.parametrize(("field", "make", "where"), TERMS)
def test_conditions_of_a_term_count_together(field: str, make: Any, where: str) -> None:
    """Labels are conditions of a selector, fields are conditions of a node."""
    more: dict[str, Any] = (
        {"matchLabels": {f"l{number}": "" for number in range(16)}}
        if where.endswith("labelSelector")
        else {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}] * 16}
    )
    assert findings(pod(field, [make(matchExpressions=exists(16), **more)])) == []
    (line,) = findings(pod(field, [make(matchExpressions=exists(17), **more)]))
    assert ": 33 match expressions" in line


def test_all_selectors_of_pods_count_together_with_their_values() -> None:
    """While the Pod waits for a node, the scheduler goes through them for each Pod that comes or goes."""
    lists = {field: make for field, make, where in (term.values for term in TERMS) if where.endswith("labelSelector")}
    assert len(lists) == 5

    def spec(values: int) -> JSON:
        """Five terms: 5 expressions, 5 labels, 2 keys that count twice, and the values."""
        found: JSON = {"containers": CONTAINERS, "affinity": {"podAffinity": {}, "podAntiAffinity": {}}}
        for number, (field, make) in enumerate(lists.items()):
            term = make(matchExpressions=[one_of(values if number == 4 else 10)], matchLabels={"l": ""})
            above, _, name = field.rpartition(".")
            (found["affinity"][above.partition(".")[2]] if above else found)[name] = [term]
        keys = found["affinity"]["podAntiAffinity"][REQUIRED][0]
        keys |= {"matchLabelKeys": ["m"], "mismatchLabelKeys": ["n"]}
        return found

    for admitted in (False, True):
        assert findings(spec(10), admitted=admitted) == []
        (line,) = findings(spec(11), admitted=admitted)
        assert line.startswith("spec: 65 match expressions, values and labels select Pods in affinity and topology")
        assert line.endswith("; a tenant's Pod has at most 64")


@pytest.mark.parametrize("keys", ["matchLabelKeys", "mismatchLabelKeys"])
def test_label_keys_count_alike_before_and_after_the_api_server_has_merged_them(keys: str) -> None:
    """It leaves the keys where they are, and adds an expression for each label that the Pod has."""
    operator = "In" if keys == "matchLabelKeys" else "NotIn"
    for count in (16, 17):
        term = selecting(matchExpressions=exists(16)) | {keys: [f"l{number}" for number in range(count)]}
        merged = [{"key": f"l{number}", "operator": operator, "values": ["v"]} for number in range(count)]
        taken = term | {"labelSelector": {"matchExpressions": [*exists(16), *merged]}}
        for one, admitted in ((term, False), (term, True), (taken, True)):
            found = findings(pod(f"affinity.podAntiAffinity.{REQUIRED}", [one]), admitted=admitted)
            assert [": 33 match expressions" in line for line in found] == [True] * (count - 16)


def test_what_berth_adds_takes_no_pod_beyond_a_bound() -> None:
    spec = pod(f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", [{"matchExpressions": exists(32)}] * 16)
    assert findings(spec) == []
    confined = placed(spec, BOTH)
    assert len(confined["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][15]["matchExpressions"]) == 34
    assert findings(confined, admitted=True) == []
    assert len(findings(confined)) == 16
    spec = pod(f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", [{"matchExpressions": exists(33)}])
    assert len(findings(placed(spec, BOTH), admitted=True)) == 1


def test_what_the_cluster_adds_takes_no_pod_of_a_daemon_set_beyond_a_bound() -> None:
    """The controller puts the node's name into the place of the required terms, and adds tolerations to the template's.

    DefaultTolerationSeconds and PodTolerationRestriction add theirs afterwards.
    """
    own = [{"key": f"k{number}", "operator": "Exists"} for number in range(65)]
    added = [
        {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": effect}
        for taint, effect in (
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
            ("network-unavailable", "NoSchedule"),
        )
    ]
    assert findings(pod("tolerations", own[:64])) == []
    (line,) = findings(pod("tolerations", own))
    assert line.startswith("spec.tolerations: 65 tolerations")
    assert line.endswith("; a tenant's Pod has at most 64")
    on_node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["dpu1"]}]}
    spec = pod(f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", [on_node])
    spec["tolerations"] = [*own[:64], *added]
    assert findings(placed(spec, BOTH), admitted=True) == []
    (line,) = findings(pod("tolerations", [*own[:64], *added, *own[:10]]), admitted=True)
    assert line.startswith("spec.tolerations: 81 tolerations")


def test_rules_and_manifests_are_held_to_it() -> None:
    field = f"affinity.podAntiAffinity.{REQUIRED}"
    spec = pod(field, [selecting(matchLabels={"a": "b"})] * 2000)
    want = (
        f"{field}: 2000 terms, which the scheduler goes through for every other Pod too; a tenant's Pod has at most 16"
    )
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert template_problems(whole, trusted=False) == [f"spec.template.spec.{want}"]
    assert template_problems(whole, trusted=True) == []
    assert manifest_problems(whole, kind="Pod") == [f"spec.object.spec.{want}"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    daemon_set |= {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    assert manifest_problems(daemon_set, kind="DaemonSet") == [f"spec.object.spec.template.spec.{want}"]


@pytest.mark.parametrize("odd", [7, "x", None, {}, [None, 7, "x", []], [{"labelSelector": 7, "matchLabelKeys": [{}]}]])
@pytest.mark.parametrize(("field", "_make", "_where"), TERMS)
def test_odd_lists_are_no_findings(field: str, _make: Any, _where: str, odd: Any) -> None:
    found = findings(pod(field, odd))
    assert [line for line in found if not line.partition(": ")[0].endswith(".topologyKey")] == []


@pytest.mark.parametrize(("field", "_make", "_where"), TERMS)
def test_empty_items_count(field: str, _make: Any, _where: str) -> None:
    """An API server reads null in a list as an empty item."""
    (line,) = findings(pod(field, [None] * 17))
    assert line.startswith(f"spec.{field}: 17 ")


def test_expressions_of_odd_keys_are_read() -> None:
    expressions = [{"key": {"a": "b"}}, {"key": ["c"]}, {"values": 7}]
    term = selecting(matchExpressions=expressions) | {"matchLabelKeys": [["c"], 7, None, "a"]}
    assert findings(pod(f"affinity.podAntiAffinity.{REQUIRED}", [term])) == []
