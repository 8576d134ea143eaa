"""The connection to the gateway and what it survives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import grpc
import pytest

from app.certs.issuing import issue_authority
from app.kube.resources import PODS
from app.metrics import exposition
from app.tenancy.agent.connection import read_files
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES
from tests.integration.tenancy.agent.conftest import Runner, Tenant, options_for, running
from tests.integration.tenancy.agent.fakegateway import Certificates, FakeGateway
from tests.integration.tenancy.agent.test_workload_stream import kinds, labels, names
from tests.support.waiting import eventually


async def test_a_cut_stream_is_opened_again_with_the_full_state(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    await tenant.pod("p1")
    await tenant.pod("p2")
    agent, seen = await agents.start()
    await eventually(lambda: kinds(fake) == ["update", "update", "synced"])
    fake.calls.clear()
    fake.events.clear()
    fake.cut()
    await eventually(lambda: kinds(fake) == ["update", "update", "synced"])
    await eventually(lambda: not agent.waiting())
    assert seen.counts["ended", "workloads", "unavailable"] == 1
    assert seen.counts["ended", "rules", "unavailable"] == 1


async def test_a_gateway_that_restarts_gets_everything(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """It is stateless here: Pods, rules and UVS objects all come again; what was deleted meanwhile does not."""
    await tenant.pod("p1")
    await tenant.pod("p2")
    await tenant.rule("r1")
    await tenant.uvs(UVS_RESOURCES[3], "c1")
    agent, _ = await agents.start()
    await eventually(
        lambda: names(fake) == {"p1", "p2"} and set(fake.rules) == {"r1"} and fake.owned("ConfigMap") == {"c1"}
    )
    await fake.stop()
    await eventually(lambda: any(line.startswith("gateway workloads: unavailable") for line in agent.waiting()))
    await tenant.remove(PODS, "p1", namespace="default")
    fake.rules.clear()
    fake.objects.clear()
    await fake.start()
    await eventually(lambda: names(fake) == {"p2"} and set(fake.rules) == {"r1"} and fake.owned("ConfigMap") == {"c1"})
    await eventually(lambda: not agent.waiting())


async def test_a_gateway_that_refuses_is_asked_with_growing_pauses(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    fake.fail["WorkloadStream"] = grpc.StatusCode.PERMISSION_DENIED, "unknown tenant"
    agent, _ = await agents.start(ready=False, backoff_base=0.2, backoff_cap=30.0)
    await eventually(lambda: any("permission_denied: unknown tenant" in line for line in agent.waiting()))
    await asyncio.sleep(1.5)
    assert fake.calls["WorkloadStream"] <= 12
    fake.fail.clear()
    await eventually(lambda: not agent.waiting())


async def test_a_refusal_is_told_in_the_gateways_words_however_much_there_is_to_send(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """Written into a stream that is being refused, a message takes the place of the reason."""
    for number in range(10):
        await tenant.pod(f"p{number}", annotations={"a": "x" * 50_000})
    fake.fail["WorkloadStream"] = grpc.StatusCode.PERMISSION_DENIED, "tenant tenant1 is suspended"
    _, seen = await agents.start(ready=False, backoff_base=0.02, backoff_cap=0.05)
    await eventually(lambda: fake.calls["WorkloadStream"] >= 20)
    ends = {key[2] for key in seen.counts if key[:2] == ("ended", "workloads")}
    assert ends == {"permission_denied"}


async def test_a_gateway_that_says_nothing_at_first_is_sent_to_all_the_same(
    tenant: Tenant, fake: FakeGateway, agents: Runner
) -> None:
    """One that tells a sender nothing before its end, as gRPC lets it."""
    fake.silent = True
    await tenant.pod("p1")
    await agents.start()
    await eventually(lambda: kinds(fake) == ["update", "synced"])


async def test_a_slow_gateway_gets_the_latest_state(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """It does not read for a while; meanwhile nothing piles up but one entry for each Pod."""
    await tenant.pod("p1", annotations={"a": "x" * 200_000})
    await tenant.pod("p2")
    await agents.start()
    await eventually(lambda: sorted(kinds(fake)) == ["synced", "update", "update"])
    fake.reading.clear()
    for number in range(30):
        await tenant.label("p1", n=str(number))
    await tenant.remove(PODS, "p2", namespace="default")
    await eventually(lambda: b'cache_objects{kind="Pod"} 1.0' in exposition()[0])
    fake.reading.set()
    await eventually(lambda: labels(fake) == [{"n": "29"}])
    assert kinds(fake).count("update") < 32


class Proxy:
    """Forwards a port until it is told to fall silent, without closing anything: a half-open connection."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.silent = False
        self.port = 0
        self.accepted = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        number = self.accepted
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers += [writer, onward]
        for source, sink in ((reader, onward), (onward_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink, number))
            self._tasks.add(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, number: int) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                if self.silent and number == 1:
                    continue
                sink.write(data)
                await sink.drain()
            if not (self.silent and number == 1):
                sink.close()


async def test_a_half_open_connection_is_noticed(tenant: Tenant, fake: FakeGateway, certificates: Certificates) -> None:
    await tenant.pod("p1")
    async with Proxy(fake.port).running() as proxy:
        options = options_for(f"127.0.0.1:{proxy.port}", certificates.folder, keepalive=1.0)
        async with running(tenant, options) as (agent, _):
            await eventually(lambda: not agent.waiting() and names(fake) == {"p1"})
            await asyncio.sleep(0.5)  # until nothing is under way that would be missed for other reasons
            proxy.silent = True
            await tenant.pod("p2")
            await eventually(lambda: names(fake) == {"p1", "p2"})
            assert proxy.accepted > 1


async def test_a_renewed_certificate_is_used_at_once(
    tenant: Tenant, fake: FakeGateway, agents: Runner, certificates: Certificates
) -> None:
    await tenant.pod("p1")
    agent, seen = await agents.start()
    await eventually(lambda: fake.calls["List"] == 4)  # each kind once at the beginning; then all is quiet
    assert set(fake.callers) == {"tenant1.tenant.local"}
    fake.callers.clear()
    certificates.write_client("renewed.tenant.local")
    await eventually(lambda: "renewed.tenant.local" in fake.callers)
    await eventually(lambda: not agent.waiting())
    assert set(fake.callers) == {"renewed.tenant.local"}
    assert seen.counts["ended", "workloads", "renewed"] == 1
    await tenant.rule("r1")
    await eventually(lambda: "r1" in fake.rules)


async def test_a_half_written_pair_is_not_used(
    tenant: Tenant, fake: FakeGateway, agents: Runner, certificates: Certificates
) -> None:
    """The key does not belong to the certificate: the old channel stays, readiness names the file."""
    agent, _ = await agents.start()
    whole = (certificates.folder / "tls.key").read_bytes()
    certificates.write_client("other.tenant.local")
    (certificates.folder / "tls.key").write_bytes(whole)
    await eventually(lambda: any("is not the key of" in line for line in agent.waiting()))
    assert "other.tenant.local" not in fake.callers
    certificates.write_client("other.tenant.local")
    await eventually(lambda: not agent.waiting() and "other.tenant.local" in fake.callers)


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key"])
def test_files_that_cannot_be_used_are_named(certificates: Certificates, name: str) -> None:
    options = options_for("127.0.0.1:1", certificates.folder)
    (certificates.folder / name).write_text("nothing")
    with pytest.raises(ValueError, match=name):
        read_files(options.settings)
    (certificates.folder / name).unlink()
    with pytest.raises(OSError, match=name):
        read_files(options.settings)


async def test_a_gateway_of_another_authority_is_not_trusted(
    tenant: Tenant, fake: FakeGateway, agents: Runner, certificates: Certificates
) -> None:
    await tenant.pod("p1")
    other = issue_authority(common_name="other", now=datetime.now(UTC), days=30)
    (certificates.folder / "ca.crt").write_bytes(other.certificate_pem)
    agent, _ = await agents.start(ready=False)
    await eventually(lambda: any(line.startswith("gateway workloads: unavailable") for line in agent.waiting()))
    assert not fake.calls
    (certificates.folder / "ca.crt").write_bytes(certificates.authority.certificate_pem)
    await eventually(lambda: not agent.waiting())


async def test_the_servers_name_is_checked(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    agent, _ = await agents.start(ready=False, gateway_name="elsewhere.local")
    await eventually(lambda: any(line.startswith("gateway rules: unavailable") for line in agent.waiting()))
    assert not fake.calls


async def test_the_tenant_is_named_only_where_it_is_given(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    async with agents.while_running():
        assert not any("tenant-id" in metadata for metadata in fake.metadata)
    fake.metadata.clear()
    await tenant.rule("r1")
    await agents.start(tenant="tenant1")
    await eventually(lambda: fake.rules)
    assert {metadata.get("tenant-id") for metadata in fake.metadata} == {"tenant1"}


async def test_without_definitions_pods_are_told_and_readiness_says_what_is_missing(
    bare_tenant: Tenant, fake: FakeGateway, certificates: Certificates
) -> None:
    await bare_tenant.pod("p1")
    async with running(bare_tenant, options_for(f"127.0.0.1:{fake.port}", certificates.folder)) as (agent, _):
        await eventually(lambda: names(fake) == {"p1"})
        await eventually(
            lambda: all(
                any(f"is the definition of {r.plural}." in line for line in agent.waiting())
                for r in (WORKLOAD_RULES, *UVS_RESOURCES)
            )
        )
        await bare_tenant.install(WORKLOAD_RULES)
        await eventually(lambda: not any("workloadrules" in line for line in agent.waiting()))
        await bare_tenant.rule("r1")
        await eventually(lambda: "r1" in fake.rules)


async def test_an_agent_that_was_stopped_can_be_followed(tenant: Tenant, fake: FakeGateway, agents: Runner) -> None:
    """As a leader that lost its lease and won it back: each term has an agent of its own."""
    agent, _ = await agents.start(ready=False)
    await eventually(lambda: not agent.waiting())
    for _ in range(2):
        async with running(tenant, agents.options) as (following, _):
            await eventually(lambda following=following: not following.waiting())
