"""AppWrappers and quota in a tenant's cluster of the sandbox, as a user of kubectl sees them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.wire import load_yaml
from tests.e2e.users import Kubectl
from tests.support.paths import ROOT
from tests.support.waiting import Refused, wait_until

JSON = dict[str, Any]
pytestmark = pytest.mark.e2e


@pytest.fixture
def kubectl(kubeconfig: Path) -> Kubectl:
    return Kubectl(kubeconfig)


def workload(name: str, pods: int) -> JSON:
    """A Workload of so many Pods with a CPU each, made by hand: no job owns it."""
    containers = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": containers}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podSets": [pod_set], "queueName": "user-queue"},
    }


def app_wrapper(name: str, *, cpu: str = "0", labels: JSON | None = None) -> JSON:
    """An AppWrapper of one Pod."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"components": [{"template": template}]},
    }


def queued(name: str, cpu: str, **labels: str) -> JSON:
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"} | {f"kueue.x-k8s.io/{k}": v for k, v in labels.items()}
    return app_wrapper(name, cpu=cpu, labels=labels)


def phase(kubectl: Kubectl, name: str, wanted: str) -> Callable[[], bool]:
    return lambda: (kubectl.get("appwrapper", name).get("status") or {}).get("phase") == wanted


@contextlib.contextmanager
def made(kubectl: Kubectl, *bodies: JSON) -> Iterator[None]:
    """The objects, for as long as the block runs."""
    try:
        for body in bodies:
            kubectl.create(body)
        yield
    finally:
        for body in bodies:
            kubectl.delete(body["kind"], body["metadata"]["name"])


def rows(kubectl: Kubectl, kinds: str) -> list[list[str]]:
    return [line.split() for line in kubectl.run("get", kinds, "-o", "wide").splitlines() if line]


def seen(kubectl: Kubectl, kinds: str, *row: str) -> Callable[[], bool]:
    return lambda: list(row) in rows(kubectl, kinds)


def test_the_queues_are_those_of_the_samples(kubectl: Kubectl) -> None:
    wait_until(
        seen(kubectl, "localqueues,clusterqueues", "localqueue.kueue.x-k8s.io/user-queue", "cluster-queue", "0", "0")
    )
    wait_until(
        seen(
            kubectl,
            "localqueues,clusterqueues",
            "clusterqueue.kueue.x-k8s.io/cluster-queue",
            "BestEffortFIFO",
            "0",
            "0",
        )
    )
    queue = json.loads(kubectl.run("get", "clusterqueue", "cluster-queue", "-o", "json"))
    (flavor,) = queue["status"]["flavorsUsage"]
    assert flavor["name"] == "default-flavor"
    (quota,) = [one for one in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"] if one["name"] == "cpu"]
    assert quota["nominalQuota"] == 4


def test_a_workload_waits_until_the_quota_of_another_is_free(kubectl: Kubectl) -> None:
    with made(kubectl, workload("first", 3)):
        wait_until(lambda: rows(kubectl, "workloads")[1][:4] == ["first", "user-queue", "cluster-queue", "True"])
        with made(kubectl, workload("second", 2)):
            wait_until(seen(kubectl, "localqueues", "user-queue", "cluster-queue", "1", "1"))
            kubectl.delete("workload", "first")
            wait_until(lambda: rows(kubectl, "workloads")[1][:4] == ["second", "user-queue", "cluster-queue", "True"])


def test_an_app_wrapper_without_a_queue_runs_at_once(kubectl: Kubectl) -> None:
    with made(kubectl, app_wrapper("wrapped")):
        wait_until(phase(kubectl, "wrapped", "Running"))
        wait_until(lambda: kubectl.get("pod", "wrapped")["status"]["phase"] == "Running")


def test_an_app_wrapper_is_checked_when_it_is_written(kubectl: Kubectl) -> None:
    empty = app_wrapper("empty")
    empty["spec"]["components"] = []
    with pytest.raises(Refused, match="want at least one podSet"):
        kubectl.create(empty)


def test_an_app_wrapper_waits_in_its_queue_until_another_is_gone(kubectl: Kubectl) -> None:
    with made(kubectl, queued("one", "3")):
        wait_until(phase(kubectl, "one", "Running"))
        with made(kubectl, queued("two", "2")):
            wait_until(seen(kubectl, "localqueues", "user-queue", "cluster-queue", "1", "1"))
            assert phase(kubectl, "two", "Suspended")()
            kubectl.delete("appwrapper", "one")
            wait_until(phase(kubectl, "two", "Running"))


def test_a_higher_priority_has_a_lower_one_stopped_and_it_comes_back(kubectl: Kubectl) -> None:
    urgent = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "urgent"},
        "value": 10,
    }
    with made(kubectl, urgent, queued("usual", "3")):
        wait_until(phase(kubectl, "usual", "Running"))
        with made(kubectl, queued("urgent", "2", **{"priority-class": "urgent"})):
            wait_until(phase(kubectl, "urgent", "Running"))
            assert phase(kubectl, "usual", "Suspended")()
            with pytest.raises(Refused, match="not found"):
                kubectl.get("pod", "usual")
        wait_until(phase(kubectl, "usual", "Running"))


def test_the_sample_of_the_field_runs_and_succeeds(kubectl: Kubectl) -> None:
    """One Pod, busybox, `sleep 5`: Running, Completed, Succeeded. On nodes without a container runtime as well."""
    sample = load_yaml((ROOT / "examples" / "appwrapper.yaml").read_text())
    with made(kubectl, sample):
        wait_until(phase(kubectl, "sample", "Running"))
        wait_until(phase(kubectl, "sample", "Succeeded"))
        assert kubectl.get("pod", "sample")["status"]["phase"] == "Succeeded"
        shown = rows(kubectl, "appwrappers")
        assert shown[0][:3] == ["NAME", "STATUS", "QUOTA"]
        assert shown[1][:3] == ["sample", "Succeeded", "False"]


def test_objects_that_make_pods_run_as_one(kubectl: Kubectl) -> None:
    """A Job with more completions than Pods at a time, and a Service."""
    container = {"name": "c", "image": "busybox", "command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": 2, "completions": 3, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "many"}, "spec": spec}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "many"}, "spec": {"ports": [{"port": 80}]}}
    body = queued("many", "0")
    body["spec"]["components"] = [{"template": job}, {"template": service}]
    with made(kubectl, body):
        wait_until(phase(kubectl, "many", "Succeeded"))
        assert kubectl.get("job", "many")["status"]["succeeded"] == 3
        workload = json.loads(kubectl.run("get", "workloads", "-o", "json"))["items"][0]
        assert [one["count"] for one in workload["spec"]["podSets"]] == [2]
        wait_until(lambda: _finished(kubectl))
    with pytest.raises(Refused, match="not found"):
        kubectl.get("service", "many")


def _finished(kubectl: Kubectl) -> bool:
    workload = json.loads(kubectl.run("get", "workloads", "-o", "json"))["items"][0]
    return any(one["type"] == "Finished" and one["status"] == "True" for one in workload["status"]["conditions"])


def test_deployments_and_stateful_sets_are_ready_as_one(kubectl: Kubectl) -> None:
    container = {"name": "c", "image": "busybox"}

    def workload_of(kind: str, name: str, **more: Any) -> JSON:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template} | more
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    body = app_wrapper("services")
    parts = (workload_of("Deployment", "web"), workload_of("StatefulSet", "store", serviceName="store"))
    body["spec"]["components"] = [{"template": one} for one in parts]
    with made(kubectl, body):
        wait_until(lambda: _says(kubectl, "services", "PodsReady"))
        assert kubectl.get("pod", "store-1")["metadata"]["labels"]["workload.codeflare.dev/appwrapper"] == "services"
        # It is made again together with the other.
        kubectl.delete("deployment", "web")
        wait_until(phase(kubectl, "services", "Resetting"))
    for kind, name in (("deployment", "web"), ("statefulset", "store"), ("pod", "store-0")):
        wait_until(lambda kind=kind, name=name: _is_gone(kubectl, kind, name))


def _says(kubectl: Kubectl, name: str, kind: str) -> bool:
    conditions = (kubectl.get("appwrapper", name).get("status") or {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _is_gone(kubectl: Kubectl, kind: str, name: str) -> bool:
    try:
        kubectl.get(kind, name)
    except Refused:
        return True
    return False
