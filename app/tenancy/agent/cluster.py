"""Which cluster this is: the UID of its namespace kube-system, which is made once and shared by no two clusters.

Read once for each run. Nothing is said to the gateway before, for what is said without it could be another tenant's.
"""

from __future__ import annotations

import asyncio

import structlog

from app.errors import ApiError
from app.kube.backoff import Backoff
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES

log = structlog.get_logger(__name__)

NAMESPACE = "kube-system"


class ClusterIdentity:
    """`uid` is "" and `problem` says why until `learn` has found out. Pauses between tries grow to `cap` seconds."""

    def __init__(self, client: KubeClient, *, base: float, cap: float) -> None:
        self._client = client
        self._backoff = Backoff(base=base, cap=cap)
        self._known = asyncio.Event()
        self.uid = ""
        self.problem = f"namespace {NAMESPACE} was not read yet"

    async def known(self) -> None:
        await self._known.wait()

    async def learn(self) -> None:
        """Asks the API server until it tells."""
        while True:
            try:
                found = await self._client.get(NAMESPACES, NAMESPACE)
            except ApiError as error:
                self._fail(str(error))
            else:
                uid = found["metadata"].get("uid")
                if isinstance(uid, str) and uid:
                    self.uid, self.problem = uid, ""
                    self._known.set()
                    return
                self._fail("it has no UID")
            await asyncio.sleep(self._backoff.next())

    def _fail(self, reason: str) -> None:
        problem = f"namespace {NAMESPACE} tells this cluster from others and must be readable (verb get): {reason}"
        if problem != self.problem:
            log.warning("this cluster cannot be told from others", problem=problem)
        self.problem = problem
