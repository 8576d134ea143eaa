"""The gateway's certificates in their Secrets: made once, shared, renewed, never anybody else's."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from app.certs.certificate_set import parse_bundle
from app.certs.issuing import Issued, common_name_of, encode_certificate, issue_authority, issue_client, names_of
from app.errors import ApiError, UsageError
from app.kube.resources import NAMESPACES, SECRETS
from app.tenancy.authority import AuthorityOptions, ensure_authority, ensure_signing
from app.tenancy.model import ADMIN_SECRET, CA_SECRET, SERVING_SECRET
from app.tenancy.tenants.enrolling import certify
from app.workloads.model import SYSTEM_NAMESPACE

NOW = datetime.now(UTC)
OPTIONS = AuthorityOptions()


def certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


async def stored(cluster: Any, name: str) -> dict[str, bytes]:
    secret = await cluster.client.get(SECRETS, name, namespace=SYSTEM_NAMESPACE)
    return {entry: base64.b64decode(value) for entry, value in secret["data"].items()}


async def versions(cluster: Any) -> list[str]:
    page = await cluster.client.list_page(SECRETS, namespace=SYSTEM_NAMESPACE)
    return [item["metadata"]["resourceVersion"] for item in page.items]


async def put(cluster: Any, name: str, files: dict[str, bytes], *, ours: bool = False) -> None:
    """Create or replace a Secret as somebody else would."""
    data = {entry: base64.b64encode(content).decode() for entry, content in files.items()}
    body = {"metadata": {"name": name}, "type": "Opaque", "data": data}
    if ours:
        body["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "berth"}
    if await cluster.find(NAMESPACES, SYSTEM_NAMESPACE) is None:
        await cluster.namespace(SYSTEM_NAMESPACE)
    await cluster.client.create(SECRETS, body, namespace=SYSTEM_NAMESPACE)


def files_of(issued: Issued) -> dict[str, bytes]:
    return {"tls.crt": issued.certificate_pem, "tls.key": issued.key_pem}


async def test_all_is_made_where_there_is_nothing(cluster) -> None:
    """The namespace too; names and usages are those of the gateway and of the cloud admin."""
    made = await ensure_authority(
        cluster.client, now=NOW, options=AuthorityOptions(dns=("gw.example",), addresses=("10.0.0.1",))
    )
    assert set(await stored(cluster, CA_SECRET)) == {"tls.crt", "tls.key", "ca.crt"}
    assert await stored(cluster, SERVING_SECRET) == made.serving
    assert await stored(cluster, ADMIN_SECRET) == made.admin
    assert set(made.admin) == {"ca.crt", "admin.crt", "admin.key"}
    authority = certificate(made.serving["ca.crt"])
    serving, admin = certificate(made.serving["tls.crt"]), certificate(made.admin["admin.crt"])
    for leaf in (serving, admin):
        leaf.verify_directly_issued_by(authority)
    assert common_name_of(admin) == "cloud-admin.local"
    assert names_of(serving) == [
        "berth-gateway",
        "berth-gateway.universe",
        "berth-gateway.universe.svc",
        "berth-gateway.universe.svc.cluster.local",
        "api-gateway.local",
        "localhost",
        "gw.example",
        "127.0.0.1",
        "::1",
        "10.0.0.1",
    ]
    assert NOW + timedelta(days=200) < made.next_due < NOW + timedelta(days=365)


async def test_what_is_there_is_kept(cluster) -> None:
    first = await ensure_authority(cluster.client, now=NOW)
    before = await versions(cluster)
    assert await ensure_authority(cluster.client, now=NOW) == first
    assert await versions(cluster) == before


async def test_many_at_once_agree(cluster) -> None:
    """Whoever comes second gets a conflict, and then uses what the first has written."""
    results = await asyncio.gather(*(ensure_authority(cluster.client, now=NOW) for _ in range(6)))
    assert all(result == results[0] for result in results)
    assert (await stored(cluster, CA_SECRET))["ca.crt"] == results[0].authority.bundle


async def test_many_at_once_renew_once(cluster) -> None:
    """CA and leaves are due; nobody overwrites what another has just written."""
    options = AuthorityOptions(authority_days=30, days=10)
    first = await ensure_authority(cluster.client, now=NOW, options=options)
    later = NOW + timedelta(days=21)
    results = await asyncio.gather(*(ensure_authority(cluster.client, now=later, options=options) for _ in range(6)))
    assert results[0].authority.bundle != first.authority.bundle
    assert all(result == results[0] for result in results)
    assert (await stored(cluster, CA_SECRET))["ca.crt"] == results[0].authority.bundle
    assert await stored(cluster, SERVING_SECRET) == results[0].serving


async def test_new_names_are_added_to_the_old(cluster) -> None:
    """Two callers that know different names do not take turns."""
    east, west = (
        AuthorityOptions(dns=(name,), addresses=(ip,)) for name, ip in (("east", "10.0.0.1"), ("west", "fd00::1"))
    )
    await ensure_authority(cluster.client, now=NOW, options=east)
    both = await ensure_authority(cluster.client, now=NOW, options=west)
    assert {"east", "west", "10.0.0.1", "fd00::1"} <= set(names_of(certificate(both.serving["tls.crt"])))
    assert (await ensure_authority(cluster.client, now=NOW, options=east)).serving == both.serving


async def test_leaves_are_renewed_when_a_third_is_left(cluster) -> None:
    first = await ensure_authority(cluster.client, now=NOW)
    later = await ensure_authority(cluster.client, now=first.next_due + timedelta(minutes=1))
    assert later.serving["tls.crt"] != first.serving["tls.crt"]
    assert later.admin["admin.crt"] != first.admin["admin.crt"]
    assert later.authority.bundle == first.authority.bundle
    early = await ensure_authority(cluster.client, now=NOW)
    assert early.serving == later.serving


async def test_an_old_ca_stays_trusted_beside_its_successor(cluster) -> None:
    """Whoever trusts the old one alone still reaches the gateway, and certificates of the old one still count."""
    options = AuthorityOptions(authority_days=30, days=10)
    first = await ensure_authority(cluster.client, now=NOW, options=options)
    later = await ensure_authority(cluster.client, now=NOW + timedelta(days=21), options=options)
    new, old = parse_bundle(later.authority.bundle, source="bundle")
    assert encode_certificate(old) == first.authority.bundle
    serving, link = parse_bundle(later.serving["tls.crt"], source="tls.crt")
    serving.verify_directly_issued_by(new)
    link.verify_directly_issued_by(old)
    assert link.public_key() == new.public_key()
    assert later.serving["ca.crt"] == later.admin["ca.crt"] == later.authority.bundle
    again = await ensure_authority(cluster.client, now=NOW + timedelta(days=21), options=options)
    assert again == later
    # When the old one has expired it is trusted no more.
    end = await ensure_authority(cluster.client, now=NOW + timedelta(days=31), options=options)
    assert parse_bundle(end.authority.bundle, source="bundle") == [new]


async def test_a_ca_of_somebody_else_is_used_and_not_touched(cluster) -> None:
    """Such as cert-manager's: we sign with it, and leave its renewal to its owner."""
    own = issue_authority(common_name="Own", now=NOW - timedelta(days=29), days=30)
    await put(cluster, CA_SECRET, files_of(own))
    before = await versions(cluster)
    made = await ensure_authority(cluster.client, now=NOW)
    certificate(made.serving["tls.crt"]).verify_directly_issued_by(own.certificate)
    assert made.authority.bundle == encode_certificate(own.certificate)
    assert before[0] in await versions(cluster)


async def test_a_serving_certificate_of_somebody_else_is_not_touched(cluster) -> None:
    own = issue_authority(common_name="Own", now=NOW, days=30)
    await put(cluster, SERVING_SECRET, files_of(own))
    made = await ensure_authority(cluster.client, now=NOW)
    assert made.serving["tls.crt"] == own.certificate_pem
    assert made.serving["ca.crt"] == made.authority.bundle
    assert await stored(cluster, SERVING_SECRET) == files_of(own)


@pytest.mark.parametrize("ours", [True, False])
async def test_a_damaged_ca_is_not_replaced(cluster, ours) -> None:
    """A new one would cut every tenant off: a person has to decide. The message shows nothing of the key."""
    one, other = (issue_authority(common_name="Own", now=NOW, days=30) for _ in range(2))
    await put(cluster, CA_SECRET, {**files_of(one), "tls.key": other.key_pem}, ours=ours)
    with pytest.raises(UsageError) as caught:
        await ensure_authority(cluster.client, now=NOW)
    assert str(caught.value) == f"Secret universe/{CA_SECRET}: tls.key does not belong to tls.crt"
    assert (await stored(cluster, CA_SECRET))["tls.key"] == other.key_pem


async def test_a_ca_that_is_none_is_refused(cluster) -> None:
    made = await ensure_authority(cluster.client, now=NOW)
    await cluster.client.delete(SECRETS, CA_SECRET, namespace=SYSTEM_NAMESPACE)
    await put(cluster, CA_SECRET, {name: made.serving[name] for name in ("tls.crt", "tls.key")})
    with pytest.raises(UsageError, match="its certificate is not a CA"):
        await ensure_signing(cluster.client, now=NOW)


async def test_damaged_or_strange_leaves_of_ours_are_replaced(cluster) -> None:
    """Broken, of another CA, or under another name."""
    own = issue_authority(common_name="Own", now=NOW, days=30)
    await put(cluster, SERVING_SECRET, {"tls.crt": b"x", "tls.key": b"y"}, ours=True)
    other = issue_client(own, common_name="cloud-admin.local", now=NOW, days=30)
    await put(cluster, ADMIN_SECRET, {"admin.crt": other.certificate_pem, "admin.key": other.key_pem}, ours=True)
    made = await ensure_authority(cluster.client, now=NOW)
    for leaf in (made.serving["tls.crt"], made.admin["admin.crt"]):
        certificate(leaf).verify_directly_issued_by(certificate(made.authority.bundle))
    renamed = await ensure_authority(cluster.client, now=NOW, options=replace(OPTIONS, admin_name="root.local"))
    assert common_name_of(certificate(renamed.admin["admin.crt"])) == "root.local"


async def test_keys_do_not_show(cluster) -> None:
    """Not in the representation of what is returned, wherever that may be logged."""
    made = await ensure_authority(cluster.client, now=NOW)
    assert "PRIVATE" not in repr(made)
    assert made.authority.authority.key_pem.splitlines()[1].decode() not in repr(made)


async def test_an_endless_conflict_is_an_error(cluster) -> None:
    """It is tried again with pauses, but not forever."""
    pauses = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    class Losing:
        def __getattr__(self, name: str) -> Any:
            return getattr(cluster.client, name)

        async def create(self, *_: Any, **__: Any) -> Any:
            raise ApiError("lost", status=409)

    with pytest.raises(ApiError):
        await ensure_signing(Losing(), now=NOW, sleep=sleep)
    assert len(pauses) == 11


class Refusing:
    """A client that may not read one Secret."""

    def __init__(self, client: Any, name: str) -> None:
        self._client, self._name = client, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Any, name: str, **where: Any) -> Any:
        if name == self._name:
            raise ApiError(f"GET {name}: HTTP 403: forbidden", status=403)
        return await self._client.get(resource, name, **where)


@pytest.mark.parametrize("name", [CA_SECRET, SERVING_SECRET, ADMIN_SECRET])
async def test_a_command_that_may_not_read_one_secret_makes_none(cluster, name: str) -> None:
    with pytest.raises(ApiError, match="403"):
        await certify(Refusing(cluster.client, name), options=OPTIONS, directory=None, now=NOW)
    assert await versions(cluster) == []
