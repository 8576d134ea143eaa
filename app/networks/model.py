"""The projection of an attachment, and the names of the annotations that this wing reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from app.wire import JSON

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation on a Pod, by its author: the attachments that it wants, as a comma list of names or a JSON list."""
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
"""Annotation on a Pod, by its author: the attachment that it wants in place of the cluster's own network."""
RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation on an attachment, by its author: the resource that each selection of it needs one of.

--network-resource-name-keys names others.
"""
NODE_SELECTOR = "k8s.v1.cni.cncf.io/nodeSelector"
"""Annotation on an attachment, by its author: `key=value` of the nodes that have it, which Pods then select."""
RESOURCES_CONTAINER = "berth.dev/resources-container"
"""Annotation on a Pod, by its author: the container that gets the resources; the first without it."""
INJECTED_RESOURCES = "berth.dev/injected-resources"
"""Annotation on a Pod, by the webhook: what it injected, by resource, so that another pass adds nothing."""


class Attachment(msgspec.Struct, frozen=True):
    """What the cache keeps of a NetworkAttachmentDefinition.

    `resources` holds the value of each configured key that is present, trimmed but unchecked, in the order of the keys;
    `node_selector` the text of its annotation, "" where there is none.
    """

    namespace: str
    name: str
    resources: tuple[str, ...] = ()
    node_selector: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def project(obj: JSON, keys: Sequence[str]) -> Attachment:
    """Reduce a NetworkAttachmentDefinition to what injection needs; never fails on odd annotations."""
    metadata = _mapping(obj.get("metadata"))
    annotations = _mapping(metadata.get("annotations"))
    found = (annotations.get(key) for key in keys)
    selector = annotations.get(NODE_SELECTOR)
    return Attachment(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        resources=tuple(value.strip() for value in found if isinstance(value, str)),
        node_selector=selector if isinstance(selector, str) else "",
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
