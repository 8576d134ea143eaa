"""`python -m bench.appwrappers`: how long the controller takes to run AppWrappers, against a bare client.

Both have an API server of their own with the same AppWrappers. The time of the controller begins when its caches are
full and ends when all AppWrappers are Running. The bare client then sends the same writes, so many at a time: the
statuses and objects that the controller has left, without a watch, a cache, a queue or a read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from app.appwrappers.model import APP_WRAPPER_UID, APP_WRAPPERS, FINALIZER
from app.definitions import read_definitions
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, PODS, SERVICES, Resource
from app.kube.retry import every_item
from app.kube.transport import connect
from app.wire import JSON
from bench.companions_processes import Running, api_servers, controllers
from bench.rounds import MeasureError
from bench.servers import metrics

_KINDS = (PODS, SERVICES, CONFIG_MAPS)
_OURS = {"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"}
_CONTROLLER = ("appwrappers", ("--wrapped-kinds", "pods,services,configmaps"))
_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Size:
    app_wrappers: int = 1000
    workers: int = 16
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the clock; `resident_kib` is what the controller has more for each AppWrapper than without any."""

    ours: float
    bare: float
    resident_kib: float

    @property
    def ratio(self) -> float:
        return self.bare / self.ours


def app_wrapper(number: int) -> JSON:
    """Of three components: a Pod, a Service and a ConfigMap."""
    name = f"w{number}"
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    templates: list[JSON] = [
        {"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": "Never", "containers": [container]}},
        {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"}},
    ]
    components = [{"template": one | {"metadata": {"name": name}}} for one in templates]
    return APP_WRAPPERS.body({"name": name}, spec={"components": components})


async def at_a_time(jobs: list[JSON], work: object, *, workers: int) -> None:
    waiting = iter(jobs)

    async def worker() -> None:
        for job in waiting:
            await work(job)  # type: ignore[operator]  # one of the two functions below

    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(worker())


async def seed(client: KubeClient, size: Size) -> None:
    for definition in read_definitions((APP_WRAPPERS,)):
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def create(body: JSON) -> None:
        await client.create(APP_WRAPPERS, body, namespace="default")

    await at_a_time([app_wrapper(number) for number in range(size.app_wrappers)], create, workers=size.workers)


async def listed(client: KubeClient, resource: Resource) -> list[JSON]:
    pages = every_item(lambda token: client.list_page(resource, namespace="default", continue_token=token))
    return [one async for one in pages]


async def all_run(size: Size, process: Running, health: int) -> float:
    """When (Unix seconds) all of them were Running, as the controller's cache shows it."""
    begin = time.monotonic()
    wanted = f'appwrappers{{phase="Running"}} {float(size.app_wrappers)}'
    while True:
        if wanted in await asyncio.to_thread(metrics, health):
            return time.time()
        if process.process.poll() is not None or time.monotonic() - begin > _PATIENCE:
            raise MeasureError(f"they do not run:\n{process.tail()}")
        await asyncio.sleep(0.1)


async def replay(client: KubeClient, wrappers: list[JSON], objects: dict[str, list[JSON]], size: Size) -> float:
    """Seconds in which the bare client sends the same writes for all AppWrappers."""
    mine = {one["metadata"]["name"]: one["metadata"]["uid"] for one in await listed(client, APP_WRAPPERS)}

    async def write(wrapper: JSON) -> None:
        name, status = wrapper["metadata"]["name"], wrapper["status"]
        first = {"phase": "Suspended", "componentStatus": status["componentStatus"]}

        async def tell(said: JSON) -> None:
            body = {"status": said}
            await client.patch(APP_WRAPPERS, name, body, patch_type="merge", namespace="default", subresource="status")

        await tell(first)
        finalizers = {"metadata": {"finalizers": [FINALIZER]}}
        await client.patch(APP_WRAPPERS, name, finalizers, patch_type="merge", namespace="default")
        await tell(status | {"phase": "Resuming"})
        for resource, body in zip(_KINDS, objects[name], strict=True):
            body["metadata"]["ownerReferences"][0]["uid"] = mine[name]
            await client.create(resource, body, namespace="default")
        await tell(status)

    begin = time.monotonic()
    await at_a_time(wrappers, write, workers=size.workers)
    return time.monotonic() - begin


def bare(obj: JSON, resource: Resource) -> JSON:
    """The object as it was created."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OURS}
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if not key.startswith("clusterIP")}
    kept = {"spec": spec} if spec else {"data": obj.get("data")}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata} | kept


async def one_round(place: Path, size: Size, empty_mib: float) -> Measured:
    with api_servers(place, ["ours", "bare"]) as (ours, other):
        for api in (ours, other):
            async with await connect(kubeconfig=str(api.kubeconfig)) as client:
                await seed(client, size)
        async with await connect(kubeconfig=str(ours.kubeconfig)) as client:
            with controllers(ours, place, *_CONTROLLER, workers=size.workers) as (process, health):
                end = await all_run(size, process, health)
                seconds = end - process.said(msg="controller starts", controller="appwrappers")
                resident = process.resident_mib
                wrappers = await listed(client, APP_WRAPPERS)
                by_name: dict[str, list[JSON]] = {one["metadata"]["name"]: [] for one in wrappers}
                for resource in _KINDS:
                    for obj in await listed(client, resource):
                        if APP_WRAPPER_UID in (obj["metadata"].get("labels") or {}):
                            by_name[obj["metadata"]["name"]].append(bare(obj, resource))
        async with await connect(kubeconfig=str(other.kubeconfig)) as client:
            plain = await replay(client, wrappers, by_name, size)
    return Measured(seconds, plain, (resident - empty_mib) * 1024 / size.app_wrappers)


async def measure(place: Path, size: Size) -> list[Measured]:
    with api_servers(place / "empty", ["empty"]) as (api,):
        async with await connect(kubeconfig=str(api.kubeconfig)) as client:
            await seed(client, Size(app_wrappers=0))
        with controllers(api, place / "empty", *_CONTROLLER, workers=size.workers) as (process, _):
            await asyncio.sleep(2.0)
            empty = process.resident_mib
    return [await one_round(place / f"round-{number}", size, empty) for number in range(size.rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app-wrappers", type=int, default=Size().app_wrappers)
    parser.add_argument("--rounds", type=int, default=Size().rounds)
    given = parser.parse_args()
    size = Size(app_wrappers=given.app_wrappers, rounds=given.rounds)
    with tempfile.TemporaryDirectory() as place:
        rounds = uvloop.run(measure(Path(place), size))
    found = {
        "app wrappers": size.app_wrappers,
        "bare client / controller": round(statistics.median(one.ratio for one in rounds), 2),
        "controller, seconds": [round(one.ours, 2) for one in rounds],
        "bare client, seconds": [round(one.bare, 2) for one in rounds],
        "resident KiB for each": round(statistics.median(one.resident_kib for one in rounds), 1),
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
