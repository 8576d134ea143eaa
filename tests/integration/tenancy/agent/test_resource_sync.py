"""UVS objects of the tenant cluster against the tenant's objects at the gateway, and their statuses."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from app.kube.resources import Resource
from app.tenancy.agent.outages import GatewayUnavailable
from app.tenancy.agent.remote import names_of
from app.workloads.model import UVS_CONFIG_MAPS, UVS_PODS, UVS_RESOURCES, UVS_SECRETS
from tests.integration.tenancy.agent.conftest import Behind, Refusing, Runner, Tenant, manifest
from tests.integration.tenancy.agent.fakegateway import FakeGateway
from tests.support.waiting import eventually


@pytest.mark.parametrize("resource", UVS_RESOURCES, ids=lambda resource: resource.kind)
async def test_an_object_is_applied_changed_and_removed(
    tenant: Tenant, fake: FakeGateway, agents: Runner, resource: Resource
) -> None:
    kind = resource.kind.removeprefix("UVS")
    await tenant.uvs(resource, "o1")
    await agents.start()
    await eventually(lambda: (kind, "o1") in fake.objects)
    assert fake.objects[kind, "o1"] == (manifest(resource, "o1"), "agent")

    async def success() -> bool:
        return await tenant.result(resource, "o1") == "success"

    await eventually(success)
    await tenant.patch(resource, "o1", {"spec": {"object": {"metadata": {"labels": {"new": "label"}}}}})
    await eventually(lambda: fake.objects[kind, "o1"][0]["metadata"].get("labels") == {"new": "label"})

    async def observed() -> bool:
        return (await tenant.status(resource, "o1"))["observedGeneration"] == 2

    await eventually(observed)
    await tenant.remove(resource, "o1")
    await eventually(lambda: not fake.objects)


async def test_the_status_of_a_pod_tells_phase_and_node(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.uvs(UVS_PODS, "o1")
    await agents.start()
    await eventually(lambda: "o1" in fake.pods)
    fake.put_pod("o1", phase="Running", node_name="dpu1-host-a")

    async def shown() -> bool:
        status = await tenant.status(UVS_PODS, "o1")
        return (status.get("result"), status.get("phase"), status.get("nodeName")) == (
            "success",
            "Running",
            "dpu1-host-a",
        )

    await eventually(shown)
    (condition,) = (await tenant.status(UVS_PODS, "o1"))["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "True", "Applied")


async def test_an_unchanged_object_has_its_status_written_once(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.uvs(UVS_PODS, "o1")
    await agents.start(resync_seconds=0.1)

    async def success() -> bool:
        return (await tenant.status(UVS_PODS, "o1")).get("phase") == "Pending"

    await eventually(success)
    version = (await tenant.get(UVS_PODS, "o1") or {})["metadata"]["resourceVersion"]
    await asyncio.sleep(0.5)
    assert (await tenant.get(UVS_PODS, "o1") or {})["metadata"]["resourceVersion"] == version


async def test_an_object_of_another_name_is_refused_here(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.uvs(UVS_CONFIG_MAPS, "o1", inner="o2")
    await agents.start()

    async def refused() -> bool:
        return await tenant.result(UVS_CONFIG_MAPS, "o1") == "error"

    await eventually(refused)
    status = await tenant.status(UVS_CONFIG_MAPS, "o1")
    assert status["message"] == "spec.object.metadata.name: 'o2' must be equal to metadata.name, 'o1'"
    assert not fake.objects


async def test_a_refusal_is_shown_in_the_terms_of_the_object(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateObject"] = grpc.StatusCode.INVALID_ARGUMENT, "obj.obj_spec.spec.hostNetwork: not allowed"
    await tenant.uvs(UVS_PODS, "o1")
    await agents.start()

    async def refused() -> bool:
        return await tenant.result(UVS_PODS, "o1") == "error"

    await eventually(refused)
    assert (await tenant.status(UVS_PODS, "o1"))["message"] == "spec.object.spec.hostNetwork: not allowed"
    await asyncio.sleep(0.3)
    assert fake.calls["UpdateObject"] == 1
    fake.fail.clear()
    await tenant.patch(UVS_PODS, "o1", {"spec": {"object": {"metadata": {"labels": {"new": "label"}}}}})

    async def success() -> bool:
        return await tenant.result(UVS_PODS, "o1") == "success"

    await eventually(success)


async def test_what_stands_in_the_way_is_asked_about_again(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """It may come and go between two looks of the gateway, whose watch then tells nothing."""
    fake.fail["UpdateObject"] = grpc.StatusCode.FAILED_PRECONDITION, "in the way"
    await tenant.uvs(UVS_PODS, "o1")
    await agents.start(resync_seconds=600.0)
    await eventually(lambda: fake.calls["UpdateObject"] >= 3)
    assert await tenant.result(UVS_PODS, "o1") == "error"
    version = (await tenant.get(UVS_PODS, "o1") or {})["metadata"]["resourceVersion"]
    await eventually(lambda: fake.calls["UpdateObject"] >= 5)
    assert (await tenant.get(UVS_PODS, "o1") or {})["metadata"]["resourceVersion"] == version
    fake.fail.clear()

    async def success() -> bool:
        return await tenant.result(UVS_PODS, "o1") == "success"

    await eventually(success)
    calls = fake.calls["UpdateObject"]
    await asyncio.sleep(0.5)
    assert fake.calls["UpdateObject"] == calls


async def test_a_refusal_is_asked_again_at_resync(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateObject"] = grpc.StatusCode.PERMISSION_DENIED, "not yours"
    await tenant.uvs(UVS_SECRETS, "o1")
    await agents.start(resync_seconds=0.2)
    await eventually(lambda: fake.calls["UpdateObject"])
    fake.fail.clear()

    async def success() -> bool:
        return await tenant.result(UVS_SECRETS, "o1") == "success"

    await eventually(success)


async def test_a_lasting_fault_is_shown(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.fail["UpdateObject"] = grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls"
    await tenant.uvs(UVS_SECRETS, "o1")
    await agents.start()

    async def shown() -> bool:
        message = (await tenant.status(UVS_SECRETS, "o1")).get("message")
        return message == "gateway: resource_exhausted: too many calls"

    await eventually(shown)
    fake.fail.clear()

    async def success() -> bool:
        return await tenant.result(UVS_SECRETS, "o1") == "success"

    await eventually(success)


async def test_objects_removed_while_the_agent_was_down_go(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    for resource in UVS_RESOURCES:
        await tenant.uvs(resource, "gone")
        await tenant.uvs(resource, "kept")
    async with agents.while_running():
        await eventually(lambda: len(fake.objects) == 8)
    for resource in UVS_RESOURCES:
        await tenant.remove(resource, "gone")
    await agents.start()
    await eventually(lambda: {name for _, name in fake.objects} == {"kept"})
    assert len(fake.objects) == 4


async def test_what_others_made_is_left_alone(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    theirs = manifest(UVS_CONFIG_MAPS, "theirs"), "api"
    fake.objects["ConfigMap", "theirs"] = theirs
    fake.objects["ConfigMap", "orphan"] = manifest(UVS_CONFIG_MAPS, "orphan"), "agent"
    await agents.start(resync_seconds=0.1)
    await eventually(lambda: ("ConfigMap", "orphan") not in fake.objects)
    await asyncio.sleep(0.3)
    assert fake.objects["ConfigMap", "theirs"] == theirs


async def test_nothing_is_deleted_before_the_objects_are_known(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    fake.objects["ConfigMap", "o1"] = manifest(UVS_CONFIG_MAPS, "o1"), "agent"
    client = Refusing(tenant.client, UVS_CONFIG_MAPS)
    agent, _ = await agents.start(ready=False, client=client, resync_seconds=0.1)
    await eventually(lambda: {line.partition(":")[0] for line in agent.waiting()} == {"uvsconfigmaps"})
    await asyncio.sleep(0.3)
    assert fake.calls["DeleteObject"] == 0
    client.resources.clear()
    await eventually(lambda: not fake.objects)


async def test_a_pod_that_was_deleted_there_is_applied_again(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.uvs(UVS_PODS, "o1")
    await agents.start()
    await eventually(lambda: "o1" in fake.pods and ("Pod", "o1") in fake.objects)
    fake.drop_pod("o1")
    await eventually(lambda: "o1" in fake.pods and fake.calls["UpdateObject Pod/o1"] == 2)


async def test_other_objects_that_were_deleted_there_come_back_at_resync(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.uvs(UVS_SECRETS, "o1")
    await agents.start(resync_seconds=0.2)
    await eventually(lambda: ("Secret", "o1") in fake.objects)
    del fake.objects["Secret", "o1"]
    await eventually(lambda: ("Secret", "o1") in fake.objects)


async def test_an_object_that_is_being_deleted_is_wanted_no_more(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.uvs(UVS_SECRETS, "o1", finalizers=["example.com/held"])
    await agents.start()
    await eventually(lambda: ("Secret", "o1") in fake.objects)
    await tenant.remove(UVS_SECRETS, "o1")
    await eventually(lambda: not fake.objects)


async def test_two_agents_at_once_do_no_harm(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await agents.start(resync_seconds=0.1)
    await agents.start(resync_seconds=0.1)
    for number in range(6):
        await tenant.uvs(UVS_SECRETS, f"o{number}")
    await eventually(lambda: len(fake.objects) == 6)
    await asyncio.sleep(0.5)
    assert len(fake.objects) == 6
    assert fake.calls["DeleteObject"] == 0
    await tenant.remove(UVS_SECRETS, "o0")
    await eventually(lambda: len(fake.objects) == 5)


@pytest.mark.parametrize("text", [b"{", b"[]", b"metadata: {}", b"1", b"\xff"])
def test_an_answer_that_cannot_be_read_is_a_passing_fault(text: bytes) -> None:
    assert names_of([b"metadata: {name: '1'}", text, b'{"metadata": {"name": "b"}}', text]) == {"1", "b"}
    assert names_of([]) == set()
    with pytest.raises(GatewayUnavailable):
        names_of([text])


async def test_an_object_that_only_the_cache_lacks_is_not_deleted(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """Another agent has just sent it: ours learns of it from the gateway before its own watch tells."""
    await tenant.uvs(UVS_SECRETS, "new")
    for name in ("new", "gone"):
        fake.objects["Secret", name] = manifest(UVS_SECRETS, name), "agent"
    await agents.start(client=Behind(tenant.client), resync_seconds=0.1)
    await eventually(lambda: fake.owned("Secret") == {"new"})
    await asyncio.sleep(0.3)
    assert fake.owned("Secret") == {"new"}
