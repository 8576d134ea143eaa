"""Conditions of objects of others may have any form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.kube.conditions import condition, cut_as_stored, set_condition, status_of
from app.text import MESSAGE, abridged
from app.wire import encode_json, size_as_go

NOW = datetime(2026, 11, 27, tzinfo=UTC)
READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize("conditions", [[None, READY], (READY,), [3, {"type": "Other"}, READY]])
def test_the_condition_of_a_type(conditions: object) -> None:
    assert condition({"conditions": conditions}, "Ready") == READY


@pytest.mark.parametrize("conditions", [None, 3, "Ready", {"Ready": READY}, [], [{"type": ["Ready"]}]])
def test_no_condition_in_what_is_no_list_of_them(conditions: object) -> None:
    assert condition({"conditions": conditions}, "Ready") == {}


def test_a_message_of_any_length_is_cut() -> None:
    """An API server refuses the whole status for one of more than 32 KiB, at each try."""
    status: dict[str, Any] = {}
    set_condition(status, "Ready", "False", "Broken", "x" * 100_000, now=NOW)
    (found,) = status["conditions"]
    assert found["message"] == abridged("x" * 100_000)
    assert len(found["message"]) == MESSAGE


@pytest.mark.parametrize(
    ("status", "conditions"),
    [
        (
            {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}]},
            [{"type": "Ready", "status": "True"}],
        ),
        ({"conditions": [{"type": "A", "message": None}, 1, {"type": 2}]}, [{"type": "A"}]),
        ({"conditions": [{"type": "A", "status": "True"}]}, [{"type": "A", "status": "True"}]),
        ({"conditions": {"type": "A"}}, []),
        ({"conditions": None}, None),
    ],
)
def test_conditions_are_read_without_what_has_another_shape(status: dict[str, Any], conditions: object) -> None:
    """kube-apiserver 1.37 stores null for the times of a Pod's condition that was written without them."""
    assert status_of({"status": status}).get("conditions") == conditions


@pytest.mark.parametrize("character", ["x", '"', "<", "é", "…", "\N{GRINNING FACE}", "\x01", "\u2028"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_message_is_cut_to_the_bytes_that_are_stored(character: str, share: float) -> None:
    """Characters that take more bytes cost their own room, and not that of the others."""
    wide = int(400 * share)
    message = character * (wide // 2) + "a" * (400 - wide) + character * (wide - wide // 2) + " is not allowed"
    shown = cut_as_stored(message, 256)
    size = size_as_go(encode_json(shown)) - 2
    assert size <= 256
    assert size >= 256 - 2 * 6
    assert shown.endswith(" is not allowed")
