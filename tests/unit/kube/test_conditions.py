"""Conditions of objects of others may have any form."""

from __future__ import annotations

import pytest

from app.kube.conditions import condition

READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize("conditions", [[None, READY], (READY,), [3, {"type": "Other"}, READY]])
def test_the_condition_of_a_type(conditions: object) -> None:
    assert condition({"conditions": conditions}, "Ready") == READY


@pytest.mark.parametrize("conditions", [None, 3, "Ready", {"Ready": READY}, [], [{"type": ["Ready"]}]])
def test_no_condition_in_what_is_no_list_of_them(conditions: object) -> None:
    assert condition({"conditions": conditions}, "Ready") == {}
