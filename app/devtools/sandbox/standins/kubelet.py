"""Makes the Pods of the sandbox's nodes run, on paper: status, addresses, and the confirmation of deletions.

Acts for the nodes of its sandbox alone. No container is started; an annotation (`podstatus.EXIT_ANNOTATION`) ends a
Pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from app.devtools.sandbox.standins.podstatus import is_reported, pod_status
from app.devtools.sandbox.standins.reconciling import reconciling
from app.kube.client import KubeClient
from app.kube.resources import PODS
from app.kube.store import Key, Store
from app.text import stamp
from app.wire import JSON

_BLOCK = 250
"""Addresses used of the last octet."""


class Kubelet:
    """`names` are the nodes that this one stands in for; `pods` and `nodes` hold whole objects."""

    def __init__(
        self,
        client: KubeClient,
        names: Collection[str],
        pods: Store[JSON],
        nodes: Store[JSON],
        *,
        elsewhere: Callable[[JSON], bool] = lambda _pod: False,
    ) -> None:
        self._client = client
        self._names = frozenset(names)
        self._elsewhere = elsewhere
        self._pods = pods
        self._nodes = nodes
        self._given: dict[Key, str] = {}
        self._next = 0
        self.controller = reconciling("kubelet", self._reconcile, pods, nodes)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None:
            self._given.pop(key, None)
            return
        if pod["spec"].get("nodeName") not in self._names or self._elsewhere(pod):
            return
        if pod["metadata"].get("deletionTimestamp"):
            await self._confirm_deletion(pod)
        elif (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and not is_reported(pod):
            await self._report(key, pod)

    async def _confirm_deletion(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0:
            # Confirmed before: a finalizer holds it now, which is not ours to remove.
            return
        await self._client.delete(
            PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
        )

    async def _report(self, key: Key, pod: JSON) -> None:
        host_ip = self._host_ip(pod["spec"]["nodeName"])
        pod_ip = host_ip if pod["spec"].get("hostNetwork") else self._pod_ip(key, pod)
        status = pod_status(pod, now=stamp(), pod_ip=pod_ip, host_ip=host_ip)
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._client.patch(PODS, key[1], body, patch_type="strategic", namespace=key[0], subresource="status")

    def _host_ip(self, node: str) -> str:
        found = self._nodes.get("", node) or {}
        addresses = (found.get("status") or {}).get("addresses") or []
        return next((str(a["address"]) for a in addresses if a.get("type") == "InternalIP"), "127.0.0.1")

    def _pod_ip(self, key: Key, pod: JSON) -> str:
        """The Pod's address: what it has, or the next one in 10.244.0.0/16 that no Pod has."""
        has = (pod.get("status") or {}).get("podIP") or self._given.get(key)
        if has:
            return str(has)
        taken = {(other.get("status") or {}).get("podIP") for other in self._pods.values()} | set(self._given.values())
        for _ in range(256 * _BLOCK):
            self._next = (self._next + 1) % (256 * _BLOCK)
            address = f"10.244.{self._next // _BLOCK}.{self._next % _BLOCK + 2}"
            if address not in taken:
                break
        self._given[key] = address
        return address
