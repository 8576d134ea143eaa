"""Services on another network: in the end their EndpointSlices say what Pods have there, and those of others are as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.kit import Kit
from app.kube.resources import ENDPOINT_SLICES, EVENTS, NETWORK_ATTACHMENTS, NODES, PODS, SERVICES
from app.permissions import permissions_of
from app.services.caches import ServiceCaches
from app.services.controller import network_services
from tests.support.counting import Counted
from tests.support.network_services import SLICE_LABEL, NetworkCluster
from tests.support.rbac import allow
from tests.support.running import at_work
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
USER = "network-services"
STATUS = "k8s.v1.cni.cncf.io/network-status"


@pytest.fixture
def cluster(network_cluster: NetworkCluster) -> NetworkCluster:
    return network_cluster


async def test_a_slice_as_kubernetes_makes_it(cluster: NetworkCluster) -> None:
    ports = [{"name": "web", "port": 80, "targetPort": "web", "protocol": "TCP", "appProtocol": "http"}]
    service = await cluster.service("db", ports=ports)
    await cluster.pod("p1", "192.168.1.1", hostname="first", subdomain="db")
    async with cluster.controller():
        (found,) = await eventually(lambda: cluster.slices("db"))
    metadata = found["metadata"]
    assert metadata["labels"] == {
        "team": "a",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "berth",
        "service.kubernetes.io/headless": "",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Service", service["metadata"]["uid"], True)
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP", "appProtocol": "http"}]
    (pod,) = await cluster.stored(PODS)
    target = {"kind": "Pod", "namespace": cluster.namespace, "name": "p1", "uid": pod["metadata"]["uid"]}
    assert found["endpoints"] == [
        {
            "addresses": ["192.168.1.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hostname": "first",
            "nodeName": "n1",
            "zone": "a",
            "targetRef": target,
        }
    ]


async def test_with_its_permissions_alone(cluster: NetworkCluster) -> None:
    """Slices are created, changed and deleted, and Events written, with the right to nothing else."""
    permissions = permissions_of("controller", controllers=("network-services",))
    await allow(cluster.admin, USER, permissions, role="network-services", release=cluster.namespace)
    await cluster.service("db")
    await cluster.service("web", network="missing")
    async with cluster.controller(USER):
        await cluster.pod("p1", "192.168.1.1", ready=False)
        await cluster.shows("db", _192_168_1_1=False)
        await cluster.set_ready("p1", ready=True)
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.says("web", "AttachmentNotFound")
        await cluster.annotate("db", network=None)
        await eventually(lambda: cluster.slices("db"), lambda found: not found)


async def test_follows_pods(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    async with cluster.controller():
        await cluster.pod("p1", "192.168.1.1", ready=False)
        await cluster.shows("db", _192_168_1_1=False)
        await cluster.set_ready("p1", ready=True)
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.pod("p2", "192.168.1.2", node="n2")
        await cluster.pod("p3", "192.168.1.3", labels={"app": "y"})
        await cluster.pod("p4", "192.168.9.4", network="other")
        await cluster.shows("db", _192_168_1_1=True, _192_168_1_2=True)
        await cluster.restart("p1", "192.168.1.77")
        await cluster.shows("db", _192_168_1_77=True, _192_168_1_2=True)
        await cluster.admin.delete(PODS, "p1", namespace=cluster.namespace)
        await cluster.shows("db", _192_168_1_77=False, _192_168_1_2=True)
        (found,) = await cluster.slices("db")
        conditions = {one["targetRef"]["name"]: one["conditions"] for one in found["endpoints"]}
        assert conditions["p1"] == {"ready": False, "serving": True, "terminating": True}
        await cluster.remove_pod("p1")
        await cluster.remove_pod("p2")
        await eventually(lambda: cluster.slices("db"), lambda found: not found)


async def test_zones_follow_nodes(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1", node="n3")
    await cluster.pod("p2", "192.168.1.2")
    async with cluster.controller():
        await cluster.shows("db", _192_168_1_2=True)
        body = NODES.body({"name": "n3", "labels": {"topology.kubernetes.io/zone": "c"}})
        await cluster.admin.create(NODES, body)
        await cluster.shows("db", _192_168_1_1=True, _192_168_1_2=True)
        (found,) = await cluster.slices("db")
        assert {one["nodeName"]: one["zone"] for one in found["endpoints"]} == {"n1": "a", "n3": "c"}
        await cluster.admin.delete(NODES, "n3")


async def test_the_annotation_is_removed(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.controller():
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.annotate("db", network=None)
        await eventually(lambda: cluster.slices("db"), lambda found: not found)


async def test_the_service_is_deleted(cluster: NetworkCluster) -> None:
    """Also while the controller does not run; and a Service that is made again gets slices of its own."""
    await cluster.service("db")
    await cluster.service("web")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.controller():
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.shows("web", _192_168_1_1=True)
        await cluster.admin.delete(SERVICES, "db", namespace=cluster.namespace)
        await eventually(lambda: cluster.slices("db"), lambda found: not found)
    await cluster.admin.delete(SERVICES, "web", namespace=cluster.namespace)
    uid = (await cluster.service("web"))["metadata"]["uid"]
    async with cluster.controller():
        owners = lambda found: [one["metadata"]["ownerReferences"][0]["uid"] for one in found]  # noqa: E731
        await eventually(lambda: cluster.slices("web"), lambda found: owners(found) == [uid])


def foreign(name: str, service: str, managed_by: str | None, *, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service} | ({SLICE_LABEL: managed_by} if managed_by else {})
    metadata: dict[str, Any] = {"name": name, "labels": labels} | ({"ownerReferences": [owner]} if owner else {})
    endpoints = [{"addresses": ["192.168.7.7"], "conditions": {"ready": True}}]
    ports = [{"name": "", "port": 80, "protocol": "TCP"}]
    return ENDPOINT_SLICES.body(metadata, addressType="IPv4", endpoints=endpoints, ports=ports)


async def test_slices_of_others_are_left_alone(cluster: NetworkCluster) -> None:
    """Those of Kubernetes, made by hand, or with our label and no Service as owner; also one with a name that we want."""
    service = await cluster.service("db")
    owner = {"apiVersion": "v1", "kind": "Service", "name": "db", "uid": service["metadata"]["uid"], "controller": True}
    async with cluster.controller():
        await cluster.pod("p1", "192.168.1.1")
        (first,) = await eventually(lambda: cluster.slices("db"))
        await cluster.annotate("db", network=None)
        await eventually(lambda: cluster.slices("db"), lambda found: not found)
    made = [
        foreign("kubernetes", "db", "endpointslice-controller.k8s.io", owner=owner),
        foreign("mirrored", "db", "endpointslicemirroring-controller.k8s.io"),
        foreign("by-hand", "db", None),
        foreign("ownerless", "db", "berth"),
        foreign(first["metadata"]["name"], "db", None, owner=owner),
    ]
    for body in made:
        await cluster.create(ENDPOINT_SLICES, body)
    names = {body["metadata"]["name"] for body in made}
    others = lambda found: {one["metadata"]["name"]: one for one in found if one["metadata"]["name"] in names}  # noqa: E731
    before = others(await cluster.stored(ENDPOINT_SLICES))
    async with cluster.controller():
        await cluster.annotate("db", network="vlan")
        await eventually(lambda: cluster.stored(ENDPOINT_SLICES), lambda found: len(found) == len(made) + 1)
        await cluster.annotate("db", network=None)
        await eventually(lambda: cluster.stored(ENDPOINT_SLICES), lambda found: len(found) == len(made))
    assert others(await cluster.stored(ENDPOINT_SLICES)) == before


async def test_changes_by_others_are_put_back(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.controller():
        (found,) = await eventually(lambda: cluster.slices("db"))
        name = found["metadata"]["name"]
        await cluster.patch(ENDPOINT_SLICES, name, {"endpoints": [], "metadata": {"labels": {"team": "b", "x": "y"}}})
        await cluster.shows("db", _192_168_1_1=True)
        labels = lambda found: [one["metadata"]["labels"].get("team") for one in found]  # noqa: E731
        (after,) = await eventually(lambda: cluster.slices("db"), lambda found: labels(found) == ["a"])
        assert "x" not in after["metadata"]["labels"]
        await cluster.admin.delete(ENDPOINT_SLICES, name, namespace=cluster.namespace)
        await cluster.shows("db", _192_168_1_1=True)


async def test_a_selector_of_its_own_is_refused(cluster: NetworkCluster) -> None:
    await cluster.service("db", selector=None)
    await cluster.service("both")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.controller() as client:
        await cluster.shows("both", _192_168_1_1=True)
        await cluster.patch(SERVICES, "both", {"spec": {"selector": {"app": "x"}}})
        message = await cluster.says("both", "SelectorNotAllowed")
        assert message.startswith("spec.selector: ")
        await eventually(lambda: cluster.slices("both"), lambda found: not found)
        assert client.counts["create endpointslices"] == 1
        message = await cluster.says("db", "BadSelector")
        assert message.startswith("metadata.annotations[berth.dev/selector]: is missing; want a label selector")


async def test_a_typing_error_cuts_no_traffic(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.controller() as client:
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.annotate("db", selector="app=x,")
        assert "'app=x,' is not a requirement" in await cluster.says("db", "BadSelector")
        await cluster.annotate("db", selector="app=x", network="Vlan")
        assert "'Vlan' is not a valid name" in await cluster.says("db", "BadNetwork")
        assert await cluster.shown("db") == {"192.168.1.1": True}
        assert client.counts["patch endpointslices"] == client.counts["delete endpointslices"] == 0
        await cluster.annotate("db", network="vlan", selector="app in (y)")
        await eventually(lambda: cluster.slices("db"), lambda found: not found)


async def test_what_is_missing_is_said(cluster: NetworkCluster) -> None:
    await cluster.service("db", network="missing")
    await cluster.service("web")
    await cluster.pod("p1", "192.168.9.1", network="other")
    async with cluster.controller():
        assert f"no NetworkAttachmentDefinition {cluster.namespace}/missing" in await cluster.says(
            "db", "AttachmentNotFound"
        )
        assert "p1" in await cluster.says("web", "PodsNotAttached")
        assert "NoPods" not in await cluster.reasons("db"), "one thing after the other"


async def test_a_service_without_pods_is_told_once(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    async with cluster.controller():
        assert "no Pod with a network status or a ResourceClaim has app=x" in await cluster.says("db", "NoPods")
        await cluster.pod("p1", "192.168.1.1")
        await cluster.shows("db", _192_168_1_1=True)
        (event,) = [one for one in await cluster.stored(EVENTS) if one["reason"] == "NoPods"]
        assert (event["type"], event["count"]) == ("Normal", 1), "that there is none yet may be meant"


async def test_both_families(cluster: NetworkCluster) -> None:
    await cluster.service("db", ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack")
    await cluster.pod("p1", "192.168.1.1", "fd00::1")
    async with cluster.controller():
        found = await eventually(lambda: cluster.slices("db"), lambda found: len(found) == 2)
        addresses = {one["addressType"]: one["endpoints"][0]["addresses"] for one in found}
        assert addresses == {"IPv4": ["192.168.1.1"], "IPv6": ["fd00::1"]}


async def test_an_address_that_is_refused_holds_up_no_other(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    for number, address in enumerate(("127.0.0.1", "169.254.1.1", "0.0.0.0", "224.0.0.1", "nonsense", "192.168.1.1")):
        await cluster.pod(f"p{number}", address)
    async with cluster.controller():
        await cluster.shows("db", _192_168_1_1=True)


async def test_two_controllers_at_once(cluster: NetworkCluster) -> None:
    """Each address is in one slice, and in the end both have nothing to write."""
    await cluster.service("db")
    async with cluster.controller() as one, cluster.controller() as other:
        for number in range(20):
            await cluster.pod(f"p{number}", f"192.168.1.{number + 1}")
        await eventually(lambda: cluster.shown("db"), lambda found: len(found) == 20 and all(found.values()))
        assert len(await cluster.slices("db")) == 1
        for number in range(10):
            await cluster.set_ready(f"p{number}", ready=False)
        await eventually(lambda: cluster.shown("db"), lambda found: sum(found.values()) == 10)
        assert len(await cluster.slices("db")) == 1
        assert one.counts["delete endpointslices"] == other.counts["delete endpointslices"] == 0


async def test_a_create_whose_answer_is_lost(cluster: NetworkCluster) -> None:
    """It leaves no second slice."""
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.controller() as client:
        await cluster.shows("db", _192_168_1_1=True)
        lost = iter([True])
        create = KubeClient.create

        async def losing(resource: Any, body: Any, **more: Any) -> Any:
            await create(client, resource, body, **more)
            if next(lost, False):
                raise ApiError("cut", status=0)

        await cluster.annotate("db", network=None)
        await eventually(lambda: cluster.slices("db"), lambda found: not found)
        client.create = losing  # type: ignore[method-assign]  # the fault is between this client and the API server
        await cluster.annotate("db", network="vlan")
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.restart("p1", "192.168.1.2")
        await cluster.shows("db", _192_168_1_2=True)
        assert len(await cluster.slices("db")) == 1


async def test_network_data_of_claims(cluster: NetworkCluster) -> None:
    """A device is on the network where its configuration says so, or where no other network can have it."""
    await cluster.attachment("fast", "example.com/fast")
    await cluster.service("db", network="fast")
    await cluster.claimed_pod("by-config", "vf0", "192.168.1.1/24", networks="", netAttachDefName="fast")
    await cluster.claimed_pod("elsewhere", "vf1", "192.168.1.2/24", networks="fast", netAttachDefName="other")
    await cluster.claimed_pod("by-resource", "vf2", "192.168.1.3/24", networks="fast")
    await cluster.claimed_pod("other-resource", "vf3", "192.168.1.4/24", networks="fast")
    async with cluster.controller():
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.devices(1, vf1="example.com/fast", vf2="example.com/fast", vf3="example.com/slow")
        await cluster.shows("db", _192_168_1_1=True, _192_168_1_3=True)
        await cluster.attachment("faster", "example.com/fast")
        change = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "fast,faster"}}}
        await cluster.patch(PODS, "by-resource", change)
        await cluster.shows("db", _192_168_1_1=True)
        await cluster.admin.delete(NETWORK_ATTACHMENTS, "faster", namespace=cluster.namespace)
        await cluster.shows("db", _192_168_1_1=True, _192_168_1_3=True)


async def test_a_thousand_pods_by_writes(cluster: NetworkCluster) -> None:
    """Ten slices, one write for one change, and none where nothing has changed."""
    await cluster.service("db")
    for number in range(1000):
        await cluster.pod(f"p{number:04}", f"192.168.{number // 250}.{number % 250 + 1}")
    writes = lambda: {name: one for name, one in client.counts.items() if name.endswith(" endpointslices")}  # noqa: E731
    async with cluster.controller() as client:
        await eventually(lambda: cluster.shown("db"), lambda found: len(found) == 1000)
        assert writes() == {"create endpointslices": 10}
        await cluster.set_ready("p0500", ready=False)
        await eventually(lambda: cluster.shown("db"), lambda found: sum(found.values()) == 999)
        assert writes() == {"create endpointslices": 10, "patch endpointslices": 1}
        await cluster.remove_pod("p0500")
        await eventually(lambda: cluster.shown("db"), lambda found: len(found) == 999)
        await cluster.pod("p1000", "192.168.9.9")
        await eventually(lambda: cluster.shown("db"), lambda found: found.get("192.168.9.9"))
        counted = writes()
        assert counted["create endpointslices"] == 10
        # A deletion may be two changes of a Pod, and a new Pod becomes ready by a second one.
        assert 3 <= counted["patch endpointslices"] <= 5
    async with cluster.controller() as client:
        await cluster.service("second", selector="app=none")
        await cluster.pod("last", "192.168.9.10", labels={"app": "none"})
        await cluster.shows("second", _192_168_9_10=True)
        assert writes().keys() <= {"create endpointslices", "patch endpointslices"}
        assert writes()["create endpointslices"] == 1, "the slices that are there are right"


@pytest.mark.parametrize("change", ["patch", "delete"])
async def test_a_change_by_others_before_the_answer_to_a_write(cluster: NetworkCluster, change: str) -> None:
    """The watch shows our write and the change after it while the answer to our write is under way."""
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    async with cluster.client() as client:
        kit = Kit(client, resync=None)
        caches, create, answered = ServiceCaches(kit), KubeClient.create, list[str]()
        network_services(kit, caches)
        slices = caches.slices

        async def answered_late(resource: Any, body: Any, **more: Any) -> Any:
            answer = await create(client, resource, body, **more)
            if resource is ENDPOINT_SLICES and not answered:
                name = answer["metadata"]["name"]
                answered.append(name)
                if change == "patch":
                    await cluster.patch(ENDPOINT_SLICES, name, {"endpoints": []})
                    await eventually(lambda: [one.endpoints for one in slices.values()], lambda found: found == [()])
                else:
                    await eventually(lambda: len(slices) == 1)
                    await cluster.admin.delete(ENDPOINT_SLICES, name, namespace=cluster.namespace)
                    await eventually(lambda: len(slices) == 0)
            return answer

        client.create = answered_late  # type: ignore[method-assign]  # the delay is between client and API server
        async with at_work(kit):
            await eventually(lambda: answered)
            await cluster.shows("db", _192_168_1_1=True)


async def test_a_network_without_known_subnets_has_no_endpoints(cluster: NetworkCluster) -> None:
    """The author of a Pod's annotation could write the address of any Pod or Service (CVE-2021-25740)."""
    await cluster.service("db")
    await cluster.pod("p1", "10.0.0.1")
    async with cluster.controller():
        await cluster.shows("db", _10_0_0_1=True)
        for ipam in ({"type": "dhcp"}, {}):
            config = json.dumps({"type": "macvlan", "ipam": ipam})
            await cluster.patch(NETWORK_ATTACHMENTS, "vlan", {"spec": {"config": config}})
            message = await cluster.says("db", "SubnetsUnknown")
            assert "p1" in message
            assert "--unconfined-networks" in message
            await eventually(lambda: cluster.shown("db"), lambda found: not found)


async def test_an_address_outside_the_network_is_no_endpoint(cluster: NetworkCluster) -> None:
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    await cluster.pod("p2", "10.1.2.3")
    async with cluster.controller():
        await cluster.shows("db", _192_168_1_1=True, _10_1_2_3=True)
        config = json.dumps({"type": "macvlan", "ipam": {"type": "host-local", "subnet": "192.168.0.0/16"}})
        await cluster.patch(NETWORK_ATTACHMENTS, "vlan", {"spec": {"config": config}})
        assert "p2" in await cluster.says("db", "AddressesOutsideNetwork")
        await eventually(lambda: cluster.shown("db"), lambda found: found == {"192.168.1.1": True})


async def test_a_refusal_is_said(cluster: NetworkCluster) -> None:
    """And does not hold up another Service."""
    await cluster.service("db")
    await cluster.service("web")

    async def refuse(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("db-"):
            raise ApiError("endpoints[0]: bad", status=422)

    async with cluster.controller() as client:
        client.before = refuse
        await cluster.pod("other", "192.168.9.9", network="other")
        await cluster.pod("p1", "192.168.1.1")
        assert await cluster.says("db", "EndpointSliceRefused") == "endpoints[0]: bad"
        assert await cluster.says("db", "PodsNotAttached")
        for ready in (False, True):
            await cluster.set_ready("p1", ready=ready)
            await cluster.shows("web", _192_168_1_1=ready)
        found = [one for one in await cluster.stored(EVENTS) if one["involvedObject"]["name"] == "db"]
        found = [one for one in found if one["reason"] != "NoPods"]
        assert [one.get("count") for one in found] == [1, 1], "what was said before is not said again"
        await cluster.shows("web", _192_168_1_1=True)
        client.before = None
        await cluster.set_ready("p1", ready=False)
        await cluster.shows("db", _192_168_1_1=False)


async def test_every_refusal_is_said(cluster: NetworkCluster) -> None:
    """Of all slices that one pass writes, not of the last alone."""
    await cluster.service("db", ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack")

    async def refuse(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("db-"):
            raise ApiError(f"{name}: bad", status=422)

    async with cluster.controller() as client:
        client.before = refuse
        await cluster.pod("p1", "192.168.1.1", "fd00::1")
        await eventually(lambda: cluster.says("db", "EndpointSliceRefused"), lambda text: text.count(": bad") == 2)


async def test_devices_that_drivers_move_into_pods_without_multus(cluster: NetworkCluster) -> None:
    """Named by interface or request, of any driver; a Service on an attachment says what would help."""
    await cluster.service("db", network=None)
    await cluster.service("web", network=None, selector="app=x")
    await cluster.service("vlan")
    await cluster.annotate("db", interface="net1")
    await cluster.annotate("web", request="nic", interface="net2")
    await cluster.claimed_pod("p1", "eth1", "203.0.113.1/24", networks="", driver="dra.net")
    await cluster.claimed_pod("p2", "eth2", "203.0.113.2/24", networks="", driver="nic.example.com")
    async with cluster.controller():
        await cluster.shows("db", _203_0_113_1=True, _203_0_113_2=True)
        message = await cluster.says("web", "PodsNotAttached")
        assert "interface net2 of request nic: p1, p2; want the interfaceName" in message
        message = await cluster.says("vlan", "PodsNotAttached")
        assert (
            "name the device that a driver has moved into them by berth.dev/interface or berth.dev/request" in message
        )
        await cluster.annotate("web", interface=None)
        await cluster.shows("web", _203_0_113_1=True, _203_0_113_2=True)
        await cluster.annotate("web", network="vlan")
        assert "stands beside berth.dev/network" in await cluster.says("web", "BadDevice")
        await cluster.remove_pod("p2")
        await cluster.shows("db", _203_0_113_1=True)


async def test_a_service_that_an_event_tells_of_is_counted(cluster: NetworkCluster) -> None:
    await cluster.service("lost", network="missing")
    await cluster.service("db")
    await cluster.pod("p1", "192.168.1.1")
    states = Counted("claims_services", "state")
    async with cluster.controller():
        await cluster.says("lost", "AttachmentNotFound")
        await cluster.shows("db", _192_168_1_1=True)
        await eventually(states, lambda found: found == {"served": 1, "problem": 1})
        await cluster.patch(PODS, "p1", {"metadata": {"annotations": {STATUS: cluster.status_of("8.8.8.8")}}})
        await cluster.says("db", "AddressesOutsideNetwork")
        await eventually(states, lambda found: found == {"problem": 2})
