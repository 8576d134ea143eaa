"""Objects of a network whose devices are allocated by DRA: class, slices, attachment, claims, and Pods by each route."""

from __future__ import annotations

import json
from typing import Any

from app.claims.model import DEVICE_ID, RESOURCE_NAME
from app.kube.client import KubeClient
from app.kube.resources import (
    DEVICE_CLASSES,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from app.networks.model import DEVICE_CLASS, NETWORKS
from app.networks.model import RESOURCE_NAME as RESOURCE_OF_ATTACHMENT

JSON = dict[str, Any]
DRIVER, CLASS, RESOURCE = "vf.example.com", "vf.example.com", "example.com/foo"
NETWORK, CLAIMED = "foo-network", "foo-claimed"
"""Attachments with the same devices: for the first the webhook injects the resource, for the second a claim."""
SUBNETS = {NETWORK: "172.36.0.0/24", CLAIMED: "172.37.0.0/20"}
CLAIM, TEMPLATE = "foo-claim", "foo-template"
GROUP = "example.com/group"
"""An attribute that every other device has alike."""
LABELS = {"app": "networked"}
DEVICES = 4
"""Of each node."""


def device_class() -> JSON:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return DEVICE_CLASSES.body({"name": CLASS}, spec={"selectors": [selector], "extendedResourceName": RESOURCE})


def device_id(node: str, index: int) -> str:
    """The PCI address of a device."""
    return f"0000:{'ab'.find(node[-1]) + 1:02x}:00.{index}"


def resource_slice(node: str) -> JSON:
    """All devices of a node, as a driver publishes them whose policy names the resource for Multus."""
    devices = [
        {
            "name": f"vf-{index}",
            "attributes": {
                DEVICE_ID: {"string": device_id(node, index)},
                RESOURCE_NAME: {"string": RESOURCE},
                GROUP: {"int": index % 2},
            },
        }
        for index in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return RESOURCE_SLICES.body({"name": f"{node}-{DRIVER}"}, spec=spec)


def attachment(name: str) -> JSON:
    ipam = {"type": "host-local", "subnet": SUBNETS[name]}
    config = {"cniVersion": "0.3.1", "name": name, "type": "sriov", "ipam": ipam}
    annotations = {RESOURCE_OF_ATTACHMENT: RESOURCE} | ({DEVICE_CLASS: CLASS} if name == CLAIMED else {})
    return NETWORK_ATTACHMENTS.body({"name": name, "annotations": annotations}, spec={"config": json.dumps(config)})


def claim_spec() -> JSON:
    return {"devices": {"requests": [{"name": "vf", "exactly": {"deviceClassName": CLASS}}]}}


def claim(name: str = CLAIM) -> JSON:
    return RESOURCE_CLAIMS.body({"name": name}, spec=claim_spec())


def template(name: str = TEMPLATE) -> JSON:
    return RESOURCE_CLAIM_TEMPLATES.body({"name": name}, spec={"spec": claim_spec()})


def pod(name: str, resources: JSON | None = None, *, network: str = NETWORK, **spec: Any) -> JSON:
    container = {"name": "main", "image": "busybox", "resources": resources or {}}
    metadata = {"name": name, "labels": LABELS, "annotations": {NETWORKS: network}}
    return PODS.body(metadata, spec={"containers": [container], **spec})


def _with_claim(name: str, **source: str) -> JSON:
    claims = [{"name": "net", **source}]
    return pod(name, {"claims": [{"name": "net"}]}, network=CLAIMED, resourceClaims=claims)


def pod_by_template(name: str = "by-template") -> JSON:
    return _with_claim(name, resourceClaimTemplateName=TEMPLATE)


def pod_by_claim(name: str = "by-claim", claim: str = CLAIM) -> JSON:
    return _with_claim(name, resourceClaimName=claim)


def pod_by_resource(name: str = "by-resource") -> JSON:
    return pod(name, {"limits": {RESOURCE: "1"}, "requests": {RESOURCE: "1"}})


async def prepare(client: KubeClient, namespace: str) -> None:
    """The class, the attachments, the template and the claim that the Pods name."""
    await client.create(DEVICE_CLASSES, device_class())
    for network in SUBNETS:
        await client.create(NETWORK_ATTACHMENTS, attachment(network), namespace=namespace)
    await client.create(RESOURCE_CLAIM_TEMPLATES, template(), namespace=namespace)
    await client.create(RESOURCE_CLAIMS, claim(), namespace=namespace)
