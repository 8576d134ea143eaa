"""Installs CustomResourceDefinitions in the clusters of the sandbox, which have no Multus to bring some."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app import definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, Resource

_START_SECONDS = 60
INFRA = (NETWORK_ATTACHMENTS, *definitions.INFRA)
TENANT = (NETWORK_ATTACHMENTS, *definitions.TENANT)
BARE = (NETWORK_ATTACHMENTS,)


async def install(client: KubeClient, wanted: Sequence[Resource]) -> None:
    """Apply the definitions of these kinds and wait until they are served."""
    for body in definitions.read_definitions(wanted):
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
