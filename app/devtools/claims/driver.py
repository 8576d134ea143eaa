"""A stand-in for a driver of network devices: publishes ResourceSlices, and what drivers write of allocated devices.

As the drivers do, it leaves a claim alone that is reserved for more than one Pod. It prepares a claim once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import structlog

from app.claims.model import device_key
from app.devtools.claims.entries import data_entries, network_entries
from app.devtools.claims.slices import slice_of, virtual_functions
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from app.kube.store import Key
from app.wire import JSON

log = structlog.get_logger(__name__)
Mode = Literal["silent", "data", "standalone", "erasing", "fails-once"]
"""What it writes into `status.devices`:

- silent: nothing;
- data: an entry with `data` for each device, by a write of the whole list, as dra-driver-sriov does beside Multus;
- standalone: conditions and network data too, by forced apply under its name, as DRANET does;
- erasing: as data; when another client has added network data, it once puts back the list that it has read before, as
  dra-driver-sriov does after a conflict;
- fails-once: nothing, since its only attempt fails, as DRANET's may.
"""
_ATTEMPTS = 5


class DriverStandIn:
    """`nodes` have `count` devices each for `resource`. `client` is who it is to the API server.

    `failed` are the claims whose only attempt failed, `erased` those whose list it has put back.
    """

    def __init__(
        self, client: KubeClient, name: str, mode: Mode, nodes: Sequence[str], *, resource: str, count: int = 4
    ) -> None:
        self.name, self.mode = name, mode
        self._client, self._watched = client, Watched(client)
        self._claims = self._watched.store(RESOURCE_CLAIMS)
        self._devices = {node: virtual_functions(count, resource) for node in nodes}
        self._generations = dict.fromkeys(nodes, 0)
        self._prepared: set[str] = set()
        self._read: dict[str, list[JSON]] = {}
        self._hosts = 0
        self.failed: set[Key] = set()
        self.erased: set[Key] = set()
        self._controller = reconciling("driver-stand-in", self._reconcile, self._claims, workers=1)

    async def run(self) -> None:
        """Runs until cancelled; faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watched.run())
            group.create_task(self._controller.run())

    async def publish_slices(self) -> None:
        """Write the slices of all nodes."""
        for node in self._devices:
            await self.publish(node)

    async def publish(self, node: str) -> None:
        """Write the slice of a node in the next generation of its pool."""
        self._generations[node] += 1
        body = slice_of(self.name, node, self._devices[node], self._generations[node])
        await self._client.apply(RESOURCE_SLICES, body["metadata"]["name"], body, field_manager=self.name)

    async def remove_device(self, node: str, device: str) -> None:
        """Publish the devices of a node without this one."""
        self._devices[node] = [one for one in self._devices[node] if one["name"] != device]
        await self.publish(node)

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.get(*key)
        if claim is None:
            return
        uid, mine = claim["metadata"]["uid"], self._allocated(claim)
        if not mine:
            self._prepared.discard(uid)
        elif uid not in self._prepared:
            if len((claim.get("status") or {}).get("reservedFor") or ()) == 1:
                await self._prepare(key, claim, mine)
                self._prepared.add(uid)
        elif self.mode == "erasing" and key not in self.erased and _has_network_data(claim):
            self.erased.add(key)
            await self._put(key, lambda _now: self._read[uid])

    def _allocated(self, claim: JSON) -> list[JSON]:
        devices: JSON = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        return [one for one in devices.get("results") or () if one["driver"] == self.name]

    async def _prepare(self, key: Key, claim: JSON, mine: Sequence[JSON]) -> None:
        if self.mode == "fails-once":
            log.info("status not written", claim=key)
            self.failed.add(key)
        elif self.mode == "standalone":
            self._hosts += len(mine)
            entries = network_entries(claim, mine, first=self._hosts - len(mine) + 1)
            body = RESOURCE_CLAIMS.body({"name": key[1]}) | {"status": {"devices": entries}}
            await self._client.apply(
                RESOURCE_CLAIMS, key[1], body, namespace=key[0], subresource="status", field_manager=self.name
            )
        elif self.mode != "silent":
            added = data_entries(claim, mine)
            written = await self._put(key, lambda now: [*now, *_others(added, now)])
            self._read[claim["metadata"]["uid"]] = written

    async def _put(self, key: Key, change: Callable[[list[JSON]], list[JSON]]) -> list[JSON]:
        """Read the claim and write it with other devices; returns them. Raises ApiError after five conflicts."""
        for attempt in range(1, _ATTEMPTS + 1):
            claim = await self._client.get(RESOURCE_CLAIMS, key[1], namespace=key[0])
            claim["status"]["devices"] = devices = change(claim["status"].get("devices") or [])
            try:
                await self._client.replace(RESOURCE_CLAIMS, key[1], claim, namespace=key[0], subresource="status")
            except ApiError as error:
                if not error.conflict or attempt == _ATTEMPTS:
                    raise
            else:
                break
        return devices


def _others(added: Iterable[JSON], now: Sequence[JSON]) -> list[JSON]:
    known = {device_key(one) for one in now}
    return [one for one in added if device_key(one) not in known]


def _has_network_data(claim: JSON) -> bool:
    return any("networkData" in one for one in claim["status"].get("devices") or ())
