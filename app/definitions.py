"""The CustomResourceDefinitions that the package carries: which of them a cluster needs depends on what it is.

Reads, and writes nothing. The definition of attachments is not Berth's (a cluster has it from Multus): it is in no
group here, and the sandbox, which has no Multus, asks for it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import NamedTuple

from app.kube.resources import Resource
from app.registry import WINGS, kinds_of
from app.wire import JSON, load_yaml

INFRA = kinds_of("infra")
TENANT = kinds_of("tenant")


def definition_name(resource: Resource) -> str:
    """The name of the object that defines a kind."""
    return f"{resource.plural}.{resource.group}"


def read_definitions(wanted: Sequence[Resource]) -> list[JSON]:
    """The definitions of these kinds, in their order; each caller's own."""
    return [deepcopy(_carried()[definition_name(resource)].content) for resource in wanted]


def read_texts(wanted: Sequence[Resource]) -> list[str]:
    """The same as YAML, with the comments that stand in the files."""
    return [_carried()[definition_name(resource)].text for resource in wanted]


class _Definition(NamedTuple):
    text: str
    content: JSON


@cache
def _carried() -> dict[str, _Definition]:
    """All of the package by name; read once, since parsing takes a noticeable time."""
    found: dict[str, _Definition] = {}
    for wing in WINGS:
        folder = resources.files(f"app.{wing.name}") / "crds"
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.endswith(".yaml"):
                text = path.read_text(encoding="utf-8")
                content = load_yaml(text)
                found[content["metadata"]["name"]] = _Definition(text, content)
    return found
