"""Which cluster this is: the UID of its namespace kube-system, which is made once and shared by no two clusters.

Read once for each run. The gateway is not called before, for what comes from an unknown cluster could be another
tenant's.
"""

from __future__ import annotations

import asyncio

import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.retry import Backoff

log = structlog.get_logger(__name__)

NAMESPACE = "kube-system"


class ClusterIdentity:
    """`uid` is "" and `problem` says why until it is `known`. Pauses between tries grow to `cap` seconds."""

    def __init__(self, client: KubeClient, *, base: float, cap: float) -> None:
        self._client = client
        self._backoff = Backoff(base=base, cap=cap)
        self.known = asyncio.Event()
        self.uid = ""
        self.problem = f"namespace {NAMESPACE} was not read yet"

    async def run(self) -> None:
        while True:
            try:
                found = await self._client.get(NAMESPACES, NAMESPACE)
                uid, reason = found["metadata"].get("uid"), "it has no UID"
            except ApiError as error:
                uid, reason = None, str(error)
            if isinstance(uid, str) and uid:
                self.uid, self.problem = uid, ""
                self.known.set()
                return
            problem = f"namespace {NAMESPACE} tells this cluster from others and must be readable (verb get): {reason}"
            if problem != self.problem:
                log.warning("this cluster cannot be identified", problem=problem)
            self.problem = problem
            await asyncio.sleep(self._backoff.next())
