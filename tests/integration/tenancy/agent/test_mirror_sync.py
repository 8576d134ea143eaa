"""Mirrors: what the tenant sees of the companions that its rules have created."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from app.wire import encode_json
from app.workloads.model import MIRROR, RULE_NAME, UVS_PODS
from tests.integration.tenancy.agent.conftest import Runner, Tenant
from tests.integration.tenancy.agent.fakegateway import FakeGateway
from tests.support.waiting import eventually


def companion(name: str, *, image: str = "nginx") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {RULE_NAME: "r1", "tenant-node-name": "host-a"}},
        "spec": {"containers": [{"name": "c", "image": image}], "nodeName": "dpu1-host-a"},
    }


def put(fake: FakeGateway, name: str, *, image: str = "nginx", **fields: Any) -> None:
    fake.put_pod(name, rule="r1", manifest=companion(name, image=image), **fields)


async def test_a_companion_has_a_mirror(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    put(fake, "m1", phase="Running", node_name="dpu1-host-a")
    await agents.start()

    async def shown() -> bool:
        return await tenant.result(UVS_PODS, "m1") == "success"

    await eventually(shown)
    found = await tenant.get(UVS_PODS, "m1") or {}
    assert found["metadata"]["labels"] == {MIRROR: "true"}
    assert found["metadata"]["annotations"] == {RULE_NAME: "r1"}
    assert found["spec"] == {"object": companion("m1")}
    status = found["status"]
    assert (status["phase"], status["nodeName"], status["message"]) == ("Running", "dpu1-host-a", "")
    assert status["conditions"][0]["status"] == "True"


async def test_a_mirror_follows_its_companion(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await agents.start()
    put(fake, "m1", phase="Pending")

    async def phase(expected: str) -> bool:
        return (await tenant.status(UVS_PODS, "m1")).get("phase") == expected

    await eventually(lambda: phase("Pending"))
    put(fake, "m1", phase="Running", image="other")
    await eventually(lambda: phase("Running"))

    async def image() -> bool:
        found = await tenant.get(UVS_PODS, "m1") or {}
        return bool(found["spec"]["object"]["spec"]["containers"][0]["image"] == "other")

    await eventually(image)
    fake.drop_pod("m1")

    async def gone() -> bool:
        return await tenant.get(UVS_PODS, "m1") is None

    await eventually(gone)


async def test_a_mirror_shows_why_its_companion_does_not_run(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await agents.start()
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
    shown = {"containerStatuses": [{"name": "c", "restartCount": 3, "state": {"waiting": waiting}}]}

    async def pod(expected: object) -> bool:
        status = await tenant.status(UVS_PODS, "m1")
        return status.get("phase") == "Running" and status.get("pod") == expected

    for status, expected in ((encode_json(shown), shown), (b"{", None), (encode_json(shown), shown), (b"", None)):
        put(fake, "m1", phase="Running", status=status)
        await eventually(lambda expected=expected: pod(expected))


async def test_a_mirror_is_never_a_request(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    put(fake, "m1")
    await agents.start(resync_seconds=0.1)

    async def shown() -> bool:
        return await tenant.result(UVS_PODS, "m1") == "success"

    await eventually(shown)
    await tenant.patch(UVS_PODS, "m1", {"metadata": {"labels": {"user": "label"}}})
    await asyncio.sleep(0.5)
    assert fake.calls["UpdateObject"] == fake.calls["DeleteObject"] == 0
    version = (await tenant.get(UVS_PODS, "m1") or {})["metadata"]["resourceVersion"]
    await asyncio.sleep(0.3)
    assert (await tenant.get(UVS_PODS, "m1") or {})["metadata"]["resourceVersion"] == version


async def test_a_deleted_mirror_comes_back(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    put(fake, "m1")
    await agents.start()

    async def shown() -> bool:
        return await tenant.result(UVS_PODS, "m1") == "success"

    await eventually(shown)
    await tenant.remove(UVS_PODS, "m1")
    await eventually(shown)


async def test_an_edited_mirror_is_restored(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """Spec, annotation, status and even our mark; what the tenant added beside them stays."""
    put(fake, "m1")
    await agents.start()

    async def whole() -> bool:
        found = await tenant.get(UVS_PODS, "m1") or {"metadata": {}}
        metadata = found["metadata"]
        return (
            (metadata.get("labels") or {}).get(MIRROR) == "true"
            and metadata["annotations"][RULE_NAME] == "r1"
            and found["spec"] == {"object": companion("m1")}
            and found.get("status", {}).get("result") == "success"
        )

    await eventually(whole)
    edits: list[dict[str, Any]] = [
        {"spec": {"object": {"spec": {"containers": [{"name": "evil", "image": "evil"}], "more": True}}}},
        {"metadata": {"annotations": {RULE_NAME: "other"}}},
        {"metadata": {"labels": {MIRROR: None, "mine": "stays"}}},
        {"metadata": {"labels": {MIRROR: "false"}}},
    ]
    for edit in edits:
        await tenant.patch(UVS_PODS, "m1", edit)
        await eventually(whole)
    await tenant.patch(UVS_PODS, "m1", {"status": {"result": "error"}}, subresource="status")
    await eventually(whole)
    assert (await tenant.get(UVS_PODS, "m1") or {})["metadata"]["labels"]["mine"] == "stays"
    assert fake.calls["UpdateObject"] == 0


async def test_companions_that_went_while_the_agent_was_down(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    put(fake, "m1")
    put(fake, "m2")

    async def mirrors(*expected: str) -> bool:
        return await tenant.names(UVS_PODS) == set(expected)

    async with agents.while_running():
        await eventually(lambda: mirrors("m1", "m2"))
    fake.drop_pod("m1")
    await tenant.remove(UVS_PODS, "m2")
    await agents.start()
    await eventually(lambda: mirrors("m2"))


async def test_no_mirror_goes_before_the_gateway_has_told_everything(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    put(fake, "m1")

    async def shown() -> bool:
        return await tenant.result(UVS_PODS, "m1") == "success"

    async with agents.while_running():
        await eventually(shown)
    uid = (await tenant.get(UVS_PODS, "m1") or {})["metadata"]["uid"]
    fake.telling.clear()
    await agents.start(ready=False, resync_seconds=0.1)
    await eventually(lambda: fake.calls["WatchPods"] == 2)
    await asyncio.sleep(0.5)
    assert await shown()
    fake.telling.set()
    await asyncio.sleep(0.3)
    assert (await tenant.get(UVS_PODS, "m1") or {})["metadata"]["uid"] == uid


async def test_a_users_object_of_that_name_is_never_touched(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    made = await tenant.uvs(UVS_PODS, "m1")
    put(fake, "m1")
    with structlog.testing.capture_logs() as logs:
        await agents.start(resync_seconds=0.1)
        await eventually(lambda: any(entry["event"].startswith("no mirror") for entry in logs))
        await eventually(lambda: fake.calls["List"] > 8)
        assert await tenant.result(UVS_PODS, "m1") == "error"
        assert fake.calls["UpdateObject"] == 0
        fake.drop_pod("m1")
        await eventually(lambda: "m1" in fake.pods)
    found = await tenant.get(UVS_PODS, "m1") or {}
    assert (found["spec"], found["metadata"]["uid"]) == (made["spec"], made["metadata"]["uid"])
    assert found["metadata"].get("labels") is None
    assert len([entry for entry in logs if entry["event"].startswith("no mirror")]) == 1


async def test_what_bears_our_mark_and_is_no_mirror_goes(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.uvs(UVS_PODS, "o1", labels={MIRROR: "true"})
    await agents.start()

    async def gone() -> bool:
        return await tenant.get(UVS_PODS, "o1") is None

    await eventually(gone)
    assert fake.calls["UpdateObject"] == 0


async def test_pods_of_the_tenants_own_have_no_mirror(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    fake.put_pod("own", manifest=companion("own"))
    put(fake, "m1")
    await agents.start()

    async def mirrored() -> bool:
        return await tenant.names(UVS_PODS) == {"m1"}

    await eventually(mirrored)
    await asyncio.sleep(0.2)
    assert await mirrored()


async def test_two_agents_make_one_mirror(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await agents.start(resync_seconds=0.1)
    await agents.start(resync_seconds=0.1)
    for number in range(5):
        put(fake, f"m{number}")

    async def all_shown() -> bool:
        names = await tenant.names(UVS_PODS)
        return len(names) == 5 and all([await tenant.result(UVS_PODS, name) == "success" for name in names])

    await eventually(all_shown)
    before = (await tenant.get(UVS_PODS, "m0") or {})["metadata"]
    await asyncio.sleep(0.5)
    after = (await tenant.get(UVS_PODS, "m0") or {})["metadata"]
    assert (after["uid"], after["resourceVersion"]) == (before["uid"], before["resourceVersion"])
