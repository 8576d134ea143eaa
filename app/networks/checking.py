"""Checks NetworkAttachmentDefinitions when they are written, so that a broken one is not found by a Pod.

What Multus and the CNI library would refuse later is refused here, all of it in one message with the field paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from app.admission.chain import Plan
from app.admission.review import Request, written_object
from app.errors import Denied
from app.kube.names import check_dns_subdomain
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import NODE_SELECTOR, mapping, parse_node_selector, resource_name
from app.text import quoted
from app.wire import JSON, decode_json

# The name of a CNI network, as the CNI library accepts it.
_NETWORK_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*", re.ASCII)


class AttachmentCheck:
    """Refuses broken NetworkAttachmentDefinitions on CREATE and UPDATE; neutral to everything else.

    An attachment that is being deleted is left alone, so that its finalizers can be removed.
    """

    def __init__(self, resource_name_keys: Sequence[str]) -> None:
        self._keys = tuple(resource_name_keys)

    def check(self, request: Request, plan: Plan) -> None:
        """Raise Denied with every problem of the attachment; warn where only some Pods can select it."""
        kind, wanted = request.kind, NETWORK_ATTACHMENTS
        if (kind.group, kind.kind) != (wanted.group, wanted.kind):
            return
        obj = written_object(request, reason="UnreadableAttachment")
        if obj is None:
            return
        problems = attachment_problems(obj, self._keys)
        if problems:
            raise Denied("; ".join(problems), reason="BrokenAttachment")
        if "." in str(mapping(obj.get("metadata")).get("name") or ""):
            plan.warnings.append("metadata.name: a name with dots can be selected in the JSON form only")


def attachment_problems(obj: JSON, keys: Sequence[str]) -> list[str]:
    """What is wrong with a NetworkAttachmentDefinition, one line each, beginning with the field's path."""
    metadata = mapping(obj.get("metadata"))
    annotations = mapping(metadata.get("annotations"))
    problems: list[str] = []
    if metadata.get("name"):  # otherwise the API server makes it
        problems += _problem("metadata.name", check_dns_subdomain, metadata["name"])
    readers = [*((key, resource_name) for key in keys), (NODE_SELECTOR, parse_node_selector)]
    for key, read in readers:
        if annotations.get(key) is not None:
            problems += _problem(f"metadata.annotations[{key}]", read, annotations[key])
    return [*problems, *_spec_problems(obj.get("spec"))]


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
            where = f"spec.config.plugins[{index}]"
            if isinstance(plugin, dict):
                yield from _type_problems(plugin, where)
            else:
                yield f"{where}: want an object"


def _type_problems(plugin: dict[str, Any], where: str) -> Iterator[str]:
    kind = plugin.get("type")
    if not isinstance(kind, str) or not kind:
        wanted = "a plugin's name, or a list of plugins" if where == "spec.config" else "a plugin's name"
        yield f"{where}.type: want {wanted}"
