"""What the controller reads: Pods with claims, ResourceClaims, ResourceSlices and attachments.

Each event is looked up in indices, so that it costs the same with many objects.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from app.claims.network_status import attached_to
from app.claims.publishing.model import Inputs, stored_attachment
from app.claims.slices import Slice, stored_slice
from app.claims.stored import Claim, ClaimPod, stored_claim, stored_pod
from app.errors import Denied
from app.kube.kit import Kit, Wakes, itself
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.kube.store import Key, Store
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import parse
from app.wire import JSON

LAG = 30.0
"""Seconds for which our own write is believed while the watch does not show it."""


def attachments_of(pod: ClaimPod, home: str) -> tuple[str, ...]:
    """NAMESPACE/NAME of each, once; those of an annotation that cannot be read are left out.

    That is what the Pod selects, and what Multus has attached: its own configuration may give networks to all Pods.
    `home` is the namespace of a default network that names none.
    """
    names: dict[str, None] = {}
    for text, annotation, namespace in (
        (pod.default_network, DEFAULT_NETWORK, home),
        (pod.networks, NETWORKS, pod.key[0]),
    ):
        try:
            selections = parse(text, annotation=annotation, default_namespace=namespace)
        except Denied:
            continue
        names |= dict.fromkeys(f"{selection.namespace}/{selection.name}" for selection in selections)
    with suppress(ValueError):
        names |= dict.fromkeys(entry.name for entry in attached_to(pod.network_status or "[]") if "/" in entry.name)
    return tuple(names)


class PublishingCaches:
    """With `node`, only what is of this node is kept.

    `keys` are the annotations that name the resource of an attachment; `home` is the namespace of default networks.
    `unconfined` and `excluded` are those of `Inputs`.
    """

    def __init__(
        self,
        kit: Kit,
        *,
        keys: Sequence[str],
        home: str,
        node: str = "",
        unconfined: Container[str] = (),
        excluded: tuple[IPv4Network | IPv6Network, ...] = (),
    ) -> None:
        self._home, self._unconfined, self._excluded = home, unconfined, excluded
        on_node = f"spec.nodeName={node}" if node else ""
        self.pods = kit.cache(
            PODS,
            stored_pod,
            indices={
                "claim": lambda pod: ((pod.key[0], name) for name in pod.claim_names),
                "attachment": lambda pod: attachments_of(pod, home),
            },
            fields=on_node,
        )
        self.claims = kit.cache(
            RESOURCE_CLAIMS,
            partial(_claim_of, node),
            indices={"pool": lambda claim: {result.device[:2] for result in claim.results}},
        )
        self.slices = kit.cache(
            RESOURCE_SLICES,
            stored_slice,
            indices={"pool": lambda devices: ((devices.driver, devices.pool),)},
            fields=on_node,
        )
        self.attachments = kit.cache(NETWORK_ATTACHMENTS, partial(stored_attachment, keys=keys))
        self.written = kit.own(self.claims, lifetime=LAG)

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        """Which Pods have to be looked at after a change."""
        return {
            self.pods: itself,
            self.claims: lambda key, _old, _new: self._pods_by("claim", key),
            self.slices: lambda _key, old, new: self._of_devices(old, new),
            self.attachments: lambda key, _old, _new: self._pods_by("attachment", "/".join(key)),
        }

    def _pods_by(self, index: str, key: object) -> list[Key]:
        return [pod.key for pod in self.pods.by_index(index, key)]

    def _of_devices(self, *slices: Slice | None) -> list[Key]:
        pools = {(devices.driver, devices.pool) for devices in slices if devices is not None}
        claims = [claim.key for pool in pools for claim in self.claims.by_index("pool", pool)]
        return [pod for claim in claims for pod in self._pods_by("claim", claim)]

    def inputs_of(self, pod: ClaimPod) -> Inputs:
        """What there is for this Pod, our own writes included."""
        namespace = pod.key[0]
        named = (self.written.get((namespace, name)) for name in pod.claim_names)
        claims = tuple(claim for claim in named if claim is not None)
        pools = dict.fromkeys(result.device[:2] for claim in claims for result in claim.results)
        slices = tuple(devices for pool in pools for devices in self.slices.by_index("pool", pool))
        names = dict.fromkeys(attachments_of(pod, self._home))
        attachments = {
            name: attachment for name in names if (attachment := self.attachments.get(*name.split("/", 1))) is not None
        }
        return Inputs(
            pod, claims, slices, attachments, self._home, unconfined=self._unconfined, excluded=self._excluded
        )


def _claim_of(node: str, obj: JSON) -> Claim | None:
    """None for a claim of another node, or of none, where one is asked for."""
    claim = stored_claim(obj)
    return claim if not node or claim.node == node else None
