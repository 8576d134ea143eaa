"""The annotations that this wing reads and writes, what an attachment asks for in its own, and what is wrong with one.

Pure. Annotations of an attachment name the claim that gives it its device; without one of them the device comes by a
resource of the Pod's container, as ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from app.admission.pods import INJECT
from app.kube.names import check_dns_subdomain, check_label_key, check_label_value, check_qualified_name
from app.pace import step
from app.text import quoted
from app.wire import JSON, decode_json, mapping

CLAIM_TEMPLATE = "berth.dev/resource-claim-template"
"""Annotation on an attachment, by its author: the ResourceClaimTemplate, in the namespace of the Pod, that gives each
selection its device, in place of a resource. With `--claims`.
"""
DEVICE_CLASS = "berth.dev/device-class"
"""Annotation on an attachment, by its author: the DeviceClass of which each selection gets one device by a claim, in
place of a resource. With `--claims`.
"""
_KEYS = (CLAIM_TEMPLATE, DEVICE_CLASS)
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
"""Annotation on a Pod, by its author: the container that gets the resources, an init container with restartPolicy
Always too; the first without it.
"""
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
# The name of a CNI network, as the CNI library accepts it.
_NETWORK_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*", re.ASCII)


class Attachment(msgspec.Struct, frozen=True):
    """What the cache keeps of a NetworkAttachmentDefinition.

    `resources` holds the value of each configured key that is present, trimmed but unchecked, in the order of the keys;
    `node_selector` the text of its annotation, "" where there is none. `claim` is None where its device comes by its
    resources, or not by us. Of resources and `claim`, one at most is there.
    """

    namespace: str
    name: str
    resources: tuple[str, ...] = ()
    node_selector: str = ""
    claim: ClaimSource | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


Networks = tuple[tuple[str, Attachment], ...]
"""(annotation, attachment) pairs in their order, duplicates kept."""


class PodNetworks(NamedTuple):
    """The networks of a Pod as a review found them, and the annotations that the Pod will have, None for its own."""

    networks: Networks
    annotations: Mapping[str, str] | None = None


def project(obj: JSON, keys: Sequence[str]) -> Attachment:
    """Reduce a NetworkAttachmentDefinition to what injection needs; never fails on odd annotations."""
    metadata = mapping(obj.get("metadata"))
    annotations = mapping(metadata.get("annotations"))
    values = (annotations.get(key) for key in keys)
    selector = annotations.get(NODE_SELECTOR)
    return Attachment(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        resources=tuple(value.strip() for value in values if isinstance(value, str)),
        node_selector=selector if isinstance(selector, str) else "",
    )


def project_with_claims(obj: JSON, keys: Sequence[str]) -> Attachment:
    """As `project`, where claims can give attachments their devices, and attachments can opt out."""
    annotations = mapping(mapping(obj.get("metadata")).get("annotations"))
    source, attachment = claim_source(annotations), project(obj, keys)
    return (
        attachment if source is None and not opted_out(annotations) else replace(attachment, resources=(), claim=source)
    )


@cache
def projection(keys: tuple[str, ...], *, claims: bool) -> Callable[[JSON], Attachment]:
    """The same function for the same arguments, so that all wings read one cache of attachments."""
    project_as = project_with_claims if claims else project
    return lambda obj: project_as(obj, keys)


def resource_name(text: str) -> str:
    """The trimmed name of a device resource; raises ValueError that says what would be right.

    As the API server judges the resources of a container that are not its own (cpu, memory, hugepages): a qualified
    name with a domain, which an extended resource must keep with `requests.` before it, as quotas write it.
    """
    return _resource_name(text if len(text) <= CACHED_LENGTH else text.strip())


def is_resource_name(text: str) -> bool:
    try:
        return "kubernetes.io/" not in resource_name(text)
    except ValueError:
        return False


def unrequestable(text: str) -> bool:
    """Whether it is a name that no container can ask for, as it has no domain, and that a device may have.

    Multus gives a device whose driver names it so (attribute `k8s.cni.cncf.io/resourceName`) from a claim of the Pod.
    """
    name = text.strip()
    try:
        return "/" not in name and bool(check_qualified_name(name))
    except ValueError:
        return False


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
        step()
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


def attachment_problems(obj: JSON, keys: Sequence[str], *, claims: bool = False) -> list[str]:
    """What is wrong with a NetworkAttachmentDefinition, one line each, beginning with the field's path.

    With `claims` its annotations about claims are looked at.
    """
    metadata = mapping(obj.get("metadata"))
    annotations = mapping(metadata.get("annotations"))
    problems: list[str] = []
    if metadata.get("name"):  # otherwise the API server makes it
        problems += _problem("metadata.name", check_dns_subdomain, metadata["name"])
    readers = [*((key, resource_name) for key in keys), (NODE_SELECTOR, parse_node_selector)]
    for key, read in readers:
        value = annotations.get(key)
        if value is not None and not (read is resource_name and unrequestable(str(value))):
            problems += _problem(f"metadata.annotations[{key}]", read, annotations[key])
    source = claim_source(annotations) if claims else None
    if source is not None:
        problems += [f"metadata.annotations[{key}]: {fault}" for key, fault in source_problems(source)]
    return [*problems, *_spec_problems(obj.get("spec"))]


def attachment_warnings(obj: JSON, keys: Sequence[str], *, claims: bool = False) -> Iterator[str]:
    """Why Pods that select an attachment without problems may get no device, beginning with the field's path."""
    project_as = project_with_claims if claims else project
    resources = project_as(obj, keys).resources
    annotations = mapping(mapping(obj.get("metadata")).get("annotations"))
    for key in keys:
        name = str(annotations.get(key) or "").strip()
        if name in resources and unrequestable(name):
            yield (
                f"metadata.annotations[{key}]: {quoted(name)} has no domain, so no container can ask for it: nothing "
                "is injected, and Pods need a claim of their own for the device; or use a name such as example.com/nic"
            )


def _problem(where: str, read: Callable[[str], object], value: object) -> Iterator[str]:
    try:
        read(str(value))
    except ValueError as error:
        yield f"{where}: {error}"


def _spec_problems(spec: object) -> Iterator[str]:
    """An empty config is right: Multus then reads the network's configuration from the node's files."""
    if spec is None:
        return
    if not isinstance(spec, dict):
        yield "spec: want an object"
        return
    config = spec.get("config")
    if config is None or config == "":
        return
    if not isinstance(config, str):
        yield "spec.config: want JSON in a string"
        return
    try:
        network = decode_json(config)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        yield f"spec.config: not valid JSON: {error}"
        return
    if not isinstance(network, dict):
        yield "spec.config: want a JSON object"
        return
    yield from _network_problems(network)


def _network_problems(network: dict[str, Any]) -> Iterator[str]:
    version = network.get("cniVersion")
    if version is not None and not isinstance(version, str):
        yield 'spec.config.cniVersion: want a string such as "1.0.0"'
    name = network.get("name")
    if name is not None and not (isinstance(name, str) and (not name or _NETWORK_NAME.fullmatch(name))):
        yield (
            f"spec.config.name: {quoted(str(name))} is not a network name: use letters, digits, '_', '.' and '-', "
            "beginning with a letter or digit"
        )
    plugins = network.get("plugins")
    if plugins is None:
        yield from _type_problems(network, "spec.config")
    elif not isinstance(plugins, list) or not plugins:
        yield "spec.config.plugins: want a list of at least one plugin"
    else:
        for index, plugin in enumerate(plugins):
            step()
            where = f"spec.config.plugins[{index}]"
            if isinstance(plugin, dict):
                yield from _type_problems(plugin, where)
            else:
                yield f"{where}: want an object"


def _type_problems(plugin: dict[str, Any], where: str) -> Iterator[str]:
    kind = plugin.get("type")
    if not isinstance(kind, str) or not kind:
        expected = "a plugin's name, or a list of plugins" if where == "spec.config" else "a plugin's name"
        yield f"{where}.type: want {expected}"


class ClaimSource(msgspec.Struct, frozen=True):
    """The annotations of an attachment, trimmed but unchecked; "" for one that it does not have."""

    template: str = ""
    device_class: str = ""


def claim_source(annotations: JSON) -> ClaimSource | None:
    """The source of an attachment with these annotations; None where it has none, or opted out."""
    template, device_class = (_text(annotations, key) for key in _KEYS)
    if opted_out(annotations) or not (template or device_class):
        return None
    return ClaimSource(template, device_class)


def opted_out(annotations: JSON) -> bool:
    """Whether nothing is injected for the device of the attachment."""
    return _text(annotations, INJECT).lower() == "false"


def source_problems(source: ClaimSource) -> Iterator[tuple[str, str]]:
    """Pairs of an annotation and what is wrong with it."""
    values = (source.template, source.device_class)
    if all(values):
        yield DEVICE_CLASS, f"excludes {CLAIM_TEMPLATE}: want one of the two"
    for key, value in zip(_KEYS, values, strict=True):
        try:
            check_dns_subdomain(value or "none")
        except ValueError as error:
            yield key, str(error)


def _text(annotations: JSON, key: str) -> str:
    value = annotations.get(key)
    return value.strip() if isinstance(value, str) else ""
