"""Controller, gateway and agent as processes: ready, stopped by signals, watched from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES
from app.kube.transport import AioKubeClient, connect
from app.sandbox.server import Cluster
from app.tenancy.authority.ensuring import ensure_authority
from app.tenancy.calling import Caller, CallError
from app.tenancy.model import GATEWAY_NAME
from app.tenancy.tenants.bundles import issue_bundle
from app.tenancy.tenants.changes import create_tenant
from app.workloads.model import TENANTS
from tests.tenancy.conftest import definitions

SERVICE = "universe.admin.workload.v1.AdminWorkloadRuleService"
RULES = "universe.workload.v1.WorkloadRuleService"


class Process:
    """One `berth` process, its log, and its health port."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def told(self, message: str) -> dict[str, Any] | None:
        return next((event for event in self.events if event["msg"] == message), None)

    async def get(self, path: str) -> tuple[int, str]:
        await until(lambda: self.process.returncode is not None or self.told("listening"))
        event = self.told("listening")
        assert event is not None, self.lines
        return await asyncio.to_thread(_get, event["health"] + path)

    async def until_ready(self) -> None:
        async def ready() -> bool:
            assert self.process.returncode is None, self.lines
            return (await self.get("/readyz"))[0] == 200

        await until(ready)

    async def series(self) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        """Names and labels of all that is counted, but what every Python process counts."""
        status, text = await self.get("/metrics")
        while status != 200:  # the health server is about to start
            await asyncio.sleep(0.02)
            status, text = await self.get("/metrics")
        families = text_string_to_metric_families(text)
        return {
            (sample.name, tuple(sorted(sample.labels.items())))
            for family in families
            for sample in family.samples
            if not sample.name.startswith(("python_", "process_"))
        }

    async def values(self) -> dict[tuple[str, str], float]:
        """Gauges by name and kind ("" where they have none)."""
        _, text = await self.get("/metrics")
        families = [family for family in text_string_to_metric_families(text) if family.type == "gauge"]
        return {
            (sample.name, sample.labels.get("kind", "")): sample.value
            for family in families
            for sample in family.samples
        }

    async def end(self, number: int = signal.SIGTERM) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        status = await asyncio.wait_for(self.process.wait(), 20)
        await self._reading
        return status


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(40):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.05)


class Stage:
    """One cluster that is both infra and tenant cluster, with tenant1 in it, and files for everybody."""

    def __init__(self, folder: Path, cluster: Cluster, client: AioKubeClient) -> None:
        self.folder, self.cluster, self.client = folder, cluster, client
        self.started: list[Process] = []

    async def berth(self, role: str, *flags: str) -> Process:
        common = ("--bind-address=127.0.0.1", "--health-check-port=0", f"--kubeconfig={self.folder / 'kubeconfig'}")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_") and k != "NAMESPACE"}
        made = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", role, *common, *flags), stderr=asyncio.subprocess.PIPE, env=environment
        )
        self.started.append(Process(made))
        return self.started[-1]

    def tls(self, name: str, ca: str) -> tuple[str, ...]:
        folder = self.folder / name
        files = (("tls-cert-file", "tls.crt"), ("tls-private-key-file", "tls.key"), (ca, "ca.crt"))
        return tuple(f"--{flag}={folder / file}" for flag, file in files)

    async def gateway(self, *flags: str) -> tuple[Process, str]:
        """A gateway that is ready, and its address."""
        process = await self.berth("gateway", "--port=0", *self.tls("gateway", "client-ca"), *flags)
        await process.until_ready()
        event = process.told("gateway listens")
        assert event is not None
        return process, f"127.0.0.1:{event['port']}"

    def caller(self, name: str, address: str) -> Caller:
        folder = self.folder / name
        stem = "admin" if name == "admin" else "tls"
        return Caller(address, folder / "ca.crt", folder / f"{stem}.crt", folder / f"{stem}.key")


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Cluster("both", bookmark_interval=1.0) as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(tmp_path / "kubeconfig")) as client:
            for definition in definitions():
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            for name in ("universe", "tenant-tenant1"):
                await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"berth.dev/tenant": "tenant1"}}})
            now = datetime.now(UTC)
            made = await ensure_authority(client, now=now)
            bundle = issue_bundle(made.authority, "tenant1", now=now, days=30)
            await create_tenant(client, "tenant1", names=[bundle.name], bundle=bundle, hosts=None)
            for folder, files in (("gateway", made.serving), ("admin", made.admin), ("tenant1", bundle.files)):
                (tmp_path / folder).mkdir()
                for name, content in files.items():
                    (tmp_path / folder / name).write_bytes(content)
            found = Stage(tmp_path, cluster, client)
            try:
                yield found
            finally:
                for process in found.started:
                    await process.end(signal.SIGKILL)


async def test_a_controller_works_counts_from_zero_and_gives_its_lease_back(stage: Stage) -> None:
    controller = await stage.berth("controller")
    await until(lambda: controller.told("listening"))
    first = await controller.series()
    await controller.until_ready()
    await until(lambda: controller.told("leading"))
    await until(lambda: _tenant_ready(stage))
    lease = await stage.client.get(LEASES, "berth-controller", namespace="universe")
    assert lease["spec"]["holderIdentity"]
    # A zero where nothing is served would be an alarm: the certificate expired in 1970.
    assert not any(name.startswith("cert_not_after") for name, _ in first)
    for name, labels in (("leader", (("lease", "berth-controller"),)), ("queue_depth", (("controller", "tenants"),))):
        assert (name, labels) in first
    assert await controller.series() == first
    assert await controller.end() == 0
    lease = await stage.client.get(LEASES, "berth-controller", namespace="universe")
    assert lease["spec"]["holderIdentity"] == ""


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
    assert ("gateway_refused_total", (("reason", "wrong_service"), ("service", SERVICE))) in await gateway.series()
    with pytest.raises(CallError, match="PERMISSION_DENIED"):
        await stage.caller("tenant1", address).call(f"{SERVICE}.List", {})
    assert gateway.told("call refused")["reason"] == "wrong_service"

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
            await channel.unary_unary(f"/{RULES}/List")(b"", timeout=10)
    assert await gateway.end() == 0
    assert [line for line in gateway.lines if not line.startswith("{")] == []


async def test_no_key_is_in_the_log_of_a_gateway(stage: Stage) -> None:
    gateway, _ = await stage.gateway("--log-level=debug")
    assert await gateway.end() == 0
    key = (stage.folder / "gateway" / "tls.key").read_text().splitlines()[1]
    assert not any(key in line or "PRIVATE KEY" in line for line in gateway.lines)


async def test_an_agent_is_ready_when_its_streams_are_up_and_says_which_are_not(stage: Stage) -> None:
    gateway, address = await stage.gateway()
    flags = (f"--gateway={address}", "--tenant=tenant1", *stage.tls("tenant1", "gateway-ca"))
    agent = await stage.berth("agent", *flags)
    await until(lambda: agent.told("listening"))
    first = await agent.series()
    await agent.until_ready()
    new = await agent.series() - first
    later = ("agent_calls", "agent_streams_ended", "cache_age_seconds", "cert_not_after_seconds")
    assert {name for name, _ in new if not name.startswith(later)} == set()
    found = await agent.values()
    assert found["cert_not_after_seconds", ""] == _end(stage.folder / "tenant1" / "tls.crt")
    assert 0 < found["cache_age_seconds", "Pod"] < 60
    for name in ("cache_objects", "watch_restarts_total", "reconcile_total", "agent_stream_up"):
        assert any(found == name for found, _ in first), name
    assert await gateway.end(signal.SIGKILL) == -signal.SIGKILL

    async def cut() -> bool:
        return (await agent.get("/readyz"))[0] == 503

    await until(cut)
    assert any(line.startswith("gateway ") for line in json.loads((await agent.get("/readyz"))[1])["waitingFor"])
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

    await until(says)
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

    await until(told)
