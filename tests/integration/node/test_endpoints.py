"""EndpointSlices of Services on a second network: but for the addresses they say what Kubernetes' own controller says."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from app.kube.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from tests.support.control_plane import NAMESPACE
from tests.support.network_stage import start_controllers
from tests.support.node_files import ADDRESS
from tests.support.node_stage import BR, REAL, NodeStage, container, pod
from tests.support.real_node import NODE
from tests.support.waiting import eventually

JSON = dict[str, Any]
Conditions = tuple[bool, bool, bool]
"""Whether an endpoint is ready, serving and terminating."""
pytestmark = pytest.mark.parametrize("stage", [REAL], indirect=True)
PORT = 8080
NAME = "lingers"
OWN_LABELS = ("kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by")
LONG = 3600
"""Seconds, in which no test ends."""
PORTS = [
    {"name": "sql", "port": 5432, "targetPort": "sql", "appProtocol": "example.com/sql"},
    {"name": "http", "port": 80, "targetPort": PORT},
    {"name": "nowhere", "port": 81, "targetPort": "nowhere"},
]
SINGLE = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
VARIANTS = {"usual": False, "all": True}
"""Services by whether they publish addresses that are not ready."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(stage: NodeStage, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """Of each variant one that Kubernetes serves, by a selector, and one that Berth serves on the second network."""
    await stage.attach(BR)
    zone = {"metadata": {"labels": {"topology.kubernetes.io/zone": "here"}}}
    await stage.client.patch(NODES, NODE, zone, patch_type="merge")
    for name, publishes in VARIANTS.items():
        spec = {"clusterIP": "None", "ports": PORTS, "publishNotReadyAddresses": publishes} | SINGLE
        own = {"berth.dev/network": BR, "berth.dev/selector": f"app={NAME}"}
        labels = {"team": "a"}
        bodies = (
            SERVICES.body({"name": f"kube-{name}", "labels": labels}, spec=spec | {"selector": {"app": NAME}}),
            SERVICES.body({"name": f"berth-{name}", "labels": labels, "annotations": own}, spec=spec),
        )
        for body in bodies:
            await stage.client.create(SERVICES, body, namespace=NAMESPACE)
    async with contextlib.AsyncExitStack() as stack:
        await start_controllers(stack, stage.plane, tmp_path_factory.mktemp("controllers"))
        yield


async def slices(stage: NodeStage) -> dict[str, list[JSON]]:
    """By their Services."""
    by_service: dict[str, list[JSON]] = {}
    for endpoint_slice in (await stage.client.list_page(ENDPOINT_SLICES, namespace=NAMESPACE)).items:
        service = endpoint_slice["metadata"]["labels"]["kubernetes.io/service-name"]
        by_service.setdefault(service, []).append(endpoint_slice)
    return by_service


async def conditions(stage: NodeStage) -> dict[str, list[Conditions]]:
    """The conditions of the endpoints, by the Service."""
    return {
        service: [
            tuple(endpoint["conditions"][name] for name in ("ready", "serving", "terminating"))
            for endpoint_slice in of_service
            for endpoint in endpoint_slice["endpoints"] or ()
        ]
        for service, of_service in (await slices(stage)).items()
    }


def compared(endpoint_slice: JSON) -> JSON:
    """A slice without what is of its Service or its writer alone, and without addresses."""
    labels = {name: value for name, value in endpoint_slice["metadata"]["labels"].items() if name not in OWN_LABELS}
    endpoints = [
        {key: value for key, value in endpoint.items() if key != "addresses"}
        for endpoint in endpoint_slice["endpoints"]
    ]
    ports = sorted(endpoint_slice["ports"], key=lambda port: port["name"])
    return {"labels": labels, "addressType": endpoint_slice["addressType"], "ports": ports, "endpoints": endpoints}


async def agree(stage: NodeStage, **variants: Conditions | None) -> None:
    """Kubernetes says this of the one endpoint of each variant, and Berth says the same; None where there is none."""
    wanted = {
        f"{owner}-{name}": [] if conditions is None else [conditions]
        for owner in ("kube", "berth")
        for name, conditions in variants.items()
    }
    await eventually(
        lambda: conditions(stage), lambda stated: {name: stated.get(name, []) for name in wanted} == wanted
    )


@pytest.mark.usefixtures("services")
async def test_each_state_of_a_pod_has_the_conditions_of_kubernetes(stage: NodeStage) -> None:
    """A listener of the node makes the Pod ready, and kubelet sleeps before it stops the container."""
    assert stage.node is not None
    (server,) = yaml.safe_load(stage.plane.kubeconfig.read_text())["clusters"]
    probe = {"tcpSocket": {"host": ADDRESS, "port": PORT}, "periodSeconds": 1, "failureThreshold": 1}
    lasting = {"readinessProbe": probe, "lifecycle": {"preStop": {"sleep": {"seconds": LONG}}}}
    await stage.create(pod(NAME, container() | lasting, networks=BR, terminationGracePeriodSeconds=LONG))
    await stage.runs(NAME)
    await agree(stage, usual=(False, False, False), all=(True, False, False))
    async with stage.node.leading(ADDRESS, PORT, server["cluster"]["server"]):
        await agree(stage, usual=(True, True, False), all=(True, True, False))
        await stage.client.delete(PODS, NAME, namespace=NAMESPACE)
        await agree(stage, usual=(False, True, True), all=(True, True, True))
    await agree(stage, usual=(False, False, True), all=(True, False, True))
    async with stage.node.leading(ADDRESS, PORT, server["cluster"]["server"]):
        await agree(stage, usual=(False, True, True), all=(True, True, True))
    await stage.client.delete(PODS, NAME, namespace=NAMESPACE, grace_period_seconds=0)
    await agree(stage, usual=None, all=None)


@pytest.mark.usefixtures("services")
async def test_a_pod_that_has_ended_is_no_endpoint(stage: NodeStage) -> None:
    """Also where all addresses are published. Kubernetes' controller sees it when it looks at the Service again."""
    body = pod("ends", networks=BR, restartPolicy="Never")
    body["metadata"]["labels"] = {"app": NAME}
    await stage.create(body)
    await stage.runs("ends")
    await agree(stage, usual=(True, True, False), all=(True, True, False))
    soon = {"spec": {"activeDeadlineSeconds": 1}}
    await stage.client.patch(PODS, "ends", soon, patch_type="merge", namespace=NAMESPACE)
    await eventually(lambda: stage.pod("ends"), lambda ended: ended["status"]["phase"] == "Failed")
    changed = {"metadata": {"annotations": {"changed": "true"}}}
    for name in VARIANTS:
        await stage.client.patch(SERVICES, f"kube-{name}", changed, patch_type="merge", namespace=NAMESPACE)
    await agree(stage, usual=None, all=None)
    await stage.gone("ends")


@pytest.mark.usefixtures("services")
async def test_nothing_but_addresses_tells_the_slices_apart(stage: NodeStage) -> None:
    """Ports by name, zone, node, target and labels; a port that no container names is left out."""
    ports = [{"name": "sql", "containerPort": 15432}]
    body = pod("plain", container() | {"ports": ports}, networks=BR)
    body["metadata"]["labels"] = {"app": NAME}
    await stage.create(body)
    await stage.runs("plain")
    await agree(stage, usual=(True, True, False), all=(True, True, False))
    by_service = await slices(stage)
    for name in VARIANTS:
        (kube,), (berth,) = (by_service[f"{owner}-{name}"] for owner in ("kube", "berth"))
        assert compared(berth) == compared(kube)
        assert [port["name"] for port in compared(berth)["ports"]] == ["http", "sql"]
        assert compared(berth)["endpoints"][0]["zone"] == "here"
    await stage.gone("plain")
