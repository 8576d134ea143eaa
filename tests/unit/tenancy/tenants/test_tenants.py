"""What a Tenant object must be: as it is read, and as it is refused when it is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from app.admission.chain import Chain
from app.admission.review import GroupVersionKind, WholeRequest
from app.tenancy.model import PinnedCertificate, Tenant, project_tenant
from app.tenancy.webhook import TenantCheck
from app.wire import encode_json
from app.workloads.model import TENANTS
from tests.support.tenants import tenant

PIN = "ab" * 32
KIND = GroupVersionKind(TENANTS.group, TENANTS.version, TENANTS.kind)


def named(name: Any) -> dict[str, Any]:
    return tenant() | {"metadata": {"name": name}}


def with_names(*names: Any) -> dict[str, Any]:
    return tenant(identity={"names": list(names)})


def with_pins(*pins: Any) -> dict[str, Any]:
    return tenant(identity={"names": ["n"], "certificates": list(pins)})


def test_a_whole_tenant_is_read() -> None:
    obj = tenant(
        identity={
            "names": ["tenant1.tenant.local", "Other Name"],
            "certificates": [{"sha256": PIN, "until": "2026-05-01T14:00:00+02:00"}, {"sha256": "0" * 64}],
        },
        hosts=["host-a"],
        suspended=True,
    )
    obj["metadata"]["uid"] = "u"
    assert project_tenant(obj) == Tenant(
        name="tenant1",
        namespace="tenant-tenant1",
        uid="u",
        names=("tenant1.tenant.local", "Other Name"),
        certificates=(PinnedCertificate(PIN, datetime(2026, 5, 1, 12, tzinfo=UTC)), PinnedCertificate("0" * 64)),
        hosts=("host-a",),
        suspended=True,
    )


def test_what_is_left_out() -> None:
    """No hosts at all and an empty list are two things: the second claims none, the first says nothing."""
    read = project_tenant(tenant())
    assert (read.certificates, read.hosts, read.suspended) == ((), None, False)
    assert project_tenant(tenant(hosts=[])).hosts == ()


def test_a_tenant_on_its_way_out_is_suspended() -> None:
    obj = tenant()
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert project_tenant(obj).suspended


BAD = [
    (named("t" * 57), "metadata.name: 'ttt"),
    (named("a.b"), "metadata.name: 'a.b' is not a valid name"),
    (named(""), "metadata.name: an empty name"),
    (tenant() | {"metadata": {"generateName": "t-"}}, "metadata.name: a tenant has a name of its own"),
    (tenant() | {"spec": None}, "spec: want an object"),
    (tenant(identity=None), "spec.identity: want an object"),
    (with_names(), "spec.identity.names: want at least one name"),
    (tenant(identity={"names": "name"}), "spec.identity.names: want at least one name"),
    (with_names(""), "spec.identity.names[0]: want 1 to 253"),
    (with_names("n", " n"), "spec.identity.names[1]: want 1 to 253"),
    (with_names("n" * 254), "spec.identity.names[0]: want 1 to 253"),
    (with_names("n\x00"), "spec.identity.names[0]: want 1 to 253"),
    (with_names("n", "n"), "spec.identity.names[1]: 'n' stands twice"),
    (with_pins({"sha256": PIN.upper()}), "spec.identity.certificates[0].sha256: want the SHA-256"),
    (with_pins({"sha256": PIN[:-1]}), "spec.identity.certificates[0].sha256: want the SHA-256"),
    (with_pins({"sha256": PIN}, {"sha256": PIN}), "spec.identity.certificates[1].sha256: abab"),
    (with_pins({"sha256": PIN, "until": "tomorrow"}), "spec.identity.certificates[0].until: 'tomorrow' is not a time"),
    (with_pins({"sha256": PIN, "until": "2026-01-01T00:00:00"}), "spec.identity.certificates[0].until"),
    (with_pins("x"), "spec.identity.certificates[0]: want an object"),
    (tenant(identity={"names": ["n"], "certificates": {}}), "spec.identity.certificates: want a list"),
    (tenant(hosts="host"), "spec.hosts: want a list"),
    (tenant(hosts=["host a"]), "spec.hosts[0]: 'host a' is not a label value"),
    (tenant(hosts=["h" * 64]), "spec.hosts[0]: 'hhh"),
    (tenant(hosts=[""]), "spec.hosts[0]: want the name of a host"),
    (tenant(hosts=["a", "b", "a"]), "spec.hosts[2]: 'a' stands twice"),
    (tenant(suspended="no"), "spec.suspended: want true or false"),
]


@pytest.mark.parametrize(("obj", "problem"), BAD)
def test_a_broken_tenant_is_not_read(obj: Any, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        project_tenant(obj)
    assert str(caught.value).startswith(problem)
    assert ";" not in str(caught.value)


async def review(obj: Any, check: TenantCheck | None = None, **fields: Any) -> Any:
    request = {"uid": "u", "kind": KIND, "object": msgspec.Raw(encode_json(obj))} | fields
    decision, _ = await Chain(checks=[check or TenantCheck()]).review(WholeRequest(**request))
    return decision


@pytest.mark.parametrize(("obj", "problem"), BAD)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_a_broken_tenant_is_refused(obj: Any, problem: str, operation: str) -> None:
    decision = await review(obj, operation=operation)
    assert (decision.allowed, decision.code, decision.reason) == (False, 422, "BrokenTenant")
    assert decision.message.startswith(problem)


async def test_all_problems_come_at_once() -> None:
    obj = tenant(identity={"names": ["", "n", "n"]}, hosts=["a b"], suspended=1)
    message = (await review(obj)).message
    paths = [part.split(":")[0] for part in message.split("; ")]
    assert paths == ["spec.identity.names[0]", "spec.identity.names[2]", "spec.hosts[0]", "spec.suspended"]


@pytest.mark.parametrize(
    "obj", [tenant(), tenant("t" * 56), with_pins({"sha256": PIN, "until": None}), tenant(hosts=[])]
)
async def test_good_tenants_pass(obj: Any) -> None:
    assert (await review(obj)).allowed


async def test_the_admins_name_is_no_tenants() -> None:
    """In whatever case it is written; the names are those that the gateway is configured with."""
    assert "spec.identity.names[1]" in (await review(with_names("n", "Cloud-Admin.local"))).message
    check = TenantCheck(("root.example",))
    assert (await review(with_names("cloud-admin.local"), check)).allowed
    assert not (await review(with_names("root.example"), check)).allowed


async def test_the_check_is_neutral_to_the_rest() -> None:
    """Deletions, the status, other kinds, and a Tenant that only waits for its finalizers."""
    broken = with_names()
    ending = broken | {"metadata": {"name": "tenant1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert (await review(broken, operation="DELETE")).allowed
    assert (await review(broken, sub_resource="status", operation="UPDATE")).allowed
    assert (await review(broken, kind=GroupVersionKind(TENANTS.group, TENANTS.version, "Workload"))).allowed
    held = ending | {"metadata": ending["metadata"] | {"finalizers": ["example.com/x"]}}
    old = msgspec.Raw(json.dumps(held).encode())
    assert (await review(ending, operation="UPDATE", old_object=old)).allowed
    changed = msgspec.Raw(json.dumps(held | {"spec": {}}).encode())
    assert not (await review(ending, operation="UPDATE", old_object=changed)).allowed


@pytest.mark.parametrize("raw", [b"[]", b"7"])
async def test_an_unreadable_object_is_refused(raw: bytes) -> None:
    decision = await review({}, object=msgspec.Raw(raw))
    assert (decision.allowed, decision.code) == (False, 400)
