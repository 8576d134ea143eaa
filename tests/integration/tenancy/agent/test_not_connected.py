"""While the gateway does not accept the agent, what was a success is none, and says since when and why."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest

from app.kube.conditions import condition
from app.kube.kit import Kit
from app.kube.resources import Resource
from app.workloads.model import TENANTS, UVS_PODS, UVS_SECRETS, WORKLOAD_RULES
from tests.integration.tenancy.agent.conftest import Runner, Tenant, manifest, options_for
from tests.integration.tenancy.agent.fakegateway import Certificates, FakeGateway, write_files
from tests.integration.tenancy.agent.test_rule_sync import READY
from tests.integration.tenancy.agent.test_with_gateway import gateway_settings, shows
from tests.support.tenancy import Infra, Pki, running
from tests.support.waiting import eventually

OBJECTS = ((WORKLOAD_RULES, "r1"), (UVS_PODS, "p1"), (UVS_PODS, "mirror"), (UVS_SECRETS, "s1"))
"""A rule, a request, the mirror of a companion, and a kind that the gateway does not watch."""


class Counted:
    """A client that counts the statuses that it writes."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.statuses = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def apply(self, *args: Any, **options: Any) -> Any:
        self.statuses += options.get("subresource") == "status"
        return await self._client.apply(*args, **options)


def unconnected(tenant: Tenant, resource: Resource, name: str, *, because: str) -> Any:
    async def look() -> bool:
        status = await tenant.status(resource, name)
        ready = condition(status, "Ready")
        said = ready.get("reason") == "NotConnected" and ready["message"] == status["message"]
        return said and status["result"] != "success" and because in status["message"]

    return look


async def successes(tenant: Tenant, fake: FakeGateway) -> None:
    """Make one object of each kind, and have it succeed."""
    await tenant.rule("r1")
    await tenant.uvs(UVS_PODS, "p1")
    await tenant.uvs(UVS_SECRETS, "s1")
    fake.put_pod("mirror", rule="r1", manifest=manifest(UVS_PODS, "mirror"))
    await eventually(lambda: "r1" in fake.rules)
    fake.set_status("r1", result="success", matched=1, conditions=READY)
    for resource, name in OBJECTS:
        await eventually(shows(tenant, resource, name, "success"))


async def test_all_objects_lose_their_success_and_get_it_back(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """One that was never sent says it too. Each is written once, however often the agent tries again."""
    client = Counted(tenant.client)
    agent, seen = await agents.start(client=client)
    await successes(tenant, fake)
    await fake.stop()
    await tenant.uvs(UVS_PODS, "new")
    why = " because the gateway cannot be reached: unavailable: "
    objects = (*OBJECTS, (UVS_PODS, "new"))
    for resource, name in objects:
        await eventually(unconnected(tenant, resource, name, because=why))
    written, tries = client.statuses, seen.counts["ended", "rules", "unavailable"]
    before = [await tenant.get(resource, name) for resource, name in objects]
    await eventually(lambda: seen.counts["ended", "rules", "unavailable"] > tries + 3)
    assert client.statuses == written
    assert before == [await tenant.get(resource, name) for resource, name in objects]
    await fake.start()
    fake.put_pod("mirror", rule="r1", manifest=manifest(UVS_PODS, "mirror"))
    for resource, name in objects:
        await eventually(shows(tenant, resource, name, "success"))
    assert (await tenant.status(UVS_PODS, "mirror"))["phase"] == "Running"
    await eventually(lambda: not agent.waiting())


async def test_another_agent_says_the_same_and_writes_nothing(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """Else each new leader would write all objects again, with another time."""
    fake.fail["WatchRules"] = grpc.StatusCode.PERMISSION_DENIED, "the time of this certificate has ended"
    await tenant.rule("r1")
    why = " because the gateway refuses the agent: the time of this certificate has ended"
    async with contextlib.AsyncExitStack() as stack:
        one = Runner(tenant, agents.options, stack)
        await one.start(ready=False)
        await eventually(unconnected(tenant, WORKLOAD_RULES, "r1", because=why))
    status = await tenant.status(WORKLOAD_RULES, "r1")
    status["message"] = condition(status, "Ready")["message"] = f"not connected since 2026-01-01T00:00:00Z{why}"
    await tenant.patch(WORKLOAD_RULES, "r1", {"status": status}, subresource="status")
    before = await tenant.get(WORKLOAD_RULES, "r1")
    client = Counted(tenant.client)
    _, seen = await agents.start(ready=False, client=client)
    await eventually(lambda: seen.counts["ended", "rules", "permission_denied"] > 3)
    await tenant.rule("r2")
    await eventually(unconnected(tenant, WORKLOAD_RULES, "r2", because=why))
    assert client.statuses == 1
    assert await tenant.get(WORKLOAD_RULES, "r1") == before


def says(agent: Kit, text: str) -> Any:
    return lambda: any(text in line for line in agent.waiting())


@pytest.mark.parametrize("damage", ["garbage", "missing"])
async def test_files_that_cannot_be_used(
    tenant: Tenant, agents: Runner, certificates: Certificates, damage: str
) -> None:
    """Readiness and the objects name the file; without a restart all is well once the bundle is."""
    path = certificates.folder / "tls.crt"
    good = path.read_bytes()
    path.write_text("garbage") if damage == "garbage" else path.unlink()
    await tenant.rule("r1")
    agent, _ = await agents.start(ready=False)
    await eventually(says(agent, f"gateway certificate: {'' if damage == 'garbage' else '[Errno 2]'}"))
    await eventually(says(agent, str(path)))
    why = " because the certificate for the gateway cannot be used: "
    await eventually(unconnected(tenant, WORKLOAD_RULES, "r1", because=why))
    assert str(path) in (await tenant.status(WORKLOAD_RULES, "r1"))["message"]
    path.write_bytes(good)
    await eventually(lambda: not agent.waiting())

    async def told() -> bool:
        return condition(await tenant.status(WORKLOAD_RULES, "r1"), "Ready").get("reason") == "Pending"

    await eventually(told)


async def test_a_bundle_that_was_rotated(tenant: Tenant, infra: Infra, pki: Pki, tmp_path: Path) -> None:
    """The words of the real gateway, in readiness and in the statuses."""
    await infra.add_tenant("tenant1")
    write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
    await tenant.uvs(UVS_PODS, "p1")
    async with contextlib.AsyncExitStack() as stack:
        door = await stack.enter_async_context(running(infra.client, gateway_settings(pki), pki))
        agent, _ = await Runner(tenant, options_for(door.address, tmp_path), stack).start()
        await eventually(shows(tenant, UVS_PODS, "p1", "success"))
        identity: Any = {"names": ["tenant1.tenant.local"], "certificates": [{"sha256": "0" * 64}]}
        await infra.client.patch(TENANTS, "tenant1", {"spec": {"identity": identity}}, patch_type="merge")
        words = "tenant tenant1 has pinned other certificates than this one"
        await eventually(says(agent, f"gateway resources: permission_denied: {words}"))
        await tenant.uvs(UVS_PODS, "new")
        for name in ("p1", "new"):
            why = f" because the gateway refuses the agent: {words}"
            await eventually(unconnected(tenant, UVS_PODS, name, because=why))
        identity["certificates"] = None
        await infra.client.patch(TENANTS, "tenant1", {"spec": {"identity": identity}}, patch_type="merge")
        await eventually(lambda: not agent.waiting())
        for name in ("p1", "new"):
            await eventually(shows(tenant, UVS_PODS, name, "success"))
