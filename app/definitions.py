"""The CustomResourceDefinitions that the package carries, by the clusters that they are for.

What others define is in no group: a cluster has attachments from Multus, and the sandbox asks for them by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from importlib import resources
from typing import cast

from app.kube.resources import Resource
from app.registry import CLUSTERS, WINGS, kinds_of
from app.wire import JSON, load_yaml
from app.wiring import Cluster

GROUPS: dict[Cluster, tuple[Resource, ...]] = {
    cluster: kinds_of(cluster) for cluster, title in CLUSTERS.items() if title
}
INFRA, TENANT = GROUPS["infra"], GROUPS["tenant"]
ALL = tuple(resource for kinds in GROUPS.values() for resource in kinds)


def definition_name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}"


def read_definitions(resources: Sequence[Resource]) -> list[JSON]:
    """The definitions of these kinds, in their order; each caller's own."""
    return [deepcopy(_content(resource.plural)) for resource in resources]


def read_texts(resources: Sequence[Resource]) -> list[str]:
    """The same as YAML, with the comments that stand in the files."""
    return [_text(resource.plural) for resource in resources]


@cache
def _content(plural: str) -> JSON:
    return cast("JSON", load_yaml(_text(plural)))


def _text(plural: str) -> str:
    """The file of a kind has the name of its plural, in the folder of its wing."""
    paths = (resources.files(f"app.{wing.name}") / "crds" / f"{plural}.yaml" for wing in WINGS)
    return next(path for path in paths if path.is_file()).read_text(encoding="utf-8")
