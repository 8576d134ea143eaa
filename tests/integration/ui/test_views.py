"""The views of wings over HTTP: what each shows of the objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.text import stamp
from app.workloads.model import TENANT_RULES, TENANTS
from tests.support.fabric import Fabric
from tests.support.page import page_of
from tests.support.sandbox import sandbox

JSON = dict[str, Any]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with sandbox(tmp_path_factory.mktemp("served")) as server:
        yield Fabric(server, TENANTS, TENANT_RULES)


async def rows(fabric: Fabric, path: str) -> dict[str, JSON]:
    """The rows of a view by the names of their objects."""
    async with page_of(fabric.server.kubeconfig()) as page:
        model = (await page.get(f"/api/{path}")).json
        assert model["choice"]["problem"] == ""
        return {row["target"]["name"]: row for row in model["page"]["rows"]}


async def test_a_tenant_has_its_certificate_its_contact_and_its_rules(fabric: Fabric) -> None:
    until = stamp(datetime.now(UTC) + timedelta(days=9, hours=1))
    identity = {"names": ["acme.tenant.local"], "certificates": [{"sha256": "a" * 64, "until": until}]}
    fabric.tenant("acme", "host-a", identity=identity, status={"result": "success", "lastContact": until})
    fabric.rule("good", "acme", matched=3, running=2)
    fabric.rule("bad", "acme", result="error", message="its key is odd")
    row = (await rows(fabric, "tenants"))["acme"]
    assert row["cells"] == {
        "certificate": "9 days",
        "cluster": "",
        "hosts": "1",
        "lastContact": until,
        "rules": "2 rules: 3 matched, 2 running",
    }
    assert [(line["target"]["name"], line["state"], line["text"]) for line in row["lines"]] == [
        ("bad", "broken", "0 matched, 0 running: its key is odd"),
        ("good", "", "3 matched, 2 running"),
    ]
