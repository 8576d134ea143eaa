"""The views of wings over HTTP: what each shows of the objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.kube.resources import DEVICE_CLASSES, RESOURCE_SLICES
from app.rmd.model import RMD_WORKLOADS
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


async def test_a_node_has_its_cache_ways_and_a_workload_its_state_on_nodes(fabric: Fabric) -> None:
    fabric.node("rmd-1", {"intel.com/l3_cache_ways": "8"})
    row = {"ID": "1", "Cache Max": "2", "Cache Min": "2", "Core IDs": "3,4", "Status": "Successful"}
    best = {"ID": "2", "Cache Max": "4", "Cache Min": "1"}
    fabric.reservations("rmd-1", 3, **{"team/web": row, "id 2": best})
    states = {"rmd-1": {"response": "Fail: no CLOS", "status": "Failed"}}
    workload = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"coreIds": ["3"], "nodes": ["rmd-1"]}}
    fabric.make(RMD_WORKLOADS, workload, status={"workloadStates": states})
    node = (await rows(fabric, "rmd"))["rmd-node-state-rmd-1"]
    assert node["cells"] == {"node": "rmd-1", "reservations": "3", "ways": "2"}
    assert node["amounts"] == [{"name": "cache ways", "used": "2", "whole": "8", "share": 25}]
    assert [line["text"] for line in node["lines"]] == [
        "id 2: cache ways 1 to 4",
        "cache ways 2 to 2, cores 3,4, Successful",
    ]
    assert node["lines"][1]["target"] == {"kind": "RmdWorkload", "namespace": "team", "name": "web"}
    assert node["more"] == 1
    made = (await rows(fabric, "rmd?kind=rmdworkloads.intel.com"))["web"]
    assert [(line["target"]["name"], line["text"]) for line in made["lines"]] == [("rmd-1", "Failed: Fail: no CLOS")]


async def test_a_claim_has_its_devices_with_addresses_and_taints(fabric: Fabric) -> None:
    device = {"driver": "claimed.example.com", "pool": "n", "device": "nic-0"}
    taint = {"key": "cable", "value": "out", "effect": "NoExecute"}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "nic-0", "taints": [taint]}]
    spec = {"driver": device["driver"], "nodeName": "n", "pool": pool, "devices": devices}
    fabric.make(RESOURCE_SLICES, {"metadata": {"name": "n-claimed"}, "spec": spec})
    data = {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.0.0.1/24"]}
    fabric.claim("claims", "claim", device, **data)
    row = (await rows(fabric, "claims?namespace=claims"))["claim"]
    assert row["cells"] == {"devices": "1 device", "node": "", "consumers": "pods/web"}
    assert row["lines"][0]["text"] == (
        "claimed.example.com/n/nic-0: net1, 02:00:00:00:00:01, 10.0.0.1/24, "
        "tainted cable=out:NoExecute by driver claimed.example.com"
    )
