"""Finds the namespace in which Berth runs, where the user did not say it."""

from __future__ import annotations

from app.doctor.installed import PART_OF, read_deployment
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS
from app.wire import JSON

FALLBACK = "berth-system"
"""Where nothing of Berth is found; what the documents install into."""
_INSTANCE = "app.kubernetes.io/instance"


async def locate(client: KubeClient, release: str) -> str:
    """The namespace of the release, else of any Deployment that runs Berth, else `FALLBACK`."""
    try:
        labeled = await _deployments(client, f"{PART_OF}=berth")
        of_release = [one for one in labeled if (one["metadata"].get("labels") or {}).get(_INSTANCE) == release]
        found = of_release or labeled or [one for one in await _deployments(client, "") if read_deployment(one)]
    except ApiError:
        # The checks come upon the same refusal, and say it.
        return FALLBACK
    return str(found[0]["metadata"]["namespace"]) if found else FALLBACK


async def _deployments(client: KubeClient, selector: str) -> list[JSON]:
    found: list[JSON] = []
    token = ""
    while True:
        page = await client.list_page(DEPLOYMENTS, label_selector=selector, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found
