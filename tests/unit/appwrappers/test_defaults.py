"""What an AppWrapper is given when it is created."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.appwrappers.admission.review import defaults, label_value
from app.kube.names import check_label_value

QUEUE = "kueue.x-k8s.io/queue-name"
USER = {"workload.codeflare.dev/user": "ann", "workload.codeflare.dev/userid": "u-1"}


def defaulted(metadata: Any = None, spec: Any = None, *, queue: str = "", creator: str = "") -> list[tuple[Any, ...]]:
    obj = {"metadata": metadata or {}, "spec": {} if spec is None else spec}
    found = defaults(obj, user="ann", uid="u-1", creator=creator, queue=queue)
    return [(".".join(one.section), one.field, one.value) for one in found]


def test_who_created_it_is_written_over_what_a_user_says() -> None:
    expected = [("metadata.labels", name, value) for name, value in USER.items()]
    assert defaulted() == expected
    assert defaulted({"labels": dict.fromkeys(USER, "other")}) == expected
    assert defaulted({"labels": USER}) == []


def test_the_creator_is_kept_only_where_it_is_asked_for() -> None:
    name = "berth.dev/appwrapper-creator"
    kept = ("metadata.annotations", name, "{}")
    assert defaulted({"labels": USER, "annotations": {name: "a lie"}}, creator="{}") == [kept]
    assert defaulted({"labels": USER, "annotations": {name: "{}"}}, creator="{}") == []


@pytest.mark.parametrize(
    ("labels", "spec", "queue", "expected"),
    [
        ({}, {}, "", []),
        ({}, {}, "q", [("metadata.labels", QUEUE, "q"), ("spec", "suspend", True)]),
        ({QUEUE: "own"}, {}, "q", [("spec", "suspend", True)]),
        ({QUEUE: "own"}, {"suspend": False}, "", [("spec", "suspend", True)]),
        ({QUEUE: "own"}, {"suspend": True}, "q", []),
        # An empty label names no queue, as Kueue reads it.
        ({QUEUE: ""}, {}, "q", [("metadata.labels", QUEUE, "q"), ("spec", "suspend", True)]),
        ({QUEUE: ""}, {}, "", []),
        ({QUEUE: None}, {}, "q", [("metadata.labels", QUEUE, "q"), ("spec", "suspend", True)]),
        ({}, {"suspend": False}, "", []),
        # What the schema refuses is left for it.
        ({QUEUE: "own"}, "no object", "", []),
    ],
)
def test_an_appwrapper_waits_for_its_queue(
    labels: dict[str, str], spec: Any, queue: str, expected: list[tuple[Any, ...]]
) -> None:
    assert defaulted({"labels": USER | labels}, spec, queue=queue) == expected


def test_what_belongs_to_a_job_of_kueue_waits_with_it() -> None:
    obj = {"metadata": {"labels": {**USER, QUEUE: "q"}}, "spec": {}}
    assert list(defaults(obj, user="ann", uid="u-1", creator="", queue="", child=True)) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("system:admin", "system_admin"),
        ("auth0|5f7c", "auth0_5f7c"),
        ("-_.a.-", "a"),
        ("", ""),
        ("a" * 80, "a" * 63),
        ("a" * 62 + ":b", "a" * 62),
    ],
)
def test_a_user_becomes_a_label_value(text: str, value: str) -> None:
    assert label_value(text) == value


@given(st.text())
def test_every_user_becomes_a_label_value(text: str) -> None:
    check_label_value(label_value(text))
