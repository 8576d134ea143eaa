"""Stored rules of either kind at the API server: created, read, made equal to what is wanted, deleted.

Reads the API server, not a cache, so that a caller finds a rule that it has just created. Writes only where something
differs, so that the generation of a rule changes with its spec only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic

from app.errors import ApiError
from app.kube.resources import Resource
from app.kube.retry import get_or_none, until_no_conflict
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.failures import Code, Refused, no_namespace
from app.tenancy.gateway.listing import Lists, M
from app.tenancy.gateway.rule_check import Wanted
from app.tenancy.messages import canonical
from app.wire import JSON
from app.workloads.model import RULE_GENERATION, RULE_OWNER

_ATTEMPTS = 5
"""How often a write that met another one is tried."""


class RuleStore(Generic[M]):
    """The rules of one kind, answered as messages. With `owners`, who keeps a rule is the only one to change it."""

    def __init__(self, backend: Backend, resource: Resource, message: Callable[[JSON], M], *, owners: bool) -> None:
        self._client = backend.client
        self._resource = resource
        self._message = message
        self._turns = backend.turns
        self._storing = backend.storing
        self._lists = Lists(backend)
        self._owners = owners

    async def create(self, wanted: Wanted, *, namespace: str) -> M:
        """ALREADY_EXISTS where there is a rule of this name."""
        async with self._turns.of(namespace):
            return await self._written(wanted, self._create(wanted, namespace))

    async def get(self, name: str, *, namespace: str) -> M:
        """NOT_FOUND where there is none."""
        async with self._turns.of(namespace):
            return self._message(await self._found(name, namespace))

    async def messages(self, *, namespace: str) -> list[M]:
        """RESOURCE_EXHAUSTED where they are more than a message may have."""
        return await self._lists.messages(
            self._resource, self._message, namespace=namespace, hint="; get each by its id"
        )

    async def objects(self, *, namespace: str) -> list[JSON]:
        """The stored objects, as many as there are."""
        return [obj async for obj in self._lists.objects(self._resource, namespace=namespace)]

    async def put(self, wanted: Wanted, *, namespace: str) -> M:
        """Create the rule, or make it what is wanted; FAILED_PRECONDITION where it has another owner."""

        async def attempt() -> JSON:
            found = await get_or_none(self._client, self._resource, wanted.name, namespace=namespace)
            return await (self._create(wanted, namespace) if found is None else self._equal(found, wanted, namespace))

        async with self._turns.of(namespace):
            writing = until_no_conflict(
                attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS, lost=lambda error: error.status in (404, 409)
            )
            return await self._written(wanted, writing)

    async def delete(self, name: str, *, namespace: str) -> None:
        """NOT_FOUND where there is none; FAILED_PRECONDITION for one that is not kept through this service."""
        async with self._turns.of(namespace):
            found = await self._found(name, namespace)
            if self._owners and not _owner(found):
                raise Refused(Code.FAILED_PRECONDITION, f"rule {name!r} was not made by this service")
            try:
                uid = found["metadata"]["uid"]
                await self._client.delete(self._resource, name, namespace=namespace, uid=uid)
            except ApiError as error:
                # Deleted meanwhile, or deleted and created again: the rule with this uid is gone.
                if error.status not in (404, 409):
                    raise

    async def _found(self, name: str, namespace: str) -> JSON:
        found = await get_or_none(self._client, self._resource, name, namespace=namespace)
        if found is None:
            raise Refused(Code.NOT_FOUND, f"there is no rule {name!r}")
        return found

    async def _written(self, wanted: Wanted, writing: Awaitable[JSON]) -> M:
        try:
            return self._message(await writing)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                raise Refused(Code.ALREADY_EXISTS, f"there is a rule {wanted.name!r} already") from error
            raise

    async def _create(self, wanted: Wanted, namespace: str) -> JSON:
        metadata = {"name": wanted.name, "namespace": namespace} | _marks(wanted, {})
        body = self._resource.body(metadata, spec=wanted.spec)
        self._storing.write(namespace, len(canonical(wanted.spec)))
        try:
            return await self._client.create(self._resource, body, namespace=namespace)
        except ApiError as error:
            if error.not_found:
                raise no_namespace(namespace) from error
            raise

    async def _equal(self, found: JSON, wanted: Wanted, namespace: str) -> JSON:
        metadata = found["metadata"]
        if self._owners and _owner(found) != wanted.owner:
            keeper = repr(_owner(found)) if _owner(found) else "another client"
            message = f"rule {wanted.name!r} is kept by {keeper}, not by {wanted.owner!r}: delete it first"
            raise Refused(Code.FAILED_PRECONDITION, message)
        if metadata.get("deletionTimestamp"):
            raise Refused(Code.ABORTED, f"rule {wanted.name!r} is being deleted; try again")
        marks, content = _marks(wanted, metadata), canonical(wanted.spec)
        if canonical(found.get("spec")) == content and all(metadata.get(part) == marks[part] for part in marks):
            return found
        self._storing.write(namespace, len(content))
        body = {**found, "metadata": {**metadata, **marks}, "spec": wanted.spec}
        return await self._client.replace(self._resource, wanted.name, body, namespace=namespace)


def _marks(wanted: Wanted, metadata: JSON) -> JSON:
    """The labels and annotations that say who keeps the rule and what it was made from; others' stay."""
    marks: JSON = {"labels": {**(metadata.get("labels") or {}), RULE_OWNER: wanted.owner}}
    if wanted.generation:
        marks["annotations"] = {**(metadata.get("annotations") or {}), RULE_GENERATION: str(wanted.generation)}
    return marks


def _owner(found: JSON) -> str:
    return str((found["metadata"].get("labels") or {}).get(RULE_OWNER) or "")
