"""Cores of Pods: the node agent reads them from kubelet, and keeps an RmdWorkload for each Pod that asks for cache ways."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.devtools.rmd.machine import Cache, Machine
from app.devtools.rmd.server import serve
from app.devtools.rmd.workloads import Daemon
from app.kube.resources import DAEMON_SETS
from app.rmd.controller.installing import DAEMON
from app.rmd.model import DAEMON_LABEL, DAEMON_NAMESPACE, DAEMON_VALUE, L3_CACHE_WAYS, PLAIN_PORT, RMD_WORKLOADS
from tests.support.control_plane import NAMESPACE
from tests.support.kubelet import listed
from tests.support.node_files import ADDRESS, ALL_CPUS, CPUS, IMAGE, RESERVED
from tests.support.node_stage import SIDES, NodeStage, container, pod
from tests.support.processes import Berth
from tests.support.real_node import NODE, end
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("stage", SIDES, indirect=True)
MACHINE = Machine(caches=(Cache(0, ALL_CPUS),))
WAYS = {L3_CACHE_WAYS: "2"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(stage: NodeStage) -> AsyncIterator[None]:
    """The node agent, in the network of its node, where a stand-in for RMD is. The node offers cache ways."""
    labels = {DAEMON_LABEL: DAEMON_VALUE}
    ports = [{"name": "http", "containerPort": PLAIN_PORT, "hostPort": PLAIN_PORT}]
    spec = {"hostNetwork": True, "containers": [{"name": "rmd", "image": IMAGE, "ports": ports}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = DAEMON_SETS.body({"name": DAEMON}, spec={"selector": {"matchLabels": labels}, "template": template})
    await stage.client.create(DAEMON_SETS, body, namespace=DAEMON_NAMESPACE)
    flags = [
        "rmd-node",
        f"--kubeconfig={stage.plane.kubeconfig}",
        f"--node-name={NODE}",
        f"--kubelet-folder={stage.folder}",
        "--bind-address=127.0.0.1",
        "--health-check-port=0",
    ]
    async with contextlib.AsyncExitStack() as stack:
        if stage.node is None:
            process = Berth(*flags)
            stack.push_async_callback(process.end, signal.SIGKILL)
        else:
            served = await stack.enter_async_context(serve(Daemon(MACHINE)))
            await stack.enter_async_context(stage.node.leading(ADDRESS, PLAIN_PORT, served.url))
            stack.push_async_callback(asyncio.to_thread, end, stage.node.program(sys.executable, "-m", "app", *flags))
        await stage.offers(L3_CACHE_WAYS)
        yield


def exclusive(cpus: int, **more: str) -> dict[str, str]:
    return {"cpu": str(cpus), "memory": "16Mi"} | more


async def cores_of(stage: NodeStage) -> dict[str, list[str]]:
    """The cores of RmdWorkloads by the name of their Pod."""
    page = await stage.client.list_page(RMD_WORKLOADS, namespace=NAMESPACE)
    return {workload["metadata"]["ownerReferences"][0]["name"]: workload["spec"]["coreIds"] for workload in page.items}


async def given(stage: NodeStage, name: str) -> list[str]:
    """The cores that kubelet says the Pod has."""
    cpus, _ = (await listed(stage.folder))[NAMESPACE, name, "main"]
    return [str(cpu) for cpu in sorted(cpus)]


async def reserved(stage: NodeStage, *names: str) -> dict[str, list[str]]:
    """The cores by Pod, as soon as these Pods have RmdWorkloads and no others."""
    return await eventually(lambda: cores_of(stage), lambda cores: cores.keys() == set(names))


async def is_let_in(stage: NodeStage, name: str) -> bool:
    """Whether kubelet takes such a Pod, which runs then; one that it refuses is gone again."""
    await stage.create(pod(name, container(resources=exclusive(2, **WAYS))))
    settled = await eventually(
        lambda: stage.pod(name), lambda settled: settled["status"].get("phase", "Pending") != "Pending"
    )
    if settled["status"]["phase"] == "Running":
        return True
    assert settled["status"]["reason"] == "UnexpectedAdmissionError", settled["status"]
    await stage.gone(name)
    return False


@pytest.mark.usefixtures("agent")
async def test_a_workload_has_the_cores_that_kubelet_gives(stage: NodeStage) -> None:
    for name, cpus in (("one", 1), ("three", 3)):
        await stage.create(pod(name, container(resources=exclusive(cpus, **WAYS))))
        await stage.runs(name)
    cores = await reserved(stage, "one", "three")
    assert cores == {name: await given(stage, name) for name in ("one", "three")}
    everything = [*cores["one"], *cores["three"]]
    assert len(cores["three"]) == 3
    assert len(set(everything)) == 4
    assert set(everything) <= {str(number) for number in range(CPUS)} - {RESERVED}
    for name in ("one", "three"):
        await stage.gone(name)
    assert await reserved(stage) == {}


@pytest.mark.usefixtures("agent")
async def test_pods_that_ask_for_no_ways_have_cores_and_no_workload(stage: NodeStage) -> None:
    await stage.create(pod("plain", container(resources=exclusive(2))))
    await stage.create(pod("shared", container(resources={"memory": "16Mi"})))
    await stage.create(pod("asks", container(resources=exclusive(1, **WAYS))))
    for name in ("plain", "shared", "asks"):
        await stage.runs(name)
    assert (await reserved(stage, "asks"))["asks"] == await given(stage, "asks")
    assert len(await given(stage, "plain")) == 2
    assert await given(stage, "shared") == []
    for name in ("plain", "shared", "asks"):
        await stage.gone(name)


@pytest.mark.usefixtures("agent")
async def test_a_restart_of_kubelet_keeps_cores_and_workloads(stage: NodeStage) -> None:
    await stage.create(pod("stays", container(resources=exclusive(2, **WAYS))))
    await stage.runs("stays")
    before = await reserved(stage, "stays")
    await stage.restart_kubelet()
    # kubelet refuses Pods until the agent offers the ways again.
    await eventually(lambda: is_let_in(stage, "fresh"))
    after = await reserved(stage, "stays", "fresh")
    assert after["stays"] == before["stays"] == await given(stage, "stays")
    assert not set(after["fresh"]) & set(after["stays"])
    for name in ("stays", "fresh"):
        await stage.gone(name)
    assert await reserved(stage) == {}
