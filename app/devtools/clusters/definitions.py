"""Prepares the clusters of the sandbox for Berth: CustomResourceDefinitions (no Multus brings some), a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app import definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NETWORK_ATTACHMENTS, Resource
from app.wire import JSON
from app.workloads.model import SYSTEM_NAMESPACE

_START_SECONDS = 60
INFRA = (NETWORK_ATTACHMENTS, *definitions.INFRA)
TENANT = (NETWORK_ATTACHMENTS, *definitions.TENANT)
APP_WRAPPERS, RMD = definitions.GROUPS["appwrappers"], definitions.GROUPS["rmd"]
BARE = (NETWORK_ATTACHMENTS,)


async def prepare(client: KubeClient, wanted: Sequence[Resource]) -> None:
    """Install the definitions of these kinds, and make the namespace of the cloud admin's objects."""
    await install(client, wanted)
    await client.apply(NAMESPACES, SYSTEM_NAMESPACE, NAMESPACES.body({"name": SYSTEM_NAMESPACE}))


async def install(client: KubeClient, wanted: Sequence[Resource]) -> None:
    """Apply the definitions of these kinds, which the package carries, and wait until they are served."""
    await define(client, wanted, definitions.read_definitions(wanted))


async def define(client: KubeClient, wanted: Sequence[Resource], bodies: Sequence[JSON]) -> None:
    """Apply these definitions and wait until their kinds are served."""
    for body in bodies:
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, body["metadata"]["name"], body)
    for resource in wanted:
        await _until_served(client, resource)


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
