"""The chart through the Helm engine itself, and API servers to put it on.

Tests that take `server` run against the sandbox, and where KUBEBUILDER_ASSETS names the binaries, against a real
kube-apiserver too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import helm_python
import pytest
import pytest_asyncio
import yaml

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.transport import connect
from tests.support.paths import ROOT
from tests.support.real_apiserver import real_api_servers
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
CHART = ROOT / "charts" / "berth"
NAMESPACE = "berth-system"
ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
SERVERS = ["sandbox", *([pytest.param("real", marks=pytest.mark.conformance)] if ASSETS else [])]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Safe, and ten times as fast where libyaml is."""


class Rendered(list[JSON]):
    """The objects of a rendering; hooks among them."""

    def of(self, kind: str) -> list[JSON]:
        return [obj for obj in self if obj["kind"] == kind]

    def one(self, kind: str, name: str = "") -> JSON:
        found = [obj for obj in self.of(kind) if name in ("", obj["metadata"]["name"])]
        assert len(found) == 1, (kind, name, [obj["metadata"]["name"] for obj in found])
        return found[0]

    def workloads(self) -> list[JSON]:
        """What runs roles: Deployments and DaemonSets, also the one that an RmdConfig installs out of a ConfigMap."""
        texts = [one["data"]["rmd-node-agent-ds.yaml"] for one in self.of("ConfigMap") if "rmd-ds.yaml" in one["data"]]
        return self.of("Deployment") + self.of("DaemonSet") + [yaml.load(text, Loader=LOADER) for text in texts]

    def pods(self) -> list[JSON]:
        """The Pod templates, and the Pods."""
        return [*(obj["spec"]["template"] for obj in (*self.workloads(), *self.of("Job"))), *self.of("Pod")]

    def container(self, role: str, name: str = "berth") -> JSON:
        (workload,) = (one for one in self.workloads() if one["metadata"]["name"] == f"{name}-{role}")
        (found,) = workload["spec"]["template"]["spec"]["containers"]
        return found


Render = Callable[..., Rendered]


@pytest.fixture(scope="session")
def chart() -> helm_python.Chart:
    return helm_python.Chart.load(CHART)


@pytest.fixture(scope="session")
def render(chart: helm_python.Chart) -> Render:
    return rendering(chart)


@functools.cache
def texts_of(chart: helm_python.Chart, values: str, name: str, namespace: str) -> dict[str, str]:
    """The rendered files by their paths; `values` is JSON, so that the same ones are rendered once."""
    found: dict[str, str] = chart.render(json.loads(values), name=name, namespace=namespace)
    return found


def notes_of(chart: helm_python.Chart, values: JSON) -> str:
    """What `helm install` prints at its end."""
    return texts_of(chart, json.dumps(values), "berth", NAMESPACE)["berth/templates/NOTES.txt"]


def rendering(chart: helm_python.Chart) -> Render:
    """Renders values into objects, as `helm template` does."""

    @functools.cache
    def objects_of(values: str, name: str, namespace: str) -> str:
        texts = texts_of(chart, values, name, namespace)
        manifests = [text for path, text in sorted(texts.items()) if not path.endswith("NOTES.txt")]
        # Helm ends each file with a newline, which ends a text at its end.
        return json.dumps([obj for text in manifests for obj in yaml.load_all(f"{text}\n", Loader=LOADER) if obj])

    def rendered(values: JSON | None = None, *, name: str = "berth", namespace: str = NAMESPACE) -> Rendered:
        return Rendered(json.loads(objects_of(json.dumps(values or {}), name, namespace)))  # each caller's own

    return rendered


class Server:
    """A running API server: `kubeconfig` is an administrator's file, `client` acts by it; `cluster` is the sandbox's."""

    def __init__(self, kubeconfig: Path, client: KubeClient, cluster: Cluster | None = None) -> None:
        self.kubeconfig, self.client, self.cluster = kubeconfig, client, cluster

    def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """A file by which one acts as a service account."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"]["as"] = f"system:serviceaccount:{namespace}:{account}"
        path = self.kubeconfig.with_name(f"{account}.kubeconfig")
        path.write_text(yaml.safe_dump(config))
        return path

    async def helm(self, action: Callable[[helm_python.Config], Any], *, namespace: str = NAMESPACE) -> Any:
        """What `action` returns; it runs in a thread, because the engine blocks."""

        def run() -> Any:
            with helm_python.Config(kubeconfig_path=self.kubeconfig, namespace=namespace) as config:
                return action(config)

        return await asyncio.to_thread(run)

    async def install(self, values: JSON | None = None, *, chart: Path = CHART) -> Any:
        return await self.helm(lambda helm: helm.install(chart, "berth", values or {}, create_namespace=True))

    async def upgrade(self, values: JSON | None = None) -> Any:
        return await self.helm(lambda helm: helm.upgrade(CHART, "berth", values or {}))

    async def served(self, resource: Resource) -> None:
        """Returns when a fresh definition is served."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self.client.list_page(resource)
                except ApiError:
                    await asyncio.sleep(0.05)
                else:
                    return


@contextlib.asynccontextmanager
async def _sandboxes(directory: Path, names: Sequence[str]) -> AsyncIterator[list[Server]]:
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for name in names:
            cluster = await stack.enter_async_context(Cluster(name))
            kubeconfig = directory / name / "admin.kubeconfig"
            kubeconfig.parent.mkdir()
            kubeconfig.write_text(cluster.kubeconfig())
            client = await stack.enter_async_context(await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE))
            servers.append(Server(kubeconfig, client, cluster))
        yield servers


@contextlib.asynccontextmanager
async def _real(directory: Path, names: Sequence[str]) -> AsyncIterator[list[Server]]:
    starting = real_api_servers(Path(ASSETS), directory, names)
    kubeconfigs = await asyncio.to_thread(starting.__enter__)
    try:
        async with contextlib.AsyncExitStack() as stack:
            yield [
                Server(path, await stack.enter_async_context(await connect(kubeconfig=str(path), deadline=PATIENCE)))
                for path in kubeconfigs.values()
            ]
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)


@pytest_asyncio.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Server]:
    """The sandbox's API server, for what a real one would not tell differently."""
    async with _sandboxes(tmp_path, ["chart"]) as (server,):
        yield server


@pytest_asyncio.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    async with (_sandboxes if request.param == "sandbox" else _real)(tmp_path, ["chart"]) as (server,):
        yield server


@pytest_asyncio.fixture(params=SERVERS)
async def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Server]]:
    """An infra cluster and a tenant cluster."""
    async with (_sandboxes if request.param == "sandbox" else _real)(tmp_path, ["infra", "tenant"]) as servers:
        yield servers
