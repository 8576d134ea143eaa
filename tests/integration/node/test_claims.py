"""Devices by dynamic resource allocation: what Berth publishes in claims is what the Pod has on the node."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.devtools.claims.driver import DriverStandIn
from app.devtools.claims.slices import slice_of, virtual_functions
from app.kube.resources import NETWORK_ATTACHMENTS, RESOURCE_SLICES
from tests.support.control_plane import NAMESPACE
from tests.support.network_stage import NetworkedPods, start_controllers
from tests.support.networked_pods import CLAIMED, DRIVER, NETWORK, RESOURCE, SUBNETS, pod, pod_by_template, prepare
from tests.support.node_driver import driving
from tests.support.node_files import IMAGE
from tests.support.node_stage import SIDES, NodeStage
from tests.support.real_node import NODE, addresses_of
from tests.support.running import running

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
    """With a driver on the node, and Berth's controllers. All networks are bridges, which need no hardware."""
    folder: Path = tmp_path_factory.mktemp("driver")
    await prepare(stage.client, NAMESPACE)
    for number, (name, subnet) in enumerate(SUBNETS.items()):
        ipam = {"type": "host-local", "subnet": subnet}
        config = {"cniVersion": "1.0.0", "name": name, "type": "bridge", "bridge": f"dra{number}", "ipam": ipam}
        change = {"spec": {"config": json.dumps(config)}}
        await stage.client.patch(NETWORK_ATTACHMENTS, name, change, patch_type="merge", namespace=NAMESPACE)
    async with contextlib.AsyncExitStack() as stack:
        if stage.node is None:
            driver = DriverStandIn(stage.client, DRIVER, "silent", [NODE], resource=RESOURCE)
            await driver.publish_slices()
            await stack.enter_async_context(running(driver.run()))
        else:
            await stack.enter_async_context(driving(stage.client, stage.folder, DRIVER, folder))
            body = slice_of(DRIVER, NODE, virtual_functions(4, RESOURCE), 1)
            await stage.client.create(RESOURCE_SLICES, body)
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
