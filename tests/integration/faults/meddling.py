"""What strangers and meddlers do at random: to mirrors, companions and stored objects, and with names that clash."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from app.kube.resources import PODS, Resource
from app.workloads.model import (
    COMPANION,
    RESOURCE_OWNER,
    TENANT_RULES,
    UVS_PODS,
    WORKLOADS,
)
from tests.integration.faults.oracle import Book
from tests.integration.faults.reading import _is_mirror, _place, guest_of
from tests.integration.faults.world import Side, World, persist

JSON = dict[str, Any]
RULES = ("r0", "r1", "r2")
MOST_FOREIGN = 3


class Meddling:
    """What a driver inherits; `book` says what of it has to last."""

    world: World
    random: random.Random
    book: Book
    _note: Callable[[str], None]
    _tenant: Callable[[], tuple[str, Side]]
    _pods: Callable[[Side], list[JSON]]

    def _companions(self) -> list[JSON]:
        pods = self.world.infra.all(PODS)
        return [
            pod
            for pod in pods
            if COMPANION in (pod["metadata"].get("labels") or {})
            and ("infra", "pods", *_place(pod)) not in self.book.foreign
            and not pod["metadata"].get("deletionTimestamp")
        ]

    async def _mirror_deleted(self) -> None:
        await self._on_mirror("delete", lambda side, name: side.client.delete(UVS_PODS, name, namespace="universe"))

    async def _mirror_edited(self) -> None:
        container = {"name": "edited", "image": "edited"}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
        change = [{"op": "replace", "path": "/spec/object", "value": manifest}]
        await self._on_mirror(
            "edit",
            lambda side, name: side.client.patch(UVS_PODS, name, change, patch_type="json", namespace="universe"),
        )

    async def _on_mirror(self, what: str, request: Callable[[Side, str], Awaitable[Any]]) -> None:
        name, side = self._tenant()
        mirrors = [obj["metadata"]["name"] for obj in side.all(UVS_PODS) if _is_mirror(obj)]
        if mirrors:
            chosen = self.random.choice(mirrors)
            self._note(f"{name}: {what} mirror {chosen}")
            self.book.stable.pop(("mirror", name, chosen), None)
            await persist(lambda: request(side, chosen), but=(404, 409, 422))

    async def _on_companion(self, what: str, request: Callable[[str, str], Awaitable[Any]]) -> None:
        if companions := self._companions():
            namespace, name = _place(self.random.choice(companions))
            self._note(f"infra: {what} companion {namespace}/{name}")
            self.book.forget(name)
            await persist(lambda: request(namespace, name))

    async def _companion_deleted(self) -> None:
        infra = self.world.infra.client
        await self._on_companion("delete", lambda namespace, name: infra.delete(PODS, name, namespace=namespace))

    async def _companion_edited(self) -> None:
        infra, body = self.world.infra.client, {"metadata": {"annotations": {"berth.dev/injected-annotations": "[]"}}}
        await self._on_companion(
            "edit",
            lambda namespace, name: infra.patch(PODS, name, body, patch_type="merge", namespace=namespace),
        )

    async def _companion_lost(self) -> None:
        infra, body = self.world.infra.client, {"status": {"phase": "Failed", "reason": "Evicted"}}
        await self._on_companion(
            "evict",
            lambda namespace, name: infra.patch(
                PODS, name, body, patch_type="merge", namespace=namespace, subresource="status"
            ),
        )

    async def _object_lost(self) -> None:
        """Somebody deletes in the infra cluster the Pod of a UVSPod."""
        infra = self.world.infra
        pods = [_place(pod) for pod in infra.all(PODS) if RESOURCE_OWNER in (pod["metadata"].get("labels") or {})]
        if pods:
            namespace, name = self.random.choice(pods)
            self._note(f"infra: delete Pod {namespace}/{name} of a UVSPod")
            self.book.forget(name)
            await persist(lambda: infra.client.delete(PODS, name, namespace=namespace))

    async def _stored_rule_deleted(self) -> None:
        rules = [_place(rule) for rule in self.world.infra.all(TENANT_RULES)]
        rules = [place for place in rules if place not in self.book.api_rules]
        if rules:
            namespace, name = self.random.choice(rules)
            self._note(f"infra: delete stored rule {namespace}/{name}")
            self.book.forget(name)
            await persist(lambda: self.world.infra.client.delete(TENANT_RULES, name, namespace=namespace))

    async def _workload_deleted(self) -> None:
        workloads = [_place(obj) for obj in self.world.infra.all(WORKLOADS)]
        if workloads:
            namespace, name = self.random.choice(workloads)
            self._note(f"infra: delete {name}")
            self.book.forget(name.removeprefix("workload-"))
            await persist(lambda: self.world.infra.client.delete(WORKLOADS, name, namespace=namespace))

    def _clashing(self) -> tuple[str, str]:
        """A tenant, and the name of a companion that it has or may have soon."""
        name, side = self._tenant()
        pods = self._pods(side)
        uid = self.random.choice(pods)["metadata"]["uid"] if pods else "none"
        return name, f"{self.random.choice(RULES)}-{uid}"

    async def _foreign_pod(self) -> None:
        tenant, name = self._clashing()
        if sum(place[3].startswith("r") for place in self.book.foreign) < MOST_FOREIGN:
            await self._foreign_in(f"tenant-{tenant}", name, {})

    async def _foreign_in(self, namespace: str, name: str, labels: JSON) -> None:
        spec = {"containers": [{"name": "foreign", "image": "foreign"}]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        made = await persist(lambda: self.world.infra.client.create(PODS, body, namespace=namespace))
        if made is None:
            # Either there is a companion of that name, or the answer to our first try got lost.
            made = await persist(lambda: self.world.infra.client.get(PODS, name, namespace=namespace))
        if made is not None and made["spec"]["containers"][0]["name"] == "foreign":
            self._note(f"infra: foreign Pod {namespace}/{name}")
            self._keep("infra", PODS, made)
            self.book.forget(name)

    def _keep(self, cluster: str, resource: Resource, made: JSON) -> None:
        metadata = made["metadata"]
        place = cluster, resource.plural, metadata["namespace"], metadata["name"]
        self.book.foreign[place] = metadata["uid"], metadata["resourceVersion"]

    async def _guest(self) -> None:
        tenant, name = self._clashing()
        if len(self.book.guests) >= MOST_FOREIGN or ("infra", "pods", f"tenant-{tenant}", name) in self.book.foreign:
            return
        side = self.world.tenants[tenant]
        spec = {"containers": [{"name": "guest", "image": "guest"}]}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        body = UVS_PODS.body({"name": name})
        body["spec"] = {"object": manifest}
        made = await persist(lambda: side.client.create(UVS_PODS, body, namespace="universe"))
        if made is None:
            made = await persist(lambda: side.client.get(UVS_PODS, name, namespace="universe"))
        if made is not None and not _is_mirror(made):
            self._note(f"{tenant}: UVSPod of a user {name}")
            self.book.guests[tenant, name] = guest_of(made)
