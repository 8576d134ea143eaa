"""Networks of Pods that Berth admits: devices by a device plugin, interfaces by Multus, and what Multus says of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network

import pytest
import pytest_asyncio

from tests.support.control_plane import NAMESPACE
from tests.support.kubelet import Things, listed, register, serving
from tests.support.node_files import SUBNET
from tests.support.node_stage import BR, REAL, RESOURCE, SIDES, SUBNETS, VF, NodeStage, container, networks_of, pod
from tests.support.real_node import addresses_of
from tests.support.waiting import eventually

DEVICES = ("vf1", "vf2", "vf3")
MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
both = pytest.mark.parametrize("stage", SIDES, indirect=True)
real = pytest.mark.parametrize("stage", [REAL], indirect=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plugin(stage: NodeStage) -> AsyncIterator[Things]:
    """A device plugin that has interfaces of the node, and the attachments."""
    if stage.node is not None:
        for name in DEVICES:
            await stage.node.run("ip", "link", "add", "name", name, "type", "veth", "peer", "name", f"{name}p")
    await stage.attach(VF)
    await stage.attach(BR)
    things = Things(*((name, "Healthy", None) for name in DEVICES))
    async with serving(things, stage.folder):
        await register(stage.folder, resource_name=RESOURCE)
        await stage.offers(RESOURCE, len(DEVICES))
        yield things


@both
async def test_each_network_of_a_pod_has_an_interface_and_devices_where_it_needs_them(
    stage: NodeStage, plugin: Things
) -> None:
    made = await stage.create(pod("two", networks=f"{VF},{BR}@other"))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {RESOURCE: "1"}
    up = await stage.runs("two")
    (device,) = plugin.allocated[-1]
    assert (await listed(stage.folder))[NAMESPACE, "two", "main"] == ((), (device,))
    entries = networks_of(up)
    assert [(entry["name"], entry["interface"]) for entry in entries] == [
        ("cluster-network", "eth0"),
        (f"{NAMESPACE}/{VF}", "net1"),
        (f"{NAMESPACE}/{BR}", "other"),
    ]
    assert [entry.get("default") for entry in entries] == [True, None, None]
    common = {"name", "interface", "ips", "mac", "dns"}
    assert [entry.keys() - {"default"} for entry in entries] == [common] * 3
    assert entries[0]["ips"] == [up["status"]["podIP"]]
    for entry, subnet in zip(entries[1:], (SUBNETS[VF], SUBNETS[BR]), strict=True):
        (address,) = entry["ips"]
        assert ip_address(address) in ip_network(subnet)
    assert [entry["dns"] for entry in entries] == [{}] * 3
    assert all(MAC.fullmatch(entry["mac"]) for entry in entries)
    assert len({entry["mac"] for entry in entries}) == 3
    await stage.gone("two")


@both
async def test_the_node_takes_devices_back(stage: NodeStage, plugin: Things) -> None:
    """All of them are given one after the other, and once more."""
    for turn in (1, 2):
        for number, _ in enumerate(DEVICES):
            await stage.create(pod(f"back-{number}", networks=VF))
        for number, _ in enumerate(DEVICES):
            await stage.runs(f"back-{number}")
        given = plugin.allocated[-len(DEVICES) :]
        assert sorted(device for devices in given for device in devices) == sorted(DEVICES), turn
        for number, _ in enumerate(DEVICES):
            await stage.gone(f"back-{number}")


@both
async def test_two_networks_of_one_resource_have_a_device_each(stage: NodeStage, plugin: Things) -> None:
    made = await stage.create(pod("pair", networks=f"{VF},{VF}"))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {RESOURCE: "2"}
    entries = networks_of(await stage.runs("pair"))
    assert [entry["interface"] for entry in entries] == ["eth0", "net1", "net2"]
    assert len(set(plugin.allocated[-1])) == 2
    await stage.gone("pair")


@both
async def test_addresses_and_names_are_those_that_the_pod_asks_for(stage: NodeStage, plugin: Things) -> None:
    text = f'[{{"name": "{BR}", "interface": "mine", "mac": "02:00:00:00:00:0A", "ips": ["10.79.0.77/24"]}}]'
    await stage.create(pod("asks", networks=text))
    (_, entry) = networks_of(await stage.runs("asks"))
    expected = {
        "name": f"{NAMESPACE}/{BR}",
        "interface": "mine",
        "mac": "02:00:00:00:00:0a",
        "ips": ["10.79.0.77"],
        "dns": {},
    }
    assert entry == expected
    await stage.gone("asks")


@real
async def test_what_multus_says_is_what_the_containers_have(stage: NodeStage, plugin: Things) -> None:
    assert stage.node is not None
    await stage.create(pod("seen", networks=f"{VF},{BR}@other"))
    up = await stage.runs("seen")
    links = await stage.node.interfaces(up["status"]["podIP"])
    for entry in networks_of(up):
        link = links[entry["interface"]]
        assert (link["address"], addresses_of(link)) == (entry["mac"], entry["ips"])
    assert ip_address(up["status"]["podIP"]) in ip_network(SUBNET)
    await stage.gone("seen")


@real
async def test_podnetinfo_has_the_files_that_pages_promise(stage: NodeStage, plugin: Things) -> None:
    """README of Network Resources Injector: annotations, labels, and the huge pages of each container in MiB."""
    assert stage.node is not None
    pages = [container(name, {"memory": "16Mi", "hugepages-2Mi": f"{size}Mi"}) for name, size in (("a", 4), ("b", 6))]
    await stage.create(pod("info", *pages, container("c"), networks=VF))
    up = await stage.runs("info")
    # The volume is there before the sandbox: kubelet writes what Multus says into the file when it looks again.
    node = stage.node
    status = "k8s.v1.cni.cncf.io/network-status="
    files = await eventually(
        lambda: node.files(up, "/etc/podnetinfo"),
        lambda read: all(status in files["annotations"] for files in read.values()),
    )
    amounts = {
        f"hugepages_2M_{kind}_{name}": size for name, size in (("a", "4"), ("b", "6")) for kind in ("request", "limit")
    }
    for name, own in files.items():
        assert own["labels"] == 'app="info"'
        assert f'k8s.v1.cni.cncf.io/networks="{VF}"' in own["annotations"].splitlines()
        assert {file: text for file, text in own.items() if file.startswith("hugepages")} == amounts
        assert (f"CONTAINER_NAME={name}" in own["environ"].split("\0")) == (name != "c")
        assert own.keys() == {"labels", "annotations", "environ", *amounts}
    assert files.keys() == {"a", "b", "c"}
    await stage.gone("info")
