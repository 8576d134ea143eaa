"""Network data of Pods in the status of their claims, by each route: from the Pod that a user writes to what one reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from app.kube.conditions import condition
from app.kube.resources import ENDPOINT_SLICES, SERVICES
from app.services.model import NETWORK, SELECTOR, SERVICE_NAME
from tests.support.control_plane import NAMESPACE, ControlPlane
from tests.support.network_stage import NetworkStage, network_stage
from tests.support.networked_pods import (
    CLAIMED,
    RESOURCE,
    pod,
    pod_by_claim,
    pod_by_template,
)
from tests.support.networked_pods import NETWORK as ATTACHMENT
from tests.support.waiting import eventually

JSON = dict[str, Any]


@pytest_asyncio.fixture
async def stage(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[NetworkStage]:
    async with network_stage(control_plane, tmp_path, "data") as made:
        yield made


async def test_each_route_has_the_data_of_its_interface(stage: NetworkStage) -> None:
    names = ("by-template", "by-claim", "by-resource", "by-injected-claim")
    for body in (pod_by_template(), pod_by_claim(), pod(names[2]), pod(names[3], network=CLAIMED)):
        await stage.create(body)
    # Two have claims of their own; the others have from the webhook what their attachments say.
    asked = [(await stage.pod(name))["spec"]["containers"][0]["resources"] for name in names]
    (injected,) = (await stage.pod(names[3]))["spec"]["resourceClaims"]
    amounts = {RESOURCE: "1"}
    own, claimed = {"claims": [{"name": "net"}]}, {"claims": [{"name": injected["name"]}]}
    assert asked == [own, own, {"limits": amounts, "requests": amounts}, claimed]
    for name in names:
        attached = await stage.attached(name)
        entry = await stage.published(name, attached)
        assert condition(entry, "NetworkDataPublished")["status"] == "True"
        assert entry["data"] == {"kind": "VfConfig"}, "the driver's"
        # A sandbox that is made again has other addresses.
        await stage.restart_sandbox(name)
        again = await stage.attached(name, other_than=attached)
        assert again.ips != attached.ips
        await stage.published(name, again)


async def test_a_service_has_endpoints_on_the_second_network(stage: NetworkStage) -> None:
    annotations = {NETWORK: ATTACHMENT, SELECTOR: "app=networked"}
    spec = {"ports": [{"name": "web", "port": 80, "targetPort": 8080}]}
    body = SERVICES.body({"name": "web", "annotations": annotations}, spec=spec)
    await stage.client.create(SERVICES, body, namespace=NAMESPACE)
    await stage.create(pod("by-resource"))
    attached = await stage.attached("by-resource")
    assert await eventually(lambda: endpoints(stage, "web"), lambda found: found == set(attached.ips))
    await stage.restart_sandbox("by-resource")
    again = await stage.attached("by-resource", other_than=attached)
    assert await eventually(lambda: endpoints(stage, "web"), lambda found: found == set(again.ips))


async def endpoints(stage: NetworkStage, service: str) -> set[str]:
    """The addresses in EndpointSlices of a Service, of whoever keeps these."""
    slices = (await stage.client.list_page(ENDPOINT_SLICES, namespace=NAMESPACE)).items
    mine = [one for one in slices if (one["metadata"].get("labels") or {}).get(SERVICE_NAME) == service]
    return {address for one in mine for endpoint in one.get("endpoints") or () for address in endpoint["addresses"]}


async def test_what_a_driver_erases_comes_back(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with network_stage(control_plane, tmp_path, "erasing") as stage:
        await stage.create(pod("by-resource"))
        attached = await stage.attached("by-resource")
        await eventually(lambda: stage.driver.erased)
        entry = await stage.published("by-resource", attached)
        assert entry["data"] == {"kind": "VfConfig"}


async def test_a_driver_that_publishes_for_itself_is_left_alone(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Also when the sandbox is made again: its network data are its own to change."""
    async with network_stage(control_plane, tmp_path, "standalone") as stage:
        await stage.create(pod("by-resource"))
        attached = await stage.attached("by-resource")
        found = await eventually(lambda: stage.entries("by-resource"))
        assert found[0]["networkData"]["hardwareAddress"] != attached.mac
        await stage.create(pod("beside"))
        await eventually(lambda: stage.entries("beside"))
        await stage.restart_sandbox("by-resource")
        await stage.attached("by-resource", other_than=attached)
        assert [one["networkData"] for one in await stage.entries("by-resource")] == [found[0]["networkData"]]
