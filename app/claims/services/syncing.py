"""One Service: its plan is made and written; what is wrong with it becomes an Event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable

from app.claims.services import metrics
from app.claims.services.caches import Caches
from app.claims.services.model import Problem, Service
from app.claims.services.planning import Plan, plan_service
from app.claims.services.saying import Saying
from app.claims.services.slices import EndpointSlice, Wanted, stored_endpoint_slice
from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.resources import ENDPOINT_SLICES
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key
from app.kube.walls import Apart
from app.text import enumerated


class ServiceSync:
    """Creates first and deletes last, so that an address that moves between slices is always in one."""

    def __init__(self, client: KubeClient, caches: Caches, saying: Saying) -> None:
        self._client, self._caches, self._saying = client, caches, saying
        self._taken: dict[Key, set[str]] = {}
        """Names of slices that are not ours, by Service."""

    async def reconcile(self, key: Key) -> Result:
        service = self._caches.services.get(*key)
        if service is None:
            self._forget(key)
            await self._delete(self._caches.slices_of(key))
        elif service.wish is None:
            await self._refuse(service, service.problem)
        else:
            plan = plan_service(self._caches.inputs(service, service.wish, taken=self._taken.get(key, ())))
            there, refused = bool(service.wish.device) or self._caches.attached(service.wish.network), ""
            try:
                refused = await self._write(service, plan)
            finally:
                said = self._saying.of_plan(service, service.wish, plan, there=there, refused=refused)
                skipped = Counter[str](reason for _, reason in plan.skipped)
                metrics.served(key, ready=plan.ready, unready=plan.unready, skipped=skipped, problem=bool(said))
            if refused:
                raise Terminal(refused)
        return Done()

    def _forget(self, key: Key) -> None:
        self._taken.pop(key, None)
        self._saying.forget(key)
        metrics.forget(key)

    async def _refuse(self, service: Service, problem: Problem | None) -> None:
        metrics.has_problem(service.key)
        if problem is not None:
            self._saying.of_problem(service, problem)
            if problem.refused:
                await self._delete(self._caches.slices_of(service.key))

    async def _write(self, service: Service, plan: Plan) -> str:
        """What the API server says of the slices that it does not take; "" where it has taken all.

        One that it does not take costs its own addresses, and what is to be deleted after it.
        """
        apart, refusals = Apart(), list[str]()
        for name, wanted in plan.create.items():
            with apart.step():
                refusals.append(await self._taken_or(self._create(service, name, wanted)))
        for found, wanted in plan.change:
            with apart.step():
                refusals.append(await self._taken_or(self._change(found, wanted)))
        apart.end()
        refused = [text for text in dict.fromkeys(refusals) if text]
        if not refused:
            await self._delete(plan.delete)
        return enumerated(refused)

    async def _taken_or(self, write: Awaitable[None]) -> str:
        """What the API server says where it does not take the slice. Raises ApiError for what may pass."""
        try:
            await write
        except ApiError as error:
            if error.rejected:
                return str(error)
            raise
        return ""

    async def _create(self, service: Service, name: str, wanted: Wanted) -> None:
        namespace = service.key[0]
        request = self._client.create(ENDPOINT_SLICES, wanted.body(name, service), namespace=namespace)
        try:
            await self._put("create", (namespace, name), request)
        except ApiError as error:
            if error.conflict:
                await self._look_at(service, name)
            raise

    async def _look_at(self, service: Service, name: str) -> None:
        """Whose slice has the name: one of ours is a watch that lags; another one keeps the name for good."""
        found = await get_or_none(self._client, ENDPOINT_SLICES, name, namespace=service.key[0])
        if found is not None and stored_endpoint_slice(found) is None:
            self._taken.setdefault(service.key, set()).add(name)

    async def _change(self, found: EndpointSlice, wanted: Wanted) -> None:
        """A conflict says that the watch lags, or that another replica has written."""
        namespace, name = found.key
        patch = wanted.patch(found)
        request = self._client.patch(
            ENDPOINT_SLICES, name, patch, patch_type="merge", namespace=namespace, version=str(found.version)
        )
        if not await self._put("patch", found.key, request):
            self._caches.written.deleted(found.key, found.uid)
            raise Transient(f"EndpointSlice {namespace}/{name} is gone")

    async def _put(self, verb: str, key: Key, request: Awaitable[dict[str, object]]) -> bool:
        """Whether the slice existed, or has been created.

        Raises Transient where it is another one by now: the change came while it was taken for our own write.
        """
        with self._caches.written.under_way(key):
            answer = await if_there(request)
        if answer is None:
            return False
        metrics.WRITES.labels(verb).inc()
        written = stored_endpoint_slice(answer)
        if written is not None:
            self._caches.written.wrote(key, written)
            if self._caches.written.get(key) != written:
                raise Transient(f"EndpointSlice {'/'.join(key)} has changed since")
        return True

    async def _delete(self, slices: tuple[EndpointSlice, ...]) -> None:
        for one in slices:
            namespace, name = one.key
            request = self._client.delete(ENDPOINT_SLICES, name, namespace=namespace, uid=one.uid)
            if await if_there(request) is not None:
                metrics.WRITES.labels("delete").inc()
            self._caches.written.deleted(one.key, one.uid)
