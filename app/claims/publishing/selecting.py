"""Which attachments count for a Pod. Pure."""

from __future__ import annotations

from contextlib import suppress

from app.claims.network_status import attached_to
from app.claims.stored.pods import ClaimPod
from app.errors import Denied
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import parse


def attachments_of(pod: ClaimPod, home: str) -> tuple[str, ...]:
    """NAMESPACE/NAME of each, once; those of an annotation that cannot be read are left out.

    That is what the Pod selects, and what Multus has attached: its own configuration may give networks to all Pods.
    `home` is the namespace of a default network that names none.
    """
    found: dict[str, None] = {}
    for text, annotation, namespace in (
        (pod.default_network, DEFAULT_NETWORK, home),
        (pod.networks, NETWORKS, pod.key[0]),
    ):
        try:
            selections = parse(text, annotation=annotation, default_namespace=namespace)
        except Denied:
            continue
        found |= dict.fromkeys(f"{selection.namespace}/{selection.name}" for selection in selections)
    with suppress(ValueError):
        found |= dict.fromkeys(entry.name for entry in attached_to(pod.network_status or "[]") if "/" in entry.name)
    return tuple(found)
