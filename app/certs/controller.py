"""Keeps certificates in a cluster up to date for as long as it runs: on every change of a watched object, and when due.

Contains only the wiring: each subject defines its pass, which is safe to repeat. Any number of these may run at once,
without a Lease: concurrent writes are resolved by the Secrets' resourceVersion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from app.certs import metrics, patching
from app.errors import BerthError, Terminal, UsageError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.reflector import Reflector
from app.kube.resources import SECRETS, Resource
from app.kube.running import start
from app.kube.store import Store
from app.text import utc_now

CONTROLLER = "certificates"
RESYNC = 60.0
_FAULT = "an internal error; the log has it"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a pass found: the ends of certificates by their Secrets, the Secrets renewed in it, and when to look again.

    A Secret counts as renewed when what it serves or signs with is another than before, the first included.
    """

    ends: Mapping[str, datetime]
    renewed: tuple[str, ...]
    next_due: datetime


@dataclass(frozen=True, slots=True)
class Subject:
    """What is kept by one function: `keep` is woken by changes of these Secrets and webhook configurations."""

    name: str
    keep: Callable[[datetime], Awaitable[Kept]]
    secrets: tuple[str, ...]
    configurations: tuple[str, ...] = ()


class Keeper:
    """Keeps all of its subjects; Secrets are those of `namespace`. `resync` is in seconds, `now` aware and UTC."""

    def __init__(
        self,
        client: KubeClient,
        subjects: Sequence[Subject],
        *,
        namespace: str,
        resync: float = RESYNC,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._subjects = {subject.name: subject for subject in subjects}
        self._problems = dict.fromkeys(self._subjects, "not looked at yet")
        self._client, self._now, self._resync = client, now, resync
        self._reflectors: list[Reflector] = []
        for subject in subjects:
            for name in subject.secrets:
                self._watch(SECRETS, name, subject, namespace=namespace)
            for name in subject.configurations:
                for resource in patching.CONFIGURATIONS:
                    self._watch(resource, name, subject)
        self._controller: Controller[str] = Controller(
            CONTROLLER,
            self._reconcile,
            keys=lambda: self._subjects,
            workers=len(subjects),
            resync=resync,
            turn=None,
        )

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            start(group, self._reflectors, (self._controller,))

    def waiting(self) -> list[str]:
        """What is not as it should be, for readiness: a pass that failed, a watch that is refused."""
        refused = [f"{reflector.resource.plural}: {reflector.reason}" for reflector in self._reflectors
                   if not reflector.healthy]  # fmt: skip
        return [*(f"{name}: {problem}" for name, problem in self._problems.items() if problem), *refused]

    def _watch(self, resource: Resource, name: str, subject: Subject, *, namespace: str | None = None) -> None:
        """Have every change of the object wake its subject; of the object itself nothing is cached."""
        versions: Store[str] = Store(lambda obj: str(obj["metadata"].get("resourceVersion")))
        versions.subscribe(lambda *_: self._controller.enqueue(subject.name))
        self._reflectors.append(
            Reflector(self._client, resource, versions, namespace=namespace, field_selector=f"metadata.name={name}")
        )

    async def _reconcile(self, name: str) -> Result:
        """One pass over a subject; a mistake of a user is not tried again before something changes."""
        problem, now = _FAULT, self._now()
        try:
            kept = await self._subjects[name].keep(now)
            problem = ""
        except UsageError as error:
            problem = str(error)
            raise Terminal(problem) from error
        except BerthError as error:
            problem = str(error)
            raise
        finally:
            self._problems[name] = problem
        metrics.kept(kept.ends, kept.renewed)
        for secret in kept.renewed:
            _log.info("certificate renewed", secret=secret, not_after=kept.ends[secret])
        left = (kept.next_due - now).total_seconds()
        # A renewal due after the next resync gets no timer: clocks are set and machines sleep, and the resync checks
        # again. What is still overdue after a pass is not managed by Berth.
        return RequeueAfter(max(1.0, left)) if 0 < left < self._resync else Done()
