"""What an event and a change of a rule evaluate: counted, never timed."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

from app.workloads.matching import matcher as matching
from app.workloads.matching.matcher import Matcher
from app.workloads.model import Rule, Workload
from app.workloads.rules import keys
from app.workloads.rules.keys import Key, compile_key
from tests.unit.workloads.matching_builders import ids, named, rule, where, workload


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys in the order in which they were evaluated."""
    seen: list[str] = []
    monkeypatch.setattr(keys, "compile_key", lambda text: _Watched(compile_key(text), seen))
    return seen


class _Watched:
    def __init__(self, key: Key, seen: list[str]) -> None:
        self._key, self._seen = key, seen

    def evaluate(self, document: Any) -> Any:
        self._seen.append(self._key.text)
        return self._key.evaluate(document)


def busy(count: int) -> Matcher:
    matcher = Matcher()
    for number in range(count):
        terms = [
            where("metadata.resourceNamespace", "In", "default"),
            where("metadata.resourceName", "In", f"p{number}"),
        ]
        matcher.put_rule(rule(f"r{number}", terms))
    return matcher


@pytest.mark.parametrize("count", [10, 200])
def test_an_event_evaluates_a_key_once_however_many_rules_use_it(count: int, evaluated: list[str]) -> None:
    matcher = busy(count)
    matcher.put_workload(workload("p3"))
    assert sorted(evaluated) == ["metadata.resourceName", "metadata.resourceNamespace"]
    assert len(matcher.rules_of(workload("p3").key)) == 1


def test_an_equal_workload_evaluates_nothing(evaluated: list[str]) -> None:
    matcher = busy(10)
    matcher.put_workload(workload("p3"))
    evaluated.clear()
    assert matcher.put_workload(workload("p3")) == set()
    assert evaluated == []


def test_a_new_rule_touches_only_the_workloads_that_its_values_find(evaluated: list[str]) -> None:
    matcher = busy(10)
    for number in range(100):
        matcher.put_workload(workload(f"p{number}"))
    evaluated.clear()
    matcher.put_rule(named("new", "p55"))
    assert evaluated == ["metadata.resourceName"]


def test_a_changed_template_evaluates_nothing(evaluated: list[str]) -> None:
    matcher = busy(10)
    matcher.put_workload(workload("p3"))
    evaluated.clear()
    changed = rule(
        "r3",
        [where("metadata.resourceNamespace", "In", "default"), where("metadata.resourceName", "In", "p3")],
        generation=2,
    )
    assert matcher.put_rule(changed) == {workload("p3").key}
    assert evaluated == []


@pytest.mark.parametrize(
    "shared", ["metadata.resourceNamespace", "state.ready", "state.extra.labels.tier", "metadata.resourceType"]
)
def test_rules_that_share_a_value_are_found_by_the_one_that_tells_them_apart(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[object] = []
    original = keys.holds
    monkeypatch.setattr(matching, "holds", lambda terms, facts: judged.append(terms) or original(terms, facts))
    matcher = Matcher()
    values = {"metadata.resourceNamespace": "default", "state.ready": "true", "metadata.resourceType": "v1/Pod"}
    for number in range(50):
        terms = [where(shared, "In", values.get(shared, "front")), where("state.extra.labels.app", "In", f"a{number}")]
        matcher.put_rule(rule(f"r{number}", terms))
    matcher.put_workload(workload("p1", labels={"tier": "front", "app": "a49"}))
    assert ids(matcher.rules_of(workload("p1").key)) == ["tenant-a/r49"]
    assert len(judged) <= 3


@pytest.mark.parametrize("shared", ["metadata.resourceNamespace", "state.ready", "metadata.resourceType"])
@pytest.mark.parametrize("telling", ["metadata.resourceName", "metadata.id", "state.extra.labels.app"])
def test_already_the_first_rule_is_found_by_what_tells_workloads_apart(
    shared: str, telling: str, evaluated: list[str]
) -> None:
    matcher = Matcher()
    matcher.put_rule(rule("r", [where(shared, "In", "default", "true", "v1/Pod"), where(telling, "In", *"wxyz")]))
    matcher.put_workload(workload("p1"))
    assert evaluated == [telling]


def test_of_two_like_keys_the_one_with_fewer_values_finds_a_rule(evaluated: list[str]) -> None:
    matcher = Matcher()
    many, few = where("state.extra.labels.x", "In", *"abc"), where("state.extra.labels.y", "In", "a")
    matcher.put_rule(rule("r", [many, few]))
    matcher.put_workload(workload("p1"))
    assert evaluated == ["state.extra.labels.y"]


def test_a_workload_is_no_longer_found_by_what_it_had(evaluated: list[str]) -> None:
    matcher = Matcher()
    matcher.put_workload(workload("stays"))
    matcher.put_rule(rule("r", [where("state.nodeName", "In", "host-z")]))
    for name in ("p1", "p2"):
        matcher.put_workload(workload(name, node="host-a"))
    matcher.put_workload(workload("p1", node="host-b"))
    matcher.remove_workload(workload("p2").key)
    evaluated.clear()
    assert matcher.put_rule(rule("r", [where("state.nodeName", "In", "host-a")])) == set()
    assert matcher.workloads_of(("tenant-a", "r")) == set()
    assert evaluated == []


def test_values_that_no_workload_has_any_more_take_no_room() -> None:
    matcher = Matcher()
    matcher.put_rule(named("r", "none"))
    matcher.put_workload(workload("stays"))
    for number in range(50):
        matcher.put_workload(workload(f"p{number}"))
        matcher.remove_workload(workload(f"p{number}").key)
    (space,) = matcher._spaces.values()
    assert {key: list(values) for key, values in space._buckets.items()} == {"metadata.resourceName": ["stays"]}


def test_keys_that_no_rule_is_found_by_any_more_are_not_evaluated(evaluated: list[str]) -> None:
    matcher = busy(3)
    matcher.put_rule(rule("stays", [where("state.nodeName", "In", "host-z")]))
    matcher.put_workload(workload("p1"))
    for number in range(3):
        matcher.remove_rule(("tenant-a", f"r{number}"))
    evaluated.clear()
    matcher.put_workload(workload("p1", node="n"))
    assert set(evaluated) == {"state.nodeName"}


def test_a_rule_that_asks_for_something_else_is_no_longer_found_by_the_old_key(evaluated: list[str]) -> None:
    matcher = busy(1)
    matcher.put_workload(workload("p1"))
    matcher.put_rule(rule("r0", [where("state.nodeName", "In", "host-z")]))
    evaluated.clear()
    matcher.put_workload(workload("p1", node="n"))
    assert set(evaluated) == {"state.nodeName"}


def test_a_key_that_another_scope_needs_stays_indexed(evaluated: list[str]) -> None:
    matcher = Matcher()
    for number in range(20):
        matcher.put_workload(workload(f"p{number}"))
    matcher.put_rule(named("all", "p1", admin=True))
    matcher.put_rule(named("mine", "p2"))
    matcher.remove_rule(("tenant-a", "mine"))
    evaluated.clear()
    matcher.put_rule(named("more", "p3", admin=True))
    assert evaluated == ["metadata.resourceName"]


def test_what_is_gone_leaves_nothing_behind() -> None:
    matcher = Matcher()
    source = random.Random(7)
    rules = [rule(f"r{n}", [where("state.extra.labels.x", "In", f"{n}")], admin=n % 2 == 0) for n in range(20)]
    rules += [rule(f"s{n}", [where(f"state.extra.labels.y{n}", "Exists")]) for n in range(5)]
    workloads = [workload(f"p{n}", tenant="ab"[n % 2], labels={"x": str(n % 7)}) for n in range(50)]
    events: list[Rule | Workload] = [*rules, *workloads]
    source.shuffle(events)
    for item in events:
        matcher.put_rule(item) if isinstance(item, Rule) else matcher.put_workload(item)
    source.shuffle(events)
    for item in events:
        matcher.remove_rule(item.key) if isinstance(item, Rule) else matcher.remove_workload(item.key)
    gc.collect()
    assert not any(vars(matcher).values())
