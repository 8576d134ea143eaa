"""Objects of this cluster that ask the gateway for something: what rules and UVS objects have in common."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, TypeVar

import structlog

from app.tenancy.agent.answers import Answers, GatewayRefused, GatewayUnavailable
from app.tenancy.agent.local import Local
from app.tenancy.agent.remote import Watch
from app.tenancy.agent.syncing import Syncer
from app.tenancy.agent.views import ObjectView, in_terms_of_the_object

log = structlog.get_logger(__name__)

T = TypeVar("T")


class Requests(Syncer[T]):
    """Each is sent, shows the answer in its status, and is removed there. Only what an agent owns is ever removed."""

    _remote: Watch[T]

    def __init__(self, name: str, local: Local, remote: Watch[T]) -> None:
        super().__init__(name, local, remote)
        self._unanswered: dict[str, float] = {}
        self._answers = Answers(base=self._options.refusal_pause, cap=self._options.settings.resync_seconds)

    @abstractmethod
    async def _converge(self, view: ObjectView) -> None:
        """Send the object where that is needed, and show what the gateway says. Raises GatewayRefused."""

    @abstractmethod
    def _deletion(self, name: str) -> Any:
        """The request that removes it there; None where the gateway has none of this name that an agent has sent."""

    def _asks(self, view: ObjectView) -> bool:  # noqa: ARG002 - for those of which some do not
        """Whether the object is a request."""
        return True

    def _removed(self, name: str) -> None:
        """The gateway does not have it any more."""

    async def _learn(self) -> None:
        self._answers.clear()  # what was refused is asked again

    async def _reconcile(self, name: str) -> float | None:
        view = self._local.get(name)
        if view is not None and not self._asks(view):
            view = None
        if not self._remote.synced:
            return None if view is None else await self._unreached(view)
        if view is None:
            await self._remove(name)
            return None
        try:
            await self._converge(view)
        except GatewayRefused as error:
            await self._local.report(view, "error", error.reason, in_terms_of_the_object(str(error)))
        except GatewayUnavailable as error:
            if not self._patience(name):
                await self._local.report(view, "error", error.reason, str(error))
            raise
        self._unanswered.pop(name, None)
        return self._answers.next(name)

    def _patience(self, name: str) -> float:
        """Seconds until a call without an answer is reported, counted from the first one."""
        began = self._unanswered.setdefault(name, time.monotonic())
        return max(0.0, began + self._options.patience - time.monotonic())

    async def _remove(self, name: str) -> None:
        self._unanswered.pop(name, None)
        self._answers.drop(name)
        request = self._deletion(name)
        if request is None or await self._exists(name):
            return
        try:
            await self._remote.call("Delete", request)
        except GatewayRefused as error:
            if not error.not_found:
                raise
        self._removed(name)
        log.info("object removed", kind=self._local.resource.kind, name=name)

    async def _exists(self, name: str) -> bool:
        """Ask the API server itself: another agent may just have sent a new object."""
        view = await self._local.read(name)
        return view is not None and self._asks(view)
