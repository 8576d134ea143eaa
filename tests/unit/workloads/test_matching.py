"""The matcher against the plain meaning of rules, and what it may cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.workloads.matching.matcher import Matcher
from app.workloads.model import Expression, ObjectKey, Rule, Workload, tenant_name
from app.workloads.rules.keys import Facts
from tests.unit.workloads.matching_builders import ids, named, rule, where, workload

RICH = workload("p1", labels={"app": "web", "n": "1"}, node="host-a", extra={"float": 2.0, "null": None, "list": []})


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        (where("metadata.resourceName", "In", "p1", "p2"), True),
        (where("metadata.resourceName", "In", "p2"), False),
        (where("metadata.resourceName", "NotIn", "p1"), False),
        (where("metadata.resourceName", "NotIn", "p2"), True),
        (where("state.ready", "In", "true"), True),
        (where("state.ready", "In", "True"), False),
        (where("state.extra.more.float", "In", "2"), True),
        (where("state.extra.labels.none", "In", "x"), False),
        (where("state.extra.labels.none", "NotIn", "x"), True),
        (where("state.extra.labels.none", "Exists"), False),
        (where("state.extra.labels.none", "DoesNotExist"), True),
        (where("state.extra.more.null", "Exists"), False),
        (where("state.nodeName", "Exists"), True),
        (where("state.nodeName", "DoesNotExist"), False),
        (where("state.extra.labels", "Exists"), True),
        (where("state.extra.more.list", "Exists"), True),
        (where("state.extra.labels", "In", '{"app":"web","n":"1"}'), False),
        (where("state.extra.labels", "NotIn", '{"app":"web","n":"1"}'), True),
        (where("length(state.extra.labels)", "In", "2"), True),
        (where("length(state.nothing)", "NotIn", "2"), True),
    ],
)
def test_an_expression(expression: Expression, *, holds: bool) -> None:
    matcher = Matcher()
    matcher.put_workload(RICH)
    matcher.put_rule(rule("r", [expression]))
    assert bool(matcher.rules_of(RICH.key)) is holds
    assert matcher.workloads_of(("tenant-a", "r")) == ({RICH.key} if holds else set())


def test_expressions_are_anded_and_terms_ored() -> None:
    yes, no = where("metadata.resourceName", "In", "p1"), where("state.nodeName", "In", "host-z")
    matcher = Matcher()
    matcher.put_workload(RICH)
    for name, terms in {"both": [[yes, no]], "either": [[no], [yes]], "none": [[no], [no]], "empty": [[]]}.items():
        matcher.put_rule(rule(name, *terms))
    matcher.put_rule(rule("nothing"))
    assert ids(matcher.rules_of(RICH.key)) == ["tenant-a/either"]


def test_a_rule_of_a_tenant_sees_its_own_workloads_only() -> None:
    matcher = Matcher()
    mine, other = workload("p1"), workload("p1", tenant="b")
    matcher.put_workload(mine)
    matcher.put_workload(other)
    assert matcher.put_rule(named("r", "p1")) == {mine.key}
    assert matcher.rules_of(other.key) == ()


def test_a_rule_of_the_admin_sees_the_tenants_it_names() -> None:
    matcher = Matcher()
    keys = {}
    for tenant in "abc":
        keys[tenant] = workload("p1", tenant=tenant).key
        matcher.put_workload(workload("p1", tenant=tenant))
    assert matcher.put_rule(named("two", "p1", admin=True, tenants=["a", "b"])) == {keys["a"], keys["b"]}
    assert matcher.put_rule(named("all", "p1", admin=True)) == set(keys.values())
    matcher.put_workload(workload("p1", tenant="d"))
    assert ids(matcher.rules_of(workload("p1", tenant="d").key)) == ["universe/all"]
    assert matcher.put_rule(named("two", "p1", admin=True, tenants=["b", "c"])) == set(keys.values())
    assert matcher.workloads_of(("universe", "two")) == {keys["b"], keys["c"]}


def test_rules_come_sorted_by_kind_and_id() -> None:
    matcher = Matcher()
    found = workload("p1")
    for name in ("z", "b"):
        matcher.put_rule(named(name, "p1"))
    matcher.put_workload(found)
    for name in ("a", "y"):
        matcher.put_rule(named(name, "p1"))
        matcher.put_rule(named(name, "p1", admin=True))
    wanted = ["universe/a", "universe/y", "tenant-a/a", "tenant-a/b", "tenant-a/y", "tenant-a/z"]
    assert ids(matcher.rules_of(found.key)) == wanted
    matcher.remove_workload(found.key)
    matcher.put_workload(found)
    assert ids(matcher.rules_of(found.key)) == wanted


# --- what changed ---


def test_a_rule_tells_whom_it_matched_before_or_matches_now() -> None:
    matcher = Matcher()
    one, two = workload("p1"), workload("p2")
    matcher.put_workload(one)
    matcher.put_workload(two)
    assert matcher.put_rule(named("r", "p1")) == {one.key}
    assert matcher.put_rule(named("r", "p1")) == set()
    assert matcher.put_rule(named("r", "p1", generation=2)) == {one.key}
    assert matcher.rules_of(one.key)[0].generation == 2
    assert matcher.put_rule(named("r", "p2")) == {one.key, two.key}
    assert matcher.remove_rule(("tenant-a", "r")) == {two.key}
    assert matcher.remove_rule(("tenant-a", "r")) == set()
    assert matcher.rules_of(two.key) == ()


def test_a_workload_tells_which_rules_began_or_ceased_to_match() -> None:
    matcher = Matcher()
    matcher.put_rule(rule("node", [where("state.nodeName", "Exists")]))
    matcher.put_rule(named("name", "p1"))
    assert matcher.put_workload(workload("p1")) == {("tenant-a", "name")}
    assert matcher.put_workload(workload("p1")) == set()
    assert matcher.put_workload(workload("p1", node="n")) == {("tenant-a", "node")}
    assert matcher.put_workload(workload("p1", labels={"x": "y"})) == {("tenant-a", "node")}
    assert matcher.remove_workload(workload("p1").key) == {("tenant-a", "name")}
    assert matcher.remove_workload(workload("p1").key) == set()
    assert matcher.workloads_of(("tenant-a", "name")) == set()


def test_a_rule_with_a_bad_key_changes_nothing() -> None:
    matcher = Matcher()
    matcher.put_workload(RICH)
    matcher.put_rule(named("r", "p1"))
    with pytest.raises(ValueError, match="JMESPath"):
        matcher.put_rule(rule("r", [where("metadata.resourceName", "In", "p2")], [where("a..b", "Exists")]))
    assert matcher.rules_of(RICH.key) == (named("r", "p1"),)
    assert matcher.workloads_of(("tenant-a", "r")) == {RICH.key}


def test_sets_that_were_returned_are_the_callers_own() -> None:
    matcher = Matcher()
    matcher.put_workload(RICH)
    matcher.put_rule(named("r", "p1")).clear()
    matcher.put_rule(named("r", "p1", generation=2)).clear()
    assert matcher.workloads_of(("tenant-a", "r")) == {RICH.key}


# --- any sequence of events ---

LABELS = ["x", "y"]
KEYS = ["metadata.resourceName", "state.nodeName", "state.extra.labels.x", "state.extra.labels.y", "state.ready"]
KEYS += ["state.extra.labels", "length(state.extra.labels)"]
TEXTS = ["p0", "p1", "host-a", "1", "2", "true"]
TENANTS = ["a", "b"]
WORKLOADS = st.builds(
    lambda name, tenant, labels, node: workload(name, tenant=tenant, labels=labels, node=node),
    st.sampled_from(["p0", "p1", "p2"]),
    st.sampled_from(TENANTS),
    st.dictionaries(st.sampled_from(LABELS), st.sampled_from(["1", "2"])),
    st.sampled_from(["", "host-a"]),
)
TERMS = st.lists(
    st.builds(
        lambda key, operator, values: where(key, operator, *(values if operator in ("In", "NotIn") else ())),
        st.sampled_from(KEYS),
        st.sampled_from(("In", "In", "In", "NotIn", "Exists", "DoesNotExist")),
        st.sets(st.sampled_from(TEXTS), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=3,
)
RULES = st.builds(
    lambda name, terms, tenant, tenants, admin, generation: rule(
        name, *terms, tenant=tenant, tenants=tenants, admin=admin, generation=generation
    ),
    st.sampled_from(["r0", "r1", "r2"]),
    st.lists(TERMS, min_size=1, max_size=2),
    st.sampled_from(TENANTS),
    st.none() | st.sets(st.sampled_from(TENANTS), min_size=1),
    st.booleans(),
    st.integers(1, 2),
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), WORKLOADS | RULES),
        st.tuples(st.just("prepared"), RULES),
        st.tuples(st.just("remove"), WORKLOADS | RULES),
    ),
    max_size=25,
)


def plainly(rules: dict[ObjectKey, Rule], found: Workload) -> list[Rule]:
    """What a rule means, said again without any index."""
    facts = Facts(found.document)

    def matches(candidate: Rule) -> bool:
        seen = candidate.tenants is None or tenant_name(found.namespace) in candidate.tenants
        return seen and any(all(true(expression) for expression in term) for term in candidate.terms)

    def true(expression: Expression) -> bool:
        value = facts.find(expression.key)
        return {
            "In": value in expression.values,
            "NotIn": value not in expression.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[expression.operator]

    return sorted(filter(matches, rules.values()), key=lambda item: (item.kind, item.id))


@settings(max_examples=150, deadline=None)
@given(events=EVENTS)
def test_after_any_events_the_matcher_knows_what_plain_evaluation_finds(
    events: list[tuple[str, Workload | Rule]],
) -> None:
    matcher, rules, workloads = Matcher(), {}, {}
    pairs: set[tuple[ObjectKey, ObjectKey]] = set()
    for action, item in events:
        before = pairs
        if isinstance(item, Workload):
            if action == "put":
                workloads[item.key] = item
                touched = {(rule_key, item.key) for rule_key in matcher.put_workload(item)}
            else:
                workloads.pop(item.key, None)
                touched = {(rule_key, item.key) for rule_key in matcher.remove_workload(item.key)}
        elif action != "remove":
            equal = rules.get(item.key) == item
            rules[item.key] = item
            preparation = None
            if action == "prepared":
                preparation = matcher.prepare(item)
                list(preparation.steps())
            touched = {(item.key, workload_key) for workload_key in matcher.put_rule(item, preparation)}
        else:
            rules.pop(item.key, None)
            touched = {(item.key, workload_key) for workload_key in matcher.remove_rule(item.key)}
        pairs = {(found.key, key) for key, value in workloads.items() for found in plainly(rules, value)}
        if isinstance(item, Rule):
            about = {pair for pair in before | pairs if pair[0] == item.key}
            assert touched == (set() if action != "remove" and equal else about)
        else:
            assert touched == before ^ pairs
        for key, value in workloads.items():
            assert list(matcher.rules_of(key)) == plainly(rules, value)
        for key in rules:
            assert matcher.workloads_of(key) == {found for name, found in pairs if name == key}


# --- what it costs, counted and not timed ---
