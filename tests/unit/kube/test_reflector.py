"""What a reflector does with good and odd answers of a sound server."""

from __future__ import annotations

import asyncio
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from app.kube.client import KubeClient
from app.kube.reflector import Reflector, Scope
from app.kube.resources import CONFIG_MAPS, MUTATING_POLICIES, NETWORK_ATTACHMENTS, RESOURCE_CLAIMS, Resource
from app.kube.retry import Backoff
from app.kube.store import Store
from app.kube.transport import connect
from app.metrics import publish
from tests.support.clock import Clock
from tests.support.counting import Counted
from tests.support.fake_apiserver import ApiServer, config_map, status, write_kubeconfig
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually


def shown(name: str) -> float | None:
    publish()
    return REGISTRY.get_sample_value(name, {"kind": "ConfigMap"})


def value(obj: dict[str, Any]) -> str | None:
    found = obj["data"]["value"]
    return None if found == "hidden" else str(found)


def fast() -> Backoff:
    return Backoff(base=0.01, cap=0.05)


async def test_pages_of_large_objects_are_asked_for_with_fewer_of_them(
    server: ApiServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.kube.client.PAGE_BYTES", 50_000)
    for number in range(20):
        server.put(config_map(f"m{number}", value=str(number), more="x" * 10_000))
    store = Store(value)
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, page_size=20).run()):
        await asyncio.wait_for(store.wait_synced(), PATIENCE)
        assert len(store) == 20
    lists = [request for request in server.requests if "watch" not in request]
    asked = [re.findall(r"limit=(\d+)", request)[0] for request in lists]
    assert asked == ["20"] + ["2"] * 10


async def test_lists_in_pages_and_follows_changes(server: ApiServer, client: KubeClient) -> None:
    for number in range(25):
        server.put(config_map(f"m{number}", value=str(number)))
    store, began = Store(value), time.monotonic()
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, page_size=10).run()):
        await asyncio.wait_for(store.wait_synced(), PATIENCE)
        assert len(store) == 25
        assert [r.split("?")[0] for r in server.requests[:3]] == ["GET /api/v1/configmaps"] * 3
        await eventually(lambda: bool(server.watches))
        server.put(config_map("m0", value="changed"))
        server.remove("m1")
        server.put(config_map("new", value="x"))
        await eventually(lambda: store.get("default", "new") == "x")
        assert store.get("default", "m0") == "changed"
        assert store.get("default", "m1") is None
        assert shown("cache_objects") == len(store)
        assert store.age is not None
        assert store.age <= time.monotonic() - began
    assert (shown("cache_objects"), shown("cache_age_seconds")) == (0, None)


async def test_watch_asks_for_bookmarks_and_a_jittered_end(server: ApiServer, client: KubeClient) -> None:
    store = Store(value)
    for draw, seconds in ((0.0, 240), (0.999, 299)):
        async with running(Reflector(client, Scope(CONFIG_MAPS), store, random=lambda draw=draw: draw).run()):
            await eventually(lambda seconds=seconds: any(f"timeoutSeconds={seconds}" in r for r in server.requests))
    assert all("allowWatchBookmarks=true" in r for r in server.requests if r.startswith("WATCH"))


async def test_selectors_and_namespace_travel_with_list_and_watch(server: ApiServer, client: KubeClient) -> None:
    scope = Scope(CONFIG_MAPS, "kube-system", label_selector="a=b", field_selector="metadata.name=x")
    reflector = Reflector(client, scope, Store(value))
    async with running(reflector.run()):
        await eventually(lambda: bool(server.watches))
    for request in server.requests:
        assert "/namespaces/kube-system/configmaps" in request
        assert "labelSelector=a%3Db" in request or "labelSelector=a=b" in request
        assert "metadata.name" in request


async def test_resumes_from_the_last_version_after_a_clean_end(server: ApiServer, client: KubeClient) -> None:
    """One at the time that the watch has asked for: the server is the same, and nothing was missed."""
    server.put(config_map("a", value="1"))
    store, clock = Store(value), Clock(1000.0)
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast(), clock=clock, random=lambda: 0.5)
    async with running(reflector.run()):
        await eventually(lambda: bool(server.watches))
        version = server.put(config_map("b", value="2"))["metadata"]["resourceVersion"]
        await eventually(lambda: ("default", "b") in store)
        clock.now += 270
        server.drop_watches()
        await eventually(lambda: len([r for r in server.requests if r.startswith("WATCH")]) == 2)
        lists = [r for r in server.requests if r.startswith("GET")]
    assert len(lists) == 1
    assert f"resourceVersion={version}&" in server.requests[-1]


async def test_poison_is_skipped_and_its_version_still_advances(server: ApiServer, client: KubeClient) -> None:
    """In the list and in the watch: the others arrive, the last good version stays, the watch goes on behind it."""
    server.put(config_map("good", value="1"))
    server.put({**config_map("bad"), "data": None})
    poisoned, store = Counted("watch_poison_objects_total", "kind"), Store(value)
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast()).run()):
        await eventually(lambda: bool(server.watches))
        assert store.keys() == [("default", "good")]
        assert poisoned() == {"ConfigMap": 1}
        poison = server.put({**config_map("good"), "data": {"other": "x"}})
        await eventually(lambda: poisoned() == {"ConfigMap": 2})
        assert store.get("default", "good") == "1"
        server.drop_watches()
        await eventually(lambda: len([r for r in server.requests if r.startswith("WATCH")]) == 2)
        assert f"resourceVersion={poison['metadata']['resourceVersion']}&" in server.requests[-1]
        server.put(config_map("after", value="3"))
        await eventually(lambda: ("default", "after") in store)
        server.remove("good")
        await eventually(lambda: ("default", "good") not in store)


async def test_line_of_300_kilobytes_and_more(server: ApiServer, client: KubeClient) -> None:
    store = Store(lambda obj: len(obj["data"]["value"]))
    async with running(Reflector(client, Scope(CONFIG_MAPS), store).run()):
        await eventually(lambda: bool(server.watches))
        server.put(config_map("large", value="x" * 300_000))
        server.put(config_map("huge", value="x" * 5_000_000))
        await eventually(lambda: store.get("default", "huge") == 5_000_000)
    assert store.get("default", "large") == 300_000
    assert len([r for r in server.requests if r.startswith("WATCH")]) == 1


async def test_object_projected_away_is_deleted(server: ApiServer, client: KubeClient) -> None:
    server.put(config_map("a", value="1"))
    events: list[Any] = []
    store = Store(value)
    store.subscribe(lambda *event: events.append(event))
    async with running(Reflector(client, Scope(CONFIG_MAPS), store).run()):
        await eventually(lambda: bool(server.watches))
        server.put(config_map("a", value="hidden"))
        await eventually(lambda: len(events) == 2)
    assert events == [("ADDED", ("default", "a"), None, "1"), ("DELETED", ("default", "a"), "1", None)]


async def test_relist_tells_what_changed_meanwhile(server: ApiServer, client: KubeClient) -> None:
    for name in ("same", "changed", "deleted"):
        server.put(config_map(name, value="1"))
    events: list[tuple[str, str]] = []
    store = Store(value)
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast()).run()):
        await eventually(lambda: bool(server.watches))
        store.subscribe(lambda event, key, old, new: events.append((event, key[1])))
        server.fault = _unavailable
        server.drop_watches()
        server.watches.clear()
        server.put(config_map("changed", value="2"))
        server.put(config_map("added", value="1"))
        server.remove("deleted")
        server.forget_history()
        server.fault = None
        await eventually(lambda: len(events) == 3)
    assert events == [("DELETED", "deleted"), ("ADDED", "added"), ("MODIFIED", "changed")]


async def _unavailable(server: ApiServer, request: web.Request) -> web.Response:
    return web.json_response(status(503, "ServiceUnavailable", "starting"), status=503)


async def test_expired_page_token_falls_back_to_one_page(server: ApiServer, client: KubeClient) -> None:
    """A collection that is too slow to page through is still listed."""
    for number in range(5):
        server.put(config_map(f"m{number}", value="1"))

    async def expire(server: ApiServer, request: web.Request) -> web.Response | None:
        if not request.query.get("continue"):
            return None
        return web.json_response(status(410, "Expired", "continue token expired"), status=410)

    server.fault = expire
    store = Store(value)
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, page_size=2, backoff=fast()).run()):
        await asyncio.wait_for(store.wait_synced(), PATIENCE)
    assert len(store) == 5


async def test_unreadable_version_leads_to_a_new_list(server: ApiServer, client: KubeClient) -> None:
    """After a restore the server may answer 400 to a version that it never gave."""
    refuse = True

    async def fault(server: ApiServer, request: web.Request) -> web.Response | None:
        nonlocal refuse
        if not refuse or "watch" not in request.query:
            return None
        refuse = False
        return web.json_response(status(400, "BadRequest", "invalid resource version"), status=400)

    server.fault = fault
    async with running(Reflector(client, Scope(CONFIG_MAPS), Store(value), backoff=fast()).run()):
        await eventually(lambda: bool(server.watches))
    assert [r.split(" ")[0] for r in server.requests] == ["GET", "WATCH", "GET", "WATCH"]


async def test_a_server_restored_from_an_older_copy_leads_to_a_new_list(server: ApiServer, client: KubeClient) -> None:
    """It keeps a watch from the future open and silent; only its version tells."""
    store = Store(value)
    for number in range(20):
        server.put(config_map("lost", value=str(number)))
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast())
    async with running(reflector.run()):
        await eventually(lambda: bool(server.watches))
        await server.stop()
        server.objects.clear()
        server.history.clear()
        server.version = 1
        server.put(config_map("kept", value="old"))
        await eventually(lambda: "was refused" in reflector.reason)
        await server.start()
        await eventually(lambda: store.keys() == [("default", "kept")])


async def test_not_healthy_before_the_first_full_list(server: ApiServer, client: KubeClient) -> None:
    server.fault = _unavailable
    reflector = Reflector(client, Scope(CONFIG_MAPS), Store(value), backoff=fast())
    async with running(reflector.run()):
        await eventually(lambda: len(server.requests) > 1)
        assert not reflector.healthy
        assert "503" in reflector.reason
        server.fault = None
        await eventually(lambda: reflector.healthy)


async def test_a_stale_cache_is_filled_soon_after_an_outage(server: ApiServer, client: KubeClient) -> None:
    """The pauses that a long outage has grown end with the first answer, be it that our version is gone."""
    backoff = Backoff(base=0.05, cap=60, random=lambda: 1.0)
    server.put(config_map("a", value="1"))
    store = Store(value)
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, backoff=backoff)
    async with running(reflector.run()):
        await eventually(lambda: bool(server.watches))
        await server.stop()
        await eventually(lambda: backoff.attempts == 4)
        server.put(config_map("a", value="2"))
        server.forget_history()
        await server.start()
        await eventually(lambda: store.get("default", "a") == "2")
        assert backoff.attempts == 4, "the first try that is answered fills it"


@pytest.mark.parametrize(
    ("resource", "minor", "said"),
    [
        (NETWORK_ATTACHMENTS, "36", "is the definition of network-attachment-definitions.k8s.cni.cncf.io installed?"),
        (
            MUTATING_POLICIES,
            "35",
            "v1.35.4 does not serve mutatingadmissionpolicies.admissionregistration.k8s.io/v1: want 1.36 or newer",
        ),
        (MUTATING_POLICIES, "36", "since 1.36, unless --runtime-config turns it off; this is v1.36.4"),
        (RESOURCE_CLAIMS, "33", "Kubernetes v1.33.4 does not serve resourceclaims.resource.k8s.io/v1: want 1.34"),
    ],
)
async def test_reason_names_a_kind_that_is_not_served(
    server: ApiServer, client: KubeClient, resource: Resource, minor: str, said: str
) -> None:
    async def fault(server: ApiServer, request: web.Request) -> web.Response:
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.4"})
        return web.Response(status=404, text="404 page not found")

    server.fault = fault
    reflector = Reflector(client, Scope(resource), Store(value), backoff=fast())
    async with running(reflector.run()):
        await eventually(lambda: said in reflector.reason)
        server.fault = None
        await eventually(lambda: reflector.healthy)


@pytest.mark.parametrize("version", [["no", "object"], {"major": "1", "minor": "9" * 5_000}])
async def test_a_version_that_cannot_be_read_does_not_end_the_watch(
    server: ApiServer, client: KubeClient, version: object
) -> None:
    asked = 0

    async def fault(server: ApiServer, request: web.Request) -> web.Response:
        nonlocal asked
        if request.path == "/version":
            asked += 1
            return web.json_response(version)
        return web.Response(status=404, text="404 page not found")

    server.fault = fault
    reflector = Reflector(client, Scope(RESOURCE_CLAIMS), Store(value), backoff=fast())
    async with running(reflector.run()):
        await eventually(lambda: asked > 2)
        assert "HTTP 404" in reflector.reason
        server.fault = None
        await eventually(lambda: reflector.healthy)


def test_default_backoff_keeps_to_the_limit() -> None:
    """Two requests a try (list and watch) stay under ten in three seconds, but for one seed in hundreds."""
    over = 0
    for seed in range(2000):
        backoff, elapsed, tries = Backoff(random=random.Random(seed).random), 0.0, 0
        while elapsed < 3:
            tries += 1
            elapsed += backoff.next()
        over += tries > 5
    assert over <= 20


@pytest.mark.parametrize("attempt", [0, 3, 2000])
def test_backoff_grows_to_its_cap_and_resets(attempt: int) -> None:
    backoff = Backoff(base=1, cap=30, random=lambda: 1.0)
    delays = [backoff.next() for _ in range(attempt + 1)]
    assert delays[-1] == min(30, 2**attempt)
    assert backoff.next(at_least=99) == 99
    backoff.reset()
    assert backoff.next() == 1


async def test_a_long_list_comes_in_a_little_at_a_time(server: ApiServer, client: KubeClient) -> None:
    """Listeners may take milliseconds for each object, and a Lease has to be renewed meanwhile."""
    for number in range(100):
        server.put(config_map(f"m{number:02}", value=str(number)))
    store, shown = Store(value), []
    store.subscribe(lambda *_: time.sleep(0.002))  # what a listener works out
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast()).run()):
        while not store.synced:
            await asyncio.sleep(0)
            if len(store) not in shown:
                shown.append(len(store))
    assert len(shown) > 20


async def test_pages_that_do_not_come_in_time_become_smaller(server: ApiServer, tmp_path: Path) -> None:
    """Five hundred very large objects may take an API server longer than a request has."""
    for number in range(100):
        server.put(config_map(f"m{number:02}", value=str(number)))

    async def slow(server: ApiServer, request: web.Request) -> web.Response | None:
        if not request.query.get("watch") and int(request.query.get("limit") or 1000) > 40:
            await asyncio.Event().wait()
        return None

    server.fault = slow
    store, path = Store(value), write_kubeconfig(tmp_path / "kubeconfig", server.url)
    async with (
        await connect(kubeconfig=str(path), deadline=0.5) as client,
        running(Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast()).run()),
    ):
        await asyncio.wait_for(store.wait_synced(), PATIENCE)
    assert len(store) == 100
    limits = [re.search(r"limit=(\d+)", request) for request in server.requests if request.startswith("GET")]
    assert [int(found[1]) for found in limits if found][:3] == [500, 125, 31]
