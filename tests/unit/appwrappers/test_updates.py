"""What an update of an AppWrapper may not change."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from app.appwrappers.admission.checking import decided_by_queue, decides_what_runs, same, update_problems
from tests.support.appwrappers import app_wrapper, job, pod

JSON = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
USER, USER_ID = "workload.codeflare.dev/user", "workload.codeflare.dev/userid"
CREATOR = "berth.dev/appwrapper-creator"
IMMUTABLE = "attempt to change immutable field"
Change = Callable[[JSON], object]


def stored() -> JSON:
    made = app_wrapper("aw", job("j"), pod("p"), suspend=True)
    made["metadata"] |= {"labels": {QUEUE: "q", USER: "ann", USER_ID: "1"}, "annotations": {CREATOR: "{}"}}
    made["spec"]["components"][0]["podSets"] = [{"path": "template.spec.template"}]
    return made


def changed(change: Change) -> list[str]:
    new = stored()
    change(new)
    return list(update_problems(new, stored()))


def first(obj: JSON) -> JSON:
    found: JSON = obj["spec"]["components"][0]
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda new: None,
        lambda new: new["spec"].update(suspend=False),
        lambda new: first(new).update(podSetInfos=[{"nodeSelector": {"a": "b"}}]),
        lambda new: first(new).update(annotations={"a": "b"}),
        lambda new: first(new)["podSets"][0].update(annotations={"a": "b"}),
        lambda new: first(new)["podSets"][0].update(replicas=1),
        lambda new: new["metadata"]["labels"].update(other="x"),
        lambda new: new["metadata"]["labels"].update({QUEUE: "another"}),
        lambda new: new["metadata"]["annotations"].update({"workload.codeflare.dev.appwrapper/retryLimit": "1"}),
        lambda new: first(new).update(template=dict(reversed(first(new)["template"].items()))),
        lambda new: first(new)["template"]["metadata"].update(creationTimestamp=None),
    ],
)
def test_what_may_change(change: Change) -> None:
    assert changed(change) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda new: new["spec"].update(managedBy="kueue.x-k8s.io/multikueue"), "spec.managedBy"),
        (lambda new: new["spec"]["components"].pop(), "spec.components"),
        (lambda new: first(new)["template"]["spec"].update(parallelism=2), "spec.components[0].template"),
        (lambda new: first(new).pop("template"), "spec.components[0].template"),
        (lambda new: first(new)["podSets"][0].update(replicas=2), "spec.components[0].podSets[0].replicas"),
        (lambda new: first(new)["podSets"][0].update(path="template"), "spec.components[0].podSets[0].path"),
        (lambda new: first(new).pop("podSets"), "spec.components[0].podSets"),
        (lambda new: new["metadata"]["labels"].update({USER: "bob"}), f"metadata.labels[{USER}]"),
        (lambda new: new["metadata"]["labels"].pop(USER_ID), f"metadata.labels[{USER_ID}]"),
        (lambda new: new["metadata"]["annotations"].pop(CREATOR), f"metadata.annotations[{CREATOR}]"),
    ],
)
def test_what_may_not_change(change: Change, field: str) -> None:
    (found,) = changed(change)
    assert found.startswith(f"{field}: {IMMUTABLE}")


def test_a_queue_is_kept_while_it_runs() -> None:
    def change(new: JSON) -> None:
        new["spec"]["suspend"] = False
        new["metadata"]["labels"][QUEUE] = "another"

    (found,) = changed(change)
    assert found == (f"metadata.labels[{QUEUE}]: {IMMUTABLE}: want 'q', got 'another'; suspend the AppWrapper first")


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ({"a": None}, {}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"cpu": "1000m"}, {"cpu": "1"}, False),
        ([1, 2], [2, 1], False),
        ({"a": 1.5}, {"a": 1}, False),
        ({"a": {}}, {}, False),
    ],
)
def test_values_are_compared_by_what_they_mean(new: Any, old: Any, *, expected: bool) -> None:
    before = deepcopy((new, old))
    assert same(new, old) is same(old, new) is expected
    assert (new, old) == before


def test_what_is_nested_too_deeply_has_to_be_written_alike() -> None:
    def nested(leaf: int) -> dict:
        found: dict = {"leaf": leaf}
        for _ in range(900):
            found = {"below": found}
        return found

    assert same(nested(1), nested(1))
    assert not same(nested(1), nested(2))


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
INFO = [{"labels": {"app": "payroll"}}]
KUEUE = "kueue.x-k8s.io"


@pytest.mark.parametrize(
    ("change", "fields", "of_the_queue"),
    [
        (lambda new: new["spec"].update(suspend=False), ["spec.suspend"], True),
        (lambda new: new["spec"].pop("suspend"), ["spec.suspend"], True),
        (lambda new: first(new).update(podSetInfos=INFO), ["spec.components[].podSetInfos"], True),
        (lambda new: first(new)["podSets"][0].update(annotations={"a": "b"}), ["spec.components[].podSets"], False),
        (lambda new: new["metadata"]["labels"].pop(QUEUE), [f"metadata.labels[{QUEUE}]"], True),
        (lambda new: new["metadata"]["labels"].update({QUEUE: ""}), [f"metadata.labels[{QUEUE}]"], True),
        (lambda new: new["metadata"]["labels"].update({QUEUE: "b"}), [f"metadata.labels[{QUEUE}]"], False),
        (
            lambda new: new["metadata"]["annotations"].update({f"{KUEUE}/admission-gated-by": "a"}),
            [f"metadata.annotations[{KUEUE}/admission-gated-by]"],
            False,
        ),
        (
            lambda new: new["metadata"]["annotations"].update({f"provreq.{KUEUE}/a": "b"}),
            [f"metadata.annotations[provreq.{KUEUE}/a]"],
            False,
        ),
        (lambda new: new["metadata"].update(ownerReferences=[JOB]), ["metadata.ownerReferences"], True),
        (lambda new: new["metadata"].update(ownerReferences=[JOB | {"controller": False}]), [], False),
        (lambda new: new["metadata"]["labels"].update({f"{KUEUE}/priority-class": ""}), [], False),
        (lambda new: new["metadata"]["labels"].update({f"not-{KUEUE}/a": "b"}), [], False),
        (lambda new: new["metadata"].update(finalizers=["a"]), [], False),
        (lambda new: first(new).update(podSetInfos=[]), [], False),
        (
            lambda new: new["metadata"]["annotations"].update({"workload.codeflare.dev.appwrapper/retryLimit": "1"}),
            [],
            0,
        ),
    ],
)
def test_which_changes_decide_what_runs(change: Change, fields: list[str], of_the_queue: bool) -> None:  # noqa: FBT001
    new, unqueued, before = stored(), stored(), stored()
    change(new)
    assert list(decides_what_runs(new, stored())) == fields
    assert list(decided_by_queue(new, stored())) == (fields if of_the_queue else [])
    for one in (unqueued, before):
        one["metadata"]["labels"].pop(QUEUE)
    if QUEUE not in "".join(fields):
        change(unqueued)
        assert list(decides_what_runs(unqueued, before)) == fields
        assert list(decided_by_queue(unqueued, before)) == []


def test_an_owner_that_goes_frees_nothing() -> None:
    """A garbage collector takes it away where its owner was deleted, and may not be kept from that."""
    owned = stored()
    owned["metadata"]["ownerReferences"] = [JOB]
    assert list(decides_what_runs(stored(), owned)) == []
    assert list(decided_by_queue(stored(), owned)) == []


@pytest.mark.parametrize("labels", [{}, {QUEUE: ""}])
def test_an_empty_label_is_no_change_of_the_queue(labels: JSON) -> None:
    running, unnamed = stored(), stored()
    for one, said in ((running, {}), (unnamed, labels)):
        one["spec"]["suspend"] = False
        one["metadata"]["labels"] = {USER: "ann", USER_ID: "1"} | said
    assert list(update_problems(unnamed, running)) == []


def test_what_runs_at_creation_passes_by_the_queue_only_where_there_is_one() -> None:
    made = stored()
    assert list(decided_by_queue(made, {})) == []
    made["spec"]["suspend"] = False
    first(made)["podSetInfos"] = INFO
    assert list(decided_by_queue(made, {})) == ["spec.suspend", "spec.components[].podSetInfos"]
    made["metadata"]["labels"][QUEUE] = ""
    assert list(decided_by_queue(made, {})) == []
