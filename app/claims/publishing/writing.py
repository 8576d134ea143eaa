"""Applies network data to claims, once for each change, and acts on what the API server answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime

import structlog

from app.claims import metrics
from app.claims.model import FIELD_MANAGER, DeviceKey
from app.claims.publishing.caches import PublishingCaches
from app.claims.publishing.entries import Write, write_of
from app.claims.publishing.model import NetworkData
from app.claims.publishing.pauses import Growth, Pauses
from app.claims.publishing.reporting import STATUS, Reporting
from app.claims.stored import Claim, ClaimPod, stored_claim
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import RESOURCE_CLAIMS
from app.kube.store import Key

log = structlog.get_logger(__name__)

Data = Mapping[DeviceKey, NetworkData]
_OUR_FAULT = ("metadata.uid", "status.devices[")
"""Fields of a 422 for a claim that has changed since it was read: replaced by another, or with other devices."""
_DENIED = re.compile("denied (the )?request")
"""By a webhook or a ValidatingAdmissionPolicy, whose messages may name these fields too."""
BUDGET = 5
"""Rewrites of a claim after short pauses. Those beyond come after growing ones."""
REFUSED = Growth(first=1.0, longest=300.0, floor=0.5)
REJECTED = Growth(first=20.0, longest=600.0, least=10.0)
ERASED = Growth(first=1.0, longest=300.0, quick=BUDGET, soon=0.5)
_ATTEMPT = 0.5
"""Seconds for which a write that tries a refused permission again keeps the others waiting."""
_QUIET = 600.0
"""Seconds without a rewrite after which a claim has its whole budget again."""
_CLAIMS = 4096
"""Claims whose rewrites are remembered."""


class Writing:
    """`granted` is called where a permission that was refused is there."""

    def __init__(
        self,
        client: KubeClient,
        caches: PublishingCaches,
        reporting: Reporting,
        now: Callable[[], datetime],
        granted: Callable[[], object],
    ) -> None:
        self._client, self._caches, self._reporting, self._now = client, caches, reporting, now
        self._granted = granted
        self._refused = Pauses[str](REFUSED, hold=_ATTEMPT)
        """By driver, or `STATUS`: permissions that the role lacks."""
        self._rejected = Pauses[Key](REJECTED)
        """By claim, for its version and the data.

        What the claim itself shows to be wrong passes with its next version. What a policy or a webhook refuses may
        pass at any time, for example when another claim gives up an address, and no change of the claim says so.
        """
        self._erased = Pauses[str](ERASED, quiet=_QUIET, most=_CLAIMS)
        """By UID of a claim: fields that another writer removed."""
        self._applied: dict[Key, tuple[str, Data]] = {}
        """By claim: its UID, and what was applied last."""
        caches.claims.subscribe(lambda _event, key, _old, new: self._forget(key) if new is None else None)

    def problems(self) -> list[str]:
        """What the role lacks, a line each."""
        return self._reporting.missing(sorted(self._refused.recent(REFUSED.longest)))

    async def write(self, pod: ClaimPod, claim: Claim, data: Data, kept: frozenset[DeviceKey]) -> float | None:
        """Make our fields these, but for those of the devices that are `kept`.

        The result is the seconds after which to come again, None for not before something changes. Raises ApiError
        for what may pass.
        """
        write = write_of(claim, data, kept, now=self._now())
        if write is None:
            return None
        drivers = (STATUS, *write.drivers)
        if pause := self._rejected.wait((claim.key,), (claim.version, data)):
            return pause if pause < math.inf else None
        if pause := self._refused.wait(drivers):
            return pause
        again = self._applied.get(claim.key) == (claim.uid, data)
        if again:
            self._erased.failed(claim.uid)
            if pause := self._erased.wait((claim.uid,)):
                return pause
        outcome = "rewritten" if again else "applied" if data else "released"
        taken = await self._apply(pod, claim, write, data, outcome)
        if self._caches.claims.get(*claim.key) is None:
            # Its end came before the answer, and comes only once.
            self._forget(claim.key)
            return None
        if not taken:
            pause = self._rejected.left(claim.key, (claim.version, data)) or self._refused.wait(drivers)
            return pause if pause < math.inf else None
        if again and self._erased.tries(claim.uid) == BUDGET:
            self._reporting.erased(pod, claim, BUDGET)
        return None

    async def _apply(self, pod: ClaimPod, claim: Claim, write: Write, data: Data, outcome: str) -> bool:
        namespace, name = claim.key
        try:
            answer = await self._client.apply(
                RESOURCE_CLAIMS,
                name,
                write.body,
                namespace=namespace,
                field_manager=FIELD_MANAGER,
                force=write.force,
                subresource="status",
            )
        except ApiError as error:
            metrics.WRITES.labels(self._outcome(pod, claim, write, data, error)).inc()
            return False
        self._caches.written.wrote(claim.key, stored_claim(answer))
        self._applied[claim.key] = (claim.uid, data)
        self._rejected.passed(claim.key)
        metrics.WRITES.labels(outcome).inc()
        if self._refused.passed(STATUS, *write.drivers):
            self._granted()
        return True

    def _outcome(self, pod: ClaimPod, claim: Claim, write: Write, data: Data, error: ApiError) -> str:
        """How it ended. Raises what is to be tried again."""
        if error.lacks_driver or (error.status == 403 and " cannot patch resource " in str(error)):
            # The API server names each driver that lacks a right; others of the claim may have theirs.
            named = frozenset(driver for driver in write.drivers if f'"{driver}"' in str(error))
            names = (named or write.drivers) if error.lacks_driver else (STATUS,)
            for name in names:
                self._refused.failed(name)
            self._reporting.refused(pod, claim, names)
            log.warning("network data forbidden", claim=claim.key, error=str(error))
            return "refused"
        if error.not_found or error.rejected or error.status == 403:
            changed = any(field in str(error) for field in _OUR_FAULT) and not _DENIED.search(str(error))
            lasting = error.not_found or changed
            self._rejected.failed(claim.key, (claim.version, data), lasting=lasting)
            if not lasting:
                self._reporting.rejected(pod, claim, str(error))
            log.info("network data not taken", claim=claim.key, error=str(error))
            return "gone" if error.not_found else "rejected"
        metrics.WRITES.labels("conflict" if error.conflict else "failed").inc()
        raise error

    def _forget(self, claim: Key) -> None:
        self._applied.pop(claim, None)
        self._rejected.passed(claim)
