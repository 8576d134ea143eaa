"""Label selectors as objects have them."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.selectors import (
    NOTHING,
    LabelSelector,
    label_selector_from_json,
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
