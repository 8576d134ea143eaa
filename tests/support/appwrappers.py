"""A cluster with AppWrappers (the sandbox's API server, over HTTP), a controller on the clock of its loop, and hands."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest_asyncio

from app.appwrappers.controller.controller import AppWrappers
from app.appwrappers.kueue.controller import WorkloadsOfAppWrappers
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS
from app.appwrappers.permissions import KINDS
from app.definitions import read_definitions
from app.devtools.sandbox.server import Cluster
from app.kube.conditions import condition
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from app.kube.transport import connect
from tests.support.running import at_work
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import CountingClient, Infra

JSON = dict[str, Any]
T = TypeVar("T")
NAMESPACE, SYSTEM = "default", "berth-system"
CONFIG = "appwrapper-operator-config"
JOBS = Resource("batch", "v1", "jobs", "Job")
SERVICES = Resource("", "v1", "services", "Service")
SHORT = {"retryPausePeriodDuration": "1s", "admissionGracePeriodDuration": "5s", "failureGracePeriodDuration": "1s"}
"""Annotations of an AppWrapper that is reset soon."""
_PREFIX = "workload.codeflare.dev.appwrapper/"


class AppWrapperCluster(Infra):
    """No controller but ours runs there: what becomes of Pods and Jobs is told by `ended` and `patched`."""

    @contextlib.asynccontextmanager
    async def controller(
        self, client: CountingClient | None = None, *, events: bool = False, **options: Any
    ) -> AsyncIterator[CountingClient]:
        """With `events` it writes Events."""
        async with self.connected(client) as own:
            recorder = EventRecorder(lambda: own, role="controller", instance="i") if events else None
            kit = Kit(own, events=recorder, resync=options.pop("resync", None))
            AppWrappers(kit, config=CONFIG, namespace=SYSTEM, now=self.now, **options)
            async with at_work(kit, recorder):
                yield own

    @contextlib.asynccontextmanager
    async def workloads(
        self, client: CountingClient | None = None, *, events: bool = False
    ) -> AsyncIterator[CountingClient]:
        """The workload controller at work; its result is its client. With `events` it writes Events."""
        async with self.connected(client) as own:
            recorder = EventRecorder(lambda: own, role="controller", instance="i") if events else None
            kit = Kit(own, resync=None, events=recorder)
            WorkloadsOfAppWrappers(kit, now=self.now)
            async with at_work(kit, recorder):
                yield own

    async def wrap(self, name: str, *templates: JSON, suspend: bool = False, **annotations: str) -> JSON:
        """Create an AppWrapper of these templates; annotations are given without their prefix."""
        body = app_wrapper(name, *templates, suspend=suspend, **annotations)
        return await self.admin.create(APP_WRAPPERS, body, namespace=NAMESPACE)

    async def suspend(self, name: str) -> None:
        await self.patched(APP_WRAPPERS, name, {"spec": {"suspend": True}})

    async def resume(self, name: str) -> None:
        await self.patched(APP_WRAPPERS, name, {"spec": {"suspend": False}})

    async def patched(self, resource: Resource, name: str, body: JSON, **options: Any) -> JSON:
        return await self.admin.patch(resource, name, body, patch_type="merge", namespace=NAMESPACE, **options)

    def object(self, resource: Resource, name: str) -> JSON | None:
        return next((one for one in self.stored(resource, NAMESPACE) if one["metadata"]["name"] == name), None)

    def phase(self, name: str) -> str:
        return str(self.status(APP_WRAPPERS, name).get("phase", ""))

    def component(self, name: str, index: int = 0) -> JSON:
        """The status of a component."""
        found: JSON = self.status(APP_WRAPPERS, name)["componentStatus"][index]
        return found

    def condition(self, name: str, kind: str) -> JSON:
        return condition(self.status(APP_WRAPPERS, name), kind)

    async def reaches(self, name: str, *phases: str) -> str:
        return await eventually(lambda: self.phase(name), lambda phase: phase in phases)

    async def says(self, name: str, kind: str, reason: str) -> JSON:
        return await eventually(lambda: self.condition(name, kind), lambda found: found.get("reason") == reason)

    async def running(self, name: str) -> None:
        """A Pod runs and is ready."""
        ready = [{"type": "Ready", "status": "True"}]
        await self.set_status(name, {"phase": "Running", "conditions": ready}, NAMESPACE)

    async def ended(self, name: str, code: int = 0) -> None:
        """The one container of a Pod has ended with this code."""
        terminated = {"exitCode": code, "reason": "Error" if code else "Completed"}
        status = {"name": "c", "state": {"terminated": terminated}, "restartCount": 0, "ready": False}
        status |= {"image": "busybox", "imageID": ""}
        phase = "Failed" if code else "Succeeded"
        await self.set_status(name, {"phase": phase, "containerStatuses": [status]}, NAMESPACE)

    async def there(self, resource: Resource, name: str, *, other_than: str = "") -> JSON:
        """The object, as soon as it exists; `other_than` is a UID that does not count."""
        found = await eventually(
            lambda: self.object(resource, name), lambda one: one and one["metadata"]["uid"] != other_than
        )
        assert found is not None
        return found


def app_wrapper(name: str, *templates: JSON, suspend: bool = False, **annotations: str) -> JSON:
    said = {f"{_PREFIX}{key}": value for key, value in annotations.items()}
    return APP_WRAPPERS.body(
        {"name": name, "annotations": said},
        spec={"suspend": suspend, "components": [{"template": one} for one in templates]},
    )


def pod(name: str = "", **metadata: Any) -> JSON:
    said: JSON = ({"name": name} if name else {}) | metadata
    return {"apiVersion": "v1", "kind": "Pod", "metadata": said, "spec": pod_spec()}


def pod_spec() -> JSON:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", "sleep 5"]}
    return {"restartPolicy": "Never", "containers": [container]}


def job(name: str, **spec: Any) -> JSON:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod_spec()}} | spec,
    }


def service(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


def labeled(name: str) -> Callable[[JSON], bool]:
    """Whether an object says that it is of this AppWrapper."""
    return lambda obj: obj["metadata"].get("labels", {}).get(APP_WRAPPER) == name


@contextlib.asynccontextmanager
async def open_cluster(folder: Path) -> AsyncIterator[AppWrapperCluster]:
    """The kubeconfig is written into the folder."""
    async with Cluster("tenant1") as served:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(served.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as admin:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
            await admin.create(NAMESPACES, body)
            for definition in read_definitions(KINDS):
                await admin.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            yield AppWrapperCluster(served, kubeconfig, admin)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[AppWrapperCluster]:
    async with open_cluster(tmp_path) as opened:
        yield opened


def result_of(steps: Generator[object, Any, T], *outcomes: object) -> T:
    """What a generator returns, where these come of what it asks for."""
    try:
        for outcome in (None, *outcomes):
            steps.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it asks for more")
