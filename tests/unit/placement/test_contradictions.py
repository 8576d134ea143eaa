"""What in a Pod's spec can never be fulfilled together with where it must run, and how that is told."""

from __future__ import annotations

from typing import Any

import pytest

from app.placement.model import HOST_LABEL, TENANT_LABEL, Requirement
from app.placement.plan import contradictions

from .conftest import HOST, IN_HOST, IN_TENANT, TENANT, TERMS, ZONE, expression, spec_with, term

BOTH = (HOST, TENANT)
NUMBER = Requirement("example.com/number", "5")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeName": "", "nodeSelector": None, "affinity": None},
        {"nodeSelector": {HOST_LABEL: "host-a", "disk": "ssd"}},
        spec_with(),
        spec_with({}, None, term()),
        spec_with(term(IN_HOST, IN_TENANT, ZONE)),
        spec_with(term(expression(HOST_LABEL, "In", "host-b", "host-a"), expression(HOST_LABEL, "Exists"))),
        spec_with(term(expression(HOST_LABEL, "NotIn", "host-b"), expression("zone", "DoesNotExist"))),
        spec_with({"matchFields": [expression("metadata.name", "In", "node-1")]}),
        spec_with(term({"key": HOST_LABEL, "operator": "Near", "values": ["x"]})),
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": term(expression(HOST_LABEL, "In", "host-b"))}]}}},
    ],
)  # fmt: skip
def test_what_leaves_room_is_no_contradiction(spec: dict[str, Any]) -> None:
    assert contradictions(spec, BOTH) == []


def test_nothing_wanted_contradicts_nothing() -> None:
    spec = spec_with(term(expression(HOST_LABEL, "DoesNotExist")), nodeName="n", nodeSelector={HOST_LABEL: "x"})
    assert contradictions(spec, ()) == []


def test_a_node_name_bypasses_the_scheduler() -> None:
    (line,) = contradictions({"nodeName": "dpu1-host-a"}, BOTH)
    assert line == (
        "spec.nodeName: 'dpu1-host-a' bypasses the scheduler, which chooses a node with the label "
        f"{HOST_LABEL}=host-a and {TENANT_LABEL}=t1: leave nodeName out"
    )


def test_a_node_selector_may_not_ask_for_another_value() -> None:
    spec = {"nodeSelector": {HOST_LABEL: "host-b", TENANT_LABEL: None}}
    assert contradictions(spec, BOTH, "spec.template.spec") == [
        f"spec.template.spec.nodeSelector[{HOST_LABEL}]: want 'host-a' or no such entry, got 'host-b'",
        f"spec.template.spec.nodeSelector[{TENANT_LABEL}]: want 't1' or no such entry, got ''",
    ]


@pytest.mark.parametrize(
    ("bad", "written"),
    [
        (expression(HOST_LABEL, "In", "host-b", "host-c"), "In 'host-b, host-c'"),
        (expression(HOST_LABEL, "In"), "In"),
        (expression(HOST_LABEL, "NotIn", "host-b", "host-a"), "NotIn 'host-b, host-a'"),
        (expression(HOST_LABEL, "DoesNotExist"), "DoesNotExist"),
        (expression(HOST_LABEL, "Gt", "1"), "Gt '1'"),
        (expression(HOST_LABEL, "Lt", "1"), "Lt '1'"),
    ],
)
def test_each_expression_that_can_never_hold_is_named(bad: dict[str, Any], written: str) -> None:
    """Though another term could match: an alternative that never can is a mistake of the author."""
    spec = spec_with(term(ZONE), term(ZONE, bad))
    (line,) = contradictions(spec, BOTH)
    assert line == (
        f"{TERMS}[1].matchExpressions[1]: {written} never holds where {HOST_LABEL} is 'host-a', as it must be: "
        "remove the expression or the term"
    )


@pytest.mark.parametrize(
    ("operator", "bound", "holds"),
    [
        ("Gt", "4", True),
        ("Gt", "5", False),
        ("Gt", "-1", True),
        ("Gt", "+4", True),
        ("Gt", "0004", True),
        ("Gt", " 4", False),
        ("Gt", "4.0", False),
        ("Gt", "٤", False),
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Lt", "9223372036854775807", True),
        ("Lt", "9223372036854775808", False),
        ("Lt", "9" * 5000, False),
        ("Lt", "", False),
    ],
)
def test_numbers_are_compared_as_the_scheduler_does(operator: str, bound: str, *, holds: bool) -> None:
    """64 bits, decimal; what is no number never holds."""
    lines = contradictions(spec_with(term({"key": NUMBER.key, "operator": operator, "values": [bound]})), [NUMBER])
    assert bool(lines) is not holds


def test_all_of_them_are_told() -> None:
    spec = spec_with(
        term(expression(HOST_LABEL, "DoesNotExist"), expression(TENANT_LABEL, "In", "t2")),
        nodeName="n",
        nodeSelector={TENANT_LABEL: "t2"},
    )
    assert [line.partition(": ")[0] for line in contradictions(spec, BOTH)] == [
        "spec.nodeName",
        f"spec.nodeSelector[{TENANT_LABEL}]",
        f"{TERMS}[0].matchExpressions[0]",
        f"{TERMS}[0].matchExpressions[1]",
    ]


@pytest.mark.parametrize("host", ["host a", "a" * 64, "-a", "é", "a\nb", "../x"])
def test_a_host_that_is_no_label_value_is_told(host: str) -> None:
    (line,) = contradictions({}, [Requirement(HOST_LABEL, host)])
    assert line.startswith(f"label {HOST_LABEL}: no node can have it with this name: ")
    assert "is not a label value" in line
    assert line.isprintable()


def test_an_empty_host_is_told() -> None:
    assert contradictions({}, [Requirement(HOST_LABEL, "")]) == [f"label {HOST_LABEL}: want a name, got an empty text"]


def test_a_spec_that_cannot_be_read_is_told() -> None:
    (line,) = contradictions(spec_with("x"), BOTH)
    assert line.startswith("spec: not the spec of a Pod: ")


def test_long_and_odd_texts_stay_readable() -> None:
    for line in contradictions({"nodeName": "x\n" * 500, "nodeSelector": {HOST_LABEL: "y\x00" * 500}}, [HOST]):
        assert line.isprintable()
        assert len(line) < 500
