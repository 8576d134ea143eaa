"""Services on a second network of both families: the EndpointSlices that Berth keeps have what Pods have, and lead there."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.kube.resources import ENDPOINT_SLICES, SERVICES
from tests.support.control_plane import NAMESPACE
from tests.support.network_stage import start_controllers
from tests.support.node_stage import BR, REAL, SIDES, SUBNETS, NodeStage, networks_of, pod
from tests.support.real_node import addresses_of, end
from tests.support.waiting import eventually

JSON = dict[str, Any]
FAMILIES = {"IPv4": SUBNETS[BR], "IPv6": "fd00:79::/64"}
SERVED = {
    "one": {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
    "both": {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"},
    "default": {},
}
"""Headless Services without a selector: an API server gives them both families where they name none."""
PORT = 5432
_LISTEN = """
import socket
with socket.create_server(("{host}", {port}), family=socket.AF_INET6) as server:
    print("listens", flush=True)
    print(server.accept()[1][0])
"""
_CONNECT = 'import socket; socket.create_connection(("{host}", {port})).close()'
both = pytest.mark.parametrize("stage", SIDES, indirect=True)
real = pytest.mark.parametrize("stage", [REAL], indirect=True)
has_ipv6 = pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="the kernel of this machine has no IPv6")
pytestmark = has_ipv6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pods(stage: NodeStage, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, JSON]]:
    """Two that run, on a network of both families, and Berth's controllers."""
    ranges = [[{"subnet": subnet}] for subnet in FAMILIES.values()]
    await stage.attach(BR, ipam={"type": "host-local", "ranges": ranges})
    async with contextlib.AsyncExitStack() as stack:
        await start_controllers(stack, stage.plane, tmp_path_factory.mktemp("controllers"))
        for name in ("a", "b"):
            await stage.create(pod(name, networks=BR))
        yield {name: await stage.runs(name) for name in ("a", "b")}


def addresses(pod: JSON, family: str) -> list[str]:
    """Those that Multus says the Pod has on the network."""
    (_, entry) = networks_of(pod)
    return [ip for ip in entry["ips"] if ip_address(ip) in ip_network(FAMILIES[family])]


async def serve(stage: NodeStage, name: str, **spec: Any) -> None:
    metadata = {"name": name, "annotations": {"berth.dev/network": BR, "berth.dev/selector": "app in (a,b)"}}
    body = SERVICES.body(metadata, spec={"clusterIP": "None", "ports": [{"port": PORT}], **spec})
    await stage.client.create(SERVICES, body, namespace=NAMESPACE)


async def served(stage: NodeStage, name: str) -> dict[str, dict[str, bool]]:
    """Whether each address is ready, by family."""
    selector = f"kubernetes.io/service-name={name},endpointslice.kubernetes.io/managed-by=berth"
    page = await stage.client.list_page(ENDPOINT_SLICES, namespace=NAMESPACE, label_selector=selector)
    return {
        one["addressType"]: {
            address: endpoint["conditions"]["ready"]
            for endpoint in one["endpoints"] or ()
            for address in endpoint["addresses"]
        }
        for one in page.items
    }


@both
@pytest.mark.parametrize("name", SERVED)
async def test_a_service_has_the_addresses_of_its_families(stage: NodeStage, pods: dict[str, JSON], name: str) -> None:
    await serve(stage, name, **SERVED[name])
    stored = await stage.client.get(SERVICES, name, namespace=NAMESPACE)
    wanted = {
        family: {address: True for one in pods.values() for address in addresses(one, family)}
        for family in stored["spec"]["ipFamilies"]
    }
    assert all(len(found) == len(pods) for found in wanted.values())
    await eventually(lambda: served(stage, name), lambda found: found == wanted)


@real
async def test_an_address_of_ipv6_is_that_of_the_pod_and_is_reached_from_another(
    stage: NodeStage, pods: dict[str, JSON]
) -> None:
    assert stage.node is not None
    hosts = {name: one["status"]["podIP"] for name, one in pods.items()}
    (source,), (target,) = (addresses(pods[name], "IPv6") for name in ("a", "b"))
    assert target in addresses_of((await stage.node.interfaces(hosts["b"]))["net1"])
    await serve(stage, "reached", **SERVED["one"])
    await eventually(lambda: served(stage, "reached"), lambda found: target in found.get("IPv6", {}))
    place = {"host": target, "port": PORT}
    there, here = [await stage.node.entering(hosts[name]) for name in ("b", "a")]
    listening = stage.node.program(*there, sys.executable, "-c", _LISTEN.format(**place))
    try:
        await asyncio.to_thread(listening.wait_for, "listens")
        await stage.node.run(*here, sys.executable, "-c", _CONNECT.format(**place))
        await asyncio.to_thread(listening.wait_for, source)
    finally:
        await asyncio.to_thread(end, listening)
