"""The views of wings over HTTP: what each shows of the objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.kube.resources import DEVICE_CLASSES, RESOURCE_SLICES
from app.text import stamp
from app.ui.details import MOST
from app.workloads.model import TENANT_RULES
from tests.support.fabric import Fabric
from tests.support.page import page_of
from tests.support.sandbox import sandbox

JSON = dict[str, Any]
READY = {"type": "Ready", "status": "True", "reason": "Synced", "message": "ok"}


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with sandbox(tmp_path_factory.mktemp("served")) as server:
        yield Fabric(server, TENANT_RULES)


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


async def test_an_attachment_has_what_offers_its_resource_and_who_uses_it(fabric: Fabric) -> None:
    fabric.attachment("team", "fast", "nvidia.com/bf3")
    fabric.attachment("team", "absent", "example.com/none")
    fabric.dpu("dpu-net", "host-net")
    for number in range(MOST + 2):
        fabric.pod("team", f"uses-{number:02}", networks="fast", **{"nvidia.com/bf3": "1"})
    fabric.pod("other", "uses-too", networks="team/fast, team/absent")
    found = await rows(fabric, "networks?namespace=team")
    fast, absent = found["fast"], found["absent"]
    offered = "device plugin, on dpu-net"
    assert fast["cells"] == {
        "wants": "nvidia.com/bf3",
        "source": "device plugin",
        "offered": offered,
        "pods": "11 Pods",
    }
    assert fast["amounts"] == [{"name": "nvidia.com/bf3", "used": "10", "whole": "4", "share": 100}]
    assert len(fast["lines"]) == MOST
    assert fast["more"] == 3
    assert fast["lines"][0]["target"] == {"kind": "Pod", "namespace": "other", "name": "uses-too"}
    assert absent["cells"]["source"] == "nothing"
    assert absent["cells"]["pods"] == "1 Pod"


async def test_a_claim_is_a_source_too(fabric: Fabric) -> None:
    driver = "nics.example.com"
    fabric.make(DEVICE_CLASSES, {"metadata": {"name": "nic"}, "spec": {"extendedResourceName": "example.com/nic"}})
    devices = [{"name": "nic-0", "attributes": {}}]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": "n", "pool": pool, "devices": devices}
    fabric.make(RESOURCE_SLICES, {"metadata": {"name": "n-nics"}, "spec": spec})
    fabric.attachment("claims", "by-class", "example.com/nic")
    row = (await rows(fabric, "networks?namespace=claims"))["by-class"]
    assert row["cells"]["source"] == "DRA by extended resource"
    assert "DeviceClass nic with 1 device" in row["cells"]["offered"]


async def test_a_rule_names_what_is_near_and_what_fails_of_it(fabric: Fabric) -> None:
    fabric.workload("near", "acme", "wbe", app="web")
    unmatched = {"type": "Matched", "status": "False", "reason": "NoMatch", "message": "matches no workload"}
    fabric.rule("misses", "acme", matched=0, conditions=[unmatched, READY])
    fabric.rule("runs", "acme", matched=2, created=2, running=2, conditions=[READY])
    fabric.rule("fails", "acme", result="error", message="spec.template: is odd")
    found = await rows(
        fabric, "rules?kind=tenantworkloadrules.workload.infra.universe.nvidia.com&namespace=tenant-acme"
    )
    said = "; ".join((found["misses"]["because"], *(line["text"] for line in found["misses"]["lines"])))
    assert "nearest is Pod default/wbe of tenant acme" in said
    assert 'metadata.resourceName In web: is "wbe"' in said.replace("'", '"')
    assert found["runs"]["cells"] == {"matched": "2", "created": "2", "running": "2", "result": "success"}
    assert "spec.template: is odd" in found["fails"]["because"]


async def test_the_kind_of_a_list_is_chosen_and_a_wrong_one_says_which_there_are(fabric: Fabric) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        usual = (await page.get("/api/rules")).json["choice"]
        assert usual["kind"] == "tenantworkloadrules.workload.infra.universe.nvidia.com"
        assert len(usual["kinds"]) == 3
        assert '<select id="choice-kind"' in (await page.get("/rules")).text
        wrong = (await page.get("/api/rules?kind=pods")).json
        assert wrong["choice"]["problem"].startswith("kind: want one of tenantworkloadrules")
