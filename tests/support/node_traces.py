"""What a node says of a Pod, told so that two nodes can be compared: status, network status, Events, PodResources."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from google.protobuf.json_format import MessageToDict

from app.claims.model import NETWORK_STATUS
from app.devtools.sandbox.standins.reconciling import Watched
from app.kube.conditions import is_true
from app.kube.resources import EVENTS, NODES, PODS
from app.kube.store import Key, Store
from app.rmd.proto import resources_pb
from tests.support.kubelet import lister
from tests.support.node_stage import NodeStage
from tests.support.real_node import NODE
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]
_PLAIN = {
    r"\d{4}-\d\d-\d\dT[\d:.]+Z": "TIME",
    r"([0-9a-f]{2}:){5}[0-9a-f]{2}": "MAC",
    r"\d+\.\d+\.\d+\.\d+": "ADDRESS",
    r"sha256:[0-9a-f]{64}": "DIGEST",
    r"(containerd://)?[0-9a-f]{64}": "IDENTITY",
    r"(-net|-extended-resources|kube-api-access)-\w{5}\b": r"\1-SUFFIX",
    r"\b(vf-?)\d\b": r"\1N",
    r"0000:03:00\.\d": "PCI",
    r'"\d+(\.\d+)?(s|ms|µs)"': "DURATION",
}
"""What differs from run to run, and what stands for it."""


class PodTrace:
    """Of the Pod of a name, from its creation on."""

    def __init__(self, stage: NodeStage, key: Key, pods: Store[JSON]) -> None:
        self._stage, self._key = stage, key
        self._versions: list[JSON] = []
        pods.subscribe(lambda _type, changed, _old, new: self._changed(changed, new))

    def _changed(self, key: Key, new: JSON | None) -> None:
        if key == self._key and new is not None:
            self._versions.append(new)

    async def summary(self) -> JSON:
        namespace, name = self._key
        pod = await self._stage.pod(name, namespace)
        network_status = (pod["metadata"].get("annotations") or {}).get(NETWORK_STATUS)
        told = {
            "status": pod["status"],
            "network status": network_status,
            "network status is there": self._order(),
            "events": await self._events(),
            "resources": await self._resources(),
        }
        node = await self._stage.client.get(NODES, NODE)
        own = {
            pod["metadata"]["uid"]: "UID",
            str(pod["status"].get("podIP")): "POD-ADDRESS",
            node["status"]["addresses"][0]["address"]: "NODE-ADDRESS",
        }
        return dict(_plain(told, own))

    def _order(self) -> JSON:
        """Before which steps of the Pod Multus has written."""

        def first(holds: Callable[[JSON], Any]) -> float:
            return next((number for number, pod in enumerate(self._versions) if holds(pod)), float("inf"))

        written = first(lambda pod: NETWORK_STATUS in (pod["metadata"].get("annotations") or {}))
        steps: dict[str, Callable[[JSON], Any]] = {
            "before PodReadyToStartContainers": lambda pod: is_true(pod["status"], "PodReadyToStartContainers"),
            "before a container has started": lambda pod: any(
                "waiting" not in container["state"] for container in pod["status"].get("containerStatuses") or ()
            ),
            "before it has an address": lambda pod: "podIP" in pod["status"],
        }
        return {step: written < first(holds) for step, holds in steps.items()}

    async def _events(self) -> dict[str, dict[str, list[str]]]:
        """Their texts by reporter, type and reason, each once and in the order of their first time."""
        namespace, name = self._key
        page = await self._stage.client.list_page(
            EVENTS, namespace=namespace, field_selector=f"involvedObject.name={name}"
        )
        told: dict[str, dict[str, list[str]]] = {}
        for event in sorted(page.items, key=lambda event: int(event["metadata"]["resourceVersion"])):
            kinds = told.setdefault(_reporter(event), {})
            kinds.setdefault(f"{event['type']} {event['reason']}", []).append(event["message"])
        return told

    async def _resources(self) -> list[JSON]:
        """Of each container, as PodResources lists them; of cores their number."""
        async with lister(self._stage.folder) as stub:
            answer = await stub.List(resources_pb.ListPodResourcesRequest())
        listed = [pod for pod in answer.pod_resources if (pod.namespace, pod.name) == self._key]
        containers = [
            MessageToDict(container, preserving_proto_field_name=True) for pod in listed for container in pod.containers
        ]
        for container in containers:
            container["cpu_ids"] = len(container.get("cpu_ids", ()))
        return containers


def _reporter(event: JSON) -> str:
    return str(event.get("reportingComponent") or (event.get("source") or {}).get("component"))


def _plain(value: Any, own: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _plain(content, own) for key, content in value.items()}
    if isinstance(value, list):
        items = [_plain(item, own) for item in value]
        return list({json.dumps(item): item for item in items}.values()) if all(map(_is_text, items)) else items
    if not isinstance(value, str):
        return value
    for pattern, name in {**{rf"\b{re.escape(text)}\b": name for text, name in own.items()}, **_PLAIN}.items():
        value = re.sub(pattern, name, value)
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def by_path(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each text and number in a summary, by where it is."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not children:
        yield path, json.dumps(value)
    for name, child in children:
        yield from by_path(child, f"{path}.{name}" if path else str(name))


@contextlib.asynccontextmanager
async def traced(stage: NodeStage, namespace: str, name: str) -> AsyncIterator[PodTrace]:
    watched = Watched(stage.client)
    pods = watched.store(PODS)
    trace = PodTrace(stage, (namespace, name), pods)
    async with running(watched.run()):
        await eventually(lambda: pods.synced)
        yield trace
