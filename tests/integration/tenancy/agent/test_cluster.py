"""An agent says which cluster it is in, and one whose bundle is used in another cluster does no harm and says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, NAMESPACES
from app.kube.transport import connect
from app.tenancy.agent.connection import ClusterIdentity
from app.tenancy.model import CLUSTER, CLUSTER_KEY
from app.workloads.model import TENANT_RULES, TENANTS, UVS_CONFIG_MAPS, UVS_RESOURCES, WORKLOAD_RULES, WORKLOADS
from tests.integration.tenancy.agent.conftest import Runner, Tenant, options_for
from tests.integration.tenancy.agent.fakegateway import FakeGateway, write_files
from tests.integration.tenancy.agent.test_with_gateway import NAMESPACE, gateway_settings, holds, shows
from tests.support.tenancy import Infra, Pki, running
from tests.support.waiting import PATIENCE, eventually

REFUSED = "tenant tenant1 belongs to another cluster"


@pytest_asyncio.fixture
async def other(tmp_path: Path) -> AsyncIterator[Tenant]:
    """Another tenant cluster, to which the same bundle was given."""
    async with Cluster("other", bookmark_interval=1.0) as cluster:
        kubeconfig = tmp_path / "other.kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=5) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "universe"}})
            made = Tenant(cluster, client)
            await made.install(WORKLOAD_RULES, *UVS_RESOURCES)
            yield made


class Pair:
    """Agents in two clusters with one bundle, at one gateway."""

    def __init__(self, first: Runner, second: Runner) -> None:
        self.first = first
        self.second = second


@pytest_asyncio.fixture
async def pair(tenant: Tenant, other: Tenant, infra: Infra, pki: Pki, tmp_path: Path) -> AsyncIterator[Pair]:
    await infra.add_tenant("tenant1")
    write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
    async with contextlib.AsyncExitStack() as stack:
        door = await stack.enter_async_context(running(infra.client, gateway_settings(pki), pki))
        options = options_for(door.address, tmp_path, resync_seconds=0.2)
        yield Pair(Runner(tenant, options, stack), Runner(other, options, stack))


async def uid_of(tenant: Tenant) -> str:
    return str((await tenant.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def noted(infra: Infra) -> str:
    return str((await infra.client.get(TENANTS, "tenant1"))["metadata"]["annotations"][CLUSTER])


async def succeeded(cluster: Tenant, resource: Any, name: str) -> None:
    """A status from when all was well."""
    status = {"result": "success", "message": "", "observedGeneration": 1}
    await cluster.patch(resource, name, {"status": status}, subresource="status")


async def test_a_second_cluster_removes_nothing_and_is_told(
    tenant: Tenant, other: Tenant, infra: Infra, pair: Pair
) -> None:
    await tenant.pod("p1")
    await tenant.rule("r1")
    await tenant.uvs(UVS_CONFIG_MAPS, "o1")
    for resource, make in ((WORKLOAD_RULES, other.rule), (UVS_CONFIG_MAPS, lambda n: other.uvs(UVS_CONFIG_MAPS, n))):
        await make("mine")
        await succeeded(other, resource, "mine")
    agent, _ = await pair.first.start()
    assert await noted(infra) == await uid_of(tenant)
    await eventually(holds(infra, TENANT_RULES, "r1"))
    await eventually(shows(tenant, UVS_CONFIG_MAPS, "o1", "success"))
    stored = [
        await infra.client.get(resource, name, namespace=NAMESPACE)
        for resource, name in ((TENANT_RULES, "r1"), (CONFIG_MAPS, "o1"))
    ]

    second, seen = await pair.second.start(ready=False)
    await eventually(shows(other, WORKLOAD_RULES, "mine", "error"))
    await eventually(shows(other, UVS_CONFIG_MAPS, "mine", "error"))
    for resource in (WORKLOAD_RULES, UVS_CONFIG_MAPS):
        status = await other.status(resource, "mine")
        assert status["message"].startswith("not connected since ")
        assert f" because the gateway refuses the agent: {REFUSED}" in status["message"]
        assert f"kubectl annotate tenant tenant1 {CLUSTER}-" in status["message"]
        assert status["conditions"][0]["reason"] == "NotConnected"
    for stream in ("workloads", "rules", "resources"):
        await eventually(lambda stream=stream: seen.counts["ended", stream, "failed_precondition"] > 2)
        assert any(line.startswith(f"gateway {stream}: failed_precondition: {REFUSED}") for line in second.waiting())
    await other.rule("later")
    await eventually(shows(other, WORKLOAD_RULES, "later", "error"))

    assert agent.waiting() == []
    assert await noted(infra) == await uid_of(tenant)
    assert stored == [
        await infra.client.get(resource, name, namespace=NAMESPACE)
        for resource, name in ((TENANT_RULES, "r1"), (CONFIG_MAPS, "o1"))
    ]
    assert len(await infra.names(WORKLOADS, NAMESPACE)) == 1
    assert await infra.names(TENANT_RULES, NAMESPACE) == {"r1"}


async def test_a_cluster_that_replaces_another_takes_over(other: Tenant, infra: Infra, pair: Pair) -> None:
    """As the message says; the statuses that told of it tell of something else then."""
    async with pair.first.while_running():
        pass
    await other.rule("r1")
    await other.uvs(UVS_CONFIG_MAPS, "o1")
    second, _ = await pair.second.start(ready=False)
    await eventually(shows(other, WORKLOAD_RULES, "r1", "error"))
    await eventually(shows(other, UVS_CONFIG_MAPS, "o1", "error"))
    await infra.client.patch(TENANTS, "tenant1", {"metadata": {"annotations": {CLUSTER: None}}}, patch_type="merge")
    await eventually(lambda: not second.waiting())
    assert await noted(infra) == await uid_of(other)
    await eventually(holds(infra, TENANT_RULES, "r1"))
    await eventually(shows(other, UVS_CONFIG_MAPS, "o1", "success"))
    await eventually(shows(other, WORKLOAD_RULES, "r1", ""))


async def test_every_call_and_stream_names_the_cluster(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    await tenant.rule("r1")
    await tenant.uvs(UVS_CONFIG_MAPS, "o1")
    await agents.start()
    await eventually(lambda: fake.calls["UpdateRule"] and fake.calls["UpdateObject"])
    assert {"WorkloadStream", "WatchRules", "WatchPods", "List"} <= fake.calls.keys()
    assert {metadata.get(CLUSTER_KEY) for metadata in fake.metadata} == {await uid_of(tenant)}


class Unreadable:
    """A client that may not get namespaces for as long as `denied` is true."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.denied = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Any, name: str, **options: Any) -> Any:
        if self.denied and resource == NAMESPACES:
            raise ApiError("GET: HTTP 403: namespaces is forbidden", status=403, reason="Forbidden")
        return await self._client.get(resource, name, **options)


async def test_an_agent_that_cannot_tell_its_cluster_is_not_ready(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """It says why, to those who look at objects too, and tells the gateway nothing."""
    await tenant.rule("r1")
    client = Unreadable(tenant.client)
    agent, _ = await agents.start(ready=False, client=client)
    said = "namespace kube-system tells this cluster from others and must be readable (verb get): "
    await eventually(
        lambda: any(line.startswith(f"cluster: {said}") and "forbidden" in line for line in agent.waiting())
    )
    await eventually(shows(tenant, WORKLOAD_RULES, "r1", "error"))
    assert said in (await tenant.status(WORKLOAD_RULES, "r1"))["message"]
    assert not fake.calls
    client.denied = False
    await eventually(lambda: not agent.waiting() and "r1" in fake.rules)


class Namespace:
    """A client that knows one namespace, as the list says: one answer for each call."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def get(self, _resource: Any, name: str) -> Any:
        assert name == "kube-system"
        return {"metadata": self.answers.pop(0)}


async def test_the_identity_is_a_uid() -> None:
    client: Any = Namespace({}, {"uid": ""}, {"uid": "u1"})
    identity = ClusterIdentity(client, base=0.01, cap=0.01)
    await asyncio.wait_for(identity.run(), PATIENCE)
    assert (identity.uid, identity.problem, client.answers) == ("u1", "", [])


@pytest.mark.parametrize("code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE])
async def test_what_is_no_word_on_the_cluster_leaves_statuses_alone(
    tenant: Tenant, fake: FakeGateway, agents: Runner, code: grpc.StatusCode
) -> None:
    """A status about the present spec was true when the gateway last spoke."""
    await tenant.rule("r1")
    await succeeded(tenant, WORKLOAD_RULES, "r1")
    fake.fail["WatchRules"] = code, "no"
    agent, seen = await agents.start(ready=False, patience=PATIENCE)
    await eventually(lambda: seen.counts["ended", "rules", code.name.lower()] > 2)
    assert await tenant.result(WORKLOAD_RULES, "r1") == "success"
    assert agent.waiting()


async def test_the_bundle_of_a_second_tenant_doubles_nothing(
    tenant: Tenant, infra: Infra, pki: Pki, tmp_path: Path
) -> None:
    """The agent says why, and all is as before when it has the right bundle again, without a restart."""
    for name in ("tenant1", "tenant2"):
        await infra.add_tenant(name)
    write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
    await tenant.pod("p1")
    await tenant.uvs(UVS_CONFIG_MAPS, "o1")
    async with contextlib.AsyncExitStack() as stack:
        door = await stack.enter_async_context(running(infra.client, gateway_settings(pki), pki))
        agent, _ = await Runner(tenant, options_for(door.address, tmp_path), stack).start()
        await eventually(shows(tenant, UVS_CONFIG_MAPS, "o1", "success"))
        write_files(tmp_path, pki.ca, pki.tenant("tenant2"))
        words = "belongs to another tenant than tenant2"
        await eventually(lambda: any(words in line for line in agent.waiting()))
        await eventually(shows(tenant, UVS_CONFIG_MAPS, "o1", "error"))
        status = await tenant.status(UVS_CONFIG_MAPS, "o1")
        assert words in status["message"]
        assert status["conditions"][0]["reason"] == "NotConnected"
        assert await infra.names(WORKLOADS, "tenant-tenant2") == set()
        assert len(await infra.names(WORKLOADS, NAMESPACE)) == 1
        write_files(tmp_path, pki.ca, pki.tenant("tenant1"))
        await eventually(lambda: not agent.waiting())
        await eventually(shows(tenant, UVS_CONFIG_MAPS, "o1", "success"))
