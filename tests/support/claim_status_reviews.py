"""The reviews of claims over objects that are given: the wing's parts, with caches that are filled once."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from app.admission.chain import Chain
from app.admission.parts import Context, ReviewCaches, chains
from app.admission.review import GroupVersionKind, GroupVersionResource, Request, WholeRequest
from app.claims.admission.review import review
from app.claims.model import NETWORK_STATUS
from app.registry import settings_of
from tests.support.rmd_reviews import filled

JSON = dict[str, Any]
SYSTEM = "berth-system"
KIND = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")


def attached(interface: str, *ips: str, network: str = "ns/lan", **more: Any) -> JSON:
    """An element of the network status."""
    return {"name": network, "interface": interface, "ips": list(ips), **more}


def network_pod(name: str, *interfaces: JSON, namespace: str = "ns", uid: str = "", **metadata: Any) -> JSON:
    """A Pod with this network status behind the entry of the cluster network."""
    status = [attached("eth0", "10.244.0.7", network="cbr0", default=True), *interfaces]
    found = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"{name}-uid",
        "annotations": {NETWORK_STATUS: json.dumps(status)},
        **metadata,
    }
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": found, "spec": spec, "status": {"phase": "Running"}}


def attachment(name: str, *subnets: str, namespace: str = "ns", **ipam: Any) -> JSON:
    """With host-local address management of these subnets, unless `ipam` says otherwise."""
    managed = ipam or {"type": "host-local", "ranges": [[{"subnet": one}] for one in subnets]}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"config": json.dumps({"cniVersion": "1.0.0", "type": "macvlan", "ipam": managed})},
    }


async def reviewing(*objects: JSON, **settings: Any) -> Chain:
    """The chain that validates, of a webhook in `SYSTEM` in a cluster with these objects."""
    given = settings_of("webhook").load({"claims": True, "insecure": True, **settings}, environment=False)
    context = Context(given, SYSTEM, ReviewCaches())
    found = chains([review(context)], namespace=SYSTEM)["validate"]
    await filled(context.caches, *objects)
    return found


def raw(obj: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(obj).encode())


def status_update(obj: Any, old: Any, **fields: Any) -> Request:
    """The review of an update of `resourceclaims/status`, unless `fields` say otherwise."""
    defaults = {
        "uid": "1",
        "kind": KIND,
        "resource": GroupVersionResource(KIND.group, KIND.version, "resourceclaims"),
        "sub_resource": "status",
        "operation": "UPDATE",
        "namespace": "ns",
        "name": "c",
        "object": raw(obj),
        "old_object": raw(old),
    }
    request = WholeRequest(**(defaults | fields))
    request.prove()
    return request
