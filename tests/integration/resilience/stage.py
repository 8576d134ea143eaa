"""An infra cluster with work that never ends, and controllers as processes, each with a name and a line of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from app.kube.transport import connect
from app.registry import CONTROLLER_LEASE as LEASE
from app.tenancy.model import tenant_certificate_name
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, TENANT_RULES, TENANTS, WORKLOADS
from tests.integration.faults.proxy import Proxy
from tests.integration.faults.world import Side, kubelet
from tests.integration.resilience.ledger import Ledger
from tests.support.processes import Berth
from tests.support.tenancy import definitions
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
TENANT = "acme"
NAMESPACE = f"tenant-{TENANT}"
RULES, WORK = 6, 4


class Replica:
    """One controller: its process, its user, and the line between it and the API server."""

    def __init__(self, user: str, process: Berth, line: Proxy) -> None:
        self.user, self.process, self.line = user, process, line
        self._pulse: asyncio.Task[None] | None = None

    def slow(self, seconds: float) -> None:
        """From now on the line lets things through only every so many seconds."""
        self._pulse = asyncio.create_task(self._beat(seconds))

    async def quick(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
            await asyncio.wait({self._pulse})
            self._pulse = None
        self.line.resume()

    async def _beat(self, seconds: float) -> None:
        while True:
            self.line.stall()
            await asyncio.sleep(seconds)
            self.line.resume()

    def said(self, text: str) -> int:
        return self.process.said(text)

    async def end(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
        await self.process.kill()
        await self.line.close()


@dataclass
class Stage:
    """`replicas` are those that were started, by user."""

    folder: Path
    side: Side
    ledger: Ledger
    random: random.Random
    replicas: dict[str, Replica] = field(default_factory=dict)
    number: int = 0

    async def controller(self, *, skew: float = 0.0) -> Replica:
        """One more controller, whose clock on the wall is `skew` seconds ahead."""
        self.number += 1
        user = f"controller-{self.number}"
        line = await Proxy(lambda: int(self.side.cluster.url.rpartition(":")[2])).start()
        kubeconfig = self.folder / user
        text = self.side.cluster.kubeconfig(user=user)
        kubeconfig.write_text(text.replace(self.side.cluster.url, f"https://127.0.0.1:{line.port}"))
        process = Berth(
            *(str(skew), "controller", "--kubeconfig", str(kubeconfig), "--resync-seconds", "5"),
            *("--bind-address", "127.0.0.1", "--health-check-port", "0"),
            module="tests.integration.resilience.quick",
        )
        self.replicas[user] = Replica(user, process, line)
        return self.replicas[user]

    async def ready(self) -> None:
        for replica in self.replicas.values():
            if replica.process.returncode is None:
                await eventually(replica.process.ready, seconds=PATIENCE)

    async def leader(self, *, but: Replica | None = None) -> Replica:
        """The one that holds the Lease and has written something in this term; another than `but`."""

        def acting() -> bool:
            user = self.ledger.holder
            start = next((t.version for t in reversed(self.ledger.terms) if t.user != user), 0)
            return (
                user in self.replicas
                and (but is None or user != but.user)
                and any(request.version > start for request in self.ledger.writes_of(user)[-50:])
            )

        await eventually(acting, seconds=PATIENCE)
        return self.replicas[self.ledger.holder]

    async def writing(self, replica: Replica, *, more: int = 5) -> None:
        """Until it has written so many things more, or leads no more."""
        seen = len(self.ledger.writes_of(replica.user))
        await eventually(
            lambda: self.ledger.holder != replica.user or len(self.ledger.writes_of(replica.user)) >= seen + more,
            seconds=PATIENCE,
        )

    def companions(self) -> set[str]:
        return {
            pod["metadata"]["name"]
            for pod in self.side.all(PODS, NAMESPACE)
            if COMPANION in (pod["metadata"].get("labels") or {}) and not pod["metadata"].get("deletionTimestamp")
        }

    async def churn(self) -> None:
        """Users who never rest: rules get other templates, workloads other labels, and come and go."""
        number = 0
        while True:
            number += 1
            with contextlib.suppress(ApiError):
                await self._change(number)
            await asyncio.sleep(0.05)  # each change is a dozen requests of the leader

    async def _change(self, number: int) -> None:
        client = self.side.client
        if number % 3 == 0:
            name, spec = f"r{self.random.randrange(RULES)}", rule(f"nginx:{number}")
            await client.patch(TENANT_RULES, name, {"spec": spec}, patch_type="merge", namespace=NAMESPACE)
        elif number % 3 == 1:
            extra = {"labels": {"v": str(number)}, "annotations": {}}
            body = {"spec": {"state": {"extra": extra}}}
            name = f"workload-w{self.random.randrange(WORK)}"
            await client.patch(WORKLOADS, name, body, patch_type="merge", namespace=NAMESPACE)
        else:
            name = f"guest{self.random.randrange(3)}"
            if self.side.cluster.storage.get((WORKLOADS.group, WORKLOADS.plural), NAMESPACE, f"workload-{name}"):
                await client.delete(WORKLOADS, f"workload-{name}", namespace=NAMESPACE)
            else:
                await client.create(WORKLOADS, workload(name), namespace=NAMESPACE)

    async def settled(self) -> None:
        """Once nobody changes anything: every rule has the companions that it should have, and says so.

        What is wanted is read at each look: the API server may still decide a request that its sender waits for no more.
        """

        def unsettled() -> list[object]:
            workloads = [obj["spec"]["metadata"]["id"] for obj in self.side.all(WORKLOADS)]
            rules = self.side.all(TENANT_RULES)
            wanted = {
                f"{obj['metadata']['name']}-{workload}": _image(obj["spec"]["template"])
                for obj in rules
                for workload in workloads
            }
            pods = [pod for pod in self.side.all(PODS, NAMESPACE) if not pod["metadata"].get("deletionTimestamp")]
            images = {pod["metadata"]["name"]: _image(pod) for pod in pods}
            counts = {obj["metadata"]["name"]: (obj.get("status") or {}).get("created") for obj in rules}
            return [
                *sorted(wanted.items() ^ images.items()),
                *((name, count, len(workloads)) for name, count in counts.items() if count != len(workloads)),
            ]

        await eventually(unsettled, lambda differences: not differences, seconds=PATIENCE)


def _image(pod: JSON) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def rule(image: str) -> JSON:
    container = {"name": "c", "image": image}
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [container]}}
    return {
        "resourceType": "v1/Pod",
        "workloadTerms": [{"matchExpressions": [{"key": "metadata.id", "operator": "Exists"}]}],
        "dpuSelectionPolicy": "Any",
        "template": template,
        "workloadInfoInject": [{"workloadKey": "state.extra.labels.v", "asAnnotation": {"name": "v"}}],
    }


def workload(id_: str) -> JSON:
    metadata = {
        "id": id_,
        "orchestrator": "kubernetes",
        "resourceType": "v1/Pod",
        "resourceName": id_,
        "resourceNamespace": "default",
    }
    state = {"nodeName": "", "ready": True, "extra": {"labels": {"v": "0"}, "annotations": {}}}
    return WORKLOADS.body({"name": f"workload-{id_}"}, spec={"metadata": metadata, "state": state})


@contextlib.asynccontextmanager
async def staged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """A cluster with a tenant, whose namespace the first controller makes; see `fill`."""
    async with Cluster("infra", bookmark_interval=0.5) as cluster:
        (folder / "admin").write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(folder / "admin"), deadline=PATIENCE) as client:
            side = Side(cluster, client)
            for definition in definitions():
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await client.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
            spec = {"identity": {"names": [tenant_certificate_name(TENANT)]}}
            body = TENANTS.body({"name": TENANT}, spec=spec)
            await client.create(TENANTS, body)
            ledger = Ledger(cluster, (SYSTEM_NAMESPACE, LEASE), "controller-").attach(monkeypatch)
            stage = Stage(folder, side, ledger, random.Random(4))
            confirming = asyncio.create_task(kubelet(side))
            try:
                yield stage
            finally:
                await asyncio.gather(*(replica.end() for replica in stage.replicas.values()))
                confirming.cancel()
                await asyncio.wait({confirming})


async def fill(stage: Stage) -> None:
    """Rules and workloads, once there is somebody who makes the tenant's namespace."""
    key = ("", "namespaces")
    await eventually(lambda: stage.side.cluster.storage.get(key, "", NAMESPACE), seconds=PATIENCE)
    for number in range(RULES):
        body = TENANT_RULES.body({"name": f"r{number}"})
        await stage.side.client.create(TENANT_RULES, {**body, "spec": rule("nginx:0")}, namespace=NAMESPACE)
    for number in range(WORK):
        await stage.side.client.create(WORKLOADS, workload(f"w{number}"), namespace=NAMESPACE)


@contextlib.asynccontextmanager
async def busy(stage: Stage) -> AsyncIterator[None]:
    """While inside, users change things."""
    task = asyncio.create_task(stage.churn())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()
