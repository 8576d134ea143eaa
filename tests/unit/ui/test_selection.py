"""Selectors over objects in memory, and which reads a change concerns."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.reflector import Scope
from app.kube.resources import NODES, PODS
from app.ui.selection import concerns, field_terms, label_selector, selected

POD: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "team", "labels": {"app": "web"}},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running"},
}
KEY = ("team", "web")


@pytest.mark.parametrize(
    ("labels", "fields", "holds"),
    [
        ("", "", True),
        ("app=web", "", True),
        ("app!=web", "", False),
        ("app", "status.phase!=Succeeded,status.phase!=Failed", True),
        ("!app", "", False),
        ("", "status.phase=Running", True),
        ("", "status.phase==Pending", False),
        ("", "spec.nodeName=n1,metadata.name=web", True),
        ("", "spec.hostNetwork=true", True),
        ("", "spec.absent=", True),
        ("", "spec.absent!=x", True),
    ],
)
def test_what_selectors_select(labels: str, fields: str, *, holds: bool) -> None:
    assert selected(POD, label_selector(labels), field_terms(fields)) is holds


@pytest.mark.parametrize("text", ["phase", "=x", " =x"])
def test_a_wrong_field_selector_says_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError, match="want FIELD=VALUE or FIELD!=VALUE"):
        field_terms(text)


CHANGED = {**POD, "metadata": {**POD["metadata"], "labels": {"app": "other"}}}


@pytest.mark.parametrize(
    ("scope", "concerned"),
    [
        (Scope(PODS), True),
        (Scope(NODES), False),
        (Scope(PODS, "team"), True),
        (Scope(PODS, "other"), False),
        (Scope(PODS, "team", "web"), True),
        (Scope(PODS, "team", "web-2"), False),
        (Scope(PODS, None, "", "app=web"), True),
        (Scope(PODS, None, "", "app=other"), True),
        (Scope(PODS, None, "", "app=third"), False),
        (Scope(PODS, None, "", "", "status.phase=Failed"), False),
    ],
)
def test_a_change_concerns_the_reads_that_saw_it_before_or_see_it_now(scope: Scope, *, concerned: bool) -> None:
    assert concerns(scope, PODS, KEY, POD, CHANGED) is concerned


def test_an_object_that_comes_or_goes_concerns_reads_that_select_it() -> None:
    scope = Scope(PODS, None, "", "app=web")
    assert concerns(scope, PODS, KEY, None, POD)
    assert concerns(scope, PODS, KEY, POD, None)
