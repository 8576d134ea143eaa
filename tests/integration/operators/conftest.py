"""AppWrappers of kinds that have operators of their own, which run beside Berth."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers.model import APP_WRAPPERS
from app.devtools.clusters.definitions import APP_WRAPPERS as DEFINITIONS
from app.devtools.clusters.definitions import install
from app.devtools.clusters.parts import running_parts
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.resources import NAMESPACES, PODS
from app.kube.retry import get_or_none
from tests.support.appwrapper_reviews import start_registered
from tests.support.appwrappers import SYSTEM, app_wrapper
from tests.support.control_plane import NAMESPACE, started
from tests.support.processes import Berth
from tests.support.real_operators import SERVICES, real_job_set, real_kube_ray, real_training_operator
from tests.support.waiting import eventually

JSON = dict[str, Any]
LABEL = "workload.codeflare.dev/appwrapper"


class Wrappers:
    """AppWrappers of a cluster with Berth, and with the operators of JobSet, PyTorchJob, RayCluster and RayJob."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def create(self, name: str, *templates: JSON, **annotations: str) -> None:
        await self.client.create(APP_WRAPPERS, app_wrapper(name, *templates, **annotations), namespace=NAMESPACE)

    async def change(self, name: str, spec: JSON) -> None:
        await self.client.patch(APP_WRAPPERS, name, {"spec": spec}, patch_type="merge", namespace=NAMESPACE)

    async def get(self, name: str) -> JSON:
        return await get_or_none(self.client, APP_WRAPPERS, name, namespace=NAMESPACE) or {}

    async def reaches(self, name: str, phase: str) -> JSON:
        """The status in this phase."""
        found = await eventually(lambda: self.get(name), lambda found: found.get("status", {}).get("phase") == phase)
        status: JSON = found["status"]
        return status

    async def has_pods(self, name: str) -> None:
        """Returns when all Pods are there that Berth waits for."""

        async def look() -> JSON:
            return condition((await self.get(name)).get("status") or {}, "PodsReady")

        await eventually(look, lambda ready: ready.get("status") == "True")

    async def pods(self, name: str) -> list[JSON]:
        selector = f"{LABEL}={name}"
        return (await self.client.list_page(PODS, namespace=NAMESPACE, label_selector=selector)).items

    async def delete(self, name: str) -> None:
        await self.client.delete(APP_WRAPPERS, name, namespace=NAMESPACE)

    async def gone(self, name: str) -> None:
        """Delete it; returns when nothing of it is left."""
        await self.delete(name)
        await eventually(lambda: self.get(name), lambda found: not found)
        await eventually(lambda: self.pods(name), lambda pods: not pods)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wrappers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wrappers]:
    folder = tmp_path_factory.mktemp("operators")
    async with started(folder, real=True, services=SERVICES) as plane, contextlib.AsyncExitStack() as stack:
        await plane.client.create(NAMESPACES, NAMESPACES.body({"name": SYSTEM}))
        await install(plane.client, DEFINITIONS)
        for operator in (real_job_set, real_training_operator, real_kube_ray):
            await stack.enter_async_context(operator(plane.client, plane.kubeconfig, folder))
        parts = await stack.enter_async_context(running_parts())
        await start_registered(parts, plane.client, folder / "webhook", kubeconfig=plane.kubeconfig)
        flags = (f"--kubeconfig={plane.kubeconfig}", "--bind-address=127.0.0.1", "--health-check-port=0")
        berth = Berth("controller", *flags, "--controllers=appwrappers", f"--namespace={SYSTEM}")
        try:
            await berth.until_ready()
            yield Wrappers(plane.client)
        finally:
            assert await berth.end() == 0, berth.lines[-20:]
