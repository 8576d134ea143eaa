"""Controller, gateway and agent as processes: ready, stopped by signals, watched from outside."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from cryptography import x509

from app.devtools.demo.calling import CallError
from app.kube.resources import LEASES
from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import TENANTS
from tests.support.staging import Stage, staged
from tests.support.waiting import PATIENCE, eventually

SERVICE = "universe.admin.workload.v1.AdminWorkloadRuleService"
RULES = "universe.workload.v1.WorkloadRuleService"


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as found:
        yield found


async def test_a_controller_works_counts_from_zero_and_gives_its_lease_back(stage: Stage) -> None:
    controller = await stage.berth("controller")
    await eventually(lambda: controller.event("listening"))
    first = await controller.series()
    await controller.until_ready()
    await eventually(lambda: controller.event("leading"))
    await eventually(lambda: _tenant_ready(stage))
    lease = await stage.client.get(LEASES, "berth-controller", namespace="universe")
    assert lease["spec"]["holderIdentity"]
    # A zero where nothing is served would be an alarm: the certificate expired in 1970.
    assert not any(name.startswith("cert_not_after") for name, _ in first)
    for name, labels in (("leader", (("lease", "berth-controller"),)), ("queue_depth", (("controller", "tenants"),))):
        assert (name, labels) in first
    last = await eventually(controller.series, lambda found: ("tenants_connected", _TENANT) in found)
    # A cache has an age from its first list on, a task a count of faults from its start; the first scrape may come before that list or after it.
    assert {name for name, _ in last - first} - {"cache_age_seconds", "handling_faults_total"} == {"tenants_connected"}
    kinds = {name: {dict(labels)["kind"] for found, labels in last if found == name} for name in _CACHES}
    assert kinds["cache_age_seconds"] == kinds["cache_objects"]
    assert await controller.end() == 0
    lease = await stage.client.get(LEASES, "berth-controller", namespace="universe")
    assert lease["spec"]["holderIdentity"] == ""


_TENANT = (("reason", "NoContact"), ("tenant", "tenant1"))
"""Its series comes and goes with the tenant."""
_CACHES = ("cache_age_seconds", "cache_objects")


async def _tenant_ready(stage: Stage) -> bool:
    tenant = await stage.client.get(TENANTS, "tenant1")
    return tenant.get("status", {}).get("result") == "success"


async def test_only_the_chosen_controllers_run(stage: Stage) -> None:
    controller = await stage.berth("controller", "--controllers=workloads", "--no-leader-elect")
    await controller.until_ready()
    counted = {dict(labels).get("controller") for name, labels in await controller.series() if name == "queue_depth"}
    assert counted == {"companions", "workload-status", "rule-status"}
    assert {event.get("controller") for event in controller.events if event["msg"] == "controller starts"} <= counted
    assert (await stage.client.list_page(LEASES)).items == []
    assert await controller.end(signal.SIGINT) == 0


async def test_a_gateway_serves_and_ends_its_streams_when_it_is_stopped(stage: Stage) -> None:
    gateway, address = await stage.gateway("--drain-seconds=5")
    assert (await stage.caller("admin", address).call(f"{SERVICE}.List", {})) == {}
    assert ("gateway_refused_total", (("grpc_service", SERVICE), ("reason", "wrong_service"))) in await gateway.series()
    with pytest.raises(CallError, match="PERMISSION_DENIED"):
        await stage.caller("tenant1", address).call(f"{SERVICE}.List", {})
    refused = await eventually(lambda: gateway.event("call refused"))
    assert refused["reason"] == "wrong_service"

    folder = stage.folder / "tenant1"
    files = [(folder / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt")]
    options = [("grpc.ssl_target_name_override", GATEWAY_NAME)]
    async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*files), options) as channel:
        watch = channel.unary_stream(f"/{RULES}/Watch")(b"")
        await watch.read()
        assert await gateway.end() == 0
        assert await watch.code() == grpc.StatusCode.UNAVAILABLE
    assert not any("Traceback" in line for line in gateway.lines)


async def test_a_gateway_tells_the_age_of_each_cache_and_when_its_certificate_ends(stage: Stage) -> None:
    gateway, _ = await stage.gateway()
    found = await gateway.values()
    kinds = ("Tenant", "Workload", "TenantWorkloadRule", "CompanionPod", "ResourcePod")
    for kind in kinds:
        assert 0 < found["cache_age_seconds", kind] < 60
        assert found["cache_objects", kind] == (1 if kind == "Tenant" else 0)
    assert {kind for name, kind in found if name == "cache_objects"} == set(kinds)
    assert found["cert_not_after_seconds", ""] == _end(stage.folder / "gateway" / "tls.crt")
    assert await gateway.end() == 0


def _end(certificate: Path) -> float:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()


async def test_lines_of_grpc_itself_are_not_in_the_log(stage: Stage) -> None:
    """Its core would say in its own way that a client showed no certificate."""
    gateway, address = await stage.gateway("--log-level=debug")
    ca = (stage.folder / "tenant1" / "ca.crt").read_bytes()
    options = [("grpc.ssl_target_name_override", GATEWAY_NAME)]
    async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca), options) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary(f"/{RULES}/List")(b"", timeout=PATIENCE)
    assert await gateway.end() == 0
    assert [line for line in gateway.lines if not line.startswith("{")] == []


async def test_the_log_says_why_a_role_ends(stage: Stage) -> None:
    """A signal is named; where a library aborts the process, the lines say what was running."""
    stopped, aborted = await stage.berth("controller"), await stage.berth("controller")
    for role in (stopped, aborted):
        await eventually(lambda role=role: role.event("listening"))
    resource.prlimit(aborted.process.pid, resource.RLIMIT_CORE, (0, 0))
    assert await stopped.end() == 0
    assert await aborted.end(signal.SIGABRT) == -signal.SIGABRT
    assert stopped.event("stopping")
    assert not aborted.event("stopping")
    assert any("Fatal Python error: Aborted" in line for line in aborted.lines)


async def test_no_key_is_in_the_log_of_a_gateway(stage: Stage) -> None:
    gateway, _ = await stage.gateway("--log-level=debug")
    assert await gateway.end() == 0
    key = (stage.folder / "gateway" / "tls.key").read_text().splitlines()[1]
    assert not any(key in line or "PRIVATE KEY" in line for line in gateway.lines)


async def test_an_agent_is_ready_when_its_streams_are_up_and_says_which_are_not(stage: Stage) -> None:
    gateway, address = await stage.gateway()
    flags = (f"--gateway={address}", "--tenant=tenant1", *stage.tls("tenant1", "gateway-ca"))
    agent = await stage.berth("agent", *flags)
    await eventually(lambda: agent.event("listening"))
    first = await agent.series()
    await agent.until_ready()
    new = await agent.series() - first
    later = ("cache_age_seconds", "cert_not_after_seconds", "handling_faults_total")
    assert {name for name, _ in new if not name.startswith(later)} == set()
    found = await agent.values()
    assert found["cert_not_after_seconds", ""] == _end(stage.folder / "tenant1" / "tls.crt")
    assert 0 < found["cache_age_seconds", "Pod"] < 60
    for name in ("cache_objects", "watch_restarts_total", "reconcile_total", "agent_stream_up"):
        assert any(found == name for found, _ in first), name
    assert await gateway.end(signal.SIGKILL) == -signal.SIGKILL

    async def cut() -> bool:
        status, text = await agent.get("/readyz")
        return status == 503 and any(line.startswith("gateway ") for line in json.loads(text)["waitingFor"])

    await eventually(cut)
    assert (await agent.get("/healthz"))[0] == 200
    assert await agent.end() == 0
    lease = await stage.client.get(LEASES, "berth-agent", namespace="universe")
    assert lease["spec"]["holderIdentity"] == ""


async def test_an_agent_waits_for_certificates_that_are_not_there_yet(stage: Stage) -> None:
    """A Secret may be mounted later."""
    (stage.folder / "tenant1").rename(stage.folder / "later")
    _, address = await stage.gateway()
    agent = await stage.berth("agent", f"--gateway={address}", "--no-leader-elect", *stage.tls("tenant1", "gateway-ca"))

    async def says() -> bool:
        return "No such file" in (await agent.get("/readyz"))[1]

    await eventually(says)
    assert ("cert_not_after_seconds", "") not in await agent.values()
    (stage.folder / "later").rename(stage.folder / "tenant1")
    await agent.until_ready()
    assert await agent.end() == 0


async def test_the_controller_knows_the_names_of_the_cloud_admin(stage: Stage) -> None:
    """A Tenant that claims one of them is in error, though nobody refused it when it was written."""
    name = (await stage.client.get(TENANTS, "tenant1"))["spec"]["identity"]["names"][0]
    await stage.berth("controller", "--no-leader-elect", f"--admin-names=root.local,{name}")

    async def told() -> bool:
        status = (await stage.client.get(TENANTS, "tenant1")).get("status") or {}
        return status.get("result") == "error" and name in status["message"]

    await eventually(told)
