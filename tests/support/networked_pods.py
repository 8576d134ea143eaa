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
from app.networks.model import NETWORKS

JSON = dict[str, Any]
DRIVER, CLASS, RESOURCE = "vf.example.com", "vf.example.com", "example.com/foo"
NETWORK, SUBNET, ADDRESSES = "foo-network", "172.36.0.0/24", "172.36.0."
CLAIM, TEMPLATE = "foo-claim", "foo-template"
GROUP = "example.com/group"
"""An attribute that every other device has alike."""
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


def attachment() -> JSON:
    config = {"cniVersion": "0.3.1", "name": NETWORK, "type": "sriov", "ipam": {"type": "host-local", "subnet": SUBNET}}
    annotations = {"k8s.v1.cni.cncf.io/resourceName": RESOURCE}
    return NETWORK_ATTACHMENTS.body({"name": NETWORK, "annotations": annotations}, spec={"config": json.dumps(config)})


def claim_spec() -> JSON:
    return {"devices": {"requests": [{"name": "vf", "exactly": {"deviceClassName": CLASS}}]}}


def claim(name: str = CLAIM) -> JSON:
    return RESOURCE_CLAIMS.body({"name": name}, spec=claim_spec())


def template(name: str = TEMPLATE) -> JSON:
    return RESOURCE_CLAIM_TEMPLATES.body({"name": name}, spec={"spec": claim_spec()})


def pod(name: str, resources: JSON, **spec: Any) -> JSON:
    container = {"name": "main", "image": "busybox", "resources": resources}
    metadata = {"name": name, "annotations": {NETWORKS: NETWORK}}
    return PODS.body(metadata, spec={"containers": [container], **spec})


def pod_by_template(name: str = "by-template") -> JSON:
    claims = [{"name": "net", "resourceClaimTemplateName": TEMPLATE}]
    return pod(name, {"claims": [{"name": "net"}]}, resourceClaims=claims)


def pod_by_claim(name: str = "by-claim", claim: str = CLAIM) -> JSON:
    return pod(name, {"claims": [{"name": "net"}]}, resourceClaims=[{"name": "net", "resourceClaimName": claim}])


def pod_by_resource(name: str = "by-resource") -> JSON:
    return pod(name, {"limits": {RESOURCE: "1"}, "requests": {RESOURCE: "1"}})


async def prepare(client: KubeClient, namespace: str) -> None:
    """The class, the attachment, the template and the claim that the Pods name."""
    await client.create(DEVICE_CLASSES, device_class())
    await client.create(NETWORK_ATTACHMENTS, attachment(), namespace=namespace)
    await client.create(RESOURCE_CLAIM_TEMPLATES, template(), namespace=namespace)
    await client.create(RESOURCE_CLAIMS, claim(), namespace=namespace)
