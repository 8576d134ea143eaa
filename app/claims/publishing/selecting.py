"""Which attachments a Pod selects. Pure."""

from __future__ import annotations

from app.claims.stored import ClaimPod
from app.errors import Denied
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.selection import parse


def attachments_of(pod: ClaimPod, home: str) -> tuple[str, ...]:
    """NAMESPACE/NAME of each, once; those of an annotation that cannot be read are left out.

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
        found |= dict.fromkeys(f"{one.namespace}/{one.name}" for one in selections)
    return tuple(found)
