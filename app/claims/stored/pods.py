"""What is kept of Pods that have claims. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app.claims.network_status import status_in
from app.kube.conditions import status_of
from app.kube.store import Key, key_of
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import JSON


class PodClaim(NamedTuple):
    """An element of `spec.resourceClaims`; `claim` is "" until the claim of a template is known."""

    name: str
    claim: str


@dataclass(frozen=True, slots=True)
class ClaimPod:
    """A Pod that has, or may get, devices by claims. `network_status` is the text of Multus, None where it has none.

    `extended_requests` are the requests of its extended-resource claim with the resource that each is for.
    `plugin_resources` are the extended resources that it asks for and that device plugins give, not that claim.
    """

    key: Key
    uid: str
    node: str
    host_network: bool
    over: bool
    networks: str
    default_network: str
    network_status: str | None
    claims: tuple[PodClaim, ...]
    extended_claim: str
    extended_requests: tuple[tuple[str, str], ...] = ()
    plugin_resources: frozenset[str] = frozenset()

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The names of its ResourceClaims, as far as they are known."""
        found = (*(claim.claim for claim in self.claims), self.extended_claim)
        return tuple(dict.fromkeys(name for name in found if name))


def stored_pod(obj: JSON) -> ClaimPod | None:
    """None for a Pod that has no claim."""
    pod = claim_pod(obj)
    return pod if pod.claims or pod.extended_claim else None


def claim_pod(obj: JSON) -> ClaimPod:
    """Any Pod, also one that has no claim."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, status_of(obj)
    made = {
        entry.get("name"): entry.get("resourceClaimName") or "" for entry in status.get("resourceClaimStatuses") or ()
    }
    claims = tuple(
        PodClaim(claim["name"], claim.get("resourceClaimName") or made.get(claim["name"], ""))
        for claim in spec.get("resourceClaims") or ()
    )
    by_resource: JSON = status.get("extendedResourceClaimStatus") or {}
    extended = by_resource.get("resourceClaimName") or ""
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    requests = tuple(
        (request.get("requestName") or "", request.get("resourceName") or "")
        for request in by_resource.get("requestMappings") or ()
    )
    return ClaimPod(
        key=key_of(obj),
        uid=metadata.get("uid", ""),
        node=spec.get("nodeName") or "",
        host_network=bool(spec.get("hostNetwork")),
        over=status.get("phase") in ("Succeeded", "Failed"),
        networks=annotations.get(NETWORKS, ""),
        default_network=annotations.get(DEFAULT_NETWORK, ""),
        network_status=status_in(annotations),
        claims=claims,
        extended_claim=extended,
        extended_requests=requests,
        plugin_resources=frozenset(_extended_resources(spec)) - {resource for _, resource in requests},
    )


def _extended_resources(spec: JSON) -> Iterator[str]:
    """Their limits are their requests, so either may stand alone."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        for amounts in (resources.get("requests"), resources.get("limits")):
            yield from (name for name in amounts or () if "/" in name)
