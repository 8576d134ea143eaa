from __future__ import annotations

from typing import Any

import pytest

from app.cel.calls import NoValue
from app.cel.matchconditions import compile_condition
from app.cel.syntax import BadExpression
from app.cel.values import evaluate
from app.devtools.sandbox.webhooks.registration import check_conditions

VARIABLES: dict[str, Any] = {
    "object": {
        "metadata": {"name": "web-1", "labels": {"app": "web", "a/b": "1"}},
        "spec": {"replicas": 3, "containers": [{"name": "x", "image": "r/x:1"}, {"name": "y"}], "on": True},
    },
    "oldObject": None,
    "request": {"operation": "CREATE", "userInfo": {"groups": ["g1", "g2"]}},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("object.metadata.name == 'web-1'", True),
        ('object.metadata.labels["a/b"] == "1"', True),
        ("has(object.metadata.labels) && has(object.metadata.annotations)", False),
        ("'app' in object.metadata.labels", True),
        ("request.operation in ['CREATE', 'UPDATE']", True),
        ("!('g3' in request.userInfo.groups)", True),
        ("oldObject == null || oldObject.spec.on", True),
        ("oldObject.spec.on || oldObject == null", True),
        ("object.spec.nope && false", False),
        ("object.spec.containers.exists(c, c.name == 'y')", True),
        ("object.spec.containers.exists(c, c.image.endsWith(':1'))", True),
        ("object.spec.containers.all(c, has(c.image))", False),
        ("object.spec.containers.exists_one(c, has(c.image))", True),
        ("object.metadata.labels.exists(k, k.startsWith('a/'))", True),
        ("size(object.spec.containers) == 2 && object.metadata.name.size() > 4", True),
        ("object.spec.replicas >= 3 && object.spec.replicas < 4.5", True),
        ("object.spec.replicas - 1 + 2 == 4", True),
        ("object.metadata.name.matches('^web-[0-9]+$')", True),
        ("object.metadata.name.contains('b-')", True),
        ("object.spec.on ? 'a' == 'a' : 'a' == 'b'", True),
        ("object.spec.containers[1].name != 'x'", True),
        ("object.spec.on == 1", False),
        ("'it\\'s' == \"it's\"", True),
        ("-object.spec.replicas == -3", True),
    ],
)
def test_expressions(expression: str, *, value: bool) -> None:
    assert evaluate(compile_condition(expression)[0], VARIABLES) is value


@pytest.mark.parametrize(
    "expression",
    ["object.spec.nope == 1", "object.spec.containers[2].name == 'x'", "object.metadata.name", "oldObject.spec.on",
     "object.metadata.name < 3", "object.spec.containers.exists(c, c.image == 'z')"],
)  # fmt: skip
def test_what_has_no_value_fails_or_is_no_boolean(expression: str) -> None:
    try:
        assert not isinstance(evaluate(compile_condition(expression)[0], VARIABLES), bool)
    except NoValue:
        return
    assert expression == "object.metadata.name"


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("object.metadata.name ==", "ERROR: <input>:1:24: Syntax error: mismatched input '<EOF>'"),
        ("object.metadata.name.matches('(')", "invalid matches argument"),
        ("object.spec.containers.isSorted()", "does not speak isSorted()"),
        ("authorizer.group('')", "undeclared reference to 'authorizer'"),
        ("quantity('1')", "does not speak quantity()"),
        ("has(object)", "invalid argument to has() macro"),
        ("object.metadata.?name", "does not speak optional selection"),
        (
            "object.metadata.name.startsWith('a', 'b')",
            "found no matching overload for 'startsWith' applied to 'dyn.(string, string)'",
        ),
        ("a && # comment", "token recognition error at: '#'"),
        ("(" * 100 + "true" + ")" * 100, "nested too deeply"),
        ("object.x.exists(k, k) && k", "undeclared reference to 'k'"),
    ],
)
def test_what_lies_outside_the_subset_is_refused_with_a_reason(expression: str, complaint: str) -> None:
    with pytest.raises(BadExpression) as caught:
        compile_condition(expression)
    assert complaint in str(caught.value)


def test_registration_reports_every_bad_condition() -> None:
    conditions = [
        {"name": "ok", "expression": "true"},
        {"name": "bad", "expression": "object.x.sum()"},
        {"expression": ""},
    ]
    errors = check_conditions(conditions, "webhooks[0].matchConditions")
    assert [(e.field, e.type) for e in errors] == [
        ("webhooks[0].matchConditions[1].expression", "Invalid"),
        ("webhooks[0].matchConditions[2].expression", "Required"),
        ("webhooks[0].matchConditions[2].name", "Required"),
    ]
