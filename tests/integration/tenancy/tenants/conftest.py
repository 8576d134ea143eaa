"""An infra cluster that knows Tenants, and the command line against it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import app.tenancy
from app.cli.main import run
from app.definitions import read_definitions
from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.kit import Kit
from app.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
)
from app.kube.transport import connect
from app.placement.model import HOST_LABEL
from app.workloads.model import TENANTS
from tests.support.tenants import tenants_kit
from tests.support.waiting import eventually

JSON = dict[str, Any]
DEFINITION = Path(app.tenancy.__file__ or "").parent / "crds" / "tenants.yaml"


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


class Infra:
    """The cluster, a client, and `berth tenant` typed at it."""

    def __init__(
        self, served: Cluster, client: KubeClient, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.served = served
        self.client = client
        self.kubeconfig = kubeconfig
        self._capsys = capsys

    async def berth(self, command: str, *arguments: str, by: Path | None = None) -> Result:
        """`by` is the kubeconfig of another user than the administrator."""
        line = ["tenant", command, *arguments, "--kubeconfig", str(by or self.kubeconfig)]
        self._capsys.readouterr()
        status = await asyncio.to_thread(run, line)
        captured = self._capsys.readouterr()
        return Result(status, captured.out, captured.err)

    async def user_with(self, *rules: JSON) -> Path:
        """The kubeconfig of a user who has these rights and no others."""
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}
        await self.client.create(CLUSTER_ROLES, {"metadata": {"name": "limited"}, "rules": list(rules)})
        binding = {"metadata": {"name": "limited"}, "roleRef": role, "subjects": [subject]}
        await self.client.create(CLUSTER_ROLE_BINDINGS, binding)
        path = self.kubeconfig.with_name("limited.kubeconfig")
        path.write_text(self.served.kubeconfig("limited", groups=()))
        return path

    async def deployment(self, name: str, namespace: str) -> None:
        """A Deployment of a release, as far as its labels say."""
        labels = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/instance": "berth"}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c"}]}},
        }
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self.client.create(DEPLOYMENTS, body, namespace=namespace)

    async def find(self, resource: Any, name: str, *, namespace: str | None = None) -> JSON | None:
        try:
            return await self.client.get(resource, name, namespace=namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def tenant(self, name: str = "tenant1") -> JSON:
        return await self.client.get(TENANTS, name)

    async def spec(self, name: str = "tenant1") -> JSON:
        return (await self.tenant(name))["spec"]

    async def change(self, name: str, **spec: Any) -> JSON:
        return await self.client.patch(TENANTS, name, {"spec": spec}, patch_type="merge")

    async def namespace(self, name: str, **labels: str) -> JSON:
        return await self.client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})

    async def node(self, name: str, host: str, **labels: str) -> None:
        await self.client.create(NODES, {"metadata": {"name": name, "labels": {HOST_LABEL: host, **labels}}})

    async def labels(self, name: str) -> dict[str, str]:
        return (await self.client.get(NODES, name))["metadata"].get("labels", {})


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> AsyncIterator[Infra]:
    monkeypatch.chdir(tmp_path)
    async with Cluster("infra", bookmark_interval=1.0) as served:
        kubeconfig = tmp_path / "infra.kubeconfig"
        kubeconfig.write_text(served.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=5) as client:
            (definition,) = read_definitions([TENANTS])
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            yield Infra(served, client, kubeconfig, capsys)


@pytest_asyncio.fixture
async def controlled(cluster: Infra) -> AsyncIterator[Callable[..., Awaitable[Kit]]]:
    """Starts a controller at the cluster; all are stopped in the end."""
    tasks = []

    async def start(*, client: Any = None, **arguments: Any) -> Kit:
        controller = tenants_kit(client or cluster.client, **arguments)
        tasks.append(asyncio.create_task(controller.run()))
        await eventually(lambda: not controller.waiting())
        return controller

    yield start
    for task in tasks:
        assert not task.done(), "a controller has ended by itself"
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
