"""Who gets in: certificates against services, over real mutual TLS; and the pure decision behind it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from app.certs.issuing import Issued, issue_authority, issue_leaf
from app.tenancy.gateway.identity import Caller, Refusal, identify
from app.tenancy.model import PinnedCertificate, Tenant
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.workloads.model import TENANTS
from tests.support.gateway_calls import Sender, admin_rules, fails, resources, rules
from tests.support.tenancy import Door, Infra, Pki, Start
from tests.support.waiting import PATIENCE, eventually

CODE = grpc.StatusCode


async def list_rules(channel: Any, **call: Any) -> Any:
    return await rules(channel).List(rule_pb.ListWorkloadRulesRequest(), timeout=PATIENCE, **call)


async def list_admin(channel: Any, **call: Any) -> Any:
    return await admin_rules(channel).List(admin_pb.ListRequest(), timeout=PATIENCE, **call)


async def test_tenants_and_the_admin_get_what_is_theirs(door: Door) -> None:
    assert list((await list_rules(door.tenant("tenant1"))).rules) == []
    assert list((await list_admin(door.admin())).rules) == []
    assert door.seen.refusals == []


async def test_a_tenant_on_the_admins_service_is_refused(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    error = await fails(list_admin(door.tenant("tenant1")))
    assert error.code() is CODE.PERMISSION_DENIED
    assert "cloud admin" in (error.details() or "")
    assert door.seen.refusals == [("universe.admin.workload.v1.AdminWorkloadRuleService", "wrong_service")]
    line = next(line for line in capsys.readouterr().out.splitlines() if "call refused" in line)
    for part in ("tenant1.tenant.local", "AdminWorkloadRuleService", "wrong_service", "127.0.0.1"):
        assert part in line.replace("%3A", ":")
    assert "BEGIN CERTIFICATE" not in line


async def test_the_admin_on_every_tenants_service_is_refused(door: Door) -> None:
    channel = door.admin()
    metadata = (("tenant-id", "tenant1"),)
    for call in (
        list_rules(channel, metadata=metadata),
        resources(channel).List(resource_pb.ListRequest(), metadata=metadata),
        rules(channel).Watch(rule_pb.WatchWorkloadRulesRequest(), metadata=metadata),
    ):
        assert (await fails(call)).code() is CODE.PERMISSION_DENIED
    assert (await Sender(channel, metadata=metadata).failure()).code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["wrong_service"] * 4


@pytest.mark.parametrize(
    ("given", "code"), [("tenant1", None), ("tenant-tenant1", None), ("tenant2", "tenant_id"), ("", "tenant_id")]
)
async def test_the_metadata_must_agree(door: Door, given: str, code: str | None) -> None:
    call = list_rules(door.tenant("tenant1"), metadata=(("tenant-id", given),))
    if code is None:
        await call
    else:
        assert (await fails(call)).code() is CODE.PERMISSION_DENIED
        assert [reason for _, reason in door.seen.refusals] == [code]


async def test_one_disagreeing_value_of_two_is_enough(door: Door) -> None:
    metadata = (("tenant-id", "tenant1"), ("tenant-id", "tenant2"))
    assert (await fails(list_rules(door.tenant("tenant1"), metadata=metadata))).code() is CODE.PERMISSION_DENIED


async def test_an_unknown_tenant_is_refused(door: Door) -> None:
    error = await fails(list_rules(door.tenant("stranger")))
    assert error.code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["unknown"]


async def test_certificates_that_tls_refuses(door: Door, pki: Pki) -> None:
    """None at all, of another authority, expired, of a server: there is no connection."""
    now = datetime.now(UTC)
    other = issue_authority(common_name="other", now=now, days=30)
    expired = issue_leaf(
        pki.authority,
        subject=pki.tenant("tenant1").certificate.subject,
        alternatives=None,
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        span=(now - timedelta(minutes=4), now - timedelta(minutes=1)),
        algorithm="ecdsa",
    )
    server = issue_leaf(
        pki.authority,
        subject=pki.tenant("tenant1").certificate.subject,
        alternatives=None,
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
        span=(now - timedelta(minutes=4), now + timedelta(minutes=5)),
        algorithm="ecdsa",
    )
    for identity in (None, pki.client("tenant1.tenant.local", authority=other), expired, server):
        error = await fails(list_rules(door.channel(identity)))
        assert error.code() is CODE.UNAVAILABLE
    assert door.seen.calls == []


async def test_a_dns_name_identifies_as_well_as_the_common_name(door: Door, pki: Pki) -> None:
    now = datetime.now(UTC)
    made = issue_leaf(
        pki.authority,
        subject=pki.client("whoever").certificate.subject,
        alternatives=x509.SubjectAlternativeName([x509.DNSName("Tenant1.tenant.local")]),
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        span=(now - timedelta(minutes=4), now + timedelta(minutes=5)),
        algorithm="ecdsa",
    )
    await list_rules(door.channel(made))


async def test_a_pinned_tenant_takes_its_certificate_and_no_other(infra: Infra, start: Start, pki: Pki) -> None:
    good, bad = pki.tenant("tenant1"), pki.tenant("tenant1")
    pin = {"sha256": sha256(good)}
    await infra.add_tenant("tenant1", identity={"names": ["tenant1.tenant.local"], "certificates": [pin]})
    door = await start()
    await list_rules(door.channel(good))
    assert (await fails(list_rules(door.channel(bad)))).code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["not_pinned"]


def sha256(issued: Issued) -> str:
    return issued.certificate.fingerprint(SHA256()).hex()


async def open_streams(door: Door, identity: Issued | None = None) -> list[Any]:
    """One of each kind of stream, in service."""
    channel = door.channel(identity or door.pki.tenant("tenant1"))
    sender = Sender(channel)
    await sender.update("a")
    watches = [
        rules(channel).Watch(rule_pb.WatchWorkloadRulesRequest()),
        resources(channel).Watch(resource_pb.WatchRequest()),
    ]
    for watch in watches:
        assert (await watch.read()).synced
    await eventually(lambda: door.seen.open.get("tenant1") == 3)
    return [sender.call, *watches]


async def check_ended(streams: list[Any]) -> None:
    for stream in streams[1:]:
        assert (await fails(stream)).code() is CODE.PERMISSION_DENIED
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await streams[0]
    assert ended.value.code() is CODE.PERMISSION_DENIED


async def test_a_removed_tenants_streams_end_and_others_go_on(infra: Infra, start: Start) -> None:
    """At once, not at the next tick."""
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(tick=3600.0)
    streams = await open_streams(door)
    other = rules(door.tenant("tenant2")).Watch(rule_pb.WatchWorkloadRulesRequest())
    assert (await other.read()).synced
    await infra.client.delete(TENANTS, "tenant1")
    await check_ended(streams)
    assert not other.done()
    assert (await fails(list_rules(door.tenant("tenant1")))).code() is CODE.PERMISSION_DENIED
    await eventually(lambda: door.seen.open["tenant1"] == 0)


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ({"suspended": True}, "suspended"),
        ({"identity": {"names": ["other.tenant.local"]}}, "unknown"),
        ({"identity": {"certificates": [{"sha256": "0" * 64}]}}, "not_pinned"),
    ],
)
async def test_streams_end_when_the_identity_is_taken_away(door: Door, infra: Infra, patch: Any, reason: str) -> None:
    streams = await open_streams(door)
    await infra.client.patch(TENANTS, "tenant1", {"spec": patch}, patch_type="merge")
    await check_ended(streams)
    assert {found for _, found in door.seen.refusals} == {reason}


async def test_streams_end_when_the_time_of_a_pin_has_come(infra: Infra, start: Start, pki: Pki) -> None:
    identity = pki.tenant("tenant1")
    pin = {"sha256": sha256(identity)}
    await infra.add_tenant("tenant1", identity={"names": ["tenant1.tenant.local"], "certificates": [pin]})
    door = await start()
    streams = await open_streams(door, identity)
    then = (datetime.now(UTC) + timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ending = {"identity": {"certificates": [{**pin, "until": then}]}}
    await infra.client.patch(TENANTS, "tenant1", {"spec": ending}, patch_type="merge")
    await check_ended(streams)
    assert {found for _, found in door.seen.refusals} == {"pin_ended"}


async def test_health_and_reflection_are_for_every_certificate(door: Door) -> None:
    for channel in (door.admin(), door.tenant("tenant1"), door.tenant("stranger")):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        while (await watch.read()).status != health_pb2.HealthCheckResponse.SERVING:
            pass
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        listed = {entry.name for entry in (await call.read()).list_services_response.service}
        assert "universe.admin.workload.v1.AdminWorkloadRuleService" in listed


async def test_nobody_is_judged_before_the_tenants_are_known(infra: Infra, pki: Pki) -> None:
    """While nothing is loaded the gateway is not serving, and says UNAVAILABLE rather than who is unknown."""
    await infra.add_tenant("tenant1")
    await infra.cluster.stop()
    door, stop = Door(infra.client, pki.files.settings(), pki), asyncio.Event()
    running = asyncio.create_task(door.gateway.run(stop))
    await door.gateway.started.wait()
    channel = door.tenant("tenant1")
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
    assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert door.gateway.waiting()
    assert (await fails(list_rules(channel))).code() is CODE.UNAVAILABLE
    await infra.restart()
    await eventually(lambda: not door.gateway.waiting())
    await list_rules(channel)
    await door.close()
    stop.set()
    await running


TENANT = Tenant("t", "tenant-t", "u", ("t.local",))
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(*names: str) -> bytes:
    authority = issue_authority(common_name="ca", now=NOW, days=30)
    made = issue_leaf(
        authority,
        subject=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])]),
        alternatives=x509.SubjectAlternativeName([x509.DNSName(name) for name in names[1:]]) if names[1:] else None,
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        span=(NOW - timedelta(days=1), NOW + timedelta(days=1)),
        algorithm="ecdsa",
    )
    return made.certificate_pem


def decide(pem: bytes | None, *tenants: Tenant, audience: Any = "tenant", now: datetime = NOW) -> Any:
    return identify(
        pem,
        audience=audience,
        tenant_ids=(),
        tenants_named=lambda name: [tenant for tenant in tenants if name in tenant.names],
        admin_names={"cloud-admin.local"},
        now=now,
    )


def test_a_certificate_of_two_identities_is_nobodys() -> None:
    other = Tenant("o", "tenant-o", "v", ("o.local",))
    for names in (("t.local", "o.local"), ("cloud-admin.local", "t.local")):
        for audience in ("tenant", "admin"):
            refusal = decide(certificate(*names), TENANT, other, audience=audience)
            assert isinstance(refusal, Refusal)
            assert refusal.reason == "ambiguous"


def test_two_names_of_one_tenant_are_one_identity() -> None:
    both = Tenant("t", "tenant-t", "u", ("t.local", "t2.local"))
    assert isinstance(decide(certificate("t.local", "t2.local"), both), Caller)


def test_a_certificate_out_of_its_time_is_refused_though_its_connection_lives() -> None:
    refusal = decide(certificate("t.local"), TENANT, now=NOW + timedelta(days=2))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "not_valid"


def test_a_wildcard_stands_for_nobody() -> None:
    refusal = decide(certificate("x", "*.local"), TENANT)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "unknown"


@pytest.mark.parametrize("pem", [None, b"", b"-----BEGIN CERTIFICATE-----\ngarbage\n-----END CERTIFICATE-----\n"])
def test_no_certificate_is_refused(pem: bytes | None) -> None:
    for audience in ("tenant", "admin", "anyone"):
        refusal = decide(pem, TENANT, audience=audience)
        assert isinstance(refusal, Refusal)
        assert refusal.reason == "no_certificate"


def test_the_last_pin_counts_until_its_time() -> None:
    pem = certificate("t.local")
    digest = x509.load_pem_x509_certificate(pem).fingerprint(SHA256()).hex()
    pins = (PinnedCertificate("0" * 64), PinnedCertificate(digest, NOW + timedelta(seconds=1)))
    pinned = Tenant("t", "tenant-t", "u", ("t.local",), pins)
    assert isinstance(decide(pem, pinned), Caller)
    refusal = decide(pem, pinned, now=NOW + timedelta(seconds=1))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "pin_ended"
