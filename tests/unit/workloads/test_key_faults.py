"""A key that cannot be evaluated for a workload: the rule does not match it, says why, and others go on."""

from __future__ import annotations

import pytest

from app.workloads.matching.matcher import Matcher
from app.workloads.model import Workload
from app.workloads.rules.keys import Facts
from tests.unit.workloads.matching_builders import named, rule, where, workload

DIGITS = "9" * 4300
SUM = "sum([to_number(state.extra.labels.big),`1`])"
REASON = f"key {SUM!r}: a whole number has more than 309 digits"


def poison() -> Workload:
    return workload("poison", labels={"big": DIGITS})


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("rule_first", [False, True])
def test_the_rule_does_not_match_and_says_why(operator: str, *, prepared: bool, rule_first: bool) -> None:
    matcher = Matcher()
    values = ("1",) if operator in ("In", "NotIn") else ()
    bad, good = rule("bad", [where(SUM, operator, *values)]), named("good", "poison")  # type: ignore[arg-type]
    if not rule_first:
        matcher.put_workload(poison())
    if prepared:
        preparation = matcher.prepare(bad)
        for _ in preparation.steps():
            pass
        matcher.put_rule(bad, preparation)
    else:
        matcher.put_rule(bad)
    matcher.put_rule(good)
    if rule_first:
        assert bad.key in matcher.put_workload(poison())
    key = poison().key
    assert [found.name for found in matcher.rules_of(key)] == ["good"]
    assert matcher.faults_of(bad.key) == {key: REASON}
    assert matcher.faults_of(good.key) == {}


def test_each_rule_with_the_key_has_the_finding() -> None:
    """The second finds the workloads indexed by the key already, and asks for another value."""
    matcher = Matcher()
    matcher.put_workload(poison())
    rules = [rule(f"r{number}", [where(SUM, "In", str(number))], admin=number == 0) for number in range(3)]
    for found in rules:
        matcher.put_rule(found)
    assert [matcher.faults_of(found.key) for found in rules] == [{poison().key: REASON}] * 3
    for found in rules:
        matcher.remove_rule(found.key)
    matcher.remove_workload(poison().key)
    assert not any(vars(matcher).values())


def test_the_finding_goes_with_the_workload_and_with_its_digits() -> None:
    matcher = Matcher()
    bad = rule("bad", [where(SUM, "In", "2")])
    matcher.put_rule(bad)
    matcher.put_workload(poison())
    assert bad.key in matcher.put_workload(workload("poison", labels={"big": "1"}))
    assert matcher.faults_of(bad.key) == {}
    assert matcher.matches(bad.key, poison().key)
    matcher.put_workload(poison())
    assert bad.key in matcher.remove_workload(poison().key)
    assert matcher.faults_of(bad.key) == {}


@pytest.mark.parametrize("key", [SUM, f"[{SUM}]", f"{{a: {SUM}}}", f"to_string({SUM})", f"max([{SUM}, `1`])"])
def test_an_annotation_is_left_out_and_the_fault_kept(key: str) -> None:
    facts = Facts(poison().document)
    assert facts.text(key) is None
    assert "more than 309 digits" in facts.faults[key]
    assert facts.text("metadata.resourceName") == "poison"
