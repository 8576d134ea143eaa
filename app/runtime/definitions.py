"""The CustomResourceDefinitions that the package carries: which of them a cluster needs depends on what it is.

Reads, and writes nothing. The definition of attachments is not Berth's (a cluster has it from Multus): it is in no
group here, and the sandbox, which has no Multus, asks for it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import yaml

from app.kube.resources import Resource
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, TENANT_RULES, TENANTS, UVS_RESOURCES, WORKLOAD_RULES, WORKLOADS

INFRA = (WORKLOADS, TENANT_RULES, ADMIN_RULES, TENANTS)
TENANT = (WORKLOAD_RULES, *UVS_RESOURCES)
_WINGS = ("app.networks", "app.workloads", "app.tenancy")


def definition_name(resource: Resource) -> str:
    """The name of the object that defines a kind."""
    return f"{resource.plural}.{resource.group}"


def read_definitions(wanted: Sequence[Resource]) -> list[JSON]:
    """The definitions of these kinds, in their order."""
    return [yaml.safe_load(text) for text in read_texts(wanted)]


def read_texts(wanted: Sequence[Resource]) -> list[str]:
    """The same as YAML, with the comments that stand in the files."""
    found: dict[str, str] = {}
    for wing in _WINGS:
        for path in (resources.files(wing) / "crds").iterdir():
            if path.name.endswith(".yaml"):
                text = path.read_text(encoding="utf-8")
                found[yaml.safe_load(text)["metadata"]["name"]] = text
    return [found[definition_name(resource)] for resource in wanted]
