"""What `bench.rmd` measures: the objects of a cluster, and the same requests from a client that does nothing else."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from app.definitions import read_definitions
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, PODS
from app.rmd.daemon.wire import body_of
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS, uuid_of
from app.rmd.requests import Settings
from app.wire import JSON
from bench.appwrappers import at_a_time
from bench.rounds import MeasureError

_POOL = (0, 0)
"""The shared pool, which has no bound on the number of reservations."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int = 50
    each: int = 200
    workers: int = 16
    rounds: int = 3

    @property
    def reservations(self) -> int:
        return self.nodes * self.each


async def seed(client: KubeClient, urls: list[str], size: Size) -> None:
    """Nodes, the Pods of their daemons, and RmdWorkloads."""
    for definition in read_definitions((RMD_WORKLOADS, RMD_NODE_STATES, RMD_CONFIGS)):
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    async def node(at: JSON) -> None:
        container = {"name": "rmd", "image": "rmd", "ports": [{"containerPort": at["port"]}]}
        pod = PODS.body(
            {"name": f"rmd-{at['name']}", "labels": {"name": "rmd-pod"}},
            spec={"nodeName": at["name"], "containers": [container]},
        )
        status = {"status": {"podIP": "127.0.0.1", "phase": "Running"}}
        name = pod["metadata"]["name"]
        await client.create(NODES, NODES.body({"name": at["name"]}))
        await client.create(PODS, pod, namespace="default")
        await client.patch(PODS, name, status, patch_type="merge", namespace="default", subresource="status")

    async def workload(at: JSON) -> None:
        spec = {"coreIds": [str(at["core"])], "rdt": {"cache": dict(zip(("max", "min"), _POOL, strict=True))}}
        body = RMD_WORKLOADS.body({"name": at["name"]}, spec={**spec, "nodes": [at["node"]]})
        await client.create(RMD_WORKLOADS, body, namespace="default")

    nodes: list[JSON] = [{"name": f"n{at}", "port": int(url.rpartition(":")[2])} for at, url in enumerate(urls)]
    await at_a_time(nodes, node, workers=size.workers)
    wanted: list[JSON] = [
        {"name": f"{one['name']}-{core}", "node": one["name"], "core": core}
        for one in nodes
        for core in range(size.each)
    ]
    await at_a_time(wanted, workload, workers=size.workers)


async def replay(urls: list[str], size: Size) -> float:
    """Seconds in which the bare client sends the same requests."""
    settings = Settings(cache=_POOL)

    async def fill(session: aiohttp.ClientSession, node: int, url: str) -> None:
        for core in range(size.each):
            body = body_of(uuid_of("default", f"n{node}-{core}"), [str(core)], settings)
            async with session.post(f"{url}/v1/workloads", json=body) as answer:
                await answer.read()
                if answer.status != 201:
                    raise MeasureError(f"HTTP {answer.status}")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session, asyncio.TaskGroup() as tasks:
        begin = time.monotonic()
        for node, url in enumerate(urls):
            tasks.create_task(fill(session, node, url))
    return time.monotonic() - begin
