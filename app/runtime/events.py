"""Makes the Event recorder of a role, and writes the last Events after the work that records them has ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

import msgspec

from app.admission.endpoint import Outcome
from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Events, Regarding
from app.kube.names import check_dns_subdomain
from app.runtime.manager import Runnable

FLUSH_SECONDS = 2.0
"""How long the end of a role waits for its last Events."""
_LIMIT = 253
"""Characters of what an owner says of itself; nothing of Kubernetes is longer."""


def recorder(role: str, client: Callable[[], KubeClient | None]) -> EventRecorder:
    """The recorder of a role."""
    return EventRecorder(
        client,
        role=role,
        instance=os.environ.get("HOSTNAME") or socket.gethostname(),
    )


class Recorded:
    """A runnable and the recorder of its Events, which outlives the terms of a leader and writes the last Events."""

    def __init__(self, runnable: Runnable, events: EventRecorder) -> None:
        self._runnable, self._events = runnable, events

    def waiting(self) -> list[str]:
        return self._runnable.waiting()

    async def run(self) -> None:
        writing = asyncio.ensure_future(self._events.run())
        try:
            await self._runnable.run()
        finally:
            await finish(self._events, writing)


async def finish(events: EventRecorder, writing: asyncio.Task[None]) -> None:
    """Give the last Events their time, then end the writer."""
    try:
        await events.flush(FLUSH_SECONDS)
    finally:
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


_decode_owners = msgspec.json.Decoder(list[_Owner] | None).decode


class Denials:
    """Tells the owner of a Pod that was denied: who wrote the Deployment sees no answer of the API server.

    A dry run leaves no trace.
    """

    def __init__(self, events: Events) -> None:
        self._events = events

    def __call__(self, outcome: Outcome) -> None:
        request = outcome.request
        if request is None or request.dry_run or not request.namespace or request.operation != "CREATE":
            return
        if request.kind.kind != "Pod" or request.kind.group or request.sub_resource:
            return
        try:
            owners = _decode_owners(request.metadata.owner_references) or []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        owner = next((one for one in owners if one.controller), owners[0] if owners else None)
        if owner is None or not _is_sound(owner):
            return
        regarding = Regarding(owner.api_version, owner.kind, owner.name, request.namespace, owner.uid)
        decision = outcome.decision
        self._events.record(regarding, "Warning", reason=decision.reason, message=decision.message)


def _is_sound(owner: _Owner) -> bool:
    """Whether there can be such an object: what a Pod says of its owners was not checked by anybody yet."""
    try:
        check_dns_subdomain(owner.name)
    except ValueError:
        return False
    return all(0 < len(text) <= _LIMIT for text in (owner.api_version, owner.kind, owner.uid))
