"""Which certificates of the right authority are the cloud admin's, over real mutual TLS."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from app.certs.issuing import Issued
from app.tenancy.model import ADMIN_NAME
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from tests.support.gateway_calls import admin_rules, fails, rules
from tests.support.tenancy import Door, Pki
from tests.support.waiting import PATIENCE

CODE = grpc.StatusCode
CLIENT, SERVER, ANY = (
    ExtendedKeyUsageOID.CLIENT_AUTH,
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
)
FOREIGN = x509.ObjectIdentifier("1.3.6.1.4.1.55555.1")
TENANT = "tenant1.tenant.local"
X400 = bytes.fromhex("3002a300")
"""Alternative names of one that is an X.400 address."""


def dns(*names: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.DNSName(name) for name in names])


def certificate(
    pki: Pki,
    *common_names: str,
    alternatives: x509.ExtensionType | None = None,
    usages: tuple[x509.ObjectIdentifier, ...] = (CLIENT,),
    foreign: bool | None = None,
) -> Issued:
    """Of the gateway's authority; `foreign` adds an extension that no one knows, critical or not."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names]))
        .issuer_name(pki.authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=4))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    if foreign is not None:
        builder = builder.add_extension(x509.UnrecognizedExtension(FOREIGN, b"\x05\x00"), critical=foreign)
    return Issued(builder.sign(pki.authority.key, SHA256()), key)


async def as_admin(door: Door, identity: Issued) -> Any:
    return await admin_rules(door.channel(identity)).List(pb.ListRequest(), timeout=PATIENCE)


@pytest.mark.parametrize(
    "form",
    [
        {"common_names": (ADMIN_NAME,)},
        {"common_names": (ADMIN_NAME.upper(),)},
        {"common_names": (ADMIN_NAME,), "usages": (SERVER, CLIENT)},
        {"common_names": (ADMIN_NAME,), "usages": (ANY, CLIENT)},
        {"common_names": (ADMIN_NAME,), "foreign": False},
        {"common_names": ("x",), "alternatives": dns(ADMIN_NAME)},
        {"common_names": (), "alternatives": dns(ADMIN_NAME)},
        {"common_names": (ADMIN_NAME,), "alternatives": dns(ADMIN_NAME)},
        {"common_names": ("x",), "alternatives": dns("other.example", ADMIN_NAME.title())},
    ],
    ids=lambda form: " ".join(map(str, form)),
)
async def test_these_are_the_admins(door: Door, pki: Pki, form: dict[str, Any]) -> None:
    await as_admin(door, certificate(pki, *form.pop("common_names"), **form))


async def test_the_one_that_berth_issues_is_for_clients(pki: Pki) -> None:
    for issued in (pki.admin(), pki.tenant("tenant1")):
        found = issued.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(found) == [CLIENT]


NAMED = {"common_names": (ADMIN_NAME,)}
OTHER_NAMES: dict[str, x509.ExtensionType] = {
    "another DNS name": dns("other.example"),
    "a wildcard": dns("*.local"),
    "a trailing dot": dns(f"{ADMIN_NAME}."),
    "a name below it": dns(f"x.{ADMIN_NAME}"),
    "an IP address": x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
    "a URI": x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://{ADMIN_NAME}/admin")]),
    "an e-mail address": x509.SubjectAlternativeName([x509.RFC822Name(f"root@{ADMIN_NAME}")]),
    "a directory name": x509.SubjectAlternativeName(
        [x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ADMIN_NAME)]))]
    ),
}


@pytest.mark.parametrize("others", OTHER_NAMES)
async def test_its_common_name_beside_other_names_does_not_make_it_the_admins(
    door: Door, pki: Pki, others: str
) -> None:
    made = certificate(pki, ADMIN_NAME, alternatives=OTHER_NAMES[others])
    assert (await fails(as_admin(door, made))).code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["admin_certificate"]
    assert (
        await fails(rules(door.channel(made)).List(rule_pb.ListWorkloadRulesRequest(), timeout=PATIENCE))
    ).code() is (CODE.PERMISSION_DENIED)


@pytest.mark.parametrize("others", OTHER_NAMES)
async def test_other_names_alone_are_nobodys(door: Door, pki: Pki, others: str) -> None:
    assert (await fails(as_admin(door, certificate(pki, "x", alternatives=OTHER_NAMES[others])))).code() is (
        CODE.PERMISSION_DENIED
    )


@pytest.mark.parametrize("common_names", [(ADMIN_NAME, "x"), ("x", ADMIN_NAME)])
async def test_one_of_two_common_names_does_not_make_it_the_admins(
    door: Door, pki: Pki, common_names: tuple[str, ...]
) -> None:
    assert (await fails(as_admin(door, certificate(pki, *common_names)))).code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["admin_certificate"]


async def test_without_a_usage_it_is_nobodys(door: Door, pki: Pki) -> None:
    for alternatives in (None, dns(ADMIN_NAME)):
        made = certificate(pki, ADMIN_NAME, alternatives=alternatives, usages=())
        assert (await fails(as_admin(door, made))).code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["admin_certificate"] * 2


@pytest.mark.parametrize(
    "form", [{"usages": (ANY,)}, {"usages": (SERVER,)}, {"usages": (FOREIGN,)}, {"foreign": True}], ids=str
)
async def test_what_tls_refuses_for_clients(door: Door, pki: Pki, form: dict[str, Any]) -> None:
    """Usages without clientAuth, of which "any" is one; a critical extension that it does not know."""
    error = await fails(as_admin(door, certificate(pki, ADMIN_NAME, **form)))
    assert error.code() is CODE.UNAVAILABLE
    assert door.seen.calls == []


async def test_alternative_names_that_cannot_be_read(door: Door, pki: Pki) -> None:
    """TLS does not look at them; the call is refused like one without a certificate."""
    odd = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, X400)
    error = await fails(as_admin(door, certificate(pki, ADMIN_NAME, alternatives=odd)))
    assert error.code() is CODE.PERMISSION_DENIED
    assert [reason for _, reason in door.seen.refusals] == ["no_certificate"]


async def test_the_admins_name_beside_a_tenants_is_nobodys(door: Door, pki: Pki) -> None:
    for made in (
        certificate(pki, "x", alternatives=dns(ADMIN_NAME, TENANT)),
        certificate(pki, ADMIN_NAME, alternatives=dns(TENANT)),
        certificate(pki, TENANT, alternatives=dns(ADMIN_NAME)),
    ):
        assert (await fails(as_admin(door, made))).code() is CODE.PERMISSION_DENIED
        listing = rules(door.channel(made)).List(rule_pb.ListWorkloadRulesRequest(), timeout=PATIENCE)
        assert (await fails(listing)).code() is CODE.PERMISSION_DENIED
    assert {reason for _, reason in door.seen.refusals} == {"ambiguous"}


async def test_a_tenants_common_name_counts_beside_other_names(door: Door, pki: Pki) -> None:
    """As documented, and without a usage: tenants bring certificates of their own."""
    for made in (
        certificate(pki, TENANT, alternatives=dns("other.example")),
        certificate(pki, TENANT, usages=()),
        certificate(pki, "x", alternatives=dns("other.example", TENANT.upper())),
    ):
        await rules(door.channel(made)).List(rule_pb.ListWorkloadRulesRequest(), timeout=PATIENCE)
