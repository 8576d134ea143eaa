"""The part of a Pod that reviews read, decoded once for all injectors, the log and the Events.

Fields stand in the order in which API servers write them, which is the order in which they are found fastest. Values
are trees that refer to nothing else, so that the garbage collector need not follow them (`gc=False`).

Nothing here is ever written back: answers are JSON Patch operations, and unknown fields stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from app.errors import Denied
from app.pace import step
from app.wire import decode_json, encode_json

MIRROR = "kubernetes.io/config.mirror"
"""Annotation on a Pod, by its kubelet: a static Pod, which runs already and is left alone."""
INJECT = "berth.dev/inject"
"""Label or annotation on a Pod, by its author: "false" turns injection off for it. With `--claims` the annotation on an
attachment: nothing is injected for its device, neither a resource nor a claim.
"""
SURPRISING = frozenset({"HostNetwork"})
"""Reasons to leave a Pod alone that asks for networks. Its author may not know them."""
MOST_CONTAINERS = 1000
"""Containers and init containers of a Pod that is given something in each. The API allows more, and the reviews of
others would have to wait for them.
"""
_NULL = msgspec.Raw(b"null")
_MAPS = ("labels", "annotations", "nodeSelector")

Quantity = str | int | float


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`namespace` is "" where the API server left it to the request. `owner_references` are as they came."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: msgspec.Raw = _NULL


class MetadataParts(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Metadata of which labels and annotations are as they came."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    labels: msgspec.Raw = _NULL
    annotations: msgspec.Raw = _NULL
    owner_references: msgspec.Raw = _NULL


NO_METADATA_PARTS = MetadataParts()


class ObjectParts(msgspec.Struct, frozen=True, gc=False):
    """What one pass over a review finds of any object; `spec` is as it came. `null` stands for what is not there."""

    metadata: MetadataParts = NO_METADATA_PARTS
    spec: msgspec.Raw = _NULL


class ContainerClaim(msgspec.Struct, gc=False):
    """A reference to a claim of the Pod; the whole claim where it names no request."""

    name: str = ""
    request: str = ""


class Resources(msgspec.Struct, gc=False):
    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    claims: list[ContainerClaim] = []


class VolumeMount(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    mount_path: str = ""


class VolumeDevice(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    device_path: str = ""


class EnvVar(msgspec.Struct, gc=False):
    name: str = ""
    value: str = ""


class Container(msgspec.Struct, rename="camel", gc=False):
    """One container; `resources` is None where the object has no such member, which a patch must then create."""

    name: str = ""
    env: list[EnvVar] = []
    resources: Resources | None = None
    restart_policy: str = ""
    volume_mounts: list[VolumeMount] = []
    volume_devices: list[VolumeDevice] = []


class DownwardFile(msgspec.Struct, gc=False):
    path: str = ""


class DownwardVolume(msgspec.Struct, gc=False):
    items: list[DownwardFile] = []


class Volume(msgspec.Struct, rename={"downward_api": "downwardAPI"}, gc=False):
    """A volume; `downward_api` is None for every other kind of volume."""

    name: str = ""
    downward_api: DownwardVolume | None = None


class PodResourceClaim(msgspec.Struct, rename="camel", gc=False):
    """A claim of the Pod: a ResourceClaim, or one that is made from a ResourceClaimTemplate."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`affinity` is as it came: `app.placement` reads it where it matters."""

    volumes: list[Volume] = []
    init_containers: list[Container] = []
    containers: list[Container] = []
    node_selector: dict[str, str] = {}
    node_name: str = ""
    host_network: bool = False
    affinity: msgspec.Raw = _NULL
    resource_claims: list[PodResourceClaim] = []


NO_METADATA = ObjectMeta()
NO_SPEC = PodSpec()
"""Stands for a spec that the object does not have."""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """What of a Pod is read; ephemeral containers are left out, they take no resources."""

    metadata: ObjectMeta = NO_METADATA
    spec: PodSpec = NO_SPEC

    @property
    def mirror(self) -> bool:
        """Whether it says that it mirrors a static Pod."""
        return MIRROR in self.metadata.annotations

    @property
    def opted_out(self) -> str:
        """Whether "label" or "annotation" turns injection off, "" where neither does."""
        for where, values in (("label", self.metadata.labels), ("annotation", self.metadata.annotations)):
            if values.get(INJECT, "").lower() == "false":
                return where
        return ""


_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_spec = msgspec.json.Decoder(PodSpec).decode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode


def decode_pod(raw: msgspec.Raw | bytes) -> Pod:
    """Decode `request.object`. Raises Denied (code 400) where it is not a Pod that can be read.

    The API server sends no nulls in the fields read here; hand-written reviews do (`resources:` in YAML), so a
    document that fails is read again with null taken as absent, as the API server takes it.
    """
    try:
        return _decode_pod(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return pod_from(decode_json(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable(error) from error


def pod_of_parts(parts: ObjectParts) -> Pod | None:
    """The same of an object that was taken apart; None where it takes `decode_pod` to read it, or to refuse it."""
    metadata, spec = parts.metadata, parts.spec
    labels, annotations = metadata.labels, metadata.annotations
    try:
        return Pod(
            ObjectMeta(
                metadata.name,
                metadata.namespace,
                metadata.generate_name,
                {} if labels is _NULL else _decode_texts(labels),
                {} if annotations is _NULL else _decode_texts(annotations),
                metadata.owner_references,
            ),
            NO_SPEC if spec is _NULL else _decode_spec(spec),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def pod_from(obj: object) -> Pod:
    """The view of an already decoded Pod (manifests, templates). Raises Denied (code 400) as `decode_pod` does."""
    try:
        return _decode_pod(encode_json(_without_nulls(obj)))
    except (msgspec.MsgspecError, UnicodeError, TypeError, RecursionError) as error:
        raise unreadable(error) from error


def _without_nulls(value: object) -> object:
    """Null as the API server reads it: a member is absent, a value of a map is empty; in a list it is refused."""
    if isinstance(value, dict):
        step(1 + len(value))
        return {
            key: _filled(member) if key in _MAPS and isinstance(member, dict) else _without_nulls(member)
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, list):
        step(1 + len(value))
        return [_without_nulls(item) for item in value]
    return value


def _filled(texts: dict[str, object]) -> dict[str, object]:
    return {key: "" if text is None else text for key, text in texts.items()}


def crowded(containers: int, init_containers: int, *, what: str) -> Iterator[str]:
    """The problem of a Pod with so many containers, which does `what`; none where that can be looked at."""
    count = containers + init_containers
    if count > MOST_CONTAINERS:
        field = "spec.containers" if containers >= init_containers else "spec.initContainers"
        yield f"{field}: want at most {MOST_CONTAINERS} containers in a Pod that {what}, got {count}"


def unreadable(error: Exception) -> Denied:
    return Denied(f"the object is not a Pod that can be read: {error}", reason="UnreadablePod", code=400)
