"""Properties of the planner over generated specs, judged by the scheduler's rules as the tests write them down."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from app.admission.patch import Patch
from app.placement.model import HOST_LABEL, TENANT_LABEL, PodSpec, Requirement
from app.placement.plan import contradictions, placed, plan_affinity
from tests.support.patches import patched

from .conftest import REQUIRED, admits, holds, term_matches, terms_of

FEW = settings(max_examples=200, deadline=None)
KEYS = (HOST_LABEL, TENANT_LABEL, "zone")
VALUES = ("1", "5", "a", "b")

values = st.sampled_from(VALUES)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(values, min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.lists(values, min_size=1, max_size=1),
        }
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.just("In"),
        "values": st.lists(st.sampled_from(["n1", "n2"]), min_size=1, max_size=1),
    }
)
terms = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.none() | st.lists(expressions, max_size=3),
        "matchFields": st.none() | st.lists(fields, max_size=1),
    },
)
required = st.none() | st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms, min_size=1, max_size=3)})
node_affinities = st.none() | st.fixed_dictionaries(
    {}, optional={REQUIRED: required, "preferredDuringSchedulingIgnoredDuringExecution": st.just([])}
)
affinities = st.none() | st.fixed_dictionaries(
    {}, optional={"nodeAffinity": node_affinities, "podAntiAffinity": st.just({})}
)
specs = st.fixed_dictionaries(
    {"containers": st.just([{"name": "a"}])},
    optional={
        "affinity": affinities,
        "nodeSelector": st.none() | st.dictionaries(st.sampled_from(KEYS), values, max_size=2),
        "nodeName": st.sampled_from(["", "n1"]),
    },
)


def wishes(least: int = 0) -> st.SearchStrategy[tuple[Requirement, ...]]:
    each = st.builds(Requirement, st.sampled_from(KEYS[:2]), values)
    return st.lists(each, min_size=least, max_size=2, unique_by=lambda one: one.key).map(tuple)


nodes = st.dictionaries(st.sampled_from(KEYS), values)


@FEW
@given(specs, wishes(), st.lists(nodes, min_size=1, max_size=8), st.sampled_from(["n1", "n2"]))
def test_the_result_admits_exactly_the_nodes_of_both(
    spec: dict[str, Any], wanted: tuple[Requirement, ...], labels: list[dict[str, str]], name: str
) -> None:
    """No node without the labels, no node that was not allowed before, and every other one as before."""
    before = copy.deepcopy(spec)
    result = placed(spec, wanted)
    assert spec == before
    for node in labels:
        for one in (node, node | {wish.key: wish.value for wish in wanted}):
            fits = all(one.get(wish.key) == wish.value for wish in wanted)
            assert admits(result, one, name) == (admits(spec, one, name) and fits)
    assert {key: value for key, value in result.items() if key != "affinity"} == {
        key: value for key, value in spec.items() if key != "affinity"
    }


@FEW
@given(specs, wishes(1), nodes, st.sampled_from(["n1", "n2"]))
def test_every_term_implies_the_requirement(
    spec: dict[str, Any], wanted: tuple[Requirement, ...], node: dict[str, str], name: str
) -> None:
    for one in terms_of(placed(spec, wanted)):
        if term_matches(one, node, name):
            assert all(node.get(wish.key) == wish.value for wish in wanted)


@FEW
@given(specs, wishes())
def test_the_patch_gives_what_placed_gives_and_a_second_run_plans_nothing(
    spec: dict[str, Any], wanted: tuple[Requirement, ...]
) -> None:
    result = placed(spec, wanted)
    patch = Patch()
    added = plan_affinity(msgspec.convert(spec, PodSpec), dict.fromkeys(wanted, "r"), patch)
    assert patched({"spec": spec}, patch)["spec"] == result
    assert bool(added) is (result != spec)
    again = Patch()
    assert plan_affinity(msgspec.convert(result, PodSpec), dict.fromkeys(wanted, "r"), again) == ()
    assert again.operations == []
    assert placed(result, wanted) == result


@FEW
@given(specs, wishes())
def test_contradictions_are_what_a_node_with_the_labels_could_not_fulfil(
    spec: dict[str, Any], wanted: tuple[Requirement, ...]
) -> None:
    """Of the conditions on the required labels, each that fails on such a node has its line, and no other."""
    node = {wish.key: wish.value for wish in wanted}
    required_terms = (((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}).get(
        "nodeSelectorTerms"
    ) or []
    conditions = [
        condition
        for one in required_terms
        for condition in (one or {}).get("matchExpressions") or []
        if condition["key"] in node
    ]
    selector = spec.get("nodeSelector") or {}
    expected = sum(not holds(condition, node) for condition in conditions)
    expected += sum(selector.get(key, value) != value for key, value in node.items())
    expected += bool(wanted and spec.get("nodeName"))
    assert len(contradictions(spec, wanted)) == expected
