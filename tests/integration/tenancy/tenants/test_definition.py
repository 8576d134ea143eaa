"""The CustomResourceDefinition of Tenant: what the API server itself keeps out, and the columns it prints."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app.errors import ApiError
from app.workloads.model import TENANTS
from tests.support.tenants import tenant

from .conftest import DEFINITION

PIN = "a" * 64


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": {"name": "tenant1"}},
        tenant(identity={}),
        tenant(identity={"names": []}),
        tenant(identity={"names": [""]}),
        tenant(identity={"names": ["a", "a"]}),
        tenant(identity={"names": ["a"], "certificates": [{"sha256": PIN.upper()}]}),
        tenant(identity={"names": ["a"], "certificates": [{"sha256": PIN}, {"sha256": PIN}]}),
        tenant(identity={"names": ["a"], "certificates": [{"until": "2026-01-01T00:00:00Z"}]}),
        tenant(hosts=["a b"]),
        tenant(hosts=["a", "a"]),
        tenant(suspended="yes"),
    ],
)
async def test_the_schema_keeps_out(cluster, obj: Any) -> None:
    with pytest.raises(ApiError) as caught:
        await cluster.client.create(TENANTS, {"apiVersion": TENANTS.api_version, "kind": TENANTS.kind, **obj})
    assert caught.value.status == 422


async def test_unknown_fields_are_dropped(cluster) -> None:
    made = await cluster.client.create(TENANTS, tenant(other=1))
    assert made["spec"] == tenant()["spec"]


async def test_status_is_apart(cluster) -> None:
    """Who writes the spec cannot write the status, nor the reverse."""
    made = await cluster.client.create(TENANTS, tenant() | {"status": {"result": "success"}})
    assert "status" not in made
    change = {"spec": {"suspended": True}, "status": {"result": "success"}}
    made = await cluster.client.patch(TENANTS, "tenant1", change, patch_type="merge", subresource="status")
    assert made["status"] == {"result": "success"}
    assert "suspended" not in made["spec"]


def test_columns_and_rules_of_the_name() -> None:
    """NAME, NAMESPACE, RESULT, CONNECTED and AGE; the message is for wide output. The rules need an API server that knows CEL."""
    version = yaml.safe_load(DEFINITION.read_text())["spec"]["versions"][0]
    columns = [column["name"].upper() for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert columns == ["NAMESPACE", "RESULT", "CONNECTED", "AGE"]
    rules = [rule["rule"] for rule in version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]]
    assert rules[0] == "size(self.metadata.name) <= 56"
