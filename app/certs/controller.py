"""Keeps certificates in a cluster up to date for as long as it runs: on every change of a watched object, and when due.

Contains only the wiring: each subject defines its pass, which is safe to repeat. Any number of these may run at once,
without a Lease: concurrent writes are resolved by the Secrets' resourceVersion.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from app.certs import metrics, patching
from app.errors import BerthError, Terminal, UsageError
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.kit import Kit, Wakes
from app.kube.resources import SECRETS
from app.kube.store import Key, Store
from app.text import utc_now
from app.wire import JSON

CONTROLLER = "certificates"
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
    """Keeps all of its subjects, as the controller of the kit; Secrets are those of `namespace`.

    `now` is aware and UTC. The kit gets ready when each pass has succeeded.
    """

    def __init__(
        self, kit: Kit, subjects: Sequence[Subject], *, namespace: str, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._subjects = {subject.name: subject for subject in subjects}
        self._problems = dict.fromkeys(self._subjects, "not looked at yet")
        self._now, self._resync = now, kit.resync
        wakes: dict[Store[Any], Wakes] = {}
        for subject in subjects:
            # Of the object itself nothing is cached: a pass reads what it needs.
            woken = partial(_wake, subject.name)
            for name in subject.secrets:
                wakes[kit.cache(SECRETS, _version, namespace=namespace, fields=f"metadata.name={name}")] = woken
            for name in subject.configurations:
                for resource in patching.CONFIGURATIONS:
                    wakes[kit.cache(resource, _version, fields=f"metadata.name={name}")] = woken
        kit.reconcile(
            CONTROLLER,
            self._reconcile,
            stores=(),
            keys=lambda: self._subjects,
            wakes=wakes,
            workers=len(subjects),
            turn=None,
        )
        kit.waits_for(lambda: (f"{name}: {problem}" for name, problem in self._problems.items() if problem))

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
        return RequeueAfter(max(1.0, left)) if 0 < left < (self._resync or math.inf) else Done()


def _wake(subject: str, _key: Key, _old: object, _new: object) -> Iterable[str]:
    return (subject,)


def _version(obj: JSON) -> str:
    return str(obj["metadata"].get("resourceVersion"))
