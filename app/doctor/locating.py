"""Finds the namespace and the release of Berth, where the user did not say them."""

from __future__ import annotations

from typing import NamedTuple

from app.doctor.installed import INSTANCE, PART_OF, read_deployment
from app.doctor.objects import labels
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS
from app.kube.retry import every_item
from app.wire import JSON

FALLBACK = "berth-system"
"""Where nothing of Berth is found; what the documents install into."""


class Found(NamedTuple):
    """Where Berth is, and the name of its release."""

    namespace: str
    release: str


async def locate(client: KubeClient, release: str, *, namespace: str = "") -> Found:
    """Where the release is, else any Deployment that runs Berth (in `namespace`, where that is given).

    Commands that upgrade name the release that is there, whatever was assumed. Where nothing runs any more, the
    registrations that were left tell both. Raises ApiError where the API server does not answer at all.
    """
    try:
        labeled = await _deployments(client, f"{PART_OF}=berth", namespace)
        of_release = [one for one in labeled if labels(one).get(INSTANCE) == release]
        running = of_release or labeled or [one for one in await _deployments(client, "", namespace) if _runs(one)]
        left = [] if running else await _left(client, namespace)
    except ApiError as error:
        if not error.status:
            raise
        # The checks come upon the same refusal, and say it.
        running, left = [], []
    if not running:
        named = [found for found in left if found.release == release]
        return next(iter(named or left), Found(namespace or FALLBACK, release))
    return Found(str(running[0]["metadata"]["namespace"]), labels(running[0]).get(INSTANCE) or release)


def _runs(deployment: JSON) -> bool:
    return read_deployment(deployment) is not None


async def _left(client: KubeClient, namespace: str) -> list[Found]:
    """What registrations say of the releases that made them, of those in `namespace` where that is given."""
    page = await client.list_page(MUTATING_WEBHOOKS, label_selector=f"{PART_OF}=berth")
    found = []
    for configuration in page.items:
        one = Registered(MUTATING_WEBHOOKS, configuration, 0, next(iter(configuration.get("webhooks") or []), {}))
        if one.release and one.home and namespace in ("", one.home):
            found.append(Found(one.home, one.release))
    return found


async def _deployments(client: KubeClient, selector: str, namespace: str) -> list[JSON]:
    pages = every_item(
        lambda token: client.list_page(
            DEPLOYMENTS, namespace=namespace or None, label_selector=selector, continue_token=token
        )
    )
    return [item async for item in pages]
