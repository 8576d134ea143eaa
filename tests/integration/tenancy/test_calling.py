"""Calls by name with JSON in and out, as the demo and the tests of the walk-through make them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from app.devtools.demo.calling import Caller, CallError
from app.errors import UsageError
from tests.support.tenancy import Door, Pki

SERVICE = "universe.admin.workload.v1.AdminWorkloadRuleService"
TEMPLATE = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2"}]}}
RULE = {
    "id": "adminrule1",
    "tenant_match": ["tenant1", "tenant2"],
    "data": {
        "orchestrator_type": 1,
        "resource_type": "v1/Pod",
        "dpu_selection_policy": "SameNode",
        "workload_terms": [
            {"match_expressions": [{"key": "metadata.resourceNamespace", "operation": 1, "values": ["default"]}]}
        ],
        "workload_info_inject": [{"key": "@", "as_annotation": {"name": "full-workload-info"}}],
        "rule_template": base64.b64encode(json.dumps(TEMPLATE).encode()).decode(),
    },
}


@pytest.fixture
def caller(door: Door, pki: Pki, tmp_path: Path) -> Caller:
    """The cloud admin."""
    admin = pki.admin()
    (tmp_path / "admin.crt").write_bytes(admin.certificate_pem)
    (tmp_path / "admin.key").write_bytes(admin.key_pem)
    return Caller(door.address, pki.files.client_ca, tmp_path / "admin.crt", tmp_path / "admin.key")


async def test_the_request_of_the_walk_through_is_taken_as_it_stands(caller: Caller) -> None:
    made = await caller.call(f"{SERVICE}.Create", {"rule": RULE})
    assert made["rule"]["tenant_match"] == ["tenant1", "tenant2"]
    (listed,) = (await caller.call(f"{SERVICE}/List", {}))["rules"]
    assert listed["id"] == "adminrule1"
    assert json.loads(base64.b64decode(listed["data"]["rule_template"])) == TEMPLATE
    assert await caller.call(f"{SERVICE}.Delete", {"id": "adminrule1"}) == {}
    assert await caller.call(f"{SERVICE}.List", {}) == {}


async def test_camel_case_and_names_of_enums_are_taken_too(caller: Caller) -> None:
    data = {**RULE["data"], "orchestrator_type": "ORCHESTRATOR_TYPE_KUBERNETES"}
    rule = {"id": "adminrule1", "tenantMatch": ["*"], "data": data}
    assert (await caller.call(f"{SERVICE}.Create", {"rule": rule}))["rule"]["tenant_match"] == ["*"]


async def test_an_answer_that_is_no_success_has_its_code(caller: Caller) -> None:
    with pytest.raises(CallError, match=r"^NOT_FOUND: there is no rule 'none'$") as caught:
        await caller.call(f"{SERVICE}.Get", {"id": "none"})
    assert caught.value.code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("method", "body", "line"),
    [
        (f"{SERVICE}.Make", {}, f"there is no method {SERVICE}.Make"),
        ("nobody.Service.Get", {}, "there is no method nobody.Service.Get"),
        ("Get", {}, "there is no method Get"),
        (f"{SERVICE}.Get", {"name": "x"}, f"{SERVICE}.Get: .*name"),
        (f"{SERVICE}.Create", {"rule": {"tenant_match": "tenant1"}}, f"{SERVICE}.Create: "),
    ],
)
async def test_what_fits_no_method_is_told_before_anything_is_sent(tmp_path: Path, method, body, line) -> None:
    nowhere = Caller("127.0.0.1:9", tmp_path / "ca", tmp_path / "crt", tmp_path / "key")
    with pytest.raises(UsageError, match=f"^{line}"):
        await nowhere.call(method, body)


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = Caller("127.0.0.1:9", tmp_path / "ca.crt", tmp_path / "crt", tmp_path / "key")
    with pytest.raises(UsageError, match=r"ca\.crt: No such file or directory$"):
        await nowhere.call(f"{SERVICE}.List", {})


async def test_a_gateway_that_is_not_there_is_unavailable(caller: Caller) -> None:
    gone = Caller("127.0.0.1:9", caller.ca, caller.certificate, caller.key, timeout=2)
    with pytest.raises(CallError) as caught:
        await gone.call(f"{SERVICE}.List", {})
    assert caught.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
