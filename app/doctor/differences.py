"""Compares a definition of ours with the one in a cluster: the fields it lacks, has besides, or has otherwise. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.wire import JSON

_SILENT = frozenset({"description", "title", "example", "externalDocs"})
"""What says nothing about which objects are valid."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Paths of fields, in the order of their names: not in the cluster; only there; there, but with other rules."""

    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    changed: tuple[str, ...]


def compare(shipped: JSON, present: JSON) -> Differences:
    """Version by version that we ship; other versions of the cluster do not matter."""
    missing: list[str] = []
    unknown: list[str] = []
    changed: list[str] = []
    there = {version.get("name"): version for version in (present.get("spec") or {}).get("versions") or []}
    if shipped["spec"].get("scope") != (present.get("spec") or {}).get("scope"):
        changed.append("scope")
    for version in shipped["spec"]["versions"]:
        other = there.get(version["name"])
        if other is None:
            missing.append(f"version {version['name']}")
            continue
        changed += [
            key
            for key in ("subresources", "additionalPrinterColumns", "selectableFields")
            if (version.get(key) or None) != (other.get(key) or None)
        ]
        pair = (_schema(version), _schema(other))
        for path, kind in _walk(*pair, path=""):
            {"missing": missing, "unknown": unknown, "changed": changed}[kind].append(path)
    return Differences(tuple(missing), tuple(unknown), tuple(changed))


def _schema(version: JSON) -> JSON:
    found: JSON = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _walk(ours: JSON, theirs: JSON, *, path: str) -> Iterator[tuple[str, str]]:
    if _rules(ours) != _rules(theirs):
        yield path or ".", "changed"
    mine, others = ours.get("properties") or {}, theirs.get("properties") or {}
    for name in sorted({*mine, *others}):
        below = f"{path}.{name}" if path else name
        if name not in others:
            yield below, "missing"
        elif name not in mine:
            yield below, "unknown"
        else:
            yield from _walk(mine[name], others[name], path=below)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        one, other = ours.get(key), theirs.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _walk(one, other, path=path + mark)
        elif one != other:
            yield path + mark, "changed"


def _rules(schema: JSON) -> dict[str, Any]:
    """What a schema demands of the value itself; empty is the same as absent, as it is for the API server."""
    walked = _SILENT | {"properties", "items", "additionalProperties"}
    return {key: value for key, value in schema.items() if key not in walked and value not in (None, [], {}, "", False)}
