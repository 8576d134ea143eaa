"""What `bench.claims` measures: Pods with one device each, attached and not published yet."""

from __future__ import annotations

import json
from dataclasses import dataclass

from app.claims.model import DEVICE_ID, NETWORK_STATUS, RESOURCE_NAME
from app.definitions import read_definitions
from app.kube.client import KubeClient
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.networks.model import NETWORKS
from app.networks.model import RESOURCE_NAME as RESOURCE_OF
from app.wire import JSON
from bench.appwrappers import at_a_time

_DRIVER, _RESOURCE, _SUBNET = "vf.example.com", "example.com/vf", "10.0.0.0/8"


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int = 100
    each: int = 100
    workers: int = 16
    rounds: int = 3

    @property
    def claims(self) -> int:
        return self.nodes * self.each


async def seed(client: KubeClient, size: Size) -> None:
    """An attachment, a slice for each node, and Pods with their claims."""
    for definition in read_definitions((NETWORK_ATTACHMENTS,)):
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    config = {"type": "sriov", "ipam": {"type": "host-local", "subnet": _SUBNET}}
    metadata = {"name": "net", "annotations": {RESOURCE_OF: _RESOURCE}}
    attachment = NETWORK_ATTACHMENTS.body(metadata, spec={"config": json.dumps(config)})
    await client.create(NETWORK_ATTACHMENTS, attachment, namespace="default")

    async def node(job: JSON) -> None:
        pool = {"name": job["node"], "generation": 1, "resourceSliceCount": 1}
        devices = [_device(number) for number in range(size.each)]
        spec = {"driver": _DRIVER, "nodeName": job["node"], "pool": pool, "devices": devices}
        await client.create(RESOURCE_SLICES, RESOURCE_SLICES.body({"name": job["node"]}, spec=spec))

    async def pod(job: JSON) -> None:
        await _pod(client, job["node"], job["number"], job["address"])

    nodes: list[JSON] = [{"node": f"n{number}"} for number in range(size.nodes)]
    await at_a_time(nodes, node, workers=size.workers)
    pods: list[JSON] = [
        {"node": f"n{at}", "number": number, "address": f"10.{at // 250}.{at % 250}.{number + 1}"}
        for at in range(size.nodes)
        for number in range(size.each)
    ]
    await at_a_time(pods, pod, workers=size.workers)


async def _pod(client: KubeClient, node: str, number: int, address: str) -> None:
    name = f"{node}-{number}"
    info = {"type": "pci", "version": "1.1.0", "pci": {"pci-address": _address(number)}}
    status = {"name": "default/net", "interface": "net1", "ips": [address], "mac": "02:00:00:00:00:01", "dns": {}}
    annotations = {NETWORKS: "net", NETWORK_STATUS: json.dumps([status | {"device-info": info}])}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    spec |= {"resourceClaims": [{"name": "r", "resourceClaimName": name}]}
    body = PODS.body({"name": name, "annotations": annotations}, spec=spec)
    pod = await client.create(PODS, body, namespace="default")
    request = {"name": "r", "exactly": {"deviceClassName": "vf"}}
    body = RESOURCE_CLAIMS.body({"name": name}, spec={"devices": {"requests": [request]}})
    claim = await client.create(RESOURCE_CLAIMS, body, namespace="default")
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    results = [{"request": "r", "driver": _DRIVER, "pool": node, "device": f"vf{number}"}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    claim["status"] = {"allocation": allocation, "reservedFor": [consumer]}
    await client.replace(RESOURCE_CLAIMS, name, claim, namespace="default", subresource="status")


def _address(number: int) -> str:
    return f"0000:03:{number // 8:02x}.{number % 8}"


def _device(number: int) -> JSON:
    attributes = {DEVICE_ID: {"string": _address(number)}, RESOURCE_NAME: {"string": _RESOURCE}}
    return {"name": f"vf{number}", "attributes": attributes}
