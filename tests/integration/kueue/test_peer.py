"""The same AppWrappers under AppWrapper's own manager and under Berth: what became of them, and which are refused.

`peer.json` has what the manager made of them, so Berth is compared with it where the manager cannot run too. With it,
`BERTH_RECORD=1` writes the file anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.appwrappers.kueue.model import ADMITTED, PODS_READY, WORKLOADS
from app.appwrappers.model import APP_WRAPPERS
from app.devtools.clusters.definitions import define
from app.errors import ApiError
from app.kube.conditions import condition, is_true
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from tests.support.kueue_cases import job_set
from tests.support.paths import ROOT
from tests.support.queued_cluster import Queue, QueuedCluster, failing, job, pod, unready
from tests.support.waiting import eventually
from tests.support.wrapper_traces import differences, traced

JSON = dict[str, Any]
_FILE = Path(__file__).parent / "peer.json"
_PAGE = ROOT / "docs" / "migrate-from-appwrapper.md"
_RECORDING = bool(os.environ.get("BERTH_RECORD"))
QUICK = {
    "failureGracePeriodDuration": "2s",
    "retryPausePeriodDuration": "2s",
    "retryLimit": "1",
}


def replicated(kind: str, name: str, **spec: Any) -> JSON:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"] | {"restartPolicy": "Always"}}
    body = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def service(name: str) -> JSON:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


async def _deletes_the_pod(queue: Queue) -> None:
    await eventually(lambda: queue.get(PODS, "p"), lambda found: (found.get("status") or {}).get("phase") == "Running")
    await queue.client.delete(PODS, "p", namespace=queue.namespace)


async def _pauses(queue: Queue) -> None:
    await queue.says("w", "PodsReady", status="True", reason="SufficientPodsReady")
    name = (await queue.workload("w"))["metadata"]["name"]
    await queue.change(WORKLOADS, name, {"spec": {"active": False}})
    await queue.reaches("w", "Suspended")
    # Kueue has seen it without admission: else it takes the next start for a recovery.
    await queue.workload("w", lambda workload: _waits_for_its_start(workload["status"]))
    await queue.change(WORKLOADS, name, {"spec": {"active": True}})
    await queue.reaches("w", "Running")


def _waits_for_its_start(status: JSON) -> bool:
    return not is_true(status, ADMITTED) and condition(status, PODS_READY).get("reason") == "WaitForStart"


async def _deletes_the_wrapper(queue: Queue) -> None:
    await queue.client.delete(APP_WRAPPERS, "w", namespace=queue.namespace)


@dataclass(frozen=True)
class Scenario:
    """An AppWrapper, what a user does when it runs, and the phase in which its story ends."""

    templates: tuple[JSON, ...]
    end: str
    annotations: dict[str, str] = field(default_factory=dict)
    ready: bool = False
    """Whether the story ends when its Pods are ready."""
    act: Callable[[Queue], Awaitable[None]] | None = None


SCENARIOS = {
    "a Pod that ends": Scenario((pod("p", seconds=1),), "Succeeded"),
    "a Job that ends": Scenario((job("j", pods=2, seconds=1),), "Succeeded"),
    "a Pod that runs": Scenario((pod("p"),), "Running", ready=True),
    "a Deployment and its Service": Scenario((replicated("Deployment", "d"), service("d")), "Running", ready=True),
    "a StatefulSet": Scenario((replicated("StatefulSet", "s", serviceName="s"),), "Running", ready=True),
    "a Pod and a Job that end": Scenario((pod("p", seconds=1), job("j", seconds=1)), "Succeeded"),
    "a Pod that fails": Scenario((failing(pod("p")),), "Failed", QUICK),
    "a Job that fails": Scenario((failing(job("j")),), "Failed", QUICK),
    "a Pod that fails and is kept": Scenario(
        (failing(pod("p")),), "Failed", QUICK | {"retryLimit": "0", "deletionOnFailureGracePeriodDuration": "1h"}
    ),
    "an exit code that ends it": Scenario((failing(pod("p"), 3),), "Failed", QUICK | {"terminalExitCodes": "3"}),
    "an exit code that may be tried again": Scenario(
        (failing(pod("p"), 3),), "Failed", QUICK | {"retryableExitCodes": "3"}
    ),
    "an exit code that may not": Scenario((failing(pod("p"), 4),), "Failed", QUICK | {"retryableExitCodes": "3"}),
    "a Pod that is never ready": Scenario(
        (unready(pod("p")),),
        "Failed",
        QUICK | {"warmupGracePeriodDuration": "3s", "admissionGracePeriodDuration": "3s"},
    ),
    "a success that is cleaned up": Scenario((pod("p", seconds=1),), "Succeeded", {"successTTLDuration": "2s"}),
    "one that is deleted while it runs": Scenario((pod("p"),), "deleted", act=_deletes_the_wrapper),
    "one that is deactivated and activated again": Scenario((pod("p"),), "Running", ready=True, act=_pauses),
    "a Pod that a user deletes": Scenario((pod("p"),), "Failed", QUICK | {"retryLimit": "0"}, act=_deletes_the_pod),
}

KNOWN = {
    r"components\.\d+\.Ended": "conditions of its own",
    r"conditions\.(Resetting|DeletionPaused|Preempted|Requeued)": "conditions of its own",
    r"events\.Normal (Unhealthy|Suspending)": "Events",
}
"""What Berth has beyond the peer, by path, and the subject in the table of the page about the change."""


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_scenario_goes_as_under_the_peer(queues: QueuedCluster, name: str) -> None:
    scenario = SCENARIOS[name]
    async with queues.queue(8) as queue, traced(queue, "w") as trace:
        await queue.submit("w", *scenario.templates, annotations=scenario.annotations)
        if scenario.act is not None:
            await queue.reaches("w", "Running")
            await scenario.act(queue)
        if scenario.ready:
            await queue.says("w", "PodsReady", status="True", reason="SufficientPodsReady")
        await eventually(lambda: trace.phases[-1:] == [scenario.end])
        if queues.side == "codeflare" and _RECORDING:
            await asyncio.sleep(10)
            _write("scenarios", name, await trace.summary(ready=scenario.ready))
        expected = json.loads(_FILE.read_text())["scenarios"][name]
        additions = () if queues.side == "codeflare" else KNOWN

        async def unlike() -> JSON:
            summary = await trace.summary(ready=scenario.ready)
            return {
                path: values
                for path, values in differences(expected, summary).items()
                if values[0] is not None or not any(re.fullmatch(pattern, path) for pattern in additions)
            }

        await eventually(unlike, lambda found: not found)


def declared(template: JSON, *pod_sets: JSON) -> JSON:
    return {"template": template, "podSets": list(pod_sets)}


def deployed(*pod_sets: JSON) -> JSON:
    """A Deployment with these podSets."""
    return declared(replicated("Deployment", "d"), *pod_sets)


def at(path: str, count: int = 2) -> JSON:
    """A Deployment whose podSet is declared to be there."""
    return deployed({"path": path, "replicas": count})


def jobs_at(path: str) -> JSON:
    jobs = job_set({"template": {"spec": {"parallelism": 1, "template": {"spec": pod("p")["spec"]}}}})
    return declared(jobs, {"path": path})


def plain(*templates: JSON) -> list[JSON]:
    return [{"template": template} for template in templates]


_DEPLOYMENT = "template.spec.template"
_NESTED = APP_WRAPPERS.body({"name": "inner"}, spec={"components": plain(pod("q"))})
REVIEWS: dict[str, tuple[list[JSON], list[JSON] | None]] = {
    "nothing": ([], None),
    "no Pods": (plain(service("s")), None),
    "eight podSets": (plain(*(pod(f"p{number}") for number in range(8))), None),
    "nine podSets": (plain(*(pod(f"p{number}") for number in range(9))), None),
    "a declared podSet": ([at(_DEPLOYMENT)], None),
    "a path that is not there": ([at("template.spec.missing")], None),
    "an empty path": ([at("")], None),
    "a path to no template": ([at("template.spec.template.metadata")], None),
    "a path without template": ([at("spec.template")], None),
    "an array without an index": ([jobs_at("template.spec.replicatedJobs.template.spec.template")], None),
    "a path to an array": ([jobs_at("template.spec.replicatedJobs")], None),
    "an index of a map": ([jobs_at("template.spec.replicatedJobs[0].template[0].spec.template")], None),
    "an index beyond": ([jobs_at("template.spec.replicatedJobs[10].template.spec.template")], None),
    "an index below nothing": ([jobs_at("template.spec.replicatedJobs[-1].template.spec.template")], None),
    "an index that is no number": ([jobs_at("template.spec.replicatedJobs[a10].template.spec.template")], None),
    "an index without an end": ([jobs_at("template.spec.replicatedJobs[1")], None),
    "an index with two ends": ([jobs_at("template.spec.replicatedJobs[1]].template.spec.template")], None),
    "a podSet twice": ([deployed({"path": _DEPLOYMENT}, {"path": _DEPLOYMENT})], None),
    "fewer Pods than none": ([at(_DEPLOYMENT, -1)], None),
    "another namespace": (plain(pod("p") | {"metadata": {"name": "p", "namespace": "kube-system"}}), None),
    "an AppWrapper in it": ([*plain(pod("p")), declared(_NESTED)], None),
    "a kind that nobody serves": (plain(pod("p") | {"apiVersion": "example.com/v1"}), None),
    "a generated name": (plain(pod("p") | {"metadata": {"generateName": "p-"}}), None),
    "another template": (plain(pod("p")), plain(pod("q"))),
    "another component": (plain(pod("p")), plain(pod("p"), pod("q"))),
    "one component less": (plain(pod("p"), pod("q")), plain(pod("p"))),
    "a podSet more": ([at(_DEPLOYMENT)], [deployed(*at(_DEPLOYMENT)["podSets"] * 2)]),
    "another path": ([at(_DEPLOYMENT)], [at("bad")]),
    "another count": ([at(_DEPLOYMENT)], [at(_DEPLOYMENT, 3)]),
    "annotations of a component": (plain(pod("p")), [{"template": pod("p"), "annotations": {"a": "b"}}]),
    "the same again": (plain(pod("p")), plain(pod("p"))),
}
"""The components of an AppWrapper, and those that an update gives it."""
KNOWN_REVIEWS = {"nine podSets": "more than 8 podSets"}
"""Of which the answers differ, and the subject in the table of the page."""
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")


def _any_job_set() -> JSON:
    """A definition of JobSets that takes any."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "jobsets", "kind": "JobSet"}
    spec = {"group": JOB_SETS.group, "names": names, "scope": "Namespaced", "versions": [version]}
    return CUSTOM_RESOURCE_DEFINITIONS.body({"name": "jobsets.jobset.x-k8s.io"}, spec=spec)


@pytest.mark.parametrize("name", REVIEWS)
async def test_what_the_peer_refuses_is_refused(queues: QueuedCluster, name: str) -> None:
    components, change = REVIEWS[name]
    await define(queues.client, [JOB_SETS], [_any_job_set()])
    body = APP_WRAPPERS.body({"name": "w"}, spec={"suspend": True, "components": components})
    async with queues.queue(8) as queue:
        answer = "created"
        try:
            await queues.client.create(APP_WRAPPERS, body, namespace=queue.namespace)
            if change is not None:
                answer = "updated"
                await queue.change(APP_WRAPPERS, "w", {"spec": {"components": change}})
        except ApiError as error:
            answer = f"not {answer}" if error.status in (403, 422) else str(error)
    if queues.side == "codeflare" and _RECORDING:
        _write("reviews", name, answer)
    expected = json.loads(_FILE.read_text())["reviews"][name]
    assert answer == expected or (queues.side != "codeflare" and name in KNOWN_REVIEWS)


def test_what_differs_is_on_the_page() -> None:
    page = _PAGE.read_text().partition("## What differs")[2]
    subjects = {line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")}
    assert {*KNOWN.values(), *KNOWN_REVIEWS.values()} <= subjects
    assert KNOWN_REVIEWS.keys() <= REVIEWS.keys()


def _write(part: str, name: str, value: Any) -> None:
    content = json.loads(_FILE.read_text()) if _FILE.exists() else {"scenarios": {}, "reviews": {}}
    content[part][name] = value
    _FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
