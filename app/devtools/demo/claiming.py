"""The example of claims: which address each device of a Pod has, and a Service on the second network of the Pod."""

from __future__ import annotations

from app.claims.model import NETWORK_STATUS
from app.claims.network_status import attached_to
from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.stage import Step, get_or_nothing, read_text
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
_OF_SERVICE = f"{SERVICE_NAME}={NAME}"


class Claiming:
    """The steps of the example, in their order."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl, self._client, self._stage = kubectl, kubectl.client, kubectl.stage
        self._claim = ""
        self.steps = (
            Step(
                "A DeviceClass that serves example.com/foo, and a driver with four devices on each host",
                self._show_devices,
            ),
            Step(
                "A Pod on two networks: Berth adds the extended resource, the scheduler claims two devices",
                self._create_pod,
            ),
            Step("The claim says which interface and address each device has", self._show_network_data),
            Step("A Service on the second network", self._serve_the_second_network),
            Step("The sandbox of the Pod is made again: claim and Service follow", self._restart_the_sandbox),
            Step("Cleaning up", self._clean_up),
        )

    async def _show_devices(self) -> None:
        await self._kubectl.field(DEVICE_CLASSES, "vf.example.com", ".spec.extendedResourceName")
        await self._kubectl.get(RESOURCE_SLICES)
        slices = (await self._client.list_page(RESOURCE_SLICES)).items
        devices = [len(device_slice["spec"]["devices"]) for device_slice in slices]
        self._stage.holds("each host has four devices", devices == [4, 4])

    async def _create_pod(self) -> None:
        await self._kubectl.create(read_text("claims-networks.yaml"), NETWORK_ATTACHMENTS, NETWORK_ATTACHMENTS)
        await self._kubectl.create(read_text("claims-pod.yaml"), PODS)
        limits = await self._kubectl.field(PODS, NAME, ".spec.containers[0].resources.limits")
        self._stage.holds("the Pod asks for two example.com/foo", limits == '{"example.com/foo":"2"}')
        wish = "the scheduler has made a claim"
        self._claim = _claim_of(await self._kubectl.until(wish, PODS, NAME, lambda pod: bool(_claim_of(pod))))
        await self._kubectl.field(PODS, NAME, ".status.extendedResourceClaimStatus.resourceClaimName")

    async def _show_network_data(self) -> None:
        await self._until_published({})

    async def _serve_the_second_network(self) -> None:
        await self._kubectl.create(read_text("claims-service.yaml"), SERVICES)
        await self._until_served()

    async def _restart_the_sandbox(self) -> None:
        before = _addresses(await self._pod())
        self._stage.say("Without its annotation the stand-in for Multus attaches the networks again.")
        await self._kubectl.mark("annotate", PODS, NAME, NETWORK_STATUS, None)
        await self._until_published(before)
        await self._until_served()

    async def _until_published(self, before: dict[str, str]) -> None:
        """Network data of the claim are what Multus says, and not `before`."""

        async def look() -> tuple[list[JSON], dict[str, str]]:
            claim = await self._client.get(RESOURCE_CLAIMS, self._claim, namespace=_NAMESPACE)
            return _network_data(claim), _addresses(await self._pod())

        def agree(seen: tuple[list[JSON], dict[str, str]]) -> bool:
            said = {data["interfaceName"]: data["ips"][0].partition("/")[0] for data in seen[0]}
            return len(said) == len(NETWORKS) and said == seen[1] != before

        published, _ = await self._stage.until("the claim has the addresses of the Pod", look, true=agree)
        await self._kubectl.field(RESOURCE_CLAIMS, self._claim, ".status.devices[*].networkData")
        promise = "they are what Multus says, with the prefixes of the attachments"
        self._stage.holds(promise, _prefixes(published) == {"24"})

    async def _until_served(self) -> None:
        wanted = [_addresses(await self._pod())["net2"]]
        slices = await self._stage.until(
            "the EndpointSlice has the Pod's address on storage-network",
            self._slices,
            true=lambda found: [address for obj in found for address in _endpoints(obj)] == wanted,
        )
        await self._kubectl.get(ENDPOINT_SLICES, selector=_OF_SERVICE)
        self._stage.holds("it has the address on storage-network, port 5432", slices[0]["ports"][0]["port"] == 5432)

    async def _slices(self) -> list[JSON]:
        return (await self._client.list_page(ENDPOINT_SLICES, namespace=_NAMESPACE, label_selector=_OF_SERVICE)).items

    async def _pod(self) -> JSON:
        return await get_or_nothing(self._client, PODS, NAME, namespace=_NAMESPACE)

    async def _clean_up(self) -> None:
        for resource in (SERVICES, PODS):
            await self._kubectl.delete(resource, NAME)
        await self._kubectl.delete(NETWORK_ATTACHMENTS, *NETWORKS)
        await self._stage.until("claim and EndpointSlices are gone", self._left, true=lambda left: not any(left))
        self._stage.holds("nothing is left", kept=True)

    async def _left(self) -> list[JSON | list[JSON]]:
        claims = (await self._client.list_page(RESOURCE_CLAIMS, namespace=_NAMESPACE)).items
        return [[claim for claim in claims if claim["metadata"]["name"] == self._claim], await self._slices()]


def _claim_of(pod: JSON) -> str:
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return str(status.get("resourceClaimName") or "")


def _addresses(pod: JSON) -> dict[str, str]:
    """The addresses of a Pod on its further networks, by interface."""
    text = (pod["metadata"].get("annotations") or {}).get(NETWORK_STATUS)
    return {network.interface: network.ips[0] for network in attached_to(text) if not network.default} if text else {}


def _network_data(claim: JSON) -> list[JSON]:
    devices = (claim.get("status") or {}).get("devices") or ()
    return [device["networkData"] for device in devices if "networkData" in device]


def _prefixes(data: list[JSON]) -> set[str]:
    return {address.partition("/")[2] for network in data for address in network["ips"]}


def _endpoints(endpoint_slice: JSON) -> list[str]:
    return [address for endpoint in endpoint_slice.get("endpoints") or () for address in endpoint["addresses"]]
