"""Why Pods of a role are not ready, as they say themselves: `/readyz`, through the API server's proxy."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from app.doctor import objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.errors import ApiError
from app.kube.resources import PODS, path_of
from app.wire import JSON, decode_json

_MOST = 5
"""Pods of one Deployment that are asked."""
_LONGEST = 1000
"""Characters of a reason, of which some come from a gateway with what to do."""
_PATH = "/readyz"


@dataclass(frozen=True, slots=True)
class Said:
    """What Pods wait for, a line each; `refused` is whether a Pod was not asked for lack of the right to."""

    reasons: tuple[str, ...] = ()
    refused: bool = False


async def pods_of(cluster: Cluster, deployment: Installed) -> list[JSON]:
    return await cluster.listed(PODS, namespace=deployment.namespace, label_selector=deployment.selector)


async def said_by(cluster: Cluster, deployment: Installed) -> Said:
    """What the Pods of a role that run, and are not ready, wait for; what several say is said once."""
    waiting = [pod for pod in await pods_of(cluster, deployment) if _is_waiting(pod)]
    answers = await asyncio.gather(*(_asked(cluster, deployment, pod) for pod in waiting[:_MOST]))
    reasons = dict.fromkeys(reason for answer in answers for reason in answer.reasons)
    return Said(tuple(reasons), any(answer.refused for answer in answers))


def _is_waiting(pod: JSON) -> bool:
    """Whether a Pod runs and is not ready. Of one that is ready there is nothing to ask."""
    said = objects.status(pod)
    running = said.get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    return bool(running and objects.condition(pod, "Ready").get("status") != "True")


async def _asked(cluster: Cluster, deployment: Installed, pod: JSON) -> Said:
    """What one Pod answers; nothing where it cannot be reached, which its containers explain."""
    metadata, (port, path) = pod["metadata"], probe_of(deployment, pod)
    where = PODS.path(namespace=metadata["namespace"], name=f"{metadata['name']}:{port}", subresource="proxy")
    try:
        answer = decode_json(await cluster.client.relayed(f"{where}{path}"))
    except ApiError as refusal:
        return Said(refused=refusal.status == 403)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Said()
    waiting = answer.get("waitingFor") if isinstance(answer, dict) else None
    return Said(tuple(plain(reason, _LONGEST) for reason in waiting if reason)) if isinstance(waiting, list) else Said()


def probe_of(deployment: Installed, pod: JSON) -> tuple[int, str]:
    """Port and path of the readiness probe; those of the role where it has none."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    container = next(
        (each for each in containers if each.get("name") == deployment.container.get("name")), containers[0]
    )
    probe = (container.get("readinessProbe") or {}).get("httpGet") or {}
    named = {port.get("name"): port.get("containerPort") for port in container.get("ports") or ()}
    port = str(named.get(probe.get("port"), probe.get("port")) or deployment.setting("health_check_port"))
    try:
        # The API server's proxy takes it as a part of its own path: `..` would lead to another object.
        path = path_of(str(probe.get("path") or _PATH).lstrip("/").split("/"))
    except ApiError:
        path = _PATH
    return (int(port) if port.isdecimal() else 0), path
