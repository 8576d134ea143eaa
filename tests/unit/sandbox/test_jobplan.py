"""What the Job controller of the sandbox does next, for Jobs in all their modes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.devtools.sandbox.standins.jobindexes import read_indexes, shown_indexes
from app.devtools.sandbox.standins.jobplan import Step, is_ours, next_step

JSON = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
STARTED = "2026-01-01T00:00:00Z"


def job(status: JSON | None = None, *, restart: str = "Never", **spec: Any) -> JSON:
    defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6}
    template = {"spec": {"restartPolicy": restart, "containers": []}}
    return {"metadata": {"name": "j"}, "spec": {**defaults, "template": template, **spec}, "status": status or {}}


def pod(state: str = "Running", *, index: int | None = None, deleted: bool = False, restarts: int = 0) -> JSON:
    metadata: JSON = {"name": f"{state}-{index}"}
    if index is not None:
        metadata["annotations"] = {"batch.kubernetes.io/job-completion-index": str(index)}
    if deleted:
        metadata["deletionTimestamp"] = STARTED
    ready = [{"type": "Ready", "status": "True"}] if state == "Running" else []
    containers = [{"restartCount": restarts}]
    return {"metadata": metadata, "status": {"phase": state, "conditions": ready, "containerStatuses": containers}}


def step(obj: JSON, *pods: JSON, seconds: float = 0) -> Step:
    return next_step(obj, list(pods), START + timedelta(seconds=seconds))


def ended(found: Step) -> dict[str, Any]:
    return {one["type"]: one["reason"] for one in found.status.get("conditions") or []}


def condition(kind: str, state: str = "True") -> JSON:
    return {"type": kind, "status": state, "lastTransitionTime": STARTED, "reason": "R", "message": "m"}


def test_as_many_pods_as_may_run_are_made() -> None:
    first = step(job(parallelism=3, completions=5))
    assert (first.create, first.status["startTime"]) == ((None,) * 3, STARTED)
    later = step(job(parallelism=3, completions=5), *[pod("Succeeded")] * 3, pod(), pod("Pending"))
    assert later.create == ()
    counts = {name: later.status[name] for name in ("active", "ready", "succeeded", "failed")}
    assert counts == {"active": 2, "ready": 1, "succeeded": 3, "failed": None}
    assert step(job(parallelism=3, completions=5), *[pod("Succeeded")] * 4).create == (None,)
    assert len(step(job(parallelism=1, completions=5), pod(), pod()).delete) == 1


def test_success_is_foretold_and_then_told() -> None:
    """The condition Complete comes when no Pod is left, with the time of completion."""
    ending = step(job(parallelism=2, completions=1), pod("Succeeded"), pod())
    assert ended(ending) == {"SuccessCriteriaMet": "CompletionsReached"}
    assert len(ending.delete) == 1
    done = step(job(), pod("Succeeded"))
    assert ended(done) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert done.status["completionTime"] == STARTED


def test_a_work_queue_ends_with_its_last_pod() -> None:
    """Without completions: after one success no Pod is made, and the rest are waited for."""
    assert step(job(parallelism=2, completions=None)).create == (None, None)
    assert step(job(parallelism=2, completions=None), pod(), pod("Failed")).create == (None,)
    waiting = step(job(parallelism=2, completions=None), pod("Succeeded"), pod())
    assert (waiting.create, waiting.delete, ended(waiting)) == ((), (), {})
    assert "Complete" in ended(step(job(parallelism=2, completions=None), pod("Succeeded"), pod("Failed")))


def test_too_many_failures_end_a_job() -> None:
    assert step(job(backoffLimit=1), pod("Failed")).create == (None,)
    ending = step(job(backoffLimit=1, parallelism=2, completions=4), pod("Failed"), pod("Failed"), pod())
    assert ended(ending) == {"FailureTarget": "BackoffLimitExceeded"}
    assert (len(ending.delete), ending.status["active"]) == (1, 1)
    failed = step(job(backoffLimit=0), pod("Failed"))
    assert ended(failed) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert (failed.status["failed"], "completionTime" in failed.status) == (1, False)


def test_a_verdict_stays() -> None:
    """The Pods that end with the Job do not change why it ended."""
    deciding = {"conditions": [condition("FailureTarget")], "startTime": STARTED}
    assert ended(step(job(deciding), pod(deleted=True))) == {"FailureTarget": "R"}
    assert ended(step(job(deciding), pod("Failed"))) == {"FailureTarget": "R", "Failed": "R"}


def test_a_pod_that_is_deleted_has_failed() -> None:
    assert ended(step(job(backoffLimit=0), pod(deleted=True))) == {"FailureTarget": "BackoffLimitExceeded"}
    replaced = step(job(), pod(deleted=True))
    assert (replaced.create, replaced.status["failed"], replaced.status["terminating"]) == ((None,), 1, 1)


@pytest.mark.parametrize(("limit", "restarts", "fails"), [(0, 0, 0), (0, 1, 1), (3, 2, 0), (3, 3, 1)])
def test_restarts_of_containers_count_where_pods_restart(limit: int, restarts: int, fails: int) -> None:
    found = step(job(backoffLimit=limit, restart="OnFailure"), pod(restarts=restarts))
    assert list(ended(found)) == ["FailureTarget"] * fails
    assert not ended(step(job(backoffLimit=limit), pod(restarts=restarts)))


def test_a_deadline_ends_a_job() -> None:
    running = job({"startTime": STARTED}, activeDeadlineSeconds=10)
    assert step(running, pod(), seconds=4).wake == 6
    late = step(running, pod(), seconds=10)
    assert (ended(late), len(late.delete)) == ({"FailureTarget": "DeadlineExceeded"}, 1)


def test_a_suspended_job_has_no_pods_and_no_deadline() -> None:
    held = step(job({"startTime": STARTED}, suspend=True, activeDeadlineSeconds=10), pod(), seconds=60)
    assert (ended(held), held.create, len(held.delete)) == ({"Suspended": "JobSuspended"}, (), 1)
    assert held.status["active"] is None
    resumed = step(
        job({"startTime": STARTED, "conditions": held.status["conditions"]}, activeDeadlineSeconds=10), seconds=70
    )
    assert ended(resumed) == {"Suspended": "JobResumed"}
    assert resumed.status["conditions"][0]["status"] == "False"
    assert (resumed.create, resumed.status["startTime"], resumed.wake) == ((None,), "2026-01-01T00:01:10Z", 10)


def test_an_indexed_job_has_one_pod_for_each_index() -> None:
    indexed = job(completionMode="Indexed", parallelism=3, completions=4)
    assert step(indexed).create == (0, 1, 2)
    found = step(indexed, pod("Succeeded", index=0), pod(index=1), pod("Failed", index=2))
    assert (found.create, found.status["completedIndexes"]) == ((2, 3), "0")
    assert "Complete" in ended(step(indexed, *(pod("Succeeded", index=index) for index in range(4))))
    again = step(indexed, *[pod("Succeeded", index=0)] * 4)
    assert (again.status["succeeded"], ended(again)) == (1, {})


def test_each_index_has_a_limit_of_its_own() -> None:
    spec: JSON = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1}
    many = 2**31 - 1
    failing = step(job(**spec, backoffLimit=many), pod("Failed", index=0), pod("Succeeded", index=1))
    assert (failing.create, failing.status["failedIndexes"]) == ((0,), "")
    given_up = step(job(**spec, backoffLimit=many), *[pod("Failed", index=0)] * 2, pod(index=1))
    assert (given_up.create, given_up.status["failedIndexes"], ended(given_up)) == ((), "0", {})
    over = step(job(**spec, backoffLimit=many), *[pod("Failed", index=0)] * 2, pod("Succeeded", index=1))
    assert ended(over)["Failed"] == "FailedIndexes"
    most = step(job(**spec, backoffLimit=many, maxFailedIndexes=0), *[pod("Failed", index=0)] * 2, pod(index=1))
    assert ended(most) == {"FailureTarget": "MaxFailedIndexesExceeded"}


def test_an_ended_job_lives_for_its_time() -> None:
    status = {"conditions": [condition("Complete")]}
    assert step(job(status)) == Step({})
    assert step(job(status, ttlSecondsAfterFinished=10), seconds=4) == Step({}, wake=6)
    assert step(job(status, ttlSecondsAfterFinished=10), seconds=10).expired
    assert step(job(status, ttlSecondsAfterFinished=0)).expired


def test_what_was_counted_stays() -> None:
    """Pods that are gone are not run again."""
    assert ended(step(job({"succeeded": 1})))["Complete"] == "CompletionsReached"
    indexed = job({"completedIndexes": "0-1"}, completionMode="Indexed", parallelism=4, completions=4)
    assert step(indexed).create == (2, 3)


def test_jobs_of_another_controller_are_left_to_it() -> None:
    assert is_ours(job())
    assert is_ours(job(managedBy="kubernetes.io/job-controller"))
    assert not is_ours(job(managedBy="kueue.x-k8s.io/multikueue"))


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "1,3-5,7,9,10"])
def test_indexes_are_written_as_runs(text: str) -> None:
    assert shown_indexes(read_indexes(text)) == text
