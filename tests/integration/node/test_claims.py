"""Devices by dynamic resource allocation: what Berth publishes in claims is what the Pod has on the node."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.network_stage import NetworkedPods, start_controllers
from tests.support.networked_pods import CLAIMED, NETWORK, pod, pod_by_template
from tests.support.node_driver import driven
from tests.support.node_files import IMAGE
from tests.support.node_stage import SIDES, NodeStage
from tests.support.real_node import addresses_of

JSON = dict[str, Any]
pytestmark = pytest.mark.parametrize("stage", SIDES, indirect=True)
ROADS: dict[str, Callable[[str], JSON]] = {
    "resource": lambda name: pod(name, network=NETWORK),
    "injected-claim": lambda name: pod(name, network=CLAIMED),
    "own-claim": pod_by_template,
}
"""How a Pod comes to its device; of the first two Berth asks for it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pods(stage: NodeStage, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NetworkedPods]:
    """With a driver on the node, and Berth's controllers."""
    folder: Path = tmp_path_factory.mktemp("driver")
    async with driven(stage, folder), contextlib.AsyncExitStack() as stack:
        await start_controllers(stack, stage.plane, folder)
        yield NetworkedPods(stage.plane)


@pytest.mark.parametrize("road", ROADS)
async def test_the_claim_has_the_interface_that_the_pod_has(stage: NodeStage, pods: NetworkedPods, road: str) -> None:
    body = ROADS[road](road)
    body["spec"]["containers"][0]["image"] = IMAGE
    body["spec"]["terminationGracePeriodSeconds"] = 1
    await stage.create(body)
    up = await stage.runs(road)
    attached = await pods.attached(road)
    data = (await pods.published(road, attached))["networkData"]
    assert data["interfaceName"] == "net1"
    if stage.node is not None:
        link = (await stage.node.interfaces(up["status"]["podIP"]))["net1"]
        assert data["hardwareAddress"] == link["address"]
        assert [address.partition("/")[0] for address in data["ips"]] == addresses_of(link)
    await stage.gone(road)
