"""What the caches know around one claim: its Pod, the network of each interface, and who else has a name or an address.

By indices alone: a review costs as much as its claim has entries, however many claims and Pods there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.admission.naming import named, readable
from app.claims.admission.status import Surroundings
from app.claims.admission.stored import Address, HeldClaim, HeldEntry, NetworkPod
from app.claims.publishing.model import Attachment
from app.kube.store import Key, Store
from app.pace import step

BY_ADDRESS, BY_POD = "address", "pod"
"""Indices: of claims by address and by the UID of their Pod, of Pods by network and address."""


@dataclass(frozen=True, slots=True)
class Views:
    """The caches: claims with network data, Pods on networks of attachments, and these attachments."""

    claims: Store[HeldClaim]
    pods: Store[NetworkPod]
    attachments: Store[Attachment]

    def pod_of(self, claim: HeldClaim) -> NetworkPod | None:
        """None where the claim is not of one Pod, and where Multus has not said what it attached to it."""
        found = self.pods.get(claim.key[0], claim.pod.name) if claim.pod is not None else None
        return found if found is not None and claim.pod is not None and found.uid == claim.pod.uid else None


class Scene:
    """Around the claim as it is being written; what the cache has of it does not count.

    A claim that is not reserved for one Pod alone has no surroundings: its interfaces may be in different Pods.
    Objects of namespace `home` alone are named.
    """

    def __init__(self, views: Views, claim: HeldClaim, *, home: str) -> None:
        self._views, self._claim, self._home = views, claim, home
        self._pod = views.pod_of(claim)
        self._names: dict[str, list[tuple[Key, HeldEntry]]] = {}
        self._own: dict[tuple[str, Address], dict[str, HeldEntry]] = {}
        if claim.pod is None:
            return
        others = [one for one in views.claims.by_index(BY_POD, claim.pod.uid) if one.key != claim.key]
        for held in (claim, *others):
            step()
            for entry in held.entries:
                named = self._names.setdefault(entry.interface, [])
                if len(named) < 2:  # itself, and another one
                    named.append((held.key, entry))
        for entry in claim.entries:
            network = self._network(entry)
            for address in entry.addresses if network else ():
                if address is not None:
                    self._own.setdefault((network, address), {}).setdefault(entry.interface, entry)

    def around(self, entry: HeldEntry) -> Surroundings:
        """What is known around an entry of the claim."""
        claim, network = self._claim, self._network(entry)
        if claim.pod is None or not entry.interface:
            return Surroundings()
        namesakes = (
            self._device(key, one) for key, one in self._names[entry.interface] if (key, one) != (claim.key, entry)
        )
        holders = {
            address: holder
            for address in (entry.addresses if network else ())
            if address is not None and (holder := next(self._holders(entry.interface, network, address), ""))
        }
        place, _, name = network.partition("/")
        return Surroundings(
            network=network,
            attachment=self._views.attachments.get(place, name) if network else None,
            shows_subnets=readable((place, name), self._home),
            holders=holders,
            pod=f"{claim.key[0]}/{claim.pod.name}",
            namesake=next(namesakes, ""),
        )

    def _network(self, entry: HeldEntry) -> str:
        return self._pod.network_of(entry.interface) if self._pod is not None else ""

    def _holders(self, interface: str, network: str, address: Address) -> Iterator[str]:
        """Who else has the address on the network, in words: another Pod, or another interface of the same one."""
        me = (self._pod.uid if self._pod is not None else "", interface)
        for pod in self._views.pods.by_index(BY_ADDRESS, (network, address)):
            for one in pod.interfaces:
                if (pod.uid, one.name) != me and one.network == network and address in one.addresses:
                    yield self._of(f"interface {one.name}", "Pod", pod.key)
        for name, entry in self._own.get((network, address), {}).items():
            if name != interface:
                yield self._device(self._claim.key, entry)
        for claim in self._views.claims.by_index(BY_ADDRESS, address):
            step()
            its = self._views.pod_of(claim) if claim.key != self._claim.key else None
            if its is None:
                continue
            for entry in claim.entries:
                there = address in entry.addresses and its.network_of(entry.interface) == network
                if there and (its.uid, entry.interface) != me:
                    yield self._device(claim.key, entry)

    def _device(self, key: Key, entry: HeldEntry) -> str:
        return self._of(f"device {entry.device}", "claim", key)

    def _of(self, part: str, kind: str, key: Key) -> str:
        """A part of an object, which is not named either where the object may not be."""
        text = named(kind, key, self._home)
        return f"{part} of {text}" if readable(key, self._home) else text
