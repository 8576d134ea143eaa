"""Installs the wings' CustomResourceDefinitions: which of them a cluster has depends on what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import resources

import yaml

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, Resource
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, TENANT_RULES, TENANTS, UVS_RESOURCES, WORKLOAD_RULES, WORKLOADS

_WINGS = ("app.networks", "app.workloads", "app.tenancy")
_START_SECONDS = 60
INFRA = (NETWORK_ATTACHMENTS, WORKLOADS, TENANT_RULES, ADMIN_RULES, TENANTS)
TENANT = (NETWORK_ATTACHMENTS, WORKLOAD_RULES, *UVS_RESOURCES)


async def install(client: KubeClient, wanted: Sequence[Resource]) -> None:
    """Apply the definitions of these kinds and wait until they are served."""
    bodies = _definitions()
    for resource in wanted:
        name = f"{resource.plural}.{resource.group}"
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, name, bodies[name])
    for resource in wanted:
        await _until_served(client, resource)


def _definitions() -> dict[str, JSON]:
    """Every definition that the package carries, by its name."""
    found: dict[str, JSON] = {}
    for wing in _WINGS:
        for path in (resources.files(wing) / "crds").iterdir():
            if path.name.endswith(".yaml"):
                body: JSON = yaml.safe_load(path.read_text(encoding="utf-8"))
                found[body["metadata"]["name"]] = body
    return found


async def _until_served(client: KubeClient, resource: Resource) -> None:
    """A definition is served a moment after it was written."""
    async with asyncio.timeout(_START_SECONDS):
        while True:
            try:
                await client.list_page(resource, limit=1)
            except ApiError:
                await asyncio.sleep(0.05)
            else:
                return
