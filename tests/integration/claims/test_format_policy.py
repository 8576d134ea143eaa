"""The policy of the chart on a real API server: what is refused of network data, in which words, and what is not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.claims.format import format_problems
from tests.support.chart import ASSETS, Render
from tests.support.claim_statuses import FORMATS, claim, entry
from tests.support.sandbox import Answer, Real
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.skipif(not ASSETS, reason="needs a real API server")]
JSON = dict[str, Any]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
NAME = "berth-claims-format"
DEVICES = tuple(f"d{n:02}" for n in range(32))


class Claims:
    """Claims in a namespace of their own, with every device allocated, under the policy with this action."""

    def __init__(self, server: Real, action: str, binding: JSON) -> None:
        self.server, self.action, self._binding = server, action, binding
        self._path = f"/apis/resource.k8s.io/v1/namespaces/{server.namespace()}/resourceclaims"
        self._count = 0
        self._probe = self.fresh()

    def fresh(self) -> str:
        self._count += 1
        name = f"c{self._count}"
        obj = claim(name, *(entry(one) for one in DEVICES))
        obj["spec"]["devices"]["requests"][0]["exactly"] |= {"allocationMode": "ExactCount", "count": len(DEVICES)}
        status = {"allocation": obj.pop("status")["allocation"]}
        del obj["metadata"]["uid"], obj["metadata"]["namespace"]
        created = self.server.request("POST", self._path, obj)
        assert created.status == 201, created.body
        allocated = self.server.request("PUT", f"{self._path}/{name}/status", created.body | {"status": status})
        assert allocated.status == 200, allocated.body
        return name

    def write(self, name: str, *entries: JSON) -> Answer:
        body = {"status": {"devices": list(entries)}}
        return self.server.request(
            "PATCH", f"{self._path}/{name}/status", body, content_type="application/merge-patch+json"
        )

    def said(self, answer: Answer) -> str:
        """What the policy says of a write, "" for nothing."""
        warnings = answer.headers.getlist("Warning")
        if self.action == "Warn":
            assert answer.status == 200, answer.body
            return " ".join(one for one in warnings if NAME in one)
        assert answer.status in (200, 422), answer.body
        return "" if answer.status == 200 else str(answer.body["message"])

    @contextlib.contextmanager
    def policy_off(self) -> Iterator[None]:
        self.unbind()
        yield
        self.bind()

    def unbind(self) -> None:
        """Without a binding a policy has no effect."""
        answer = self.server.request("DELETE", f"{BINDINGS}/{NAME}")
        assert answer.status == 200, answer.body
        wait_until(lambda: not self._heeded())

    def bind(self) -> None:
        answer = self.server.request("POST", BINDINGS, self._binding)
        assert answer.status == 201, answer.body
        wait_until(self._heeded)

    def _heeded(self) -> str:
        """A new policy is not heeded at once. What was written before that is not looked at again."""
        self.write(self._probe)
        return self.said(self.write(self._probe, entry("d00", interfaceName="/")))

    def delete(self, name: str) -> None:
        """Begun, and ended with the last finalizer only."""
        path, merge = f"{self._path}/{name}", "application/merge-patch+json"
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        assert self.server.request("PATCH", path, held, content_type=merge).status == 200
        assert self.server.request("DELETE", path).status == 200


@pytest.fixture(scope="module")
def real(real_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    server = Real(real_server, tmp_path_factory.mktemp("served"))
    server.until("/readyz", 200)
    yield server
    server.close()


@pytest.fixture(scope="module", params=["Deny", "Warn"])
def claims(request: pytest.FixtureRequest, real: Real, render: Render) -> Iterator[Claims]:
    values = {"webhook": {"enabled": False}, "claims": {"formatPolicy": request.param}}
    rendered = render(values)
    created = real.request("POST", POLICIES, rendered.one("ValidatingAdmissionPolicy"))
    assert created.status == 201, created.body
    made = Claims(real, request.param, rendered.one("ValidatingAdmissionPolicyBinding"))
    made.bind()
    yield made
    made.unbind()
    real.request("DELETE", f"{POLICIES}/{NAME}")


def test_each_row(claims: Claims) -> None:
    name = claims.fresh()
    for data, _ in FORMATS:
        assert claims.write(name).status == 200
        said = claims.said(claims.write(name, entry("d01", interfaceName="ok"), entry("d00", **data)))
        told = [line.partition(", got ")[0] for line in format_problems(data, "status.devices[1].networkData")]
        assert bool(said) is bool(told), (data, said)
        # In a denial the first rule that is broken speaks for all.
        assert not told or any(line in said for line in told), (data, said)


def test_a_refusal_has_the_code_of_invalid_objects(claims: Claims) -> None:
    answer = claims.write(claims.fresh(), entry("d00", hardwareAddress="not a mac !"))
    assert (answer.status, answer.body.get("reason")) == ((422, "Invalid") if claims.action == "Deny" else (200, None))
    assert "got 'not a mac !'" in claims.said(answer)


def test_an_old_odd_entry_does_not_block_others(claims: Claims) -> None:
    name, odd = claims.fresh(), entry("d00", interfaceName="a b")
    with claims.policy_off():
        assert claims.write(name, odd).status == 200
    net2 = entry("d02", interfaceName="net2")
    assert claims.said(claims.write(name, odd, net2)) == ""
    assert claims.said(claims.write(name, net2, odd)) == ""
    assert "devices[0].networkData.interfaceName" in claims.said(claims.write(name, entry("d00", interfaceName="b a")))


def test_the_largest_status_is_checked_to_its_end(claims: Claims) -> None:
    """32 devices with 16 addresses each: the budget of expressions is not used up."""
    name = claims.fresh()
    fine = [_full(device, number, "net1") for number, device in enumerate(DEVICES, 1)]
    assert claims.said(claims.write(name, *fine)) == ""
    moved = [_full(device, number + 64, "net2") for number, device in enumerate(DEVICES)]
    moved[31]["networkData"]["ips"][15] = "ff02::1/64"
    assert "status.devices[31].networkData.ips[15]" in claims.said(claims.write(name, *moved))
    broken = [_full(device, number + 128, "n" * 256) for number, device in enumerate(DEVICES)]
    assert "status.devices[0].networkData.interfaceName" in claims.said(claims.write(name, *broken))


def _full(device: str, number: int, interface: str) -> JSON:
    ips = [f"2001:db8:{number:x}::{index:x}/64" for index in range(1, 17)]
    return entry(device, interfaceName=interface, hardwareAddress=":".join(["0a"] * 20), ips=ips)


def test_a_claim_that_is_being_deleted_is_checked_too(claims: Claims) -> None:
    """Its Pod, and the addresses that are published of it, may last for as long as a finalizer does."""
    name = claims.fresh()
    claims.delete(name)
    assert "interfaceName" in claims.said(claims.write(name, entry("d00", interfaceName="a b")))
