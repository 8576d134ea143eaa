"""Writes the Endpoints of Services, from which clients and `berth doctor` learn which Pods are ready.

The API server accepts no loopback address there, so each is written as an address of 10.0.0.0/8, like the Pod's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.devtools.clusters.node.services import Backend
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.wire import JSON

_ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")


def shown(address: str) -> str:
    """The address of a process, which is on loopback, as the API has it."""
    return address.replace("127.", "10.", 1)


async def write_endpoints(client: KubeClient, service: JSON, backends: Sequence[Backend]) -> None:
    """Make the Service's Endpoints say who is ready. A Service that is gone meanwhile takes them along."""
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    addresses = [{"ip": shown(one.address)} for one in sorted(backends, key=lambda one: one.address)]
    ports = [
        {
            **({"name": port["name"]} if port.get("name") else {}),
            "port": backends[0].port(port.get("targetPort") or port["port"]),
            "protocol": "TCP",
        }
        for port in service["spec"].get("ports") or []
        if backends
    ]
    body = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "labels": dict(service["metadata"].get("labels") or {})},
        "subsets": [{"addresses": addresses, "ports": ports}] if addresses else [],
    }
    try:
        await client.apply(_ENDPOINTS, name, body, namespace=namespace, field_manager="berth-sandbox")
    except ApiError as error:
        if not (error.not_found or error.status == 403):  # the namespace is ending
            raise
