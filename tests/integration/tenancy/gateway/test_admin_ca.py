"""Whose word counts for the cloud admin: every authority of the bundle, or those of a file of their own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import grpc
import pytest

from app.certs.issuing import Issued, bridge, encode_certificate, issue_authority, issue_serving, serving_names
from app.tenancy.gateway.front import ServingCredentials
from app.tenancy.gateway.identity import independent_authorities, issued_by
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from tests.support.gateway_calls import admin_rules, fails, rules
from tests.support.tenancy import Door, Infra, Pki, Start, TlsFiles
from tests.support.waiting import PATIENCE, eventually

CODE = grpc.StatusCode
WARNING = "each of several authorities can name itself the cloud admin"


@pytest.fixture
def other(pki: Pki) -> Issued:
    """A tenant's own authority, which the gateway trusts too; certificates of `pki` alone are the admin's."""
    made = issue_authority(common_name="other", now=datetime.now(UTC), days=30)
    pki.files.client_ca.write_bytes(pki.ca + made.certificate_pem)
    (pki.folder / "admin-ca.crt").write_bytes(pki.ca)
    return made


def with_admin_ca(pki: Pki) -> TlsFiles:
    return replace(pki.files, admin_ca=pki.folder / "admin-ca.crt")


async def list_admin(door: Door, identity: Issued) -> None:
    await admin_rules(door.channel(identity)).List(pb.ListRequest(), timeout=PATIENCE)


async def test_another_authority_cannot_name_the_admin(infra: Infra, start: Start, pki: Pki, other: Issued) -> None:
    await infra.add_tenant("tenant1")
    door = await start(files=with_admin_ca(pki))
    false = pki.client(ADMIN_NAME, authority=other)
    assert (await fails(list_admin(door, false))).code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["admin_ca"]
    await list_admin(door, pki.admin())
    # A tenant's certificate is good from either.
    channel = door.channel(pki.client("tenant1.tenant.local", authority=other))
    await rules(channel).List(rule_pb.ListWorkloadRulesRequest(), timeout=PATIENCE)


async def test_without_a_file_the_name_alone_decides(infra: Infra, start: Start, pki: Pki, other: Issued) -> None:
    door = await start()
    await list_admin(door, pki.client(ADMIN_NAME, authority=other))


async def test_the_admins_authority_follows_its_file_on_open_connections(
    infra: Infra, start: Start, pki: Pki, other: Issued
) -> None:
    """No handshake has to come first."""
    door = await start(files=with_admin_ca(pki))
    stub = admin_rules(door.admin())
    await stub.List(pb.ListRequest(), timeout=PATIENCE)
    (pki.folder / "admin-ca.crt").write_bytes(other.certificate_pem)

    async def refused() -> bool:
        try:
            await stub.List(pb.ListRequest(), timeout=PATIENCE)
        except grpc.aio.AioRpcError as error:
            return error.code() is CODE.PERMISSION_DENIED
        return False

    await eventually(refused)
    (pki.folder / "admin-ca.crt").write_bytes(b"garbage")
    await eventually(lambda: any("admin-ca.crt" in line for line in door.gateway.waiting()))
    assert await refused()


def test_a_renewed_authority_is_the_admins_by_its_own_certificate_and_by_its_bridge(pki: Pki) -> None:
    old, new = pki.authority, issue_authority(common_name="test", now=datetime.now(UTC), days=60)
    linked = encode_certificate(bridge(old, new))
    for authority in (old, new):
        assert issued_by(pki.client(ADMIN_NAME, authority=authority).certificate_pem, new.certificate_pem + pki.ca)
    renewed = pki.client(ADMIN_NAME, authority=new).certificate_pem
    assert issued_by(renewed, linked)
    # The same name is not the same authority.
    assert not issued_by(renewed, old.certificate_pem)


def test_a_warning_where_strangers_may_name_the_admin(
    pki: Pki, other: Issued, capsys: pytest.CaptureFixture[str]
) -> None:
    ServingCredentials(pki.files.settings())
    assert capsys.readouterr().out.count(WARNING) == 1
    ServingCredentials(with_admin_ca(pki).settings())
    pki.files.client_ca.write_bytes(pki.ca)
    ServingCredentials(pki.files.settings())
    assert WARNING not in capsys.readouterr().out


def test_an_authority_and_its_successor_are_one(pki: Pki, other: Issued) -> None:
    """The bridge between them stands in the bundle, or in the chain of the serving certificate."""
    new = issue_authority(common_name="test", now=datetime.now(UTC), days=60)
    linked, leaf = encode_certificate(bridge(pki.authority, new)), pki.files.certificate.read_bytes()
    assert independent_authorities(pki.ca + new.certificate_pem, links=leaf) == 2
    assert independent_authorities(pki.ca + new.certificate_pem, links=leaf + linked) == 1
    assert independent_authorities(pki.ca + new.certificate_pem + linked, links=leaf) == 1
    assert independent_authorities(pki.ca + linked + other.certificate_pem, links=leaf) == 2
    assert independent_authorities(other.certificate_pem, links=leaf) == 1


async def test_the_end_of_the_certificate_follows_the_file_without_a_handshake(door: Door, pki: Pki) -> None:
    issued = issue_serving(pki.authority, names=serving_names(dns=[GATEWAY_NAME]), now=datetime.now(UTC), days=7)
    assert door.gateway.not_after > issued.certificate.not_valid_after_utc
    pki.files.key.write_bytes(issued.key_pem)
    pki.files.certificate.write_bytes(issued.certificate_pem)
    await eventually(lambda: door.gateway.not_after == issued.certificate.not_valid_after_utc)
