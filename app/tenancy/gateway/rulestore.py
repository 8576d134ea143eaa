"""Stored rules of either kind at the API server: created, read, made equal to what is wanted, deleted.

Reads the API server, not a cache, so that a caller finds a rule that it has just created. Writes only where something
differs, so that the generation of a rule changes with its spec only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.turns import Turns
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.listing import Lists, M
from app.tenancy.gateway.storing import Storing
from app.tenancy.messages import canonical
from app.wire import JSON
from app.workloads.model import RULE_GENERATION, RULE_OWNER

_ATTEMPTS = 5
"""How often a write that met another one is tried."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A rule to be stored; `owner` keeps it, `generation` is that of the object it was made from (0: none)."""

    name: str
    spec: JSON
    owner: str
    generation: int = 0


class RuleStore:
    """The rules of one kind. With `owners`, who keeps a rule is the only one to change it."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        turns: Turns,
        storing: Storing,
        *,
        owners: bool,
        message_bytes: int,
    ) -> None:
        self._client = client
        self._resource = resource
        self._turns = turns
        self._storing = storing
        self._lists = Lists(client, turns, limit=message_bytes)
        self._owners = owners

    async def create(self, wanted: Wanted, *, namespace: str) -> JSON:
        """ALREADY_EXISTS where there is a rule of this name."""
        async with self._turns.of(namespace):
            return await self._create(wanted, namespace)

    async def get(self, name: str, *, namespace: str) -> JSON:
        """NOT_FOUND where there is none."""
        async with self._turns.of(namespace):
            found = await self._find(name, namespace)
        if found is None:
            raise _missing(name)
        return found

    async def messages(self, make: Callable[[JSON], M], *, namespace: str) -> list[M]:
        """What `make` makes of each; RESOURCE_EXHAUSTED where that is more than a message may have."""
        return await self._lists.messages(self._resource, make, namespace=namespace, hint="; get each by its id")

    async def all(self, *, namespace: str) -> list[JSON]:
        """The stored objects, as many as there are."""
        return [obj async for obj in self._lists.objects(self._resource, namespace=namespace)]

    async def put(self, wanted: Wanted, *, namespace: str) -> JSON:
        """Create the rule, or make it what is wanted; FAILED_PRECONDITION where it has another owner."""
        async with self._turns.of(namespace):
            for last in (False,) * (_ATTEMPTS - 1) + (True,):
                found = await self._find(wanted.name, namespace)
                try:
                    return await (
                        self._create(wanted, namespace) if found is None else self._equal(found, wanted, namespace)
                    )
                except Refused as refused:
                    if last or refused.code != Code.ALREADY_EXISTS:
                        raise
                except ApiError as error:
                    if last or error.status not in (404, 409):
                        raise
        raise AssertionError("unreachable")  # pragma: no cover

    async def delete(self, name: str, *, namespace: str) -> None:
        """NOT_FOUND where there is none; FAILED_PRECONDITION for one that is not kept through this service."""
        async with self._turns.of(namespace):
            found = await self._find(name, namespace)
            if found is None:
                raise _missing(name)
            if self._owners and not _owner(found):
                raise Refused(Code.FAILED_PRECONDITION, f"rule {name!r} was not made by this service")
            try:
                uid = found["metadata"]["uid"]
                await self._client.delete(self._resource, name, namespace=namespace, uid=uid)
            except ApiError as error:
                # Deleted meanwhile, or deleted and created again: the rule with this uid is gone.
                if error.status not in (404, 409):
                    raise

    async def _find(self, name: str, namespace: str) -> JSON | None:
        return await get_or_none(self._client, self._resource, name, namespace=namespace)

    async def _create(self, wanted: Wanted, namespace: str) -> JSON:
        body = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": {"name": wanted.name, "namespace": namespace} | _marks(wanted, {}),
            "spec": wanted.spec,
        }
        self._storing.write(namespace, len(canonical(wanted.spec)))
        try:
            return await self._client.create(self._resource, body, namespace=namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                raise Refused(Code.ALREADY_EXISTS, f"there is a rule {wanted.name!r} already") from error
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


def _missing(name: str) -> Refused:
    return Refused(Code.NOT_FOUND, f"there is no rule {name!r}")


def no_namespace(namespace: str) -> Refused:
    """The tenant is known, but what holds its objects is not there (yet)."""
    return Refused(Code.FAILED_PRECONDITION, f"namespace {namespace} does not exist in the infra cluster (yet)")
