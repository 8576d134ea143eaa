"""What the verdict on a Service reads: once for all Services of a namespace, and no more of a Pod than it needs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from app.claims.publishing.model import Attachment, stored_attachment
from app.claims.settings import ControllerSettings
from app.claims.slices import Pools
from app.claims.stored import Claim, claim_pod, stored_claim
from app.claims.why.devices import pools
from app.claims.why.publishers import NOT_KEPT
from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.kube.resources import (
    ENDPOINT_SLICES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
)
from app.kube.store import Key
from app.networks.model import NETWORKS
from app.services.addresses import Claimed, Network, claimed
from app.services.caches import stored_zone
from app.services.model import MANAGED_BY, OURS, Pod, Service, Wish, selected_networks, stored_pod
from app.services.planning import Inputs
from app.services.slices import EndpointSlice, stored_endpoint_slice
from app.why.model import Asking, listed, once, or_else, read
from app.wire import JSON

CONTROLLER = "network-services"
Attachments = dict[str, Attachment]
"""By NAMESPACE/NAME."""


class Seen(NamedTuple):
    """What is kept of a Pod: `pod` as the controller keeps it, None of one that is attached to nothing.

    `selects` are the networks that its annotations ask for, None where they cannot be read. `made` has as much of its
    metadata as says what makes it.
    """

    name: str
    labels: dict[str, str]
    selects: frozenset[str] | None
    made: JSON
    pod: Pod | None


def pods_in(namespace: str, home: str) -> Asking[list[Seen]]:
    """The Pods of a namespace that are not over. `home` is the namespace of a default network that names none."""
    return (yield from read(partial(_pods_in, namespace, home), key=("Pods of Services", namespace)))


async def _pods_in(namespace: str, home: str, cluster: Cluster) -> list[Seen]:
    pods = (_seen(obj, home) async for obj in cluster.paged(PODS, namespace=namespace))
    return [seen async for seen in pods if seen is not None]


def _seen(obj: JSON, home: str) -> Seen | None:
    pod, metadata = claim_pod(obj), obj["metadata"]
    if pod.over:
        return None
    made = {key: metadata.get(key) for key in ("name", "namespace", "ownerReferences", "labels")}
    made["annotations"] = {NETWORKS: pod.networks}
    return Seen(pod.key[1], metadata.get("labels") or {}, selected_networks(pod, home), made, stored_pod(obj, home))


def settings_of() -> Asking[ControllerSettings]:
    """Those of the controller."""
    return (yield from read(_settings))


async def _settings(cluster: Cluster) -> ControllerSettings:
    return await cluster.settings(ControllerSettings, role="controller")


def attachments_beside(wish: Wish, settings: ControllerSettings) -> Asking[Attachments | None]:
    """Those in the namespace of the network; None where they may not be read."""
    namespace = wish.network.partition("/")[0]
    if not namespace:
        return {}

    def gathered() -> Asking[Attachments]:
        return _stored((yield from listed(NETWORK_ATTACHMENTS, namespace)), settings)

    return (yield from or_else(once(("attachments of Services", namespace), gathered), None))


def _stored(attachments: list[objects.Object], settings: ControllerSettings) -> Attachments:
    stored = (stored_attachment(it.json, settings.network_resource_name_keys) for it in attachments)
    return {attachment.key: attachment for attachment in stored}


def inputs_of(
    service: Service, wish: Wish, pods: tuple[Pod, ...], attachments: Attachments | None, settings: ControllerSettings
) -> Asking[tuple[Inputs, bool]]:
    """What the controller plans the endpoints with; and whether the EndpointSlices that there are could be read."""
    namespace = service.key[0]
    by_claims, network = Claimed(), _network(wish, attachments or {}, settings)
    if attachments is None:
        # Of an attachment that may not be read nothing says that its addresses are wrong.
        network = replace(network, unconfined=True)
    if any(pod.claims and wish.network not in (pod.attached or ()) for pod in pods):
        claims = yield from or_else(read(partial(_claims_in, namespace), key=("claims", namespace)), {})
        by_claims = claimed(claims, (yield from or_else(read(pools), Pools(()))))
        everywhere = yield from or_else(listed(NETWORK_ATTACHMENTS), [])
        network = _network(wish, {**(attachments or {}), **_stored(everywhere, settings)}, settings)
    zones = yield from read(_zones)
    zone_of_node = {pod.node: "" for pod in pods} if zones is None else zones
    slices = yield from or_else(read(partial(_slices_in, namespace), key=("endpoint slices", namespace)), None)
    own = tuple((slices or {}).get(service.key, ()))
    return Inputs(service, network, pods, own, zone_of_node, by_claims), slices is not None


def _network(wish: Wish, attachments: Attachments, settings: ControllerSettings) -> Network:
    attachment = attachments.get(wish.network)
    resource = attachment.resource if attachment else ""
    return Network(
        wish.network,
        resource,
        frozenset(key for key, other in attachments.items() if resource and other.resource == resource),
        attachment,
        unconfined=wish.network in settings.unconfined_networks,
        excluded=settings.excluded,
        device=wish.device,
    )


async def _claims_in(namespace: str, cluster: Cluster) -> dict[Key, Claim]:
    claims = [stored_claim(obj) async for obj in cluster.paged(RESOURCE_CLAIMS, namespace=namespace)]
    return {claim.key: claim for claim in claims}


async def _slices_in(namespace: str, cluster: Cluster) -> dict[Key, list[EndpointSlice]]:
    """Those of ours, by Service."""
    by_service: dict[Key, list[EndpointSlice]] = {}
    async for obj in cluster.paged(ENDPOINT_SLICES, namespace=namespace, label_selector=f"{MANAGED_BY}={OURS}"):
        if (stored := stored_endpoint_slice(obj)) is not None:
            by_service.setdefault(stored.of, []).append(stored)
    return by_service


async def _zones(cluster: Cluster) -> dict[str, str] | None:
    """By node; None where nodes may not be read: then each Pod has one."""
    nodes = await or_default(cluster.listed(NODES), None)
    return None if nodes is None else {node["metadata"]["name"]: stored_zone(node) for node in nodes}


async def absence_of_controller(cluster: Cluster) -> tuple[str, str, tuple[str, ...]] | None:
    """Why the controller does not act, with command and codes; None where it does, or may run elsewhere."""
    if not await or_default(cluster.installed(), []):
        return None
    running = [it for it in await cluster.running("controller") if CONTROLLER in it.setting("controllers")]
    if not running:
        return f"controller {CONTROLLER} does not run", await acting.choose(cluster, CONTROLLER), (NOT_KEPT,)
    if any(objects.status(it.object).get("readyReplicas") and not it.stopped for it in running):
        return None
    return f"{running[0].subject}, which runs it, has no ready replica", commands.look_at(cluster, running[0]), ()
