"""The annotations that this wing reads and writes, and what an attachment asks for in its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from app.kube.names import check_label_key, check_label_value, check_qualified_name
from app.text import quoted
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

Mode = Literal["top-up", "skip", "add"]
"""What becomes of amounts that the Pod asks for itself:

- top-up: they count; the target gets what is missing;
- skip: a resource that any app container names already is left alone;
- add: the target gets all that is needed on top. `berth.dev/injected-resources` records by container what was
  added, so that a second injection adds nothing; of a record only what the container still holds is believed.
"""
CACHED_LENGTH = 512
"""What is longer is parsed each time, so that the memory of caches is bounded."""


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


Networks = tuple[tuple[str, Attachment], ...]
"""(annotation, attachment) pairs in their order, duplicates kept."""


def project(obj: JSON, keys: Sequence[str]) -> Attachment:
    """Reduce a NetworkAttachmentDefinition to what injection needs; never fails on odd annotations."""
    metadata = mapping(obj.get("metadata"))
    annotations = mapping(metadata.get("annotations"))
    found = (annotations.get(key) for key in keys)
    selector = annotations.get(NODE_SELECTOR)
    return Attachment(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        resources=tuple(value.strip() for value in found if isinstance(value, str)),
        node_selector=selector if isinstance(selector, str) else "",
    )


def mapping(value: object) -> JSON:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def resource_name(text: str) -> str:
    """The trimmed name of a device resource; raises ValueError that says what would be right.

    As the API server judges the resources of a container that are not its own (cpu, memory, hugepages): a qualified
    name with a domain, which an extended resource must keep with `requests.` before it, as quotas write it.
    """
    return _resource_name(text if len(text) <= CACHED_LENGTH else text.strip())


@lru_cache(maxsize=4096)
def _resource_name(text: str) -> str:
    name = text.strip()
    if not name:
        raise ValueError("an empty resource name is not allowed: use a name such as example.com/nic")
    if "/" not in name:
        raise ValueError(f"{quoted(name)} has no domain: use a name such as example.com/nic")
    check_qualified_name(name)
    if "kubernetes.io/" not in name:
        if name.startswith("requests."):
            raise ValueError(f"{quoted(name)} begins with 'requests.': use a name such as example.com/nic")
        check_qualified_name(f"requests.{name}")
    return name


def parse_node_selector(text: str) -> tuple[tuple[str, str], ...]:
    """The labels of `key=value, key=value`, sorted; a key alone has the value "". () for a blank text.

    Raises ValueError that says which label is wrong and what would be right.
    """
    return _labels_cached(text) if len(text) <= CACHED_LENGTH else _labels(text)


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    labels: dict[str, str] = {}
    for index, item in enumerate(text.split(",") if text.strip() else (), start=1):
        key, _, value = (part.strip() for part in item.partition("="))
        if not key:
            raise ValueError(f"label {index} ({quoted(item)}) has no key: use key=value[,key=value…]")
        try:
            check_label_key(key)
            check_label_value(value)
        except ValueError as error:
            raise ValueError(f"label {index} ({quoted(item)}): {error}") from None
        if labels.setdefault(key, value) != value:
            raise ValueError(f"label {key} has two values, {labels[key]!r} and {value!r}: use one")
    return tuple(sorted(labels.items()))


_labels_cached = lru_cache(maxsize=4096)(_labels)
