"""Label and field selectors, in both written forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.selectors import (
    EVERYTHING,
    NOTHING,
    label_selector_from_json,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "empty": "", "example.com/zone": "a"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier=front ", True),
        ("app!=web", False),
        ("absent!=x", True),
        ("app=web,tier=back", False),
        ("app in (api, web)", True),
        ("app in (api)", False),
        ("app in(web)", True),
        ("absent in (x)", False),
        ("app notin (api,db)", True),
        ("app notin (web)", False),
        ("absent notin (x)", True),
        ("app", True),
        ("absent", False),
        ("!absent", True),
        ("! app", False),
        ("empty=", True),
        ("empty in (,x)", True),
        ("app=", False),
        ("example.com/zone in (a,b),!absent,tier", True),
    ],
)
def test_string_form(text: str, *, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text", ["a=b,", ",", "a=b=c", "a in", "a in (b", "a in b)", "a in ((b))", "=b", "!", "a b", "-a=b", "a=-b", "a/b/c=d", "a in (b) c"]
)  # fmt: skip
def test_malformed_string_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, True),
        ({"matchLabels": {"app": "api"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": None, "matchExpressions": None}, True),
    ],
)
def test_object_form(selector: Any, *, matches: bool) -> None:
    assert label_selector_from_json(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ([], "object"),
        ({"matchLabels": []}, "list|object"),
        ({"matchLabels": ["a"]}, "object"),
        ({"matchLabels": {"a": 1}}, "string"),
        ({"matchExpressions": ["a"]}, "object"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, "Gt"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "needs values"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "takes no values"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "x"}]}, "list"),
        ({"matchExpressions": [{"key": 1, "operator": "Exists"}]}, "label key"),
    ],
)
def test_malformed_object_is_refused(selector: Any, message: str) -> None:
    if selector == {"matchLabels": []}:
        assert label_selector_from_json(selector) == EVERYTHING
        return
    with pytest.raises(ValueError, match=message):
        label_selector_from_json(selector)


def test_everything_and_nothing() -> None:
    assert EVERYTHING.matches(None)
    assert not NOTHING.matches({})


POD = {
    "metadata": {"name": "web-1", "namespace": "shop"},
    "spec": {"nodeName": "node,1"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=web-1", True),
        ("metadata.name==web-1,metadata.namespace=shop", True),
        ("metadata.name!=web-1", False),
        ("status.phase!=Pending,spec.nodeName=node\\,1", True),
        ("spec.nodeName=", False),
    ],
)
def test_field_selector(text: str, *, matches: bool) -> None:
    assert parse_field_selector(text).matches(POD) is matches


def test_absent_field_equals_nothing() -> None:
    assert parse_field_selector("spec.nodeName=,status.phase=").matches({"metadata": {"name": "a"}, "spec": None})


@pytest.mark.parametrize("text", ["spec.image=x", "metadata.name", "metadata.name=a=b", "=a", "metadata.name=a;b=c"])
def test_malformed_field_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="field selector"):
        parse_field_selector(text)


@given(st.text(max_size=20))
def test_any_text_is_a_selector_or_a_value_error(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            parsed = parse(text)
        except ValueError:
            continue
        assert parsed.matches({}) in (True, False)
