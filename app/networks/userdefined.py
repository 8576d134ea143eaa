"""User-defined injections: annotations that a Pod gets for carrying a label with the value "true". Pure.

Entries come from the ConfigMap of control switches. All that match apply, in the order of their label keys, before
anything is counted, so that resources belong to the networks which the Pod ends up with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from app.admission.injected import INJECTED_BY
from app.errors import Denied
from app.kube.names import check_annotation_key, check_label_key
from app.networks import selection
from app.networks.interfaces import check_hardware
from app.networks.model import DEFAULT_NETWORK, INJECTED_RESOURCES, NETWORKS
from app.text import quoted
from app.wire import decode_json, encode_json

_Mode = Literal["replace", "append", "keep"]
PATH = "/metadata/annotations"


@dataclass(frozen=True, slots=True)
class Injection:
    """One entry. `mode` decides about annotations that the Pod has already:

    - replace: the entry's value wins, and the last of several entries;
    - keep: the Pod's value wins;
    - append: networks are joined, each at least as often as the entry names it; else as keep.
    """

    label: str
    annotations: Mapping[str, str]
    mode: _Mode = "replace"


class Merged(msgspec.Struct):
    """The annotations as they will be, and for each one that changes the label of the entry that did it."""

    annotations: Mapping[str, str]
    sources: dict[str, str] = {}
    warnings: list[str] = []


def parse_entries(entries: Mapping[str, object]) -> tuple[tuple[Injection, ...], list[str]]:
    """The usable entries in the order of their labels, and a line for each one that is skipped."""
    injections, problems = [], []
    for label in sorted(entries):
        try:
            injections.append(_parse_entry(label, entries[label]))
        except (ValueError, Denied) as error:
            problems.append(f"user-defined-injections: entry {quoted(label)} is skipped: {error}")
    return tuple(injections), problems


def matching(injections: Iterable[Injection], labels: Mapping[str, str]) -> list[Injection]:
    """The entries whose label the Pod carries with the value "true", whatever its case."""
    return [entry for entry in injections if entry.label in labels and labels[entry.label].lower() == "true"]


def merge(annotations: Mapping[str, str], entries: Sequence[Injection], *, namespace: str) -> Merged:
    """Apply the entries to the annotations. Raises Denied where networks are to be joined to an unreadable value."""
    if not entries:
        return Merged(annotations)
    values = dict(annotations)
    sources: dict[str, str] = {}
    warnings: list[str] = []
    for entry in entries:
        for key in sorted(entry.annotations):
            value = _merged_value(values.get(key), key, entry, namespace)
            if values.get(key) == value:
                continue
            if key in sources and entry.mode == "replace":
                warnings.append(
                    f"user-defined injections {sources[key]} and {entry.label} both set {key}: the last wins"
                )
            values[key] = value
            sources[key] = entry.label
    changed = {key: label for key, label in sources.items() if annotations.get(key) != values[key]}
    return Merged(values, changed, warnings)


def _merged_value(current: str | None, key: str, entry: Injection, namespace: str) -> str:
    injected = entry.annotations[key]
    if current is None or entry.mode == "replace":
        return injected
    if entry.mode == "keep" or key != NETWORKS:
        return current
    return _appended(current, injected, namespace)


def _appended(current: str, injected: str, namespace: str) -> str:
    present = _named(current, namespace)
    missing = []
    for index, element in enumerate(_named(injected, namespace)):
        if element in present:
            present.remove(element)
        else:
            missing.append(index)
    if not missing:
        return current
    if not current.strip():
        return injected
    if not selection.is_json(current) and not selection.is_json(injected):
        names = injected.split(",")
        return ", ".join([current.strip(), *(names[index].strip() for index in missing)])
    elements = _elements(injected)
    return encode_json(_elements(current) + [elements[index] for index in missing]).decode()


def _named(value: str, namespace: str) -> list[tuple[str, str, str]]:
    """Each element by what makes it the same network: what else it asks for does not count."""
    parsed = selection.parse(value, annotation=NETWORKS, default_namespace=namespace)
    return [(network.namespace, network.name, network.interface) for network in parsed]


def _elements(value: str) -> list[object]:
    """The elements of a parsed value in the JSON form."""
    if selection.is_json(value):
        decoded = decode_json(value)
        return decoded if isinstance(decoded, list) else []
    parsed = selection.parse(value, annotation=NETWORKS, default_namespace="")
    return [
        {"name": network.name}
        | ({"namespace": network.namespace} if network.namespace else {})
        | ({"interface": network.interface} if network.interface else {})
        for network in parsed
    ]


def _parse_entry(label: str, entry: object) -> Injection:
    check_label_key(label)
    if not isinstance(entry, dict):
        raise ValueError('want an object {"op": "add", "path": "/metadata/annotations", "value": {…}}')  # noqa: TRY004
    if entry.get("op") != "add":
        raise ValueError(f'op is {quoted(str(entry.get("op")))}; want "add"')
    if entry.get("path") != PATH:
        raise ValueError(f'path is {quoted(str(entry.get("path")))}; want "{PATH}"')
    mode = entry.get("mode", "replace")
    if mode not in get_args(_Mode):
        raise ValueError(f"mode is {quoted(str(mode))}; want replace, append or keep")
    return Injection(label, _parse_annotations(entry.get("value")), mode)


def _parse_annotations(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise ValueError("value is not an object of annotations")
    for key, text in value.items():
        check_annotation_key(key)
        if key in (INJECTED_RESOURCES, INJECTED_BY):
            raise ValueError(f"annotation {key} is a record of what was injected, and is not set by hand")
        if not isinstance(text, str):
            raise ValueError(f"annotation {key} is not a string")  # noqa: TRY004  one kind of error for one kind of fault
        if key == NETWORKS:
            check_hardware(selection.parse(text, annotation=key, default_namespace=""), annotation=key)
        elif key == DEFAULT_NETWORK:
            default = selection.parse_default(text, annotation=key, default_namespace="")
            check_hardware((default,) if default else (), annotation=key)
    return dict(sorted(value.items()))
