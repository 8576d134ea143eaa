"""The REST API over HTTP: codes, types and texts as the daemon has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Cache, Machine
from app.devtools.rmd.server import Served, serve
from app.devtools.rmd.workloads import Daemon
from tests.support.rmd import asking, call, on

PLAIN, SNIFFED, JSON_TYPE = "text/plain", "text/plain; charset=utf-8", "application/json"
CACHES = (Cache(0, "0-3"), Cache(1, "4-7", socket=1, node=1))


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    async with serve(Daemon(Machine(caches=CACHES))) as made:
        yield made


async def test_the_life_of_a_workload(served: Served) -> None:
    assert await call(served, "GET", "workloads") == (200, JSON_TYPE, "[]")
    created = {
        "id": "1",
        "core_ids": ["1"],
        "status": "Successful",
        "cos_name": "COS2",
        "rdt": {"cache": {"max": 2, "min": 2}, "mba": {}},
        "uuid": "ns/one",
        "origin": "REST",
    }
    status, kind, body = await call(served, "POST", "workloads", asking("1", ways=2, uuid="ns/one", origin="X"))
    assert (status, kind, json.loads(body)) == (201, JSON_TYPE, created)
    status, _, body = await call(served, "PATCH", "workloads/1", asking("1", ways=3))
    patched = {**created, "cos_name": "COS3", "rdt": {"cache": {"max": 3, "min": 3}, "mba": {}}}
    assert (status, json.loads(body)) == (200, patched)
    assert json.loads((await call(served, "GET", "workloads/1"))[2]) == patched
    assert json.loads((await call(served, "GET", "workloads"))[2]) == [patched]
    assert await call(served, "DELETE", "workloads/1") == (200, "", "")
    assert await call(served, "GET", "workloads/1") == (404, PLAIN, "404: Could not found workload")


async def test_all_parts_of_a_workload(served: Served) -> None:
    served.daemon.tasks.add("7")
    asked = {
        "id": "a9",
        "core_ids": ["1"],
        "task_ids": ["7"],
        "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}},
        "plugins": {"pstate": {"ratio": 1.5, "monitoring": "on"}},
    }
    await call(served, "POST", "workloads", asked)
    shown = json.loads((await call(served, "GET", "workloads/a9"))[2])
    assert shown == {**asked, "status": "Successful", "cos_name": "COS2", "origin": "REST"}


BAD = "Failed to read request correctly. Please check request syntax and data"
TAKEN = "Failed to validate workload. Reason: Workload validation in database failed. Details: {}\n"


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "workloads", {"core_ids": "1"}, (500, PLAIN, BAD)),
        ("POST", "workloads", {"core_ids": [1]}, (500, PLAIN, BAD)),
        ("POST", "workloads", asking("2", ways=-1), (500, PLAIN, BAD)),
        ("POST", "workloads", asking("2", ways=2**32), (500, PLAIN, BAD)),
        ("POST", "workloads", [], (500, PLAIN, BAD)),
        (
            "POST",
            "workloads",
            {},
            (400, PLAIN, "Failed to validate workload. Reason: No task or core id specified"),
        ),
        (
            "POST",
            "workloads",
            asking("2", ways=2, uuid="u"),
            (400, PLAIN, TAKEN.format("UUID u already exists in workload 1")),
        ),
        ("POST", "workloads", asking("1", ways=2), (400, PLAIN, TAKEN.format("CPU list [1] has been assigned"))),
        ("POST", "workloads", asking("2", ways=9), (500, PLAIN, "Not enough cache left on cache_id 0")),
        ("PATCH", "workloads/1", asking("1", ways=9), (500, SNIFFED, "Not enough cache left on cache_id 0")),
        (
            "PATCH",
            "workloads/1",
            "not an object",
            (500, SNIFFED, "Failed to validate workload. Details: No task or core id specified\n"),
        ),
        ("PATCH", "workloads/2", {}, (404, PLAIN, "404: Could not found workload")),
        ("DELETE", "workloads/x", None, (404, PLAIN, "404: Could not found workload")),
        (
            "PATCH",
            "workloads/9",
            asking("3", ways=2),
            (200, PLAIN, "200: You only have permission to modify REST origin workloads"),
        ),
        (
            "DELETE",
            "workloads/9",
            None,
            (200, PLAIN, "200: You only have permission to delete REST origin workloads"),
        ),
        ("GET", "cache/l2", None, (400, "", "")),
        ("GET", "cache/l2/0", None, (500, "", "")),
        ("GET", "cache/l3/7", None, (404, SNIFFED, "Cache id 7 for level 3 is not found")),
        ("GET", "cache/l3/1x", None, (400, SNIFFED, "Please input the correct id, it should be digital")),
        ("POST", "hospitality", {"max_cache": 2}, (500, SNIFFED, "Bad request, max_cache=2, min_cache=0")),
        ("GET", "cache/l4", None, (404, SNIFFED, "404: Page Not Found")),
        ("GET", "workloads/1/2", None, (404, SNIFFED, "404: Page Not Found")),
        ("PUT", "workloads/1", {}, (405, SNIFFED, "405: Method Not Allowed")),
        ("PATCH", "workloads/", {}, (405, SNIFFED, "405: Method Not Allowed")),
        ("GET", "hospitality", None, (405, SNIFFED, "405: Method Not Allowed")),
        ("GET", "elsewhere", None, (404, SNIFFED, "404 page not found\n")),
        ("POST", "workloads", None, (415, SNIFFED, "415: Unsupported Media Type")),
    ],
)
async def test_refused(served: Served, method: str, path: str, body: Any, expected: tuple[int, str, str]) -> None:
    served.daemon.post(on("1", ways=2, uuid="u"))
    served.daemon.add(on("3", ways=2, id="9", origin="OPENSTACK"))
    before = served.daemon.workloads()
    assert await call(served, method, path, body) == expected
    assert served.daemon.workloads() == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "text/plain"}, 406),
        ({"Accept": "application/*"}, 406),
        ({"Accept": "text/html, application/json;q=0.5"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
async def test_media_types(served: Served, headers: dict[str, str], status: int) -> None:
    assert (await call(served, "GET", "workloads", headers=headers))[0] == status


async def test_what_follows_the_body_is_ignored(served: Served) -> None:
    body, headers = json.dumps(asking("1", ways=2)) + " and more", {"Content-Type": JSON_TYPE}
    assert (await call(served, "POST", "workloads", data=body, headers=headers))[0] == 201


async def test_reports(served: Served) -> None:
    caches = json.loads((await call(served, "GET", "cache/l3"))[2])
    assert (caches["number"], list(caches["Caches"])) == (2, ["0", "1"])
    assert caches["Caches"]["1"]["location_on_node"] == "1"
    assert json.loads((await call(served, "GET", "cache/llc"))[2]) == caches
    assert json.loads((await call(served, "GET", "cache/llc/1"))[2]) == caches["Caches"]["1"]
    summary = json.loads((await call(served, "GET", "cache"))[2])
    assert summary["caches"]["l3"] == {"number": 2, "caches_id": ["0", "1"]}
    assert json.loads((await call(served, "GET", "policy"))[2])["gold"] == {"cache": {"max": 4, "min": 4}}
    assert json.loads((await call(served, "GET", "mba"))[2]) == {
        "mba": True,
        "mba_enable": True,
        "mba_step": 10,
        "mba_min": 10,
    }
    status, kind, body = await call(served, "POST", "hospitality", {"max_cache": 2, "min_cache": 2})
    assert (status, kind, json.loads(body)) == (200, JSON_TYPE, {"score": {"l3": {"0": 100, "1": 100}}})


async def test_a_machine_that_lacks_much() -> None:
    async with serve(Daemon(Machine(mba="none", architecture="icelake"))) as served:
        assert json.loads((await call(served, "GET", "mba"))[2]) == {"mba": False}
        assert await call(served, "GET", "policy") == (404, SNIFFED, "Failed to load policy")


async def test_the_report_is_lost_where_a_policy_has_no_cache() -> None:
    async with serve(Daemon(Machine(policies={"skylake": {"odd": {}}}))) as served:
        assert await call(served, "GET", "cache/l3") == (400, "", "")


@pytest.mark.parametrize("body", [None, {"core_ids": ["abc"], "rdt": {"cache": {"max": 0, "min": 0}}}])
async def test_a_panic_closes_the_connection_and_the_daemon_runs_on(served: Served, body: Any) -> None:
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await call(served, "POST", "workloads", data=json.dumps(body), headers={"Content-Type": JSON_TYPE})
    assert await call(served, "GET", "workloads") == (200, JSON_TYPE, "[]")


async def test_parallel_posts_of_the_same_cores_both_pass(served: Served) -> None:
    served.handlers.barrier = asyncio.Barrier(2)
    answers = await asyncio.gather(*(call(served, "POST", "workloads", asking("1", ways=1)) for _ in range(2)))
    assert [status for status, _, _ in answers] == [201, 201]
    assert [one.core_ids for one in served.daemon.workloads()] == [("1",), ("1",)]


async def test_parallel_posts_with_a_lock(served: Served) -> None:
    served.daemon.faults = Faults(unlocked_validation=False)
    served.handlers.barrier = asyncio.Barrier(2)
    answers = await asyncio.gather(*(call(served, "POST", "workloads", asking("1", ways=1)) for _ in range(2)))
    assert sorted(status for status, _, _ in answers) == [201, 400]
    assert served.handlers.barrier.n_waiting == 0


async def test_requests_are_recorded_and_bounded(served: Served) -> None:
    await call(served, "POST", "workloads", asking("1", ways=2))
    await call(served, "GET", "elsewhere?x=1")
    seen = [(one.method, one.path, json.loads(one.body) if one.body else None) for one in served.requests]
    assert seen == [("POST", "/v1/workloads", asking("1", ways=2)), ("GET", "/v1/elsewhere", None)]
    assert served.requests[0].time <= served.requests[1].time
    assert served.requests.maxlen == 1000


async def test_several_daemons_have_addresses_of_their_own() -> None:
    async with serve(Daemon(), address="127.0.0.2") as first:
        port = int(first.url.rpartition(":")[2])
        async with serve(Daemon(), address="127.0.0.3", port=port) as second:
            assert (first.url, second.url) == (f"http://127.0.0.2:{port}", f"http://127.0.0.3:{port}")
            await call(first, "POST", "workloads", asking("1", ways=2))
            assert await call(second, "GET", "workloads") == (200, JSON_TYPE, "[]")


async def test_a_daemon_outlives_its_server(served: Served) -> None:
    daemon = Daemon()
    async with serve(daemon) as first:
        await call(first, "POST", "workloads", asking("1", ways=2))
    with pytest.raises(aiohttp.ClientConnectorError):
        await call(first, "GET", "workloads")
    async with serve(daemon, port=int(first.url.rpartition(":")[2])) as second:
        assert second.url == first.url
        assert len(json.loads((await call(second, "GET", "workloads"))[2])) == 1


async def test_the_stand_in_says_what_it_is() -> None:
    with capture_logs() as lines:
        async with serve(Daemon()) as served, aiohttp.ClientSession() as session, session.get(served.url) as answer:
            assert answer.headers["Server"] == "rmd-stand-in"
    assert [line["event"] for line in lines] == ["a stand-in answers as RMD does; it is not RMD"]
