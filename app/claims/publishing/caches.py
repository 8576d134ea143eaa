"""What the controller reads: Pods with claims, ResourceClaims, ResourceSlices and attachments.

Each event is looked up in indices, so that it costs the same with many objects.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from app.claims.publishing.attachments import stored_attachment
from app.claims.publishing.model import Attachment, Inputs
from app.claims.publishing.selecting import attachments_of
from app.claims.stored.claims import Claim, stored_claim
from app.claims.stored.pods import ClaimPod, stored_pod
from app.claims.stored.slices import Slice, stored_slice
from app.kube.client import KubeClient
from app.kube.own_writes import OwnWrites
from app.kube.reflector import Reflector
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.kube.running import problems_of
from app.kube.store import EventType, Key, Store
from app.wire import JSON

LAG = 30.0
"""Seconds for which our own write is believed while the watch does not show it."""


class Caches:
    """`wake` is called with Pods to look at. With `node`, only what is of this node is kept.

    `keys` are the annotations that name the resource of an attachment; `home` is the namespace of default networks.
    `unconfined` and `excluded` are those of `Inputs`.
    """

    def __init__(
        self,
        client: KubeClient,
        wake: Callable[[Key], object],
        *,
        keys: Sequence[str],
        home: str,
        node: str = "",
        unconfined: Container[str] = (),
        excluded: tuple[IPv4Network | IPv6Network, ...] = (),
    ) -> None:
        self._wake, self._home, self._unconfined, self._excluded = wake, home, unconfined, excluded
        self.pods: Store[ClaimPod] = Store(
            stored_pod,
            indices={
                "claim": lambda one: ((one.key[0], name) for name in one.claim_names),
                "attachment": lambda one: attachments_of(one, home),
            },
        )
        self.claims: Store[Claim] = Store(
            partial(_claim_of, node), indices={"pool": lambda one: {found.device[:2] for found in one.results}}
        )
        self._slices: Store[Slice] = Store(stored_slice, indices={"pool": lambda one: ((one.driver, one.pool),)})
        self._attachments: Store[Attachment] = Store(partial(stored_attachment, keys=keys))
        self.written: OwnWrites[Claim] = OwnWrites(
            lambda key: self.claims.get(*key), lifetime=LAG, reached=_reached, uid=lambda one: one.uid
        )
        self.claims.subscribe(self._claim_changed)
        self.claims.on_renewed(self.written.clear)
        self.pods.subscribe(lambda _event, key, _old, _new: wake(key))
        self._slices.subscribe(lambda _event, _key, old, new: self._slice_changed(old, new))
        self._attachments.subscribe(lambda _event, key, _old, _new: self._wake_pods("attachment", "/".join(key)))
        self.stores: tuple[Store[Any], ...] = (self.pods, self.claims, self._slices, self._attachments)
        on_node = f"spec.nodeName={node}" if node else ""
        self.reflectors = (
            Reflector(client, PODS, self.pods, field_selector=on_node),
            Reflector(client, RESOURCE_CLAIMS, self.claims),
            Reflector(client, RESOURCE_SLICES, self._slices, field_selector=on_node),
            Reflector(client, NETWORK_ATTACHMENTS, self._attachments),
        )

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return problems_of(self.reflectors)

    def inputs_of(self, pod: ClaimPod) -> Inputs:
        """What there is for this Pod, our own writes included."""
        namespace = pod.key[0]
        found = (self.written.get((namespace, name)) for name in pod.claim_names)
        claims = tuple(one for one in found if one is not None)
        pools = dict.fromkeys(result.device[:2] for one in claims for result in one.results)
        slices = tuple(one for pool in pools for one in self._slices.by_index("pool", pool))
        names = dict.fromkeys(attachments_of(pod, self._home))
        attachments = {name: one for name in names if (one := self._attachments.get(*name.split("/", 1))) is not None}
        return Inputs(
            pod, claims, slices, attachments, self._home, unconfined=self._unconfined, excluded=self._excluded
        )

    def expire(self) -> None:
        """Look again at what the watch has not confirmed in time."""
        for claim in self.written.expire():
            self._wake_pods("claim", claim.key)

    def wake_claim(self, key: Key) -> None:
        """Look at the Pods of a claim."""
        self._wake_pods("claim", key)

    def _claim_changed(self, _event: EventType, key: Key, old: Claim | None, new: Claim | None) -> None:
        if not self.written.shown(key, old, new):
            self._wake_pods("claim", key)

    def _slice_changed(self, old: Slice | None, new: Slice | None) -> None:
        pools = {(one.driver, one.pool) for one in (old, new) if one is not None}
        self._wake_all(claim.key for pool in pools for claim in self.claims.by_index("pool", pool))

    def _wake_all(self, claims: Iterable[Key]) -> None:
        for key in claims:
            self._wake_pods("claim", key)

    def _wake_pods(self, index: str, key: object) -> None:
        for pod in self.pods.by_index(index, key):
            self._wake(pod.key)


def _reached(shown: Claim, written: Claim) -> bool:
    """Versions of one object grow."""
    return shown.uid == written.uid and int(shown.version) >= int(written.version)


def _claim_of(node: str, obj: JSON) -> Claim | None:
    """None for a claim of another node, or of none, where one is asked for."""
    found = stored_claim(obj)
    return found if not node or found.node == node else None
