"""Which Services have to be looked at after a change.

What a change of a Pod costs does not depend on the number of Pods.
"""

from __future__ import annotations

from collections.abc import Callable

from app.claims.publishing.model import Attachment
from app.claims.services.caches import Caches
from app.claims.services.model import Service
from app.claims.services.pods import Pod
from app.claims.services.slices import EndpointSlice
from app.claims.stored.slices import Slice
from app.kube.store import Key


class Waking:
    """Calls `wake` with the (namespace, name) of a Service. Writes of ours that a watch shows are no change."""

    def __init__(self, caches: Caches, wake: Callable[[Key], object]) -> None:
        self._caches, self._wake = caches, wake
        caches.services.subscribe(lambda _event, key, _old, _new: wake(key))
        caches.pods.subscribe(lambda _event, _key, old, new: self._pods_changed(old, new))
        caches.zones.subscribe(lambda _event, key, _old, _new: self._node_changed(key[1]))
        caches.claims.subscribe(lambda _event, key, _old, _new: self._claim_changed(key))
        caches.devices.subscribe(lambda _event, _key, old, new: self._devices_changed(old, new))
        caches.attachments.subscribe(lambda _event, _key, old, new: self._attachment_changed(old, new))
        caches.slices.subscribe(self._slice_changed)
        caches.slices.on_renewed(caches.written.clear)

    def _pods_changed(self, *pods: Pod | None) -> None:
        found = {service.key for pod in pods if pod is not None for service in self._selecting(pod)}
        for key in sorted(found):
            self._wake(key)

    def _selecting(self, pod: Pod) -> list[Service]:
        services = self._caches.services.by_index("namespace", pod.key[0])
        return [one for one in services if one.wish is not None and one.wish.pods.matches(pod.labels)]

    def _node_changed(self, node: str) -> None:
        self._pods_changed(*self._caches.pods.by_index("node", node))

    def _claim_changed(self, key: Key) -> None:
        """It counts only for Services on networks of which Multus says nothing for the Pod."""
        for pod in self._caches.pods.by_index("claim", key):
            for service in self._selecting(pod):
                if service.wish is not None and service.wish.network not in (pod.attached or ()):
                    self._wake(service.key)

    def _devices_changed(self, *slices: Slice | None) -> None:
        pools = {(one.driver, one.pool) for one in slices if one is not None}
        for claim in {claim.key for pool in pools for claim in self._caches.claims.by_index("pool", pool)}:
            self._claim_changed(claim)

    def _attachment_changed(self, *attachments: Attachment | None) -> None:
        """Another attachment with the same resource makes it unclear which of both a device is for."""
        changed = [one for one in attachments if one is not None]
        networks, resources = {one.key for one in changed}, {one.resource for one in changed if one.resource}
        # Many attachments may have one resource, and few of them have Services.
        for service in list(self._caches.services.values()):
            network = service.wish.network if service.wish is not None else ""
            if network in networks or (resources and self._caches.resource_of(network) in resources):
                self._wake(service.key)

    def _slice_changed(self, _event: str, key: Key, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        if self._caches.written.shown(key, old, new):
            return
        for service in sorted({one.of for one in (old, new) if one is not None}):
            self._wake(service)
