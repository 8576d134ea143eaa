"""Agent and gateway together, between two clusters: what the tenant writes, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from app.devtools.sandbox.standins.standins import StandIns
from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, NAMESPACES, PODS, RESOURCE_QUOTAS, SECRETS, Resource
from app.placement.model import TENANT_LABEL
from app.tenancy.gateway.settings import GatewaySettings
from app.tenancy.namespace import ISOLATION, OBJECTS
from app.workloads.model import (
    COMPANION,
    MIRROR,
    RULE_NAME,
    TENANT_RULES,
    TENANTS,
    UVS_CONFIG_MAPS,
    UVS_DAEMON_SETS,
    UVS_PODS,
    UVS_SECRETS,
    WORKLOAD_RULES,
    WORKLOADS,
    workload_name,
)
from tests.integration.tenancy.agent.conftest import Runner, Tenant, manifest, options_for
from tests.integration.tenancy.agent.fakegateway import write_files
from tests.integration.tenancy.agent.test_connection import Proxy
from tests.support.tenancy import Infra, Pki, running
from tests.support.tenants import tenants_kit
from tests.support.waiting import eventually
from tests.support.workloads import companions_kit

NAMESPACE = "tenant-tenant1"


@pytest_asyncio.fixture
async def pair(tenant: Tenant, infra: Infra, pki: Pki, tmp_path: Path) -> AsyncIterator[Runner]:
    """Agents for a real gateway that is running; `door` of it is in `pair.door`."""
    await infra.add_tenant("tenant1")
    write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
    async with contextlib.AsyncExitStack() as stack:
        door = await stack.enter_async_context(running(infra.client, gateway_settings(pki), pki))
        yield Runner(tenant, options_for(door.address, tmp_path), stack)


def gateway_settings(pki: Pki, **changes: Any) -> GatewaySettings:
    return pki.files.settings(drain_seconds=0.5, **changes)


def holds(infra: Infra, resource: Resource, *names: str) -> Any:
    async def check() -> bool:
        return await infra.names(resource, NAMESPACE) == set(names)

    return check


def shows(tenant: Tenant, resource: Resource, name: str, result: str) -> Any:
    async def check() -> bool:
        return await tenant.result(resource, name) == result

    return check


async def companion(infra: Infra, name: str, rule: str = "r1") -> None:
    """As the controller of the infra cluster makes it."""
    body = manifest(UVS_PODS, name)
    body["metadata"] |= {"labels": {COMPANION: "tenant"}, "annotations": {RULE_NAME: rule, "berth.dev/rule": "x/y"}}
    await infra.client.create(PODS, body, namespace=NAMESPACE)


async def test_pods_become_workloads(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    made = await tenant.pod("p1", node="host-a", labels={"foo": "bar"})
    await pair.start()
    name = workload_name(made["metadata"]["uid"])
    await eventually(holds(infra, WORKLOADS, name))
    found = await infra.client.get(WORKLOADS, name, namespace=NAMESPACE)
    assert found["spec"] == {
        "metadata": {
            "id": made["metadata"]["uid"],
            "orchestrator": "kubernetes",
            "resourceType": "v1/Pod",
            "resourceName": "p1",
            "resourceNamespace": "default",
        },
        "state": {"nodeName": "host-a", "ready": False, "extra": {"labels": {"foo": "bar"}, "annotations": {}}},
    }
    await tenant.remove(PODS, "p1", namespace="default")
    await eventually(holds(infra, WORKLOADS))


async def test_namespaces_that_are_watched_no_more(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    """On an open stream the mark "synced" does not speak of what was sent on it before."""
    first = await tenant.pod("p1")
    second = await tenant.pod("p2", namespace="kube-system")
    await pair.start()
    names = [workload_name(pod["metadata"]["uid"]) for pod in (first, second)]
    await eventually(holds(infra, WORKLOADS, *names))
    await tenant.config("namespaces: [default]")
    await eventually(holds(infra, WORKLOADS, names[0]))


async def test_a_rule_and_its_status(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    await tenant.rule("r1")
    await pair.start(resync_seconds=0.3)
    await eventually(holds(infra, TENANT_RULES, "r1"))
    said: dict[str, str] = {
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditions = [{"type": kind, **said} for kind in ("Ready", "Matched", "Running")]
    stored = await infra.client.get(TENANT_RULES, "r1", namespace=NAMESPACE)
    generation = stored["metadata"]["generation"]
    counts = {"matched": 3, "created": 2, "running": 0}
    status = {"result": "success", "message": "", "observedGeneration": generation, **counts}
    await infra.client.patch(
        TENANT_RULES,
        "r1",
        {"status": {**status, "conditions": conditions}},
        patch_type="merge",
        namespace=NAMESPACE,
        subresource="status",
    )
    await eventually(shows(tenant, WORKLOAD_RULES, "r1", "success"))
    shown = await tenant.status(WORKLOAD_RULES, "r1")
    assert {**shown, **counts, "observedGeneration": 1} == shown
    assert [{**one, "observedGeneration": 1} for one in conditions] == shown["conditions"]
    await asyncio.sleep(0.5)
    after = await infra.client.get(TENANT_RULES, "r1", namespace=NAMESPACE)
    assert after["metadata"]["generation"] == generation, "an unchanged rule was written again"
    await tenant.remove(WORKLOAD_RULES, "r1")
    await eventually(holds(infra, TENANT_RULES))


async def test_a_rule_that_the_gateway_refuses(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    await tenant.rule("r1")
    await tenant.patch(WORKLOAD_RULES, "r1", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    await pair.start()

    async def refused() -> bool:
        status = await tenant.status(WORKLOAD_RULES, "r1")
        return "spec.template.spec.hostNetwork" in (status or {}).get("message", "")

    await eventually(refused)  # the first thing that it says may be that there is no connection yet
    status = await tenant.status(WORKLOAD_RULES, "r1")
    assert status["result"] == "error"
    assert status["conditions"][0]["reason"] == "InvalidArgument"
    await tenant.patch(WORKLOAD_RULES, "r1", {"spec": {"template": {"spec": {"hostNetwork": None}}}})
    await eventually(holds(infra, TENANT_RULES, "r1"))


async def test_objects_of_every_kind(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    kinds = {UVS_PODS: PODS, UVS_DAEMON_SETS: DAEMON_SETS, UVS_SECRETS: SECRETS, UVS_CONFIG_MAPS: CONFIG_MAPS}
    for resource in kinds:
        await tenant.uvs(resource, "o1")
    await pair.start()
    for resource, target in kinds.items():
        await eventually(shows(tenant, resource, "o1", "success"))
        assert "o1" in await infra.names(target, NAMESPACE)
    for resource in kinds:
        await tenant.remove(resource, "o1")
    for target in kinds.values():
        await eventually(lambda target=target: _lacks(infra, target, "o1"))


async def _lacks(infra: Infra, resource: Resource, name: str) -> bool:
    """A Pod without a node is gone at once; one that has to be stopped would wait for a kubelet."""
    return name not in await infra.names(resource, NAMESPACE)


async def test_an_object_beyond_a_quota_says_so_and_comes_when_there_is_room(
    tenant: Tenant, infra: Infra, pair: Runner
) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "1"}}}
    await infra.client.create(RESOURCE_QUOTAS, quota, namespace=NAMESPACE)
    await tenant.uvs(UVS_CONFIG_MAPS, "o1")
    await pair.start()
    await eventually(shows(tenant, UVS_CONFIG_MAPS, "o1", "success"))
    await tenant.uvs(UVS_CONFIG_MAPS, "o2")
    await eventually(shows(tenant, UVS_CONFIG_MAPS, "o2", "error"))
    now = await tenant.status(UVS_CONFIG_MAPS, "o2")
    assert "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1" in now["message"]
    assert now["conditions"][0]["reason"] == "ResourceExhausted"
    await tenant.remove(UVS_CONFIG_MAPS, "o1")
    await eventually(shows(tenant, UVS_CONFIG_MAPS, "o2", "success"))


async def test_a_namespace_that_is_deleted_in_use_is_filled_again(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    """Made anew by the controller, with its quotas; what the tenant's cluster has comes back, without any restart."""
    ours = {"metadata": {"labels": {TENANT_LABEL: "tenant1"}}}
    await infra.client.patch(NAMESPACES, NAMESPACE, ours, patch_type="merge")
    made = await tenant.pod("p1", node="host-a")
    await tenant.rule("r1")
    await tenant.uvs(UVS_CONFIG_MAPS, "o1")
    workload, companion_name = workload_name(made["metadata"]["uid"]), f"r1-{made['metadata']['uid']}"
    parts = [
        StandIns(infra.client, []),
        tenants_kit(infra.client, resync=0.5),
        companions_kit(infra.client, resync=0.5),
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in parts]
        # Workloads and objects that went with the namespace are missed when the agent sweeps: after a minute by default.
        await pair.start(resync_seconds=0.5)

        async def whole() -> bool:
            return (
                await infra.names(WORKLOADS, NAMESPACE) == {workload}
                and await infra.names(TENANT_RULES, NAMESPACE) == {"r1"}
                and "o1" in await infra.names(CONFIG_MAPS, NAMESPACE)
                and await infra.names(PODS, NAMESPACE) == {companion_name}
                and await infra.names(RESOURCE_QUOTAS, NAMESPACE) == {ISOLATION, OBJECTS}
                and await tenant.result(WORKLOAD_RULES, "r1") == "success"
                and await tenant.result(UVS_CONFIG_MAPS, "o1") == "success"
            )

        await eventually(whole)
        old = await infra.client.get(NAMESPACES, NAMESPACE)
        await infra.client.delete(NAMESPACES, NAMESPACE)

        async def anew() -> bool:
            try:
                found = await infra.client.get(NAMESPACES, NAMESPACE)
            except ApiError:
                return False
            return found["metadata"]["uid"] != old["metadata"]["uid"]

        await eventually(anew)
        await eventually(whole)
        for task in tasks:
            task.cancel()


async def test_a_pod_deleted_in_the_infra_cluster_is_made_again(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    await tenant.uvs(UVS_PODS, "o1")
    await pair.start()
    await eventually(holds(infra, PODS, "o1"))
    uid = (await infra.client.get(PODS, "o1", namespace=NAMESPACE))["metadata"]["uid"]
    await infra.client.delete(PODS, "o1", namespace=NAMESPACE, grace_period_seconds=0)

    async def again() -> bool:
        try:
            return bool((await infra.client.get(PODS, "o1", namespace=NAMESPACE))["metadata"]["uid"] != uid)
        except ApiError:
            return False

    await eventually(again)


async def test_a_companion_is_mirrored(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    await pair.start()
    await companion(infra, "r1-id")
    await eventually(shows(tenant, UVS_PODS, "r1-id", "success"))
    found = await tenant.get(UVS_PODS, "r1-id") or {}
    assert found["metadata"]["labels"] == {MIRROR: "true"}
    assert found["spec"]["object"]["metadata"] == {"name": "r1-id", "annotations": {RULE_NAME: "r1"}}
    await tenant.remove(UVS_PODS, "r1-id")
    await eventually(shows(tenant, UVS_PODS, "r1-id", "success"))
    await infra.client.delete(PODS, "r1-id", namespace=NAMESPACE, grace_period_seconds=0)

    async def gone() -> bool:
        return await tenant.get(UVS_PODS, "r1-id") is None

    await eventually(gone)


async def test_a_mirror_without_its_mark_does_not_become_a_request(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    """The mark was taken while no agent ran: it counts as the user's then, and the companion stays what it is."""
    await companion(infra, "r1-id")
    async with pair.while_running():
        await eventually(shows(tenant, UVS_PODS, "r1-id", "success"))
    before = await infra.client.get(PODS, "r1-id", namespace=NAMESPACE)
    await tenant.patch(UVS_PODS, "r1-id", {"metadata": {"labels": {MIRROR: None}}})
    await pair.start()
    await eventually(shows(tenant, UVS_PODS, "r1-id", "error"))
    message = (await tenant.status(UVS_PODS, "r1-id"))["message"]
    assert message == "metadata.name: the rule 'r1' has created a Pod of this name"
    await tenant.remove(UVS_PODS, "r1-id")
    await eventually(shows(tenant, UVS_PODS, "r1-id", "success"))
    assert await infra.client.get(PODS, "r1-id", namespace=NAMESPACE) == before


async def test_everything_that_went_while_the_agent_was_down(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    gone = await tenant.pod("p1")
    kept = await tenant.pod("p2")
    for name in ("gone", "kept"):
        await tenant.rule(name)
        await tenant.uvs(UVS_CONFIG_MAPS, name)
    async with pair.while_running():
        await eventually(holds(infra, TENANT_RULES, "gone", "kept"))
        await eventually(shows(tenant, UVS_CONFIG_MAPS, "gone", "success"))
        await eventually(shows(tenant, UVS_CONFIG_MAPS, "kept", "success"))
        ids = [workload_name(pod["metadata"]["uid"]) for pod in (gone, kept)]
        await eventually(holds(infra, WORKLOADS, *ids))
    await tenant.remove(PODS, "p1", namespace="default")
    await tenant.remove(WORKLOAD_RULES, "gone")
    await tenant.remove(UVS_CONFIG_MAPS, "gone")
    await pair.start()
    await eventually(holds(infra, WORKLOADS, ids[1]))
    await eventually(holds(infra, TENANT_RULES, "kept"))
    await eventually(lambda: _lacks(infra, CONFIG_MAPS, "gone"))
    assert "kept" in await infra.names(CONFIG_MAPS, NAMESPACE)


async def test_a_gateway_restarts(tenant: Tenant, infra: Infra, pki: Pki, tmp_path: Path) -> None:
    """What changed meanwhile on either side is put right by the one that comes after it."""
    await infra.add_tenant("tenant1")
    write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
    first = await tenant.pod("p1")
    async with contextlib.AsyncExitStack() as stack:
        async with running(infra.client, gateway_settings(pki), pki) as door:
            port = door.gateway.port
            agents = Runner(tenant, options_for(door.address, tmp_path), stack)
            agent, _ = await agents.start()
            await eventually(holds(infra, WORKLOADS, workload_name(first["metadata"]["uid"])))
        await eventually(agent.waiting)
        await tenant.remove(PODS, "p1", namespace="default")
        second = await tenant.pod("p2")
        await tenant.rule("r1")
        async with running(infra.client, gateway_settings(pki, port=port), pki):
            await eventually(holds(infra, WORKLOADS, workload_name(second["metadata"]["uid"])))
            await eventually(holds(infra, TENANT_RULES, "r1"))
            await eventually(lambda: not agent.waiting())


async def test_a_suspended_tenant(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    """Its streams end, readiness says why, and all goes on when the suspension ends."""
    agent, _ = await pair.start()
    for suspended in (True, False):
        await infra.client.patch(TENANTS, "tenant1", {"spec": {"suspended": suspended}}, patch_type="merge")
        if suspended:
            await eventually(
                lambda: any("permission_denied" in line and "suspended" in line for line in agent.waiting())
            )
    await eventually(lambda: not agent.waiting())


async def test_two_agents_at_once_end_where_one_would(tenant: Tenant, infra: Infra, pair: Runner) -> None:
    await pair.start(resync_seconds=0.5)
    await pair.start(resync_seconds=0.5)
    pods = [await tenant.pod(f"p{number}") for number in range(4)]
    for number in range(4):
        await tenant.rule(f"r{number}")
        await tenant.uvs(UVS_CONFIG_MAPS, f"o{number}")
        await companion(infra, f"c{number}")
    names = [f"r{number}" for number in range(4)]
    await eventually(holds(infra, TENANT_RULES, *names))
    await eventually(holds(infra, WORKLOADS, *(workload_name(pod["metadata"]["uid"]) for pod in pods)))
    for number in range(4):
        await eventually(shows(tenant, UVS_PODS, f"c{number}", "success"))
        await eventually(shows(tenant, UVS_CONFIG_MAPS, f"o{number}", "success"))
    await tenant.remove(WORKLOAD_RULES, "r0")
    await tenant.remove(PODS, "p0", namespace="default")
    await eventually(holds(infra, TENANT_RULES, *names[1:]))
    await eventually(holds(infra, WORKLOADS, *(workload_name(pod["metadata"]["uid"]) for pod in pods[1:])))


async def test_a_stream_that_is_left_behind_undoes_nothing(
    tenant: Tenant, infra: Infra, pki: Pki, tmp_path: Path
) -> None:
    """The connection fell silent: the gateway still has the old stream when the agent goes on with a new one."""
    await infra.add_tenant("tenant1")
    write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
    first = await tenant.pod("p1")
    async with contextlib.AsyncExitStack() as stack:
        door = await stack.enter_async_context(running(infra.client, gateway_settings(pki), pki))
        proxy = await stack.enter_async_context(Proxy(door.gateway.port).running())
        options = options_for(f"127.0.0.1:{proxy.port}", tmp_path, keepalive=1.0)
        agent, _ = await Runner(tenant, options, stack).start()
        names = [workload_name(first["metadata"]["uid"])]
        await eventually(holds(infra, WORKLOADS, *names))
        proxy.silent = True
        await eventually(agent.waiting)
        await eventually(lambda: not agent.waiting())
        for number in range(2, 5):
            made = await tenant.pod(f"p{number}")
            names.append(workload_name(made["metadata"]["uid"]))
        await eventually(holds(infra, WORKLOADS, *names))
        await asyncio.sleep(0.5)
        assert await infra.names(WORKLOADS, NAMESPACE) == set(names)
