"""Label selectors as objects have them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.kube.selectors import (
    NOTHING,
    LabelSelector,
    label_selector_from_json,
    label_selector_from_text,
)

LABELS = {"app": "web", "tier": "front", "empty": "", "example.com/zone": "a"}


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
        assert label_selector_from_json(selector) == LabelSelector()
        return
    with pytest.raises(ValueError, match=message):
        label_selector_from_json(selector)


def test_everything_and_nothing() -> None:
    assert LabelSelector().matches(None)
    assert not NOTHING.matches({})


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier != back ", True),
        ("app=api", False),
        ("app!=web", False),
        ("absent!=x", True),
        ("app in (web, api),tier", True),
        ("app in (api)", False),
        ("app notin (web)", False),
        ("absent notin (web)", True),
        ("!absent", True),
        ("! app", False),
        ("absent", False),
        ("empty=", True),
        ("empty in ()", True),
        ("example.com/zone in (a,b)", True),
        ("in in (a)", False),
    ],
)
def test_text_form(text: str, *, matches: bool) -> None:
    """As `kubectl -l` reads it."""
    assert label_selector_from_text(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app=web,", "'app=web,' is not a requirement: use key=value"),
        (",app=web", "',app=web' is not a requirement"),
        ("app web", "'app web' is not a requirement"),
        ("app in web", "'app in web' is not a requirement"),
        ("app in (web", "'app in (web' is not a requirement"),
        ("size>3", "'size>3' is not a requirement"),
        ("app=web,size>3", "'size>3' is not a requirement"),
        ("-app=web", "'-app' is not a qualified name"),
        ("app=a b", "'app=a b' is not a requirement"),
        ("app in (a b)", "'a b' is not a label value"),
    ],
)
def test_malformed_text(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        label_selector_from_text(text)
