"""The name, labels and annotations of an AppWrapper."""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.admission.names import annotation_warnings, label_problems, name_problems
from app.appwrappers.options import FaultTolerance

PREFIX = "workload.codeflare.dev.appwrapper/"


@pytest.mark.parametrize(
    ("metadata", "pod_sets", "fits"),
    [
        ({"name": "a" * 61}, 1, True),
        ({"name": "a" * 62}, 1, False),
        ({"name": "a" * 61}, 10, True),
        ({"name": "a" * 61}, 11, False),
        ({"name": "a" * 60}, 11, True),
        ({"name": "0a"}, 1, True),
        ({"name": "a.b"}, 1, False),
        ({"generateName": "a" * 56}, 1, True),
        ({"generateName": "a" * 57}, 1, False),
        ({"generateName": "a-"}, 1, True),
        ({}, 1, True),
    ],
)
def test_a_name_has_to_become_names_of_podsets(metadata: dict[str, Any], pod_sets: int, *, fits: bool) -> None:
    assert (not list(name_problems(metadata, pod_sets))) == fits


def test_the_longest_name_that_fits_is_told() -> None:
    (found,) = name_problems({"name": "ab" * 40}, 11)
    assert found == (
        "metadata.name: want at most 60 characters, so that podSets can be called NAME-0 to NAME-10, got 80: "
        f"{'ab' * 30!r} fits"
    )


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [
        ({"kueue.x-k8s.io/queue-name": "user-queue"}, []),
        ({"kueue.x-k8s.io/queue-name": ""}, []),
        ({"kueue.x-k8s.io/queue-name": "User_Queue"}, ["kueue.x-k8s.io/queue-name"]),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "60"}, []),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "0"}, ["kueue.x-k8s.io/max-exec-time-seconds"]),
        ({"kueue.x-k8s.io/max-exec-time-seconds": "1m"}, ["kueue.x-k8s.io/max-exec-time-seconds"]),
    ],
)
def test_labels_of_kueue_follow_its_rules(labels: dict[str, str], wrong: list[str]) -> None:
    assert [one.partition("[")[2].partition("]")[0] for one in label_problems(labels)] == wrong


def test_a_misspelt_annotation_is_a_warning_with_the_one_that_is_meant() -> None:
    annotations = {
        f"{PREFIX}deletionOnFailureGracePeriod": "1m",
        f"{PREFIX}retrylimit": "3",
        f"{PREFIX}somethingElse": "3",
        "example.com/retryLimit": "3",
        f"{PREFIX}retryLimit": "3",
    }
    assert list(annotation_warnings(annotations, FaultTolerance())) == [
        (
            f"metadata.annotations[{PREFIX}deletionOnFailureGracePeriod]: has no meaning; "
            f"is {PREFIX}deletionOnFailureGracePeriodDuration meant?"
        ),
        f"metadata.annotations[{PREFIX}retrylimit]: has no meaning; is {PREFIX}retryLimit meant?",
        f"metadata.annotations[{PREFIX}somethingElse]: has no meaning",
    ]


def test_a_value_that_is_not_used_is_a_warning() -> None:
    (found,) = annotation_warnings({f"{PREFIX}retryLimit": "many"}, FaultTolerance())
    assert found == f"metadata.annotations[{PREFIX}retryLimit]: want an integer, got 'many'; 3 is used"
