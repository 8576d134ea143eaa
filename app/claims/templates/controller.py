"""The controller `claim-templates`: of each definition a ResourceClaimTemplate in each namespace that uses it.

A key is the namespace and the name of a template. What lacks our mark is never changed; a Pod that names it uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from app.claims.templates import metrics
from app.claims.templates.caches import Caches
from app.claims.templates.planning import OwnTemplate, hash_of, next_action, stored_template, template_body
from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import EventRecorder, Regarding
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIM_TEMPLATES
from app.kube.retry import get_or_none, if_there
from app.kube.running import start
from app.kube.store import Key
from app.wire import JSON

log = structlog.get_logger(__name__)
_TOLD = 3
"""Pods, and attachments, that get an Event."""


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in seconds. The ConfigMap `config_map` in `namespace` has the definitions.

    A template that nothing uses is kept for `keep`, so that one Pod after another does not make and delete it.
    """

    namespace: str
    config_map: str
    workers: int = 16
    resync: float | None = 600.0
    keep: float = 600.0


class ClaimTemplatesController:
    """`run` it while this process leads; it runs once."""

    def __init__(
        self,
        client: KubeClient,
        *,
        options: Options,
        events: EventRecorder | None = None,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._client, self._events, self._clock, self._keep = client, events, clock, options.keep
        self._caches = Caches(client, namespace=options.namespace, config_map=options.config_map, wake=self._enqueue)
        self._unused: dict[Key, float] = {}
        self._skipped: dict[Key, str] = {}
        """Why a template that is used is not made."""
        self._controller: Controller[Key] = Controller(
            "claim-templates",
            self._reconcile,
            stores=self._caches.stores,
            keys=self._caches.keys,
            workers=options.workers,
            resync=options.resync,
        )

    async def run(self) -> None:
        """Until cancelled; what is under way then gets a few seconds to end."""
        try:
            async with asyncio.TaskGroup() as group:
                start(group, self._caches.reflectors, (self._controller,))
        finally:
            metrics.skipped(())

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self._caches.waiting()

    def _enqueue(self, key: Key) -> None:
        self._controller.enqueue(key)

    async def _reconcile(self, key: Key) -> Result:
        caches = self._caches
        definition, found, used = caches.known.find(key[1]), caches.templates.get(*key), caches.used(key)
        if definition is None and caches.known.problems():
            # It may be one of those that cannot be read. After a start none was read before.
            return Done()
        wanted = template_body(key, definition) if definition is not None else None
        left = self._time_left(key, watched=found is not None and not used)
        action = next_action(wanted, found, used=used, idle=left is not None and left <= 0)
        made = True
        if action != "create":
            self._skips(key, "")
        if action in ("replace", "delete") and found is not None:
            await self._delete(found)
        if action in ("create", "replace") and wanted is not None:
            made = await self._create(key, wanted)
        if action and made:
            metrics.WRITTEN.labels(action).inc()
            log.info("claim template", action=action, namespace=key[0], name=key[1])
        return Done() if left is None or left <= 0 else RequeueAfter(left)

    def _time_left(self, key: Key, *, watched: bool) -> float | None:
        """How long a template without users is kept still; None where none is watched."""
        if not watched:
            self._unused.pop(key, None)
            return None
        now = self._clock()
        return self._unused.setdefault(key, now) + self._keep - now

    async def _delete(self, found: OwnTemplate) -> None:
        namespace, name = found.key
        request = self._client.delete(RESOURCE_CLAIM_TEMPLATES, name, namespace=namespace, uid=found.uid)
        await if_there(request)

    async def _create(self, key: Key, wanted: JSON) -> bool:
        """Whether it was created; another one can have the name."""
        try:
            await self._client.create(RESOURCE_CLAIM_TEMPLATES, wanted, namespace=key[0])
        except ApiError as error:
            if error.conflict:
                await self._look(key, wanted)
                return False
            if error.about_object:
                self._refused(key, str(error))
            raise
        self._skips(key, "")
        return True

    def _refused(self, key: Key, why: str) -> None:
        """Told on some that use it: an administrator sees the metric, and the author of a Pod why it waits."""
        self._skips(key, "refused")
        message = f"the ResourceClaimTemplate {key[1]} of the definition of this name is not made: {why}"
        for resource, users in ((PODS, self._caches.pods), (NETWORK_ATTACHMENTS, self._caches.attachments)):
            for user in users.by_index("template", key)[:_TOLD]:
                if self._events is not None:
                    regarding = Regarding.of(resource, user.key, user.uid)
                    self._events.record(regarding, "Warning", reason="ClaimTemplateRefused", message=message)

    async def _look(self, key: Key, wanted: JSON) -> None:
        """One of this name exists: our own, which the cache does not show yet, or another one."""
        obj = await get_or_none(self._client, RESOURCE_CLAIM_TEMPLATES, key[1], namespace=key[0])
        if obj is None:
            raise Transient("the template is gone that had the name")
        own = stored_template(obj)
        self._skips(key, "foreign" if own is None else "")
        if own is not None:
            if own.deleting or own.made_from != hash_of(wanted):
                raise Transient("an earlier template has the name still")
            return
        message = (
            f"the ResourceClaimTemplate was not made from the definition {key[1]} and is left alone: Pods of this "
            "namespace that name it get what it says; rename it, or delete it to have it made from the definition"
        )
        log.warning("claim template of others", namespace=key[0], name=key[1])
        if self._events is not None:
            regarding = Regarding.of(RESOURCE_CLAIM_TEMPLATES, key, obj["metadata"].get("uid", ""))
            self._events.record(regarding, "Warning", reason="NotOfDefinition", message=message)

    def _skips(self, key: Key, reason: str) -> None:
        self._skipped.pop(key, None)
        if reason:
            self._skipped[key] = reason
        metrics.skipped(self._skipped.values())
