"""`python -m bench.lists`: what a list that finds nothing new costs a role, in processor time and bytes.

10,000 objects in pages of 500, from the bytes of the pages to the compared store. The API server's part is not in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, cast

from app.kube.client import KubeClient, Page
from app.kube.kit import Kit
from app.kube.reflector import PAGE_SIZE, RELIST, Reflector, Scope
from app.kube.resources import PODS, Resource
from app.kube.store import Store
from app.tenancy.agent.views import project_pod
from app.tenancy.gateway.caches import project_known, view_pod
from app.wire import JSON, decode_json, encode_json
from app.workloads.controller.caches import WorkloadCaches
from app.workloads.model import WORKLOADS
from app.workloads.settings import DEFAULT_QUOTA
from bench import companions_objects as objects
from bench.caches import pod_of
from bench.companions_memory import stored

COUNT = 10_000
ROUNDS = 5


class Pages:
    """The answers of an API server that holds these objects; a watch says nothing."""

    def __init__(self, bodies: list[JSON]) -> None:
        chunks = [bodies[start : start + PAGE_SIZE] for start in range(0, len(bodies), PAGE_SIZE)]
        self._pages = [encode_json({"items": chunk}) for chunk in chunks]
        self.bytes = sum(len(page) for page in self._pages)

    async def list_page(self, _resource: Resource, *, continue_token: str = "", **_more: Any) -> Page:
        number = int(continue_token or 0)
        following = str(number + 1) if number + 1 < len(self._pages) else ""
        return Page(decode_json(self._pages[number])["items"], "1", following)

    async def watch(self, _resource: Resource, **_more: Any) -> AsyncIterator[bytes]:
        yield b""


def main() -> None:
    workloads = [objects.workload(number, rules=200) for number in range(COUNT)]
    companions = objects.companions(workloads, [objects.rule(number, rules=200) for number in range(200)])[:COUNT]
    caches = WorkloadCaches(Kit(cast("KubeClient", None)), DEFAULT_QUOTA)
    rows: list[tuple[str, Resource, Store[Any], list[JSON]]] = [
        ("controller: Workloads", WORKLOADS, caches.workloads, workloads),
        ("controller: companions", PODS, caches.companions, companions),
        ("gateway: Workloads", WORKLOADS, Store(project_known), workloads),
        ("gateway: companions", PODS, Store(view_pod), companions),
        ("agent: Pods", PODS, Store(lambda pod: project_pod(pod, keep_finished=False)), [pod_of(w) for w in workloads]),
    ]
    usual = sum(RELIST) / 2
    for name, resource, store, bodies in rows:
        seconds, size = asyncio.run(_cost(resource, store, [stored(body) for body in bodies]))
        print(f"{name:26}{size / 2**20:6.1f} MiB{seconds / usual:9.3%} of a core on average")


async def _cost(resource: Resource, store: Store[Any], bodies: list[JSON]) -> tuple[float, int]:
    pages = Pages(bodies)
    reflector = Reflector(cast("KubeClient", pages), Scope(resource), store)
    await reflector._list()  # noqa: SLF001 - without the watch and the pauses
    began = time.process_time()
    for _ in range(ROUNDS):
        await reflector._list()  # noqa: SLF001
    return (time.process_time() - began) / ROUNDS, pages.bytes


if __name__ == "__main__":
    main()
