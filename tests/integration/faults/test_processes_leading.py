"""Two processes of one role with a Lease between them."""

from __future__ import annotations

import signal
from typing import Any

from app.kube.resources import LEASES, PODS
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, TENANT_RULES, WORKLOADS
from tests.integration.faults.driver import Driver
from tests.integration.faults.processes import TENANT, Processes
from tests.support.processes import Berth
from tests.support.waiting import eventually

JSON = dict[str, Any]


async def test_of_two_controllers_one_acts_until_it_dies(stage: Processes) -> None:
    controllers = {str(n): await stage.launch("controller", lead=True) for n in range(2)}
    try:
        for each in controllers.values():
            await eventually(each.ready)
        infra, namespace = stage.infra.client, f"tenant-{TENANT}"
        await eventually(lambda: _holder(stage))
        first = _holder(stage)
        await eventually(lambda: any(_works(each) for each in controllers.values()))
        acting = [each for each in controllers.values() if any('"leading"' in line for line in each.lines)]
        assert [_works(each) for each in controllers.values()].count(True) == 1
        assert _works(acting[0])
        driver = Driver(stage, 53, {})
        await eventually(lambda: stage.infra.cluster.storage.get(("", "namespaces"), "", namespace))
        spec = driver.spec()
        spec |= {"workloadTerms": [{"matchExpressions": [{"key": "metadata.id", "operator": "Exists"}]}]}
        spec |= {"dpuSelectionPolicy": "Any"}
        body = TENANT_RULES.body({"name": "r"})
        await infra.create(TENANT_RULES, {**body, "spec": spec}, namespace=namespace)
        await _workload(stage, "one")
        await eventually(lambda: _companions(stage) == {"r-one"})
        acting[0].send(signal.SIGKILL)
        await _workload(stage, "two")
        await infra.delete(WORKLOADS, "workload-one", namespace=namespace)
        await eventually(lambda: _companions(stage) == {"r-two"})
        assert _holder(stage) not in ("", first)
        (other,) = (each for each in controllers.values() if each is not acting[0])
        assert other.returncode is None
        assert _works(other)
    finally:
        for each in controllers.values():
            await each.kill()


def _works(process: Berth) -> bool:
    return any('"controller starts"' in line for line in process.lines)


def _holder(stage: Processes) -> str:
    leases = stage.infra.all(LEASES, SYSTEM_NAMESPACE)
    return next((lease["spec"].get("holderIdentity") or "" for lease in leases), "")


def _companions(stage: Processes) -> set[str]:
    pods = stage.infra.all(PODS)
    return {pod["metadata"]["name"] for pod in pods if COMPANION in (pod["metadata"].get("labels") or {})}


async def _workload(stage: Processes, id_: str) -> None:
    metadata = {
        "id": id_,
        "orchestrator": "kubernetes",
        "resourceType": "v1/Pod",
        "resourceName": id_,
        "resourceNamespace": "default",
    }
    body: JSON = WORKLOADS.body(
        {"name": f"workload-{id_}"},
        spec={
            "metadata": metadata,
            "state": {"nodeName": "", "ready": True, "extra": {"labels": {}, "annotations": {}}},
        },
    )
    await stage.infra.client.create(WORKLOADS, body, namespace=f"tenant-{TENANT}")
