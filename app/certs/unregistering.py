"""Takes Berth's webhook configurations out of a cluster, so that no API server calls what is about to go.

Deletes those that are ours and refuses the others: our label, or nothing but our Service in them. Safe to repeat.
"""

from __future__ import annotations

from app.certs.patching import CONFIGURATIONS, ServiceName, called_service
from app.errors import Terminal
from app.kube.client import KubeClient
from app.kube.retry import delete_if_there, get_or_none
from app.wire import JSON

PART_OF = "app.kubernetes.io/part-of"
PART = "berth"


async def unregister(client: KubeClient, name: str, *, service: ServiceName | None) -> list[str]:
    """Delete the mutating and the validating configuration called `name`; the lines say what became of each.

    Raises Terminal, after the rest is done, for a configuration that is not Berth's; ApiError where the API server
    refuses a request.
    """
    lines, foreign = [], []
    for resource in CONFIGURATIONS:
        present = await get_or_none(client, resource, name)
        if present is None:
            lines.append(f"{resource.kind} {name}: there is none")
        elif not _is_ours(present, service):
            foreign.append(f"{resource.kind} {name}")
        else:
            await delete_if_there(client, resource, name, uid=present["metadata"]["uid"])
            lines.append(f"{resource.kind} {name}: deleted")
    if foreign:
        called = f" and calls others than Service {service.namespace}/{service.name}" if service else ""
        raise Terminal(f"{', '.join(foreign)}: not ours, not deleted: it lacks the label {PART_OF}={PART}{called}")
    return lines


def _is_ours(configuration: JSON, service: ServiceName | None) -> bool:
    if (configuration["metadata"].get("labels") or {}).get(PART_OF) == PART:
        return True
    webhooks = configuration.get("webhooks") or []
    return bool(webhooks) and service is not None and all(called_service(webhook) == service for webhook in webhooks)
