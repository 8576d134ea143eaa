"""Gives an AppWrapper its defaults when it is created."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from app.admission.chain import Plan
from app.admission.patch import pointer
from app.admission.review import Request, written_object
from app.appwrappers.admission.access import Access
from app.appwrappers.admission.creators import text_of
from app.appwrappers.admission.defaults import defaults, has_to_wait
from app.appwrappers.admission.names import mapping
from app.appwrappers.ancestors import managed_ancestor, resource_of
from app.appwrappers.config import OperatorConfig
from app.appwrappers.model import APP_WRAPPERS, CREATOR, queue_of
from app.kube.configuration import Configuration
from app.kube.owners import controller_of
from app.pace import at_pace
from app.wire import JSON


class Defaulting:
    """Neutral to everything but the creation of AppWrappers. With `strict`, who creates one is kept in it."""

    name = "appwrapper-defaults"

    def __init__(self, configuration: Configuration[OperatorConfig], access: Access, *, strict: bool) -> None:
        self._configuration, self._access, self._strict = configuration, access, strict

    def inject(self, request: Request, plan: Plan) -> Awaitable[None] | None:
        """Raises Denied where the object cannot be read; what is wrong in it is found by the check.

        Raises Transient where it has to be known what the object belongs to, and the API server cannot be asked.
        """
        if (request.kind.group, request.kind.kind) != (APP_WRAPPERS.group, APP_WRAPPERS.kind):
            return None
        request.check_proven()
        obj = written_object(request, reason="InvalidAppWrapper")
        if obj is None or request.operation != "CREATE":
            return None
        owner = controller_of(mapping(obj, "metadata"))
        queue = self._configuration.current.default_queue_name
        if not (queue or queue_of(obj)) or (resource_of(owner) is not None and has_to_wait(obj, queue=queue)):
            return self._inject_queued(request, obj, owner, plan)
        self._inject(request, obj, plan, queue=queue)
        return None

    async def _inject_queued(self, request: Request, obj: JSON, owner: JSON, plan: Plan) -> None:
        """The same, where the queue of the namespace or an owner decides."""
        queue, child = self._configuration.current.default_queue_name, False
        unnamed = not (queue or queue_of(obj))
        if unnamed:
            # Kueue gives its default queue to the kinds that it manages itself. Without it the Pods would bypass quota.
            queue = await self._access.default_queue(request.namespace)
        if resource_of(owner) is not None and (has_to_wait(obj, queue=queue) or (unnamed and queue)):
            child = await self._belongs(owner, request.namespace)
        if child and unnamed:
            queue = ""
        await at_pace(partial(self._inject, request, obj, plan, queue=queue, child=child))

    async def _belongs(self, owner: JSON, namespace: str) -> bool:
        """Whether it belongs to an object that Kueue manages."""
        unqueued = self._configuration.current.manage_jobs_without_queue_name
        return (
            await managed_ancestor(
                owner, namespace, self._access.ancestor, managed=lambda ancestor: bool(ancestor.queue) or unqueued
            )
            is not None
        )

    def _inject(self, request: Request, obj: JSON, plan: Plan, *, queue: str, child: bool = False) -> None:
        user = request.user_info
        found = defaults(
            obj,
            user=user.username,
            uid=user.uid,
            # An annotation that another client has written is replaced: strict admission would trust it later.
            creator=text_of(user) if self._strict or _has_creator(obj) else "",
            queue=queue,
            child=child,
        )
        for one in found:
            where, holder = pointer(*one.section), obj
            for segment in one.section:
                holder = mapping(holder, segment)
            plan.patch.ensure(where, {}, present=bool(holder) or one.section == ("spec",), reason=one.reason)
            plan.patch.add(where + pointer(one.field), one.value, reason=one.reason)
            plan.count("appwrapper-default")
            plan.reason = plan.reason or "Defaulted"


def _has_creator(obj: JSON) -> bool:
    return CREATOR in mapping(mapping(obj, "metadata"), "annotations")
