"""Which prebuilt Workload an AppWrapper takes for its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.appwrappers.controller.stored import stored_app_wrapper
from app.appwrappers.kueue.steps import WorkloadState, next_step
from app.appwrappers.kueue.stored import stored_workload
from tests.support.appwrappers import result_of

JSON = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-pod"}


def seen(owners: list[JSON]) -> WorkloadState:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/prebuilt-workload-name": "w"}
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    pod_sets = [{"replicas": 1, "path": "template"}]
    wrapper = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": labels},
        "spec": {"suspend": True, "components": [{"template": template, "podSets": pod_sets}]},
        "status": {
            "phase": "Suspended",
            "componentStatus": [{"name": "p", "kind": "Pod", "apiVersion": "v1", "podSets": pod_sets}],
        },
    }
    workload = {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u-w", "resourceVersion": "1", "ownerReferences": owners},
        "spec": {},
    }
    job = stored_app_wrapper(wrapper)
    assert job is not None
    return WorkloadState(job, (), stored_workload(workload), NOW)


def test_a_prebuilt_workload_without_owners_is_taken() -> None:
    assert result_of(next_step(seen([]))).action == "own"


@pytest.mark.parametrize("owners", [[POD], [POD, POD | {"uid": "u-2"}], [POD | {"controller": False}]])
def test_a_prebuilt_workload_of_other_owners_is_not_taken_over(owners: list[JSON]) -> None:
    """As that of a group of Pods, none of which is its controller: to own it is to replace them."""
    step = result_of(next_step(seen(owners)))
    assert (step.action, step.workload) == ("", None)
