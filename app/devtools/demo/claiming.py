"""The example of claims: which address each device of a Pod has, and a Service on the second network of the Pod."""

from __future__ import annotations

import json

import yaml

from app.claims.model import NETWORK_STATUS
from app.claims.network_status import attached_to
from app.devtools.demo.stage import Stage, get_or_nothing
from app.kube.client import KubeClient
from app.kube.resources import (
    DEVICE_CLASSES,
    ENDPOINT_SLICES,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
)
from app.services.model import SERVICE_NAME
from app.wire import JSON

NAME = "database"
NETWORKS = ("data-network", "storage-network")
_NAMESPACE = "default"


class Claiming:
    """The steps of the example, in their order."""

    def __init__(self, client: KubeClient, stage: Stage) -> None:
        self._client, self._stage = client, stage
        self._claim = ""

    async def play(self) -> None:
        """Play every step. Raises DemoError at the first that does not hold."""
        await self._show_devices()
        await self._create_pod()
        await self._show_network_data()
        await self._serve_the_second_network()
        await self._restart_the_sandbox()
        await self._clean_up()

    async def _show_devices(self) -> None:
        await self._stage.title(
            "A DeviceClass that serves example.com/foo, and a driver with four devices on each host"
        )
        self._stage.command("kubectl get deviceclass vf.example.com -o yaml | grep extendedResourceName")
        device_class = await self._client.get(DEVICE_CLASSES, "vf.example.com")
        resource = device_class["spec"].get("extendedResourceName")
        self._stage.say(f"  extendedResourceName: {resource}")
        self._stage.command("kubectl get resourceslices")
        slices = (await self._client.list_page(RESOURCE_SLICES)).items
        rows = [(one["spec"]["nodeName"], one["spec"]["driver"], str(len(one["spec"]["devices"]))) for one in slices]
        self._stage.table(("NODE", "DRIVER", "DEVICES"), *rows)
        self._stage.holds("each host has four devices", [row[2] for row in rows] == ["4", "4"])

    async def _create_pod(self) -> None:
        await self._stage.title(
            "A Pod on two networks: Berth adds the extended resource, the scheduler claims two devices"
        )
        for text in self._stage.text("claims-networks.yaml").split("---\n"):
            body = self._stage.typed(text)
            await self._client.create(NETWORK_ATTACHMENTS, body, namespace=_NAMESPACE)
        created = await self._client.create(PODS, self._stage.manifest("claims-pod.yaml"), namespace=_NAMESPACE)
        self._stage.command("kubectl get pod database -o json | jq .spec.containers[0].resources.limits")
        limits = created["spec"]["containers"][0]["resources"]["limits"]
        self._stage.say(json.dumps(limits))
        self._stage.holds("the Pod asks for two example.com/foo", limits == {"example.com/foo": "2"})
        self._stage.command(
            "kubectl get pod database -o json | jq .status.extendedResourceClaimStatus.resourceClaimName"
        )
        pod = await self._stage.until(
            "the scheduler has made a claim", self._pod, true=lambda one: bool(_claim_of(one))
        )
        self._claim = _claim_of(pod)
        self._stage.say(json.dumps(self._claim))

    async def _show_network_data(self) -> None:
        await self._stage.title("The claim says which interface and address each device has")
        await self._until_published({})

    async def _serve_the_second_network(self) -> None:
        await self._stage.title("A Service on the second network")
        await self._client.create(SERVICES, self._stage.manifest("claims-service.yaml"), namespace=_NAMESPACE)
        await self._until_served()

    async def _restart_the_sandbox(self) -> None:
        await self._stage.title("The sandbox of the Pod is made again: claim and Service follow")
        before = _addresses(await self._pod())
        self._stage.say("Without its annotation the stand-in for Multus attaches the networks again.")
        self._stage.command(f"kubectl annotate pod {NAME} {NETWORK_STATUS}-")
        patch = {"metadata": {"annotations": {NETWORK_STATUS: None}}}
        await self._client.patch(PODS, NAME, patch, patch_type="merge", namespace=_NAMESPACE)
        await self._until_published(before)
        await self._until_served()

    async def _until_published(self, before: dict[str, str]) -> None:
        """Network data of the claim are what Multus says, and not `before`."""
        self._stage.command(f"kubectl get resourceclaim {self._claim} -o yaml | yq .status.devices[].networkData")

        async def look() -> tuple[list[JSON], dict[str, str]]:
            claim = await self._client.get(RESOURCE_CLAIMS, self._claim, namespace=_NAMESPACE)
            return _network_data(claim), _addresses(await self._pod())

        def agree(found: tuple[list[JSON], dict[str, str]]) -> bool:
            said = {one["interfaceName"]: one["ips"][0].partition("/")[0] for one in found[0]}
            return len(said) == len(NETWORKS) and said == found[1] != before

        data, _ = await self._stage.until("the claim has the addresses of the Pod", look, true=agree)
        self._stage.say(yaml.safe_dump(data, sort_keys=False).rstrip())
        self._stage.holds("they are what Multus says, with the prefixes of the attachments", _prefixes(data) == {"24"})

    async def _until_served(self) -> None:
        self._stage.command(f"kubectl get endpointslices -l {SERVICE_NAME}={NAME}")
        wanted = [_addresses(await self._pod())["net2"]]
        slices = await self._stage.until(
            "the EndpointSlice has the Pod's address on storage-network",
            self._slices,
            true=lambda found: [address for one in found for address in _endpoints(one)] == wanted,
        )
        rows = [(one["metadata"]["name"], one["addressType"], ",".join(_endpoints(one))) for one in slices]
        self._stage.table(("NAME", "ADDRESSTYPE", "ENDPOINTS"), *rows)
        self._stage.holds("it has the address on storage-network, port 5432", slices[0]["ports"][0]["port"] == 5432)

    async def _slices(self) -> list[JSON]:
        selector = f"{SERVICE_NAME}={NAME}"
        return (await self._client.list_page(ENDPOINT_SLICES, namespace=_NAMESPACE, label_selector=selector)).items

    async def _pod(self) -> JSON:
        return await get_or_nothing(self._client, PODS, NAME, namespace=_NAMESPACE)

    async def _clean_up(self) -> None:
        await self._stage.title("Cleaning up")
        networks = " ".join(NETWORKS)
        self._stage.command(f"kubectl delete service,pod {NAME}\nkubectl delete net-attach-def {networks}")
        for resource in (SERVICES, PODS):
            await self._client.delete(resource, NAME, namespace=_NAMESPACE)
        for network in NETWORKS:
            await self._client.delete(NETWORK_ATTACHMENTS, network, namespace=_NAMESPACE)
        await self._stage.until("claim and EndpointSlices are gone", self._left, true=lambda left: not any(left))
        self._stage.holds("nothing is left", True)

    async def _left(self) -> list[JSON | list[JSON]]:
        claim = await get_or_nothing(self._client, RESOURCE_CLAIMS, self._claim, namespace=_NAMESPACE)
        return [claim, await self._pod(), await self._slices()]


def _claim_of(pod: JSON) -> str:
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return str(status.get("resourceClaimName") or "")


def _addresses(pod: JSON) -> dict[str, str]:
    """The addresses of a Pod on its further networks, by interface."""
    text = (pod["metadata"].get("annotations") or {}).get(NETWORK_STATUS)
    return {one.interface: one.ips[0] for one in attached_to(text) if not one.default} if text else {}


def _network_data(claim: JSON) -> list[JSON]:
    devices = (claim.get("status") or {}).get("devices") or ()
    return [one["networkData"] for one in devices if "networkData" in one]


def _prefixes(data: list[JSON]) -> set[str]:
    return {address.partition("/")[2] for one in data for address in one["ips"]}


def _endpoints(endpoint_slice: JSON) -> list[str]:
    return [address for one in endpoint_slice.get("endpoints") or () for address in one["addresses"]]
