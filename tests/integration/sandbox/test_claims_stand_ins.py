"""Claims, devices, drivers and Multus: the stand-ins as clients of a whole API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.claims.model import DEVICE_ID, NETWORK_STATUS, RESOURCE_NAME
from app.claims.network_status import Attached, attached_to
from app.claims.stored import stored_claim, stored_pod
from app.devtools.claims.driver import DriverStandIn, Mode
from app.devtools.claims.multus import MultusStandIn
from app.devtools.clusters.definitions import BARE, install
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.devices.claiming import Claiming
from app.devtools.sandbox.standins.devices.fitting import NOT_ALLOCATED
from app.devtools.sandbox.standins.kubelet import NodeKeeper, NodeSpec
from app.devtools.sandbox.standins.reconciling import Watched
from app.devtools.sandbox.standins.scheduler import Scheduler
from app.devtools.sandbox.standins.standins import StandIns
from app.kube.client import KubeClient
from app.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from app.kube.retry import get_or_none
from app.kube.transport import connect
from tests.support.devices import DRIVER, FOO, claim_spec, container, device_class, exactly
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
SPECS = [NodeSpec("host-a"), NodeSpec("host-b")]
SUBNET = '{"type": "macvlan", "ipam": {"type": "host-local", "subnet": "10.56.0.0/24"}}'
HERE = "default"


@pytest_asyncio.fixture
async def still(tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of a cluster without stand-ins, with a class that serves FOO."""
    async with Cluster() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as made:
            await install(made, BARE)
            opaque = {"opaque": {"driver": DRIVER, "parameters": {"kind": "VfConfig"}}}
            body = device_class(extended=FOO, config=[opaque])
            await made.create(DEVICE_CLASSES, DEVICE_CLASSES.body(body["metadata"], spec=body["spec"]))
            yield made


@contextlib.asynccontextmanager
async def stand_ins(client: KubeClient) -> AsyncIterator[None]:
    """All of them, that for Multus too."""
    async with running(StandIns(client, SPECS, networks=MultusStandIn(client)).run()):
        for spec in SPECS:
            await until(client, NODES, spec.name, lambda node: node and node["status"].get("allocatable"))
        yield


@pytest_asyncio.fixture
async def client(still: KubeClient) -> AsyncIterator[KubeClient]:
    """With all stand-ins."""
    async with stand_ins(still):
        yield still


async def until(
    client: KubeClient, resource: Resource, name: str, holds: Callable[[Any], Any] = bool, namespace: str | None = None
) -> Any:
    """The object (None: absent) as soon as `holds` accepts it."""
    return await eventually(lambda: get_or_none(client, resource, name, namespace=namespace), holds)


async def create(client: KubeClient, resource: Resource, name: str, **fields: Any) -> JSON:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return await client.create(resource, resource.body(metadata, **fields), namespace=HERE)


async def start(
    client: KubeClient, name: str, *containers: JSON, networks: str = "", claims: JSON | None = None, **spec: Any
) -> JSON:
    """A Pod whose first container has all these claims, by their entries."""
    entries = [{"name": entry, **one} for entry, one in (claims or {}).items()]
    first, *others = containers or (container("c"),)
    first = {**first, "resources": {**first["resources"], "claims": [{"name": entry} for entry in claims or ()]}}
    annotations = {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}} if networks else {}
    extra = {"resourceClaims": entries} if entries else {}
    return await create(
        client, PODS, name, metadata=annotations, spec={"containers": [first, *others], **extra, **spec}
    )


def runs(pod: JSON | None) -> bool:
    return pod is not None and pod["status"].get("phase") == "Running"


async def running_pod(client: KubeClient, name: str) -> JSON:
    return await until(client, PODS, name, runs, HERE)


async def claims_of(client: KubeClient, pod: JSON) -> list[JSON]:
    found = stored_pod(pod)
    return [await client.get(RESOURCE_CLAIMS, name, namespace=HERE) for name in (found.claim_names if found else ())]


async def end(client: KubeClient, name: str) -> None:
    body = {"status": {"phase": "Succeeded"}}
    await client.patch(PODS, name, body, patch_type="merge", namespace=HERE, subresource="status")


def why(pod: JSON | None) -> str:
    conditions = (pod or {}).get("status", {}).get("conditions") or []
    return next((one.get("message", "") for one in conditions if one["status"] == "False"), "")


def driver(client: KubeClient, mode: Mode = "silent", *, count: int = 4, nodes: tuple[str, ...] = ("host-a",)) -> Any:
    return DriverStandIn(client, DRIVER, mode, nodes, resource=FOO, count=count)


async def attach(client: KubeClient, name: str = "foo", *, config: str = SUBNET, resource: str = FOO) -> None:
    annotations = {"annotations": {"k8s.v1.cni.cncf.io/resourceName": resource}} if resource else {}
    await create(client, NETWORK_ATTACHMENTS, name, metadata=annotations, spec={"config": config})


def status_of(pod: JSON | None) -> tuple[Attached, ...]:
    text = (pod or {"metadata": {}})["metadata"].get("annotations", {}).get("k8s.v1.cni.cncf.io/network-status", "")
    return attached_to(text) if text else ()


async def attached(client: KubeClient, name: str, holds: Callable[[Any], Any] = bool) -> tuple[Attached, ...]:
    return status_of(await until(client, PODS, name, lambda pod: holds(status_of(pod)), HERE))


def owner(pod: JSON) -> list[JSON]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
    ]


async def test_a_pod_gets_the_claim_of_its_template(client: KubeClient) -> None:
    """The object is the one that kube-controller-manager and kube-scheduler 1.36 make."""
    await driver(client).publish_slices()
    pod = await start(client, "p", claims={"net": {"resourceClaimTemplateName": "t"}})
    mine = {"requests": ["vf"], "opaque": {"driver": DRIVER, "parameters": {"b": 2}}}
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    template = {"metadata": metadata, "spec": claim_spec(exactly("vf", count=2), config=[mine])}
    await create(client, RESOURCE_CLAIM_TEMPLATES, "t", spec=template)
    pod = await running_pod(client, "p")
    (claim,) = await claims_of(client, pod)
    found = claim["metadata"]
    assert found["name"].startswith("p-net-")
    assert found["generateName"] == "p-net-"
    assert found["labels"] == {"a": "b"}
    assert found["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "net"}
    assert found["ownerReferences"] == owner(pod)
    assert found["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert pod["status"]["resourceClaimStatuses"] == [{"name": "net", "resourceClaimName": found["name"]}]
    stored = stored_claim(claim)
    assert stored.node == pod["spec"]["nodeName"] == "host-a"
    assert [(one.request, one.device.device) for one in stored.results] == [("vf", "vf-0"), ("vf", "vf-1")]
    assert [one["source"] for one in claim["status"]["allocation"]["devices"]["config"]] == ["FromClass", "FromClaim"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]


async def test_the_claim_of_an_ended_pod_goes_and_frees_its_devices(client: KubeClient) -> None:
    await driver(client).publish_slices()
    await create(client, RESOURCE_CLAIM_TEMPLATES, "t", spec={"spec": claim_spec(exactly(count=3))})
    entry = {"net": {"resourceClaimTemplateName": "t"}}
    await start(client, "first", claims=entry, nodeSelector={"kubernetes.io/hostname": "host-a"})
    (claim,) = await claims_of(client, await running_pod(client, "first"))
    await start(client, "second", claims=entry)
    waiting = await until(client, PODS, "second", why, HERE)
    assert why(waiting) == (
        "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are "
        "available: 2 Preemption is not helpful for scheduling."
    )
    await end(client, "first")
    await until(client, RESOURCE_CLAIMS, claim["metadata"]["name"], lambda one: one is None, HERE)
    await running_pod(client, "second")


async def test_a_claim_is_shared_and_freed_with_the_last_pod(client: KubeClient) -> None:
    await driver(client).publish_slices()
    for name in ("one", "two"):
        await start(client, name, claims={"net": {"resourceClaimName": "shared"}})
    await create(client, RESOURCE_CLAIMS, "shared", spec=claim_spec(exactly()))
    pods = [await running_pod(client, name) for name in ("one", "two")]
    claim = await client.get(RESOURCE_CLAIMS, "shared", namespace=HERE)
    assert {one["uid"] for one in claim["status"]["reservedFor"]} == {pod["metadata"]["uid"] for pod in pods}
    assert {pod["spec"]["nodeName"] for pod in pods} == {"host-a"}
    await end(client, "one")
    left = [{"resource": "pods", "name": "two", "uid": pods[1]["metadata"]["uid"]}]
    held = await until(client, RESOURCE_CLAIMS, "shared", lambda one: one["status"]["reservedFor"] == left, HERE)
    assert held["status"]["allocation"] == claim["status"]["allocation"]
    await client.delete(PODS, "two", namespace=HERE, grace_period_seconds=0)
    freed = await until(client, RESOURCE_CLAIMS, "shared", lambda one: not one.get("status"), HERE)
    assert "finalizers" not in (await until(client, RESOURCE_CLAIMS, "shared", _unprotected, HERE))["metadata"]
    assert freed["metadata"]["uid"] == claim["metadata"]["uid"]


def _unprotected(claim: JSON) -> bool:
    return "finalizers" not in claim["metadata"]


async def test_devices_serve_extended_resources(client: KubeClient) -> None:
    """The claim, and what the Pod says of it, are those of a kube-scheduler 1.36."""
    await driver(client).publish_slices()
    await start(client, "p", container("a", 2), container("b", 1))
    pod = await running_pod(client, "p")
    told = pod["status"]["extendedResourceClaimStatus"]
    assert told["requestMappings"] == [
        {"containerName": name, "resourceName": FOO, "requestName": f"container-{at}-request-0"}
        for at, name in enumerate(("a", "b"))
    ]
    claim = await client.get(RESOURCE_CLAIMS, told["resourceClaimName"], namespace=HERE)
    found = claim["metadata"]
    assert found["generateName"] == "p-extended-resources-"
    assert found["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert found["ownerReferences"] == owner(pod)
    assert found["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert "labels" not in found
    assert claim["spec"]["devices"]["requests"] == [
        {
            "name": f"container-{at}-request-0",
            "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count},
        }
        for at, count in enumerate((2, 1))
    ]
    assert [one.device.device for one in stored_claim(claim).results] == ["vf-0", "vf-1", "vf-2"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    await client.delete(PODS, "p", namespace=HERE, grace_period_seconds=0)
    await until(client, RESOURCE_CLAIMS, told["resourceClaimName"], lambda one: one is None, HERE)


async def test_capacity_of_a_device_plugin_wins(client: KubeClient) -> None:
    await driver(client, nodes=("host-a", "host-b")).publish_slices()
    body = {"status": {"capacity": {FOO: "1"}}}
    await client.patch(NODES, "host-b", body, patch_type="merge", subresource="status")
    await until(client, NODES, "host-b", lambda node: FOO in node["status"]["allocatable"])
    await start(client, "plugged", container("c", 1))
    pod = await running_pod(client, "plugged")
    assert (pod["spec"]["nodeName"], "extendedResourceClaimStatus" in pod["status"]) == ("host-b", False)
    await start(client, "served", container("c", 1))
    pod = await running_pod(client, "served")
    assert (pod["spec"]["nodeName"], "extendedResourceClaimStatus" in pod["status"]) == ("host-a", True)


async def test_no_device_is_given_twice(client: KubeClient) -> None:
    await driver(client, count=8, nodes=("host-a", "host-b")).publish_slices()
    await asyncio.gather(*(start(client, f"p{number}", container("c", 1)) for number in range(20)))
    served = 16

    async def placed() -> list[JSON]:
        return [pod for pod in (await client.list_page(PODS, namespace=HERE)).items if pod["spec"].get("nodeName")]

    pods = await eventually(placed, lambda found: len(found) == served)
    claims = [one for pod in pods for one in await claims_of(client, pod)]
    assert len({result.device for one in claims for result in stored_claim(one).results}) == served


async def test_a_device_is_in_use_before_the_watch_shows_it(client: KubeClient) -> None:
    await driver(client, count=1).publish_slices()
    claiming = Claiming(client, Watched(client))
    for kind, store in zip((RESOURCE_CLAIMS, DEVICE_CLASSES, RESOURCE_SLICES), claiming.stores, strict=True):
        store.replace_all((await client.list_page(kind)).items)
        store.mark_synced()
    node = await client.get(NODES, "host-a")
    pods = [await start(client, name, container("c", 1), schedulerName="other") for name in ("p", "q")]
    first = claiming.fit(pods[0])
    assert first is not None
    assert first.refusal(node) is None
    await claiming.claim(pods[0], first, "host-a")
    second = claiming.fit(pods[1])
    assert second is not None
    assert second.refusal(node) == NOT_ALLOCATED


async def test_a_pod_waits_for_devices_and_says_what_is_wrong(client: KubeClient) -> None:
    await create(client, RESOURCE_CLAIMS, "unknown", spec=claim_spec(exactly(of="nope.com")))
    await start(client, "unknown", claims={"net": {"resourceClaimName": "unknown"}})
    pod = await until(client, PODS, "unknown", why, HERE)
    assert why(pod).startswith("0/2 nodes are available: request r: device class nope.com does not exist. no new ")
    selector = f'device.attributes["{DRIVER}"].nope == 1'
    await create(client, RESOURCE_CLAIMS, "odd", spec=claim_spec(exactly(selector=selector)))
    await start(client, "odd", claims={"net": {"resourceClaimName": "odd"}})
    await start(client, "none", container("c", 1))
    assert "cannot allocate all claims" in why(await until(client, PODS, "none", why, HERE))
    await driver(client).publish_slices()
    await running_pod(client, "none")
    pod = await until(client, PODS, "odd", lambda one: "CEL" in why(one), HERE)
    assert why(pod) == (
        'running "DynamicResources" filter plugin: claim default/odd: selector #0: CEL runtime error: no such key: nope'
    )
    assert pod["status"]["conditions"][0]["reason"] == "SchedulerError"


class Older(Watched):
    """The caches of a client whose API server does not serve the kinds of dynamic resource allocation."""

    async def run(self) -> None:
        self._stores = {kind: one for kind, one in self._stores.items() if kind.group != RESOURCE_CLAIMS.group}
        await super().run()


async def test_pods_without_claims_are_placed_where_the_kinds_are_not_served(tmp_path: Path) -> None:
    async with Cluster() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(path), deadline=PATIENCE) as client:
            watched = Older(client)
            keeper, scheduler = NodeKeeper(client, watched, SPECS), Scheduler(client, watched)
            parts = (watched, keeper.controller, scheduler.controller)
            async with contextlib.AsyncExitStack() as stack:
                for part in parts:
                    await stack.enter_async_context(running(part.run()))
                await start(client, "claiming", claims={"net": {"resourceClaimName": "none"}})
                await start(client, "asking", container("c", 1))
                await start(client, "plain")
                await until(client, PODS, "plain", lambda pod: pod["spec"].get("nodeName"), HERE)
                assert "Insufficient example.com/foo" in why(await until(client, PODS, "asking", why, HERE))
                assert "conditions" not in (await client.get(PODS, "claiming", namespace=HERE))["status"]


async def test_a_namespace_with_claims_can_end(client: KubeClient) -> None:
    await driver(client).publish_slices()
    await client.create(NAMESPACES, NAMESPACES.body({"name": "short"}))
    spec = {"containers": [container("c", 1)]}
    await client.create(PODS, PODS.body({"name": "p"}, spec=spec), namespace="short")
    await until(client, PODS, "p", runs, "short")
    await client.delete(NAMESPACES, "short")
    await until(client, NAMESPACES, "short", lambda one: one is None)


async def entries(client: KubeClient, name: str, holds: Callable[[Any], Any] = bool) -> list[JSON]:
    """The entries of `status.devices` as soon as `holds` accepts them."""

    def accepted(claim: JSON) -> Any:
        return holds(claim["status"].get("devices") or [])

    return (await until(client, RESOURCE_CLAIMS, name, accepted, HERE))["status"]["devices"]


async def served_claim(client: KubeClient, count: int = 2) -> str:
    await start(client, "p", container("c", count))
    pod = await running_pod(client, "p")
    return str(pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"])


async def test_a_driver_publishes_its_devices(client: KubeClient) -> None:
    publisher = driver(client, nodes=("host-a", "host-b"))
    await publisher.publish_slices()
    await publisher.remove_device("host-b", "vf-1")
    slices = {one["spec"]["nodeName"]: one["spec"] for one in (await client.list_page(RESOURCE_SLICES)).items}
    assert {name: (one["pool"]["generation"], len(one["devices"])) for name, one in slices.items()} == {
        "host-a": (1, 4),
        "host-b": (2, 3),
    }
    attributes = slices["host-a"]["devices"][0]["attributes"]
    assert attributes[DEVICE_ID] == attributes["resource.kubernetes.io/pciBusID"] == {"string": "0000:03:00.0"}
    assert attributes[RESOURCE_NAME] == {"string": FOO}


async def test_a_driver_beside_multus_writes_data(client: KubeClient) -> None:
    publisher = driver(client, "data")
    await publisher.publish_slices()
    async with running(publisher.run()):
        found = await entries(client, await served_claim(client))
    keys = {"driver": DRIVER, "pool": "host-a", "data": {"kind": "VfConfig"}}
    shown = [{key: value for key, value in one.items() if value is not None} for one in found]
    assert shown == [{**keys, "device": f"vf-{number}"} for number in range(2)]


async def test_a_driver_with_networks_of_its_own_applies_network_data(client: KubeClient) -> None:
    publisher = driver(client, "standalone")
    await publisher.publish_slices()
    async with running(publisher.run()):
        name = await served_claim(client)
        found = await entries(client, name)
    assert [one["networkData"]["ips"] for one in found] == [["198.18.0.1/15"], ["198.18.0.2/15"]]
    assert {one["reason"] for entry in found for one in entry["conditions"]} == {"NetworkDeviceReady", "NetworkReady"}
    claim = stored_claim(await client.get(RESOURCE_CLAIMS, name, namespace=HERE))
    assert {entry.managers for entry in claim.entries.values()} == {frozenset({DRIVER})}


async def publish(client: KubeClient, name: str, entry: JSON) -> None:
    """What a controller of network data does."""
    keys = {key: entry[key] for key in ("driver", "pool", "device")}
    body = RESOURCE_CLAIMS.body({"name": name})
    body |= {"status": {"devices": [{**keys, "networkData": {"interfaceName": "net1"}}]}}
    place = {"namespace": HERE, "subresource": "status"}
    await client.apply(RESOURCE_CLAIMS, name, body, field_manager="berth-claims", **place)  # type: ignore[arg-type]


async def test_a_driver_that_erases_puts_its_old_list_back_once(client: KubeClient) -> None:
    publisher = driver(client, "erasing")
    await publisher.publish_slices()
    async with running(publisher.run()):
        name = await served_claim(client)
        before = await entries(client, name)
        await publish(client, name, before[0])
        await eventually(lambda: publisher.erased == {(HERE, name)})
        assert await entries(client, name, lambda now: "networkData" not in now[0]) == before
        await publish(client, name, before[0])
        await publish(client, name, before[1])
    again = await entries(client, name)
    assert again[1]["networkData"] == {"interfaceName": "net1"}
    assert publisher.erased == {(HERE, name)}


async def test_a_driver_whose_only_attempt_fails_writes_nothing(client: KubeClient) -> None:
    publisher = driver(client, "fails-once")
    await publisher.publish_slices()
    async with running(publisher.run()):
        name = await served_claim(client)
        await eventually(lambda: publisher.failed == {(HERE, name)})
        await client.patch(
            RESOURCE_CLAIMS, name, {"metadata": {"labels": {"a": "b"}}}, patch_type="merge", namespace=HERE
        )
    claim = await client.get(RESOURCE_CLAIMS, name, namespace=HERE)
    assert "devices" not in claim["status"]


async def test_multus_attaches_networks_with_devices_of_extended_resources(client: KubeClient) -> None:
    await driver(client).publish_slices()
    await attach(client)
    await attach(client, "plain", resource="", config="")
    await start(client, "p", container("c", 2), networks="foo, plain@eth7, foo")
    found = await attached(client, "p")
    pod = await running_pod(client, "p")
    assert [(one.name, one.interface, one.ips, one.pci_address) for one in found] == [
        ("cluster-network", "eth0", (pod["status"]["podIP"],), ""),
        ("default/foo", "net1", ("10.56.0.2",), "0000:03:00.0"),
        ("default/plain", "eth7", (), ""),
        ("default/foo", "net3", ("10.56.0.3",), "0000:03:00.1"),
    ]
    assert [one.default for one in found] == [True, False, False, False]
    assert len({one.mac for one in found}) == 4


async def test_multus_looks_at_claims_of_templates_and_not_at_direct_ones(client: KubeClient) -> None:
    await driver(client).publish_slices()
    await attach(client)
    await create(client, RESOURCE_CLAIMS, "direct", spec=claim_spec(exactly()))
    await create(client, RESOURCE_CLAIM_TEMPLATES, "t", spec={"spec": claim_spec(exactly())})
    await start(client, "direct", claims={"net": {"resourceClaimName": "direct"}}, networks="foo")
    assert (await attached(client, "direct"))[1].pci_address == ""
    await start(client, "made", claims={"net": {"resourceClaimTemplateName": "t"}}, networks="foo")
    assert (await attached(client, "made"))[1].pci_address == "0000:03:00.1"


async def test_a_restarted_sandbox_has_other_addresses(still: KubeClient) -> None:
    await driver(still).publish_slices()
    await attach(still)
    async with stand_ins(still):
        await start(still, "p", container("c", 1), networks="foo")
        first = await attached(still, "p")
        await running_pod(still, "p")
        change = {"metadata": {"annotations": {NETWORK_STATUS: None}}}
        await still.patch(PODS, "p", change, patch_type="merge", namespace=HERE)
        second = await attached(still, "p")
    assert (first[1].ips, second[1].ips) == (("10.56.0.2",), ("10.56.0.3",))
    assert (first[1].mac != second[1].mac, first[1].pci_address == second[1].pci_address) == (True, True)
    async with stand_ins(still):  # others know the addresses that Pods have
        await start(still, "q", container("c", 1), networks=json.dumps([{"name": "foo", "ips": ["10.56.0.3"]}]))
        assert "10.56.0.3 of network default/foo is in use" in await refusal(still, "q")
        await start(still, "r", container("c", 1), networks="foo")
        assert (await attached(still, "r"))[1].ips == ("10.56.0.2",)
        await still.delete(PODS, "p", namespace=HERE, grace_period_seconds=0)
        assert (await attached(still, "q"))[1].ips == ("10.56.0.3",)


async def refusal(client: KubeClient, name: str) -> str:
    """Why the Pod has no sandbox, as an Event says it."""

    async def look() -> str:
        events = (await client.list_page(EVENTS, namespace=HERE, field_selector=f"involvedObject.name={name}")).items
        return "".join(event["message"] for event in events if event["reason"] == "FailedCreatePodSandBox")

    return await eventually(look)


@pytest.mark.parametrize("missing", ["attachment", "claim"])
async def test_a_pod_waits_for_what_multus_does_not_find(still: KubeClient, missing: str) -> None:
    await attach(still)
    if missing == "attachment":
        await start(still, "p", networks="foo,late")
    else:
        entry = {"net": {"resourceClaimTemplateName": "none"}}
        await start(still, "p", networks="foo", claims=entry, nodeName="host-a")
        body = {"status": {"resourceClaimStatuses": [{"name": "net", "resourceClaimName": "late"}]}}
        await still.patch(PODS, "p", body, patch_type="merge", namespace=HERE, subresource="status")
    async with stand_ins(still):
        assert "default/late is not there" in await refusal(still, "p")
        waiting = await still.get(PODS, "p", namespace=HERE)
        (container_status,) = waiting["status"]["containerStatuses"]
        assert (waiting["status"]["phase"], container_status["state"]) == (
            "Pending",
            {"waiting": {"reason": "ContainerCreating"}},
        )
        assert not {"podIP", "podIPs"} & waiting["status"].keys()
        assert status_of(waiting) == ()
        await start(still, "after", networks="foo")
        await attached(still, "after")
        if missing == "attachment":
            await attach(still, "late", resource="")
            await running_pod(still, "p")
            assert [one.name for one in await attached(still, "p")][1:] == ["default/foo", "default/late"]
