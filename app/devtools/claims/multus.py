"""A stand-in for Multus: attaches the networks of Pods on paper, and writes their network status.

A kubelet stand-in asks it before it starts containers. Everything is read from the API server itself, as Multus does. A
Pod whose attachment or claim is not there is tried again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Literal

from app.claims.model import NETWORK_STATUS
from app.devtools.claims.annotations import Element, selected
from app.devtools.claims.attaching import DeviceMap, annotation, device_map, network_status, resource_of
from app.devtools.claims.ipam import Addresses, Ipam, ipam_of
from app.devtools.sandbox.standins.sandboxes import NotAttached
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.events import EventRecorder, Regarding
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from app.kube.retry import every_item
from app.wire import JSON

_CLUSTER_PREFIX = 24
"""Of the Pods' own addresses, as CNI plugins of nodes have it."""


class MultusStandIn:
    """The networks of the Pods of a cluster (`sandboxes.Networks`), whose API server serves attachments."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._addresses = Addresses()
        self._given: dict[str, list[tuple[str, str]]] = {}
        self._sandboxes: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._events = EventRecorder(lambda: client, role="sandbox", instance="multus", component="multus")

    async def run(self) -> None:
        """Writes Events until cancelled."""
        await self._events.run()

    async def attach(self, pod: JSON, address: str) -> None:
        """Give the Pod its networks, and write their status, once for each sandbox.

        Where the network status was removed, the sandbox is made again, with other addresses. Raises NotAttached.
        """
        metadata = pod["metadata"]
        uid, text = metadata["uid"], (metadata.get("annotations") or {}).get(NETWORK_STATUS)
        if int(metadata["resourceVersion"]) < self._written.get(uid, 0):
            return  # the cache has not seen yet what was written
        if text is not None and (uid in self._given or "podIP" in (pod.get("status") or {})):
            self._remember(uid, text)
            return
        try:
            await self._attach(pod, address)
        except (NotAttached, ValueError) as error:
            self.detach(uid)
            raise NotAttached(f'plugin type="multus" name="multus" failed (add): {error}') from None

    def detach(self, uid: str) -> None:
        """The addresses of the Pod are free. Its network status stays, as with Multus."""
        for network, address in self._given.pop(uid, ()):
            self._addresses.free(network, address)
        self._written.pop(uid, None)

    def _remember(self, uid: str, text: str) -> None:
        """The addresses of a Pod that had them before this stand-in started."""
        if uid not in self._given:
            entries = [entry for entry in json.loads(text) if not entry.get("default")]
            self._given[uid] = [(entry["name"], address) for entry in entries for address in entry.get("ips", ())]
            for network, address in self._given[uid]:
                self._addresses.take(network, address)

    async def _attach(self, pod: JSON, address: str) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        default, others = selected(pod)
        elements = [*([] if default is None else [default]), *others]
        attachments = {element.key: await self._attachment(pod, element) for element in elements}
        devices = await self._devices(pod, attachments.values())
        self.detach(uid)
        self._sandboxes[uid] = sandbox = self._sandboxes.get(uid, 0) + 1
        given = self._given.setdefault(uid, [])
        ipams = {key: ipam_of(attachment["spec"].get("config") or "") for key, attachment in attachments.items()}

        def give(element: Element) -> list[str]:
            network = "/".join(element.key)
            addresses = self._addresses.give(network, ipams[element.key], element.ips)
            given.extend((network, address) for address in addresses)
            return addresses

        entries = network_status(pod, attachments, devices, address=address, sandbox=sandbox, give=give)
        for entry in entries:
            ipam = None if entry.get("default") else ipams[tuple(entry["name"].split("/"))]
            self._record(pod, "Normal", "AddedInterface", _added(entry, ipam))
        body = {"metadata": {"uid": uid, "annotations": {NETWORK_STATUS: annotation(entries)}}}
        place = {"namespace": metadata["namespace"], "subresource": "status"}
        stored = await self._client.patch(PODS, metadata["name"], body, patch_type="merge", **place)
        self._written[uid] = int(stored["metadata"]["resourceVersion"])

    async def _attachment(self, pod: JSON, element: Element) -> JSON:
        try:
            return await self._get(NETWORK_ATTACHMENTS, *element.key)
        except NotAttached as error:
            self._record(pod, "Warning", "NoNetworkFound", str(error))
            raise

    async def _devices(self, pod: JSON, attachments: Iterable[JSON]) -> DeviceMap:
        """Looked up only where an attachment has a resource, and the Pod has claims."""
        claims = [one async for one in self._claims(pod)] if any(map(resource_of, attachments)) else []
        if not claims:
            return DeviceMap({})
        slices = every_item(lambda token: self._client.list_page(RESOURCE_SLICES, continue_token=token))
        return device_map(claims, [one async for one in slices], pod["spec"]["nodeName"])

    async def _claims(self, pod: JSON) -> AsyncIterator[tuple[JSON, Mapping[str, str] | None]]:
        """With the resources of requests for that of extended resources."""
        status, namespace = pod.get("status") or {}, pod["metadata"]["namespace"]
        for one in status.get("resourceClaimStatuses") or ():
            if one.get("resourceClaimName"):
                yield await self._get(RESOURCE_CLAIMS, namespace, one["resourceClaimName"]), None
        extended = status.get("extendedResourceClaimStatus") or {}
        if extended:
            resources = {one["requestName"]: one["resourceName"] for one in extended["requestMappings"]}
            yield await self._get(RESOURCE_CLAIMS, namespace, extended["resourceClaimName"]), resources

    async def _get(self, resource: Resource, namespace: str, name: str) -> JSON:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            raise NotAttached(f"{resource.kind} {namespace}/{name} is not there") from None

    def _record(self, pod: JSON, event: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        metadata = pod["metadata"]
        regarding = Regarding.of(PODS, (metadata["namespace"], metadata["name"]), metadata["uid"])
        self._events.record(regarding, event, reason=reason, message=message)


def _added(entry: JSON, ipam: Ipam | None) -> str:
    """The text of the Event for an interface; without `ipam` it is that of the cluster's network."""
    addresses = (
        f"{address}/{_CLUSTER_PREFIX if ipam is None else ipam.prefix(address)}" for address in entry.get("ips", ())
    )
    return f"Add {entry['interface']} [{' '.join(addresses)}] from {entry['name']}"
