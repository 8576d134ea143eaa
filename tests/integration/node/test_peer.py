"""The same Pods on a real node and on the stand-ins: status, network status, Events and what PodResources lists.

`peer.json` has what the real node said, so the stand-ins are compared with it where no node can run too. With one,
`BERTH_RECORD=1` writes the file anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.networks.model import DEFAULT_NETWORK
from tests.support.control_plane import NAMESPACE
from tests.support.kubelet import Things, register, serving
from tests.support.networked_pods import pod_by_template
from tests.support.node_driver import driven
from tests.support.node_files import IMAGE
from tests.support.node_stage import BR, RESOURCE, SIDES, VF, NodeStage, container, pod
from tests.support.node_traces import by_path, traced
from tests.support.waiting import eventually
from tests.support.wrapper_traces import differences

JSON = dict[str, Any]
pytestmark = pytest.mark.parametrize("stage", SIDES, indirect=True)
_FILE = Path(__file__).parent / "peer.json"
_RECORDING = bool(os.environ.get("BERTH_RECORD"))
EXEMPT = "kube-system"
"""The namespace whose Pods Berth is not asked about."""


@dataclass(frozen=True)
class Scenario:
    """A Pod, and the reason of the Event after which nothing new comes."""

    pod: JSON
    last: str = "Started"
    namespace: str = NAMESPACE
    ends: bool = False


def _claimed(name: str) -> JSON:
    body = pod_by_template(name)
    body["spec"]["containers"][0]["image"] = IMAGE
    body["spec"]["terminationGracePeriodSeconds"] = 1
    return body


def _sleeping(name: str, seconds: str, **more: Any) -> JSON:
    return container(name) | {"command": ["sleep", seconds]} | more


def _with_default(name: str) -> JSON:
    body = pod(name)
    body["metadata"]["annotations"] = {DEFAULT_NETWORK: BR}
    return body


_MAC = "02:00:00:00:00:0A"
_EXACT = {"cpu": "2", "memory": "16Mi"}
SCENARIOS = {
    "no annotation": Scenario(pod("plain")),
    "two networks": Scenario(pod("two", networks=f"{VF},{BR}@other")),
    "what it asks for": Scenario(
        pod("asks", networks=f'[{{"name": "{BR}", "interface": "mine", "mac": "{_MAC}", "ips": ["10.79.0.77/24"]}}]')
    ),
    "another default network": Scenario(_with_default("default")),
    "a device and no network": Scenario(pod("device", container(resources={RESOURCE: "2", "memory": "16Mi"}))),
    "cores of its own": Scenario(pod("cores", container(resources=_EXACT), container("more", resources=_EXACT))),
    "a claim": Scenario(_claimed("claims")),
    "the network of the node": Scenario(pod("host", hostNetwork=True)),
    "init containers": Scenario(
        pod("inits", initContainers=[_sleeping("first", "1"), container("side") | {"restartPolicy": "Always"}])
    ),
    "one that ends": Scenario(pod("ends", _sleeping("main", "1"), networks=BR, restartPolicy="Never"), ends=True),
    "names that are taken": Scenario(
        pod("taken", networks=f"{BR}@n1,{BR}@n1"), last="FailedCreatePodSandBox", namespace=EXEMPT
    ),
    "an annotation that cannot be read": Scenario(
        pod("unread", networks=f"{BR}@a@b"), last="FailedCreatePodSandBox", namespace=EXEMPT
    ),
    "a network that is not there": Scenario(
        pod("nowhere", networks="nowhere"), last="FailedCreatePodSandBox", namespace=EXEMPT
    ),
}

ABSENT = {
    r".*: events\.kubelet\.Normal (Pulled|Created|Started)\.\d": "three writes for each container that nothing starts",
    r".*: status\.(init)?[cC]ontainerStatuses\.\d\.(state\.terminated\.)?containerID": "there is no container",
    r".*: status\.(init)?[cC]ontainerStatuses\.\d\.user\..*": "nothing runs as anybody",
    r".*: status\.(init)?[cC]ontainerStatuses\.\d\.volumeMounts\..*": "nothing is mounted",
    r".*: status\.(resources|allocatedResources)(\..*)?": "sums over containers, which nothing here reads",
    r".*: status\.conditions\.\d\.lastProbeTime": "null, and the sandbox stores no null",
    "names that are taken: events.multus.*": "is refused before the first network is attached",
}
"""What the stand-ins do not have, by scenario and path, and why."""
OTHERWISE = {
    r".*: status\.(init)?[cC]ontainerStatuses\.\d\.imageID": "there is no image",
    "a claim: network status": "the driver beside the stand-in writes files about its devices, so there is device-info",
    r".*: events\.kubelet\.Warning FailedCreatePodSandBox\.0": "the words of errors are Multus' own",
    r".*: events\.multus\.Warning NoNetworkFound\.0": "the words of errors are Multus' own",
}
"""What they say in another way."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def devices(stage: NodeStage, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """A device plugin, a driver, and attachments."""
    if stage.node is not None:
        for number in (1, 2):
            await stage.node.run(
                "ip", "link", "add", "name", f"vf{number}", "type", "veth", "peer", "name", f"p{number}"
            )
    await stage.attach(VF)
    for namespace in (NAMESPACE, EXEMPT):
        await stage.attach(BR, namespace)
    things = Things(*((f"vf{number}", "Healthy", 0) for number in (1, 2)))
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(serving(things, stage.folder))
        await register(stage.folder, resource_name=RESOURCE)
        await stage.offers(RESOURCE, 2)
        await stack.enter_async_context(driven(stage, tmp_path_factory.mktemp("driver")))
        yield


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_pod_goes_as_on_the_peer(stage: NodeStage, name: str) -> None:
    scenario = SCENARIOS[name]
    key = scenario.namespace, scenario.pod["metadata"]["name"]
    async with traced(stage, *key) as trace:
        await stage.create(scenario.pod, scenario.namespace)
        if stage.node is not None and _RECORDING:
            await eventually(trace.summary, lambda told: scenario.last in json.dumps(told["events"]))
            await asyncio.sleep(10)
            _write(name, await trace.summary())
        expected = dict(by_path(json.loads(_FILE.read_text())[name]))

        async def unlike() -> dict[str, Any]:
            return {
                path: values
                for path, values in differences(expected, dict(by_path(await trace.summary()))).items()
                if stage.node is not None or not _is_known(f"{name}: {path}", *values)
            }

        await eventually(unlike, lambda found: not found)
    await stage.gone(key[1], key[0])


def _is_known(place: str, peer: str | None, ours: str | None) -> bool:
    known = ABSENT if ours is None else {} if peer is None else OTHERWISE
    return any(re.fullmatch(pattern, place) for pattern in known)


def _write(name: str, told: JSON) -> None:
    content = json.loads(_FILE.read_text()) if _FILE.exists() else {}
    content[name] = told
    _FILE.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
