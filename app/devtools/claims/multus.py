"""A stand-in for Multus: attaches the networks of Pods that run, on paper, and writes their network status.

Everything is read from the API server itself, as Multus does. A Pod whose attachment or claim is not there is tried
again. The kubelet stand-in does not wait for it: the status of a Pod that runs follows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping

import structlog

from app.claims.model import NETWORK_STATUS
from app.devtools.claims.annotations import Element, selected
from app.devtools.claims.attaching import DeviceMap, device_map, network_status, resource_of
from app.devtools.claims.ipam import Addresses, Unattachable, ipam_of
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from app.kube.retry import every_item
from app.kube.store import Key
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.wire import JSON

log = structlog.get_logger(__name__)
_AGAIN = 0.5


class MultusStandIn:
    """Runs beside the API server of `client`, which serves attachments."""

    def __init__(self, client: KubeClient) -> None:
        self._client, self._watched = client, Watched(client)
        self._pods = self._watched.store(PODS)
        self._addresses = Addresses()
        self._given: dict[str, list[tuple[str, str]]] = {}
        self._sandboxes: dict[str, int] = {}
        self._restarting: set[str] = set()
        # One worker: an address is looked for and taken without another Pod in between.
        self._controller = reconciling("multus-stand-in", self._reconcile, self._pods, workers=1)
        self._pods.subscribe(lambda _event, _key, old, new: self._on_pod(old, new))

    async def run(self) -> None:
        """Runs until cancelled; faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watched.run())
            group.create_task(self._controller.run())

    def restart_sandbox(self, namespace: str, name: str) -> None:
        """Have the sandbox of a Pod made again: it gets other addresses, and the status is written again."""
        pod = self._pods.get(namespace, name)
        if pod is not None:
            self._restarting.add(pod["metadata"]["uid"])
            self._controller.enqueue((namespace, name))

    def _on_pod(self, old: JSON | None, new: JSON | None) -> None:
        if old is not None and (new is None or _is_over(new) or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._free(old["metadata"]["uid"])

    def _free(self, uid: str) -> None:
        for network, address in self._given.pop(uid, ()):
            self._addresses.free(network, address)

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None or not _is_to_attach(pod):
            return None
        uid, annotations = pod["metadata"]["uid"], pod["metadata"]["annotations"]
        if NETWORK_STATUS in annotations and uid not in self._restarting:
            self._remember(uid, annotations[NETWORK_STATUS])
            return None
        try:
            await self._attach(pod)
        except (Unattachable, ValueError) as error:
            self._free(uid)
            log.info("networks not attached", pod=f"{key[0]}/{key[1]}", reason=str(error))
            return _AGAIN
        self._restarting.discard(uid)
        return None

    def _remember(self, uid: str, text: str) -> None:
        """The addresses of a Pod that had them before this stand-in started."""
        if uid not in self._given:
            entries = [entry for entry in json.loads(text) if not entry.get("default")]
            self._given[uid] = [(entry["name"], address) for entry in entries for address in entry.get("ips", ())]
            for network, address in self._given[uid]:
                self._addresses.take(network, address)

    async def _attach(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        default, others = selected(pod)
        elements = [*([] if default is None else [default]), *others]
        attachments = {element.key: await self._attachment(element) for element in elements}
        devices = await self._devices(pod, attachments.values())
        self._free(uid)
        self._sandboxes[uid] = sandbox = self._sandboxes.get(uid, 0) + 1
        given = self._given.setdefault(uid, [])

        def give(element: Element) -> list[str]:
            network, config = "/".join(element.key), attachments[element.key]["spec"].get("config") or ""
            addresses = self._addresses.give(network, ipam_of(config), element.ips)
            given.extend((network, address) for address in addresses)
            return addresses

        entries = network_status(pod, attachments, devices, sandbox=sandbox, give=give)
        body = {"metadata": {"uid": uid, "annotations": {NETWORK_STATUS: json.dumps(entries, indent=4)}}}
        place = {"namespace": metadata["namespace"], "subresource": "status"}
        await self._client.patch(PODS, metadata["name"], body, patch_type="merge", **place)

    async def _attachment(self, element: Element) -> JSON:
        namespace, name = element.key
        return await self._get(NETWORK_ATTACHMENTS, namespace, name)

    async def _devices(self, pod: JSON, attachments: Iterable[JSON]) -> DeviceMap:
        """Looked up only where an attachment has a resource."""
        if not any(resource_of(one) for one in attachments):
            return DeviceMap({})
        claims = [one async for one in self._claims(pod)]
        slices = every_item(lambda token: self._client.list_page(RESOURCE_SLICES, continue_token=token))
        return device_map(claims, [one async for one in slices], pod["spec"]["nodeName"])

    async def _claims(self, pod: JSON) -> AsyncIterator[tuple[JSON, Mapping[str, str] | None]]:
        """With the resources of requests for that of extended resources."""
        status, namespace = pod["status"], pod["metadata"]["namespace"]
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
            raise Unattachable(f"{resource.kind} {namespace}/{name} is not there") from None


def _is_to_attach(pod: JSON) -> bool:
    """Whether the Pod selects networks, and its sandbox is there."""
    annotations, spec = pod["metadata"].get("annotations") or {}, pod["spec"]
    asks = bool(annotations.get(NETWORKS) or annotations.get(DEFAULT_NETWORK))
    ends = _is_over(pod) or "deletionTimestamp" in pod["metadata"]
    there = bool(spec.get("nodeName") and (pod.get("status") or {}).get("podIP"))
    return asks and there and not ends and not spec.get("hostNetwork")


def _is_over(pod: JSON) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
