"""Rules with dear keys: worked out little by little, and correct whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.workloads.matching import index
from app.workloads.matching.index import Preparation, Warming
from app.workloads.matching.matcher import Matcher
from app.workloads.model import TENANT_RULES, WORKLOADS, Expression, ObjectKey, Rule, Term, Workload, workload_name
from app.workloads.rules import keys
from tests.support.running import running
from tests.support.waiting import eventually
from tests.support.workloads import T1, Infra

KEY = "join('-', [metadata.id, state.v])"
HOSTILE = "[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[{n}]"


def workload(number: int, v: str = "1", *, tenant: str = "a") -> Workload:
    document = f'{{"metadata":{{"id":"u{number}"}},"state":{{"v":"{v}"}}}}'.encode()
    return Workload(f"tenant-{tenant}", workload_name(f"u{number}"), f"u{number}", "", document)


def rule(name: str, *values: str, key: str = KEY, tenant: str = "a") -> Rule:
    terms = tuple(Term((Expression(key, "In", frozenset({value})),)) for value in values)
    namespace = f"tenant-{tenant}"
    return Rule("tenant", namespace, name, 1, frozenset({tenant}), terms, (), "Any", b"{}")


class Bench:
    """A matcher with workloads, and a task that warms; every workload is a slice of its own."""

    def __init__(self, count: int) -> None:
        self.matcher = Matcher()
        self.told: list[tuple[ObjectKey, set[ObjectKey]]] = []
        self.failed: list[tuple[ObjectKey, str]] = []
        self.warming = Warming(
            self.matcher.prepare, self._prepared, lambda rule, error: self.failed.append((rule.key, str(error)))
        )
        self.ready = asyncio.Event()
        for number in range(count):
            self.matcher.put_workload(workload(number))

    def _prepared(self, rule: Rule, preparation: Preparation) -> None:
        self.told.append((rule.key, self.matcher.put_rule(rule, preparation)))

    async def passes(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    def matched(self, name: str, tenant: str = "a") -> set[str]:
        return {key[1] for key in self.matcher.workloads_of((f"tenant-{tenant}", name))}


@contextlib.asynccontextmanager
async def bench(count: int) -> AsyncIterator[Bench]:
    made = Bench(count)

    async def ready() -> None:
        await made.ready.wait()

    async with running(made.warming.run(ready)):
        yield made


@pytest.fixture(autouse=True)
def thin_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_SLICE", 0.0)
    monkeypatch.setattr(index, "_LEFT", 0)


async def test_a_rule_is_put_in_slices_and_told_when_it_is_there() -> None:
    async with bench(20) as at:
        at.warming.put(rule("r", "u3-1", "u7-1"))
        await at.passes(30)
        assert not at.told  # not ready: workloads may still be coming in
        at.ready.set()
        await at.passes(10)
        assert ("tenant-a", "r") in at.warming
        assert at.matched("r") == set()
        await at.passes(20)
        assert ("tenant-a", "r") not in at.warming
        assert at.told == [(("tenant-a", "r"), {workload(3).key, workload(7).key})]
        assert at.matched("r") == {"workload-u3", "workload-u7"}


async def test_workloads_that_change_come_and_go_meanwhile() -> None:
    async with bench(20) as at:
        at.ready.set()
        at.warming.put(rule("r", "u1-1", "u2-2", "u3-1", "u99-1"))
        await at.passes(12)
        at.matcher.put_workload(workload(1, "2"))
        at.matcher.put_workload(workload(2, "2"))
        at.matcher.remove_workload(workload(3).key)
        at.matcher.put_workload(workload(99))
        await at.passes(40)
        assert at.matched("r") == {"workload-u2", "workload-u99"}
        # The index is right, too: later events find the rule.
        at.matcher.put_workload(workload(1, "1"))
        at.matcher.put_workload(workload(2, "3"))
        assert at.matched("r") == {"workload-u1", "workload-u99"}


async def test_a_workload_that_never_rests_does_not_keep_a_rule_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_LEFT", 4)
    async with bench(20) as at:
        at.ready.set()
        at.warming.put(rule("r", "u1-x"))
        for number in range(60):
            at.matcher.put_workload(workload(1, "x" if number % 2 else "y"))
            await at.passes(1)
        assert at.told
        assert at.matched("r") == {"workload-u1"}


async def test_a_rule_that_changes_or_goes_meanwhile() -> None:
    async with bench(20) as at:
        at.ready.set()
        at.warming.put(rule("changes", "u1-1"))
        await at.passes(10)
        at.warming.put(rule("changes", "u2-1"))
        at.warming.put(rule("goes", "u1-1"))
        await at.passes(10)
        assert at.warming.drop(("tenant-a", "goes"))
        assert not at.warming.drop(("tenant-a", "goes"))
        await at.passes(60)
        assert at.matched("changes") == {"workload-u2"}
        assert at.matched("goes") == set()
        assert [key[1] for key, _ in at.told] == ["changes"]


async def test_the_former_version_is_in_force_until_the_new_one_is_known() -> None:
    async with bench(20) as at:
        at.ready.set()
        at.matcher.put_rule(rule("r", "u1-1"))
        at.warming.put(rule("r", "u2-1"))
        await at.passes(10)
        assert at.matched("r") == {"workload-u1"}
        await at.passes(30)
        assert at.matched("r") == {"workload-u2"}


async def test_namespaces_take_turns() -> None:
    async with bench(30) as at:
        at.matcher.put_workload(workload(0, tenant="b"))
        at.ready.set()
        for number in range(10):
            at.warming.put(rule(f"r{number}", "u1-1"))
        at.warming.put(rule("r", "u0-1", tenant="b"))
        await at.passes(10)
        assert [key for key, _ in at.told] == [("tenant-b", "r")]


async def test_nothing_has_happened_where_it_is_stopped_midway() -> None:
    async with bench(20) as at:
        at.ready.set()
        at.warming.put(rule("r", "u1-1"))
        await at.passes(10)
    assert not at.told
    assert at.matched("r") == set()
    at.matcher.put_workload(workload(1, "2"))
    assert at.matcher.put_rule(rule("r", "u1-2")) == {workload(1).key}


def test_what_is_heavy() -> None:
    matcher = Matcher()
    assert matcher.heavy(rule("r", "x"))
    for number in range(50):
        matcher.put_workload(workload(number))
    assert not matcher.heavy(rule("r", "x", key="metadata.id"))
    assert matcher.heavy(rule("r", *(f"x{number}" for number in range(401)), key="metadata.id"))
    matcher.put_rule(rule("r", "x"))
    assert not matcher.heavy(rule("r", "x"))
    assert matcher.heavy(rule("r", "y"))


def test_workloads_that_an_index_leaves_out_make_no_rule_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.workloads.matching.matcher._AT_ONCE", 10)
    matcher = Matcher()
    for number in range(50):
        matcher.put_workload(workload(number))
    assert matcher.heavy(rule("r", "u1", key="metadata.id"))  # no index has this key yet
    matcher.put_rule(rule("r", "u1", key="metadata.id"))
    assert not matcher.heavy(rule("s", "u2", key="metadata.id"))
    assert matcher.heavy(rule("s", *(f"u{number}" for number in range(20)), key="metadata.id"))


# --- what an event costs, counted and not timed ---


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The steps of all evaluations since the list was cleared."""
    spent: list[int] = []
    plain = keys._Interpreter._spend

    def counted(self: Any, count: int) -> None:
        spent.append(min(count, max(self._left, 0)))
        plain(self, count)

    monkeypatch.setattr(keys._Interpreter, "_spend", counted)
    return spent


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_an_event_with_sixteen_hostile_keys_costs_their_budgets_and_no_more(steps: list[int], operator: Any) -> None:
    matcher = Matcher()
    hostile = [f"to_string({HOSTILE.format(n=number)})" for number in range(16)]
    for number in range(64):
        expressions = (Expression(hostile[number % 16], operator, frozenset({"x"})),)
        base = rule(f"r{number}")
        matcher.put_rule(
            Rule(*[getattr(base, name) for name in base.__slots__[:5]], (Term(expressions),), (), "Any", b"{}")
        )
    for v in ("1", "2"):
        steps.clear()
        matcher.put_workload(workload(1, v))
        assert 8_000 < sum(steps) <= 16 * keys.STEPS
    steps.clear()
    matcher.remove_workload(workload(1).key)
    assert not steps


def test_a_prepared_rule_is_put_without_an_evaluation(steps: list[int]) -> None:
    matcher = Matcher()
    for number in range(20):
        matcher.put_workload(workload(number))
    preparation = matcher.prepare(rule("r", "u1-1"))
    costs = []
    for _ in preparation.steps():
        costs.append(sum(steps))
        steps.clear()
    assert len(costs) == 20
    assert all(0 < cost <= keys.STEPS for cost in costs)
    assert matcher.put_rule(rule("r", "u1-1"), preparation) == {workload(1).key}
    assert not steps


def test_of_a_prepared_rule_its_verdict_is_kept_and_what_the_index_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule may have a thousand keys: neither are they compared again when it is put, nor are their values kept."""
    matcher = Matcher()
    for number in range(20):
        matcher.put_workload(workload(number))
    made = rule("r", "u1-1")
    (term,) = made.terms
    others = tuple(Expression(f"metadata.labels.l{number}", "DoesNotExist") for number in range(50))
    large = replace(made, terms=((*term, *others),))
    preparation = matcher.prepare(large)
    list(preparation.steps())
    kept = [len(known.values) for known in preparation._known.values()]
    assert kept == [1] * 20
    monkeypatch.setattr(keys, "met", None)
    assert matcher.put_rule(large, preparation) == {workload(1).key}


# --- in the controller ---


async def test_companions_of_a_rule_that_is_being_worked_out_stay_after_a_restart(
    infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    await infra.workload("u1")
    await infra.workload("u2")
    await infra.rule("r", match=("join('', [metadata.id])", ["u1"]))
    async with infra.controller():
        await eventually(lambda: set(infra.pods()) == {"r-u1"})
        await eventually(lambda: infra.status(WORKLOADS, "workload-u1").get("rules"))
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)
        uid = infra.uid("r-u1")
    hold = asyncio.Event()
    plain = Warming.run

    async def held(self: Warming, ready: Any) -> None:
        await hold.wait()
        await plain(self, ready)

    monkeypatch.setattr(Warming, "run", held)
    before = infra.status(WORKLOADS, "workload-u1")
    async with infra.controller(resync=0.1):
        await asyncio.sleep(0.5)
        assert infra.uid("r-u1") == uid
        assert infra.status(WORKLOADS, "workload-u1") == before
        assert infra.status(TENANT_RULES, "r")["matched"] == 1
        await infra.rule("r", match=("join('', [metadata.id])", ["u2"]))
        await asyncio.sleep(0.2)
        assert infra.uid("r-u1") == uid
        hold.set()
        await eventually(lambda: set(infra.pods()) == {"r-u2"})
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 1)


async def test_companions_end_with_a_rule_that_was_never_worked_out(
    infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    await infra.workload("u1")
    await infra.rule("r", match=("join('', [metadata.id])", ["u1"]))
    async with infra.controller():
        await eventually(infra.pods)

    async def never(_self: Warming, _ready: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Warming, "run", never)
    async with infra.controller():
        await asyncio.sleep(0.2)
        assert infra.pods()
        await infra.remove(TENANT_RULES, "r", T1)
        await eventually(lambda: not infra.pods())


async def test_a_rule_that_raises_is_dropped_and_those_after_it_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(3) as at:
        prepare = at.matcher.prepare

        def raising(found: Rule) -> Preparation:
            if found.name == "poison":
                raise RuntimeError("poison")
            return prepare(found)

        monkeypatch.setattr(at.warming, "_prepare", raising)
        at.warming.put(rule("poison", "u0-1", tenant="a"))
        at.warming.put(rule("good", "u1-1", tenant="b"))
        at.warming.put(rule("good", "u1-1", tenant="a"))
        at.ready.set()
        await eventually(lambda: len(at.told) == 2)
        assert at.failed == [(("tenant-a", "poison"), "poison")]
        assert ("tenant-a", "poison") not in at.warming
