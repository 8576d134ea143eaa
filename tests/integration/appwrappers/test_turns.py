"""Users beside each other: one with very many objects, and one with a single Pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from app.appwrappers.controller.caches import AppWrapperCaches
from app.appwrappers.controller.controller import AppWrappers
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.sizes import MOST_COMPONENTS
from app.kube.kit import Kit
from app.kube.resources import NAMESPACES
from tests.support.appwrappers import CONFIG, NAMESPACE, SERVICES, SYSTEM, AppWrapperCluster, app_wrapper, pod, service
from tests.support.running import at_work
from tests.support.waiting import eventually

WORKERS = 16
LOUD = 17
_WRITES = ("create", "patch", "delete")


class Beside:
    """A controller, and the namespaces of the requests that it was answered, in their order."""

    def __init__(self, cluster: AppWrapperCluster) -> None:
        self.cluster, self.answered = cluster, list[str]()
        self.seen: dict[str, int] = {}
        """By namespace: how many requests were answered when the cache showed its first AppWrapper."""

    def controller(self, client: Any) -> tuple[Kit, AppWrapperCaches]:
        for name in _WRITES:
            setattr(client, name, self._noting(getattr(client, name)))
        kit = Kit(client, workers=WORKERS, resync=None)
        caches = AppWrappers(kit, config=CONFIG, namespace=SYSTEM).caches
        caches.app_wrappers.subscribe(lambda _event, key, _old, _new: self.seen.setdefault(key[0], len(self.answered)))
        return kit, caches

    def _noting(self, send: Callable[..., Any]) -> Callable[..., Any]:
        async def noted(*arguments: Any, namespace: str = "", **options: Any) -> Any:
            try:
                return await send(*arguments, namespace=namespace, **options)
            finally:
                self.answered.append(namespace)

        return noted

    async def wrap(self, namespace: str, name: str, *templates: dict[str, Any]) -> None:
        await self.cluster.admin.create(APP_WRAPPERS, app_wrapper(name, *templates), namespace=namespace)

    def phase(self, namespace: str, name: str) -> str:
        for one in self.cluster.stored(APP_WRAPPERS, namespace):
            if one["metadata"]["name"] == name:
                return str((one.get("status") or {}).get("phase", ""))
        return ""

    def of_others(self, namespace: str) -> int:
        """Requests of other namespaces that were answered since the cache has shown the first one of this."""
        return sum(one != namespace for one in self.answered[self.seen[namespace] :])


async def test_a_pod_waits_for_a_bounded_number_of_requests_of_another_user(cluster: AppWrapperCluster) -> None:
    """However many AppWrappers of as many objects as one may have another user has."""
    beside = Beside(cluster)
    for name in ("alice", "bob"):
        await cluster.admin.create(NAMESPACES, {"metadata": {"name": name}})
    for number in range(LOUD):
        services = [service(f"s-{number}-{index}") for index in range(MOST_COMPONENTS)]
        await beside.wrap("alice", f"loud-{number}", *services)
    async with cluster.connected(None) as client, at_work(beside.controller(client)[0]):
        await eventually(lambda: len(beside.answered) > 8 * WORKERS)
        await beside.wrap("bob", "one", pod("p"))
        await eventually(lambda: beside.phase("bob", "one") == "Running")
        between, own = beside.of_others("bob"), beside.answered.count("bob")
        assert len(cluster.stored(SERVICES, "alice")) < LOUD * MOST_COMPONENTS, "alice was done before"
    # A round of requests until each of bob's has its place, and a round that is answered beside it.
    assert between <= 2 * WORKERS * (own + 1)


async def test_requests_of_a_user_without_an_answer_hold_up_no_other_user(cluster: AppWrapperCluster) -> None:
    beside = Beside(cluster)
    for name in ("alice", "bob"):
        await cluster.admin.create(NAMESPACES, {"metadata": {"name": name}})
    async with cluster.connected(None) as client:
        send, hanging = client.session.json, 0

        async def held(request: Any, **options: Any) -> Any:
            nonlocal hanging
            if request.verb == "PATCH" and "/alice/" in request.path:
                hanging += 1
                await asyncio.Event().wait()
            return await send(request, **options)

        client.session.json = held  # type: ignore[method-assign]
        for number in range(2 * WORKERS):
            await beside.wrap("alice", f"loud-{number}", pod(f"p-{number}"))
        async with at_work(beside.controller(client)[0]):
            await eventually(lambda: hanging > WORKERS // 2)
            await beside.wrap("bob", "one", pod("p"))
            await eventually(lambda: beside.phase("bob", "one") == "Running")
            assert hanging < WORKERS


async def test_creation_ends_where_it_is_suspended(cluster: AppWrapperCluster) -> None:
    beside, client = Beside(cluster), await cluster.client()
    create, after = client.create, 5
    async with client:
        kit, caches = beside.controller(client)

        async def suspended(resource: Any, body: Any, **options: Any) -> Any:
            answer = await create(resource, body, **options)
            if len(cluster.stored(SERVICES, NAMESPACE)) == after:
                await cluster.suspend("many")
                await eventually(lambda: caches.app_wrappers.get(NAMESPACE, "many").suspend)
            return answer

        client.create = suspended  # type: ignore[method-assign]
        await cluster.wrap("many", *(service(f"s-{index}") for index in range(50)))
        async with at_work(kit):
            await cluster.says("many", "ResourcesDeployed", "Suspended")
            assert client.counts["create services"] == after
            assert cluster.stored(SERVICES, NAMESPACE) == []
