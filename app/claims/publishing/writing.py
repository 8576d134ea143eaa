"""Applies network data to claims, once for each change, and acts on what the API server answers."""

from __future__ import annotations

import math
import random as _random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from app.claims import metrics
from app.claims.model import FIELD_MANAGER, DeviceKey
from app.claims.publishing.caches import Caches
from app.claims.publishing.entries import Write, write_of
from app.claims.publishing.model import NetworkData
from app.claims.publishing.refusals import STATUS, Refusals
from app.claims.publishing.reporting import Reporting
from app.claims.stored.claims import Claim, stored_claim
from app.claims.stored.pods import ClaimPod
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import RESOURCE_CLAIMS
from app.kube.retry import Backoff
from app.kube.store import Key

log = structlog.get_logger(__name__)

Data = Mapping[DeviceKey, NetworkData]
_OUR_FAULT = ("metadata.uid", "status.devices[")
"""Fields of a 422 for a claim that has changed since it was read: replaced by another, or with other devices."""
_DENIED = re.compile("denied (the )?request")
"""By a webhook or a ValidatingAdmissionPolicy, whose messages may name these fields too."""
BUDGET = 5
"""Rewrites of a claim after short pauses. Those beyond come after growing ones."""
_SHORT = 0.5
_FIRST_REWRITE, _LONGEST_REWRITE = 1.0, 300.0
_QUIET = 600.0
"""Seconds without a rewrite after which a claim has its whole budget again."""
_CLAIMS = 4096
"""Claims whose rewrites are remembered."""
_FIRST_RETRY, _LONGEST_RETRY = 20.0, 600.0


class Writing:
    """`granted` is called where a permission that was refused is there."""

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        reporting: Reporting,
        now: Callable[[], datetime],
        granted: Callable[[], object],
    ) -> None:
        self._client, self._caches, self._reporting, self._now = client, caches, reporting, now
        self._granted = granted
        self._refusals, self._rewrites, self._rejections = Refusals(), Rewrites(), Rejections()
        self._applied: dict[Key, tuple[str, Data]] = {}
        """By claim: its UID, and what was applied last."""
        caches.claims.subscribe(lambda _event, key, _old, new: self._forget(key) if new is None else None)

    def problems(self) -> list[str]:
        """What the role lacks, a line each."""
        return self._reporting.missing(self._refusals.names)

    async def write(self, pod: ClaimPod, claim: Claim, data: Data, kept: frozenset[DeviceKey]) -> float | None:
        """Make our fields these, but for those of the devices that are `kept`.

        The result is the seconds after which to come again, None for not before something changes. Raises ApiError
        for what may pass.
        """
        write = write_of(claim, data, kept, now=self._now())
        if write is None:
            return None
        if pause := self._rejections.pause(claim.key, claim.version, data):
            return pause if pause < math.inf else None
        if pause := self._refusals.pause(write.drivers):
            return pause
        again = self._applied.get(claim.key) == (claim.uid, data)
        if again and (pause := self._rewrites.pause(claim.uid)):
            return pause
        outcome = "rewritten" if again else "applied" if data else "released"
        taken = await self._apply(pod, claim, write, data, outcome)
        if self._caches.claims.get(*claim.key) is None:
            # Its end came before the answer, and comes only once.
            self._forget(claim.key)
            return None
        if not taken:
            pause = self._rejections.pause(claim.key, claim.version, data) or self._refusals.pause(write.drivers)
            return pause if pause < math.inf else None
        if again and self._rewrites.count(claim.uid) == BUDGET:
            self._reporting.erased(pod, claim, BUDGET)
        return None

    async def _apply(self, pod: ClaimPod, claim: Claim, wanted: Write, data: Data, outcome: str) -> bool:
        namespace, name = claim.key
        try:
            answer = await self._client.apply(
                RESOURCE_CLAIMS,
                name,
                wanted.body,
                namespace=namespace,
                field_manager=FIELD_MANAGER,
                force=wanted.force,
                subresource="status",
            )
        except ApiError as error:
            metrics.WRITES.labels(self._outcome(pod, claim, wanted, data, error)).inc()
            return False
        self._caches.written.wrote(claim.key, stored_claim(answer))
        self._applied[claim.key] = (claim.uid, data)
        self._rejections.forget(claim.key)
        metrics.WRITES.labels(outcome).inc()
        if self._refusals.granted(wanted.drivers):
            self._granted()
        return True

    def _outcome(self, pod: ClaimPod, claim: Claim, wanted: Write, data: Data, error: ApiError) -> str:
        """How it ended. Raises what is to be tried again."""
        if error.lacks_driver or (error.status == 403 and " cannot patch resource " in str(error)):
            # The API server names each driver that lacks a right; others of the claim may have theirs.
            named = frozenset(driver for driver in wanted.drivers if f'"{driver}"' in str(error))
            names = (named or wanted.drivers) if error.lacks_driver else (STATUS,)
            self._refusals.refused(names)
            self._reporting.refused(pod, claim, names)
            log.warning("network data forbidden", claim=claim.key, error=str(error))
            return "refused"
        if error.not_found or error.rejected or error.status == 403:
            changed = any(field in str(error) for field in _OUR_FAULT) and not _DENIED.search(str(error))
            lasting = error.not_found or changed
            self._rejections.rejected(claim.key, claim.version, data, lasting=lasting)
            if not lasting:
                self._reporting.rejected(pod, claim, str(error))
            log.info("network data not taken", claim=claim.key, error=str(error))
            return "gone" if error.not_found else "rejected"
        metrics.WRITES.labels("conflict" if error.conflict else "failed").inc()
        raise error

    def _forget(self, claim: Key) -> None:
        self._applied.pop(claim, None)
        self._rejections.forget(claim)


@dataclass(slots=True)
class _Rewritten:
    backoff: Backoff
    count: int = 0
    due: float = 0.0
    waiting: bool = False


class Rewrites:
    """When fields that another writer removed may be applied again: a budget for each claim, then growing pauses.

    Claims are known by their UIDs, times are in seconds.

    Pauses have full jitter, so that two writers do not keep in step.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, random: Callable[[], float] = _random.random
    ) -> None:
        self._clock, self._random = clock, random
        self._claims: dict[str, _Rewritten] = {}

    def pause(self, claim: str) -> float:
        """Seconds until what vanished may be written again; 0 for now, which counts as a rewrite."""
        now = self._clock()
        budget = self._claims.get(claim)
        if budget is None or (not budget.waiting and now - budget.due > _QUIET):
            budget = self._new(claim)
        if not budget.waiting:
            budget.waiting = True
            budget.due = now + (self._random() * _SHORT if budget.count < BUDGET else budget.backoff.next())
        if budget.due > now:
            return budget.due - now
        budget.waiting = False
        budget.count += 1
        return 0.0

    def count(self, claim: str) -> int:
        """Rewrites since it last had its whole budget."""
        budget = self._claims.get(claim)
        return 0 if budget is None else budget.count

    def _new(self, claim: str) -> _Rewritten:
        made = _Rewritten(Backoff(_FIRST_REWRITE, _LONGEST_REWRITE, self._random))
        self._claims.pop(claim, None)
        self._claims[claim] = made
        if len(self._claims) > _CLAIMS:
            del self._claims[next(iter(self._claims))]
        return made


@dataclass(slots=True)
class _Rejected:
    version: str
    data: object
    backoff: Backoff
    until: float = math.inf


class Rejections:
    """Writes that an API server does not take as they are, and when such a write may be tried again.

    By claim: its version, and the data that were not taken for that. Times are in seconds.

    What the claim itself shows to be wrong passes with its next version. What a policy or a webhook refuses may pass
    at any time, for example when another claim gives up an address, and no change of the claim says so.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, random: Callable[[], float] = _random.random
    ) -> None:
        self._clock, self._random = clock, random
        self._rejected: dict[Key, _Rejected] = {}

    def pause(self, claim: Key, version: str, data: object) -> float:
        """Seconds until the data may be written again; infinite for not before the claim changes, 0 for now."""
        rejection = self._rejected.get(claim)
        if rejection is None or (rejection.version, rejection.data) != (version, data):
            return 0.0
        return max(rejection.until - self._clock(), 0.0)

    def rejected(self, claim: Key, version: str, data: object, *, lasting: bool) -> None:
        """It was not taken; with `lasting` only a change of the claim helps."""
        rejection = self._rejected.get(claim)
        if rejection is None or (rejection.version, rejection.data) != (version, data):
            rejection = self._rejected[claim] = _Rejected(
                version, data, Backoff(_FIRST_RETRY, _LONGEST_RETRY, self._random)
            )
        rejection.until = math.inf if lasting else self._clock() + rejection.backoff.next(at_least=_FIRST_RETRY / 2)

    def forget(self, claim: Key) -> None:
        """It was written, or is gone."""
        self._rejected.pop(claim, None)
