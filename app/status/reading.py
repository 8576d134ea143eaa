"""What sections share: the cluster, and reads that may be refused without hiding the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, roles_in
from app.doctor.model import unchecked
from app.errors import ApiError
from app.kube.resources import DAEMON_SETS, DEPLOYMENTS, NODES
from app.wire import JSON

T = TypeVar("T")


@dataclass
class Reading:
    """The reads of one section; `unread` fills with what the API server refused, one sentence each."""

    cluster: Cluster
    unread: list[str] = field(default_factory=list)

    async def tried(self, read: Awaitable[T], default: T) -> T:
        """What is read; where it is refused, `default`, and the refusal is noted."""
        try:
            return await read
        except ApiError as refusal:
            self.note(refusal)
            return default

    async def each(self, objects: AsyncIterator[JSON]) -> AsyncGenerator[JSON]:
        """The objects; a refusal ends them and is noted."""
        try:
            async for obj in objects:
                yield obj
        except ApiError as refusal:
            self.note(refusal)

    def note(self, refusal: ApiError) -> None:
        text = unchecked(refusal).message
        if text not in self.unread:
            self.unread.append(text)

    async def workloads(self) -> list[Installed]:
        """The Deployments and DaemonSets of roles in the namespace of Berth."""
        cluster, objects = self.cluster, list[JSON]()
        for resource in (DEPLOYMENTS, DAEMON_SETS):
            objects += await self.tried(cluster.listed(resource, namespace=cluster.namespace), [])
        return roles_in(objects, release=cluster.release)

    def nodes(self) -> AsyncIterator[JSON]:
        return self.each(self.cluster.paged(NODES))

    async def there(self) -> datetime:
        """The present time by the clock of the API server."""
        skew: timedelta | None = await self.tried(self.cluster.skew(), None)
        return self.cluster.now() + (skew or timedelta())
