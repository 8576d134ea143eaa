"""The controller `network-services`: Services with the annotation in, EndpointSlices and Events out.

All state is in the cluster. A Service is one key: however many of its Pods change, it is looked at once.

A network status is an annotation. So the right to write annotations of a Pod is the right to send traffic for the
Services that select it to any address that an API server takes in an EndpointSlice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.claims.publishing.model import Attachment
from app.claims.services import metrics
from app.claims.services.caches import Caches
from app.claims.services.pods import Pod
from app.claims.services.saying import Saying
from app.claims.services.slices import EndpointSlice
from app.claims.services.syncing import ServiceSync
from app.claims.settings import ControllerSettings
from app.claims.stored.slices import Slice
from app.kube.kit import Kit, Wakes, itself
from app.kube.store import Key, Store
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as


def build(context: ControllerContext) -> Kit:
    networks, kit = settings_as(context.settings, ControllerSettings), context.kit()
    caches = Caches(
        kit,
        keys=networks.network_resource_name_keys,
        home=networks.default_network_namespace,
        unconfined=networks.unconfined_networks,
        excluded=networks.excluded,
    )
    network_services(kit, caches)
    return kit


def network_services(kit: Kit, caches: Caches) -> None:
    """Make the controller of this kit, whose caches these are."""
    metrics.create_series()
    sync = ServiceSync(kit.client, caches, Saying(kit.events))
    kit.reconcile("network-services", sync.reconcile, keys=caches.keys, wakes=Waking(caches).wakes())
    kit.at_end(metrics.forget_all)


class Waking:
    """Which Services have to be looked at after a change.

    What a change of a Pod costs does not depend on the number of Pods.
    """

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        caches = self._caches
        return {
            caches.services: itself,
            caches.pods: lambda _key, old, new: self._selecting(old, new),
            caches.zones: lambda key, _old, _new: self._selecting(*caches.pods.by_index("node", key[1])),
            caches.claims: lambda key, _old, _new: self._of_claim(key),
            caches.devices: lambda _key, old, new: self._of_devices(old, new),
            caches.attachments: lambda _key, old, new: self._of_attachments(old, new),
            caches.slices: services_of,
        }

    def _selecting(
        self, *pods: Pod | None, network: Callable[[Pod, str], bool] = lambda _pod, _network: True
    ) -> list[Key]:
        """Those that select one of the Pods, and whose network is one of those."""
        services = {
            service.key
            for pod in pods
            if pod is not None
            for service in self._caches.services.by_index("namespace", pod.key[0])
            if (wish := service.wish) is not None and wish.pods.matches(pod.labels) and network(pod, wish.network)
        }
        return sorted(services)

    def _of_claim(self, key: Key) -> list[Key]:
        """A claim counts only for Services on networks of which Multus says nothing for the Pod."""
        pods = self._caches.pods.by_index("claim", key)
        return self._selecting(*pods, network=lambda pod, network: network not in (pod.attached or ()))

    def _of_devices(self, *slices: Slice | None) -> list[Key]:
        pools = {(devices.driver, devices.pool) for devices in slices if devices is not None}
        claims = {claim.key for pool in pools for claim in self._caches.claims.by_index("pool", pool)}
        return [service for claim in claims for service in self._of_claim(claim)]

    def _of_attachments(self, *attachments: Attachment | None) -> list[Key]:
        """Another attachment with the same resource makes it unclear which of both a device is for."""
        changed = [attachment for attachment in attachments if attachment is not None]
        networks = {attachment.key for attachment in changed}
        resources = {attachment.resource for attachment in changed if attachment.resource}
        # Many attachments may have one resource, and few of them have Services.
        named = [
            (service.key, service.wish.network if service.wish else "") for service in self._caches.services.values()
        ]
        return [
            key
            for key, network in named
            if network in networks or (resources and self._caches.resource_of(network) in resources)
        ]


def services_of(_key: Key, old: EndpointSlice | None, new: EndpointSlice | None) -> list[Key]:
    """Those of a slice, before the change and after it."""
    return sorted({endpoints.of for endpoints in (old, new) if endpoints is not None})
