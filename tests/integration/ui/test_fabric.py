"""View `fabric`: hosts with their DPUs and companions, and what is broken between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.tenancy.views.fabric import PAGE
from tests.support.fabric import Fabric
from tests.support.page import page_of, until
from tests.support.sandbox import sandbox

JSON = dict[str, Any]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with sandbox(tmp_path_factory.mktemp("served")) as server:
        made = Fabric(server)
        made.tenant("acme", "host-a", "host-b", "host-c", "host-d")
        made.tenant("zeta", "host-e")
        made.dpu("dpu-a", "host-a", "acme")
        made.dpu("dpu-c", "host-c", "zeta")
        made.dpu("dpu-d", "host-d", "acme", unschedulable=True)
        made.dpu("dpu-e", "host-e", "zeta")
        made.dpu("dpu-x", "", "zeta")
        made.companion("runs", "acme", "dpu-a", cpu="2", memory="4Gi")
        made.companion("stray", "acme", "dpu-e")
        made.companion("waits", "acme", host="host-b")
        yield made


async def tiles(fabric: Fabric, query: str = "") -> tuple[JSON, dict[str, JSON]]:
    async with page_of(fabric.server.kubeconfig()) as page:
        model = (await page.get(f"/api/fabric{query}")).json
        return model["summary"], {host["name"]: host for host in model["hosts"]}


async def test_a_host_has_its_dpus_their_companions_and_what_is_left(fabric: Fabric) -> None:
    _, hosts = await tiles(fabric)
    host = hosts["host-a"]
    (dpu,) = host["dpus"]
    assert (host["tenant"], host["state"], dpu["tenant"], dpu["target"]["name"]) == ("acme", "fine", "acme", "dpu-a")
    assert [line["target"]["name"] for line in dpu["companions"]] == ["runs"]
    assert {amount["name"]: (amount["used"], amount["whole"], amount["share"]) for amount in dpu["resources"]} == {
        "cpu": ("2", "8", 25),
        "memory": ("4Gi", "16Gi", 25),
        "nvidia.com/bf3": ("0", "4", 0),
    }


async def test_what_is_broken_is_told(fabric: Fabric) -> None:
    summary, hosts = await tiles(fabric)
    assert hosts["host-b"]["state"] == "broken"
    assert "has no DPU" in hosts["host-b"]["problems"][0]
    assert [line["target"]["name"] for line in hosts["host-b"]["waiting"]] == ["waits"]
    assert "label berth.dev/tenant says zeta" in hosts["host-c"]["dpus"][0]["problem"]
    assert "cordoned" in hosts["host-d"]["dpus"][0]["problem"]
    assert hosts["host-e"]["dpus"][0]["companions"][0]["text"] == "is of tenant acme, on a DPU of tenant zeta"
    assert hosts["host-e"]["state"] == "broken"
    assert [dpu["target"]["name"] for dpu in hosts[""]["dpus"]] == ["dpu-x"]
    counts = {name: summary[name] for name in ("hosts", "dpus", "companions", "withoutDpu", "wrongTenant", "waiting")}
    assert counts == {"hosts": 5, "dpus": 5, "companions": 3, "withoutDpu": 1, "wrongTenant": 1, "waiting": 1}
    assert summary["broken"] == 5


async def test_a_tenant_and_problems_alone_can_be_shown(fabric: Fabric) -> None:
    assert set((await tiles(fabric, "?tenant=zeta"))[1]) == {"", "host-c", "host-e"}
    assert "host-a" not in (await tiles(fabric, "?show=problems"))[1]


async def test_a_tenant_is_known_by_its_name_where_colors_are_not_seen(fabric: Fabric) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        html = (await page.get("/fabric?tenant=acme")).text
        assert '<span class="tenant tenant-0">acme</span>' in html
        assert "has no DPU" in html
        assert 'class="state broken">broken' in html


async def test_hosts_have_pages(fabric: Fabric) -> None:
    fabric.tenant("many", *(f"many-{number:03}" for number in range(PAGE + 5)))
    async with page_of(fabric.server.kubeconfig()) as page:
        first = (await page.get("/api/fabric?tenant=many")).json
        second = (await page.get(f"/api/fabric?tenant=many&after={first['following']}")).json
        names = [host["name"] for host in (*first["hosts"], *second["hosts"])]
        assert names == [f"many-{number:03}" for number in range(PAGE + 5)]
        assert second["following"] == ""


async def test_one_host_that_changes_is_sent_alone(fabric: Fabric) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        await page.get("/fabric?tenant=acme")
        async with page.stream("/events/fabric?tenant=acme") as events:
            await until(events, "f-following")
            fabric.companion("comes", "acme", "dpu-d")
            names = list[str]()
            async for name, data in events:
                names.append(name)
                if "comes" in data:
                    break
            assert set(names) == {"f-summary", "f-tile-3"}
