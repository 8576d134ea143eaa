"""The texts of the resource service: manifests read from JSON or YAML, objects rendered as YAML. Pure.

Contents of Secrets pass through here: no message quotes a value.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from app.kube.documents import DocumentError, parse_documents
from app.tenancy.gateway.failures import invalid
from app.tenancy.gateway.settings import Limits
from app.tenancy.gateway.storable import PATH
from app.tenancy.messages import canonical, public_marks
from app.wire import JSON, decode_json
from app.yaml_documents import text_in

_DEPTH = 60
"""Levels that a manifest may have; a DaemonSet's deepest field lies about 15 down."""
_LARGE = 8 * 1024
_SHOWN = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"})


def read(text: bytes, *, kind: str, limits: Limits) -> JSON:
    """The manifest in JSON or YAML. It may take a second: call it beside the event loop. INVALID_ARGUMENT."""
    if len(text) > (most := limits.bytes_of(kind)):
        raise invalid([f"{PATH}: {len(text)} bytes: a manifest of a {kind} has at most {most}"])
    try:
        decoded = decode_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = _read_yaml(text, limits)
    if not isinstance(decoded, dict):
        raise invalid([f"{PATH}: want an object, a manifest"])
    if problem := _too_much(decoded, values=limits.manifest_values):
        raise invalid([f"{PATH}: {problem}"])
    try:
        canonical(decoded)
    except ValueError as error:
        raise invalid([f"{PATH}: a number or text that JSON cannot say"]) from error
    return decoded


def _read_yaml(text: bytes, limits: Limits) -> Any:
    if len(text) > limits.yaml_bytes:
        raise invalid([f"{PATH}: {len(text)} bytes: in YAML at most {limits.yaml_bytes}; use JSON"])
    try:
        found = parse_documents(text_in(text), source=PATH)
    except UnicodeDecodeError as error:
        raise invalid([f"{PATH}: not UTF-8 text"]) from error
    except DocumentError as error:
        # What the reader says of the text may quote it, a Secret's as well: its place is enough.
        place = re.match(rf"{re.escape(PATH)}(:\d+)*", str(error))
        raise invalid([f"{place.group() if place else PATH}: neither JSON nor YAML of an object"]) from error
    if len(found) != 1:
        raise invalid([f"{PATH}: want one object, got {len(found)}"])
    return found[0].content


def render(obj: JSON) -> bytes:
    """An object as its tenant sees it, in YAML: without managed fields and without our marks.

    A large one is written in the part of YAML that is JSON, which takes a thousandth of the time.
    """
    metadata = obj["metadata"]
    shown = {part: metadata[part] for part in _SHOWN if part in metadata}
    shown |= public_marks(metadata)
    document = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": shown}
    document |= {part: value for part, value in obj.items() if part not in document}
    if len(plain := canonical(document)) > _LARGE:
        return plain
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text.encode()


class _Dumper(yaml.SafeDumper):
    """Quotes every string that some reader of YAML could take for something else."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent)


def _too_much(decoded: JSON, *, values: int) -> str:
    """What is wrong with the shape of a document; "" for nothing. It looks no further than that."""
    level: list[Any] = [decoded]
    left = values
    for _ in range(_DEPTH + 1):
        members: list[Any] = []
        for value in level:
            members += value.values() if isinstance(value, dict) else value
            if len(members) > left:
                return f"more than {values} values"
        left -= len(members)
        level = [member for member in members if isinstance(member, dict | list)]
        if not level:
            return ""
    return f"more than {_DEPTH} levels"
