"""The shapes that this wing reads: a partial Pod, the projection of an attachment, and every annotation name.

A view holds only what an injector needs, so that a review is decoded once and cheaply. Nothing here is ever
written back: answers are JSON Patch operations, and unknown fields stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from app.errors import Denied
from app.wire import JSON, decode_json

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
MIRROR = "kubernetes.io/config.mirror"
"""Annotation on a Pod, by its kubelet: a static Pod, which runs already and is left alone."""
INJECT = "berth.dev/inject"
"""Label or annotation on a Pod, by its author: "false" turns injection off for it."""
RESOURCES_CONTAINER = "berth.dev/resources-container"
"""Annotation on a Pod, by its author: the container that gets the resources; the first without it."""
INJECTED_RESOURCES = "berth.dev/injected-resources"
"""Annotation on a Pod, by the webhook: what it injected, by resource, so that another pass adds nothing."""

Quantity = str | int | float


class ObjectMeta(msgspec.Struct, rename="camel"):
    """The part of metadata that decides; `namespace` is "" where the API server left it to the request."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Resources(msgspec.Struct):
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class VolumeMount(msgspec.Struct, rename="camel"):
    name: str = ""
    mount_path: str = ""


class VolumeDevice(msgspec.Struct, rename="camel"):
    name: str = ""
    device_path: str = ""


class EnvVar(msgspec.Struct):
    name: str = ""
    value: str = ""


class Container(msgspec.Struct, rename="camel"):
    """One container; `resources` is None where the object has no such member, which a patch must then create."""

    name: str = ""
    resources: Resources | None = None
    volume_mounts: list[VolumeMount] = []
    volume_devices: list[VolumeDevice] = []
    env: list[EnvVar] = []
    restart_policy: str = ""


class DownwardFile(msgspec.Struct):
    path: str = ""


class DownwardVolume(msgspec.Struct):
    items: list[DownwardFile] = []


class Volume(msgspec.Struct, rename={"downward_api": "downwardAPI"}):
    """A volume; `downward_api` is None for every other kind of volume."""

    name: str = ""
    downward_api: DownwardVolume | None = None


class PodSpec(msgspec.Struct, rename="camel"):
    host_network: bool = False
    node_selector: dict[str, str] = {}
    volumes: list[Volume] = []
    containers: list[Container] = []
    init_containers: list[Container] = []


class Pod(msgspec.Struct):
    """What of a Pod this wing reads; ephemeral containers are left out, they take no resources."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


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


_decode_pod = msgspec.json.Decoder(Pod).decode


def decode_pod(raw: msgspec.Raw | bytes) -> Pod:
    """Decode `request.object`. Raises Denied (code 400) where it is no Pod that can be read.

    The API server sends no nulls in the fields read here; hand-written reviews do (`resources:` in YAML), so a
    document that fails is read again with null taken as absent, as the API server takes it.
    """
    try:
        return _decode_pod(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return pod_from(decode_json(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _unreadable(error) from error


def pod_from(obj: object) -> Pod:
    """The view of an already decoded Pod (manifests, templates). Raises Denied (code 400) as `decode_pod` does."""
    try:
        return msgspec.convert(_without_nulls(obj), Pod)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _unreadable(error) from error


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


def _without_nulls(value: object) -> object:
    """Members that are null dropped, as the API server does; null elements of lists stay, and are refused."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _unreadable(error: Exception) -> Denied:
    return Denied(f"the object is not a Pod that can be read: {error}", reason="UnreadablePod", code=400)
