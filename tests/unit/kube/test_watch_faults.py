"""Every way in which a watch goes wrong: few requests, nothing lost, recovery without help."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from app.kube.reflector import Reflector, Scope
from app.kube.resources import CONFIG_MAPS
from app.kube.retry import Backoff
from app.kube.store import Store
from app.kube.transport import connect
from tests.support.counting import Counted
from tests.support.fake_apiserver import ApiServer, config_map, status, write_kubeconfig
from tests.support.running import running
from tests.support.waiting import eventually

SECONDS = 3.0
MOST_REQUESTS = 10


@dataclass
class Seen:
    """What came of one scenario."""

    restarts: Counter[str] = field(default_factory=Counter)
    poisoned: int = 0
    requests: int = 0
    healthy: bool = True
    reason: str = ""
    recovered: bool = False
    recovered_healthy: bool = False
    deleted: list[tuple[str, str]] = field(default_factory=list)
    longest: int = 0
    names: set[str] = field(default_factory=set)


def project(obj: dict[str, Any]) -> str:
    return str(obj["data"]["value"])


Fault = Callable[[ApiServer, web.Request], Awaitable[web.StreamResponse | None]]


async def forbidden_watch(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    return web.json_response(status(403, "Forbidden", "configmaps is forbidden"), status=403)


async def forbidden(server: ApiServer, request: web.Request) -> web.StreamResponse:
    return web.json_response(status(403, "Forbidden", "configmaps is forbidden"), status=403)


async def missing(server: ApiServer, request: web.Request) -> web.StreamResponse:
    return web.Response(text="404 page not found", status=404)


async def bad_gateway(server: ApiServer, request: web.Request) -> web.StreamResponse:
    return web.Response(
        text="<html><body>token=hunter2 Bad Gateway</body></html>", status=502, content_type="text/html"
    )


async def html_stream(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    return web.Response(text="<html>\n<body>fine\n</body>\n</html>\n", content_type="text/html")


async def throttled(server: ApiServer, request: web.Request) -> web.StreamResponse:
    return web.Response(status=429, headers={"Retry-After": "2"}, text="slow down")


async def hang_up(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    return web.Response(body=b"", content_type="application/json")


async def cut_off(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"type":"ADDED","obj')
    assert request.transport is not None
    request.transport.abort()
    return response


async def gone(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    return web.json_response(status(410, "Expired", "too old resource version"), status=410)


async def gone_event(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    event = {"type": "ERROR", "object": status(410, "Expired", "too old resource version")}
    return web.Response(body=json.dumps(event).encode() + b"\n", content_type="application/json")


async def event_and_close(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    """Something new for every watch, and then the end: progress must not make it spin."""
    if "watch" not in request.query:
        return None
    server.put(config_map("stays", value=str(server.version)))
    since = int(request.query["resourceVersion"])
    events = [{"type": kind, "object": obj} for version, kind, _, obj in server.history if version > since]
    return web.Response(text="".join(json.dumps(event) + "\n" for event in events))


def same_event(kind: str, obj: dict[str, Any]) -> Fault:
    """One event that is no progress, for every watch, and then the end."""

    async def fault(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        if "watch" not in request.query:
            return None
        obj["metadata"]["resourceVersion"] = request.query["resourceVersion"]
        return web.Response(text=json.dumps({"type": kind, "object": obj}) + "\n")

    return fault


async def silent_stream(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if "watch" not in request.query:
        return None
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(60)
    return response


ANSWERS: dict[str, Fault] = {
    "403 on watch": forbidden_watch,
    "403 on everything": forbidden,
    "404, definition not installed": missing,
    "502 with HTML": bad_gateway,
    "200 with HTML": html_stream,
    "429 with Retry-After": throttled,
    "instant close": hang_up,
    "connection cut in a line": cut_off,
    "410 as HTTP status": gone,
    "410 as event": gone_event,
    "an event, then close": event_and_close,
    "poison object": same_event("ADDED", {"metadata": {"name": "bad", "namespace": "default"}}),
    "line of 300 kB": same_event("MODIFIED", config_map("stays", value="x" * 300_000)),
    "silent stream": silent_stream,
}
CONNECTIONS = ["connection refused", "half-open connection"]
RESTORES = {"restored, behind": -5, "restored, ahead": 5}
"""A storage of an earlier time, and how far its version is from the one that was held."""
NAMES = [*ANSWERS, *CONNECTIONS, *RESTORES]


async def play(name: str, directory: Path) -> Seen:
    """Sound server, fault for three seconds with a deletion in it, sound server again."""
    server, seen = ApiServer(), Seen()
    restarted = Counted("watch_restarts_total", "reason", kind=name)
    poisoned = Counted("watch_poison_objects_total", "kind", kind=name)
    await server.start()
    for number in range(5):
        server.put(config_map("stays", value=str(number)))
    server.put(config_map("goes", value="1"))
    kubeconfig = write_kubeconfig(directory / name.replace(" ", "-"), server.url)
    store: Store[str] = Store(project)

    def told(event: str, key: tuple[str, str], _old: str | None, new: str | None) -> None:
        if event == "DELETED":
            seen.deleted.append(key)
        seen.longest = max(seen.longest, len(new or ""))

    store.subscribe(told)
    async with await connect(kubeconfig=str(kubeconfig), deadline=0.4) as client:
        reflector = Reflector(
            client,
            Scope(CONFIG_MAPS),
            store,
            called=name,
            backoff=Backoff(cap=1.5, random=lambda: 0.9),
            idle_timeout=0.4 if "silent" in name else 30,
        )
        async with running(reflector.run()):
            await eventually(lambda: store.synced and bool(server.watches))
            await _break(server, name)
            before, restarts = len(server.requests), restarted().total()
            await asyncio.sleep(SECONDS)
            # A server that is not there counts nothing; each failed try is a restart.
            seen.requests = server.accepted or len(server.requests) - before or restarted().total() - restarts
            seen.healthy, seen.reason = reflector.healthy, reflector.reason
            await _heal(server, name)
            server.put(config_map("comes", value="1"))
            await eventually(lambda: ("default", "comes") in store and ("default", "goes") not in store)
            seen.recovered = True
            await eventually(lambda: reflector.healthy and not reflector.reason)
            seen.recovered_healthy = True
            seen.names = {name for _, name in sorted(store.keys())}
    await server.stop()
    seen.restarts, seen.poisoned = restarted(), poisoned().total()
    return seen


async def _break(server: ApiServer, name: str) -> None:
    if name in RESTORES:
        await server.stop()
        server.history.clear()
        del server.objects["configmaps", "default", "goes"]
        server.version += RESTORES[name]
        await server.start()
        return
    if name in ANSWERS:
        server.fault = ANSWERS[name]
        server.drop_watches()
    elif name == "connection refused":
        await server.stop()
    else:
        await server.go_silent()
    # Nobody watches now; the deletion is known to the server alone.
    server.watches.clear()
    server.remove("goes")
    if "410" in name:
        server.forget_history()


async def _heal(server: ApiServer, name: str) -> None:
    server.fault = None
    if name in CONNECTIONS:
        await server.stop()
        await server.start()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen | BaseException]:
    """All scenarios at once, for each waits most of its time."""
    directory = tmp_path_factory.mktemp("faults")
    played = await asyncio.gather(*(play(name, directory) for name in NAMES), return_exceptions=True)
    return dict(zip(NAMES, played, strict=True))


def outcome(outcomes: dict[str, Seen | BaseException], name: str) -> Seen:
    found = outcomes[name]
    if isinstance(found, BaseException):
        raise found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_fault_costs_few_requests_and_heals(outcomes: dict[str, Seen | BaseException], name: str) -> None:
    """At most ten requests in three seconds, at least one more try, and the store is right again afterwards."""
    seen = outcome(outcomes, name)
    assert 1 <= seen.requests <= MOST_REQUESTS
    assert seen.recovered
    assert seen.recovered_healthy
    assert seen.names == {"stays", "comes"}


@pytest.mark.parametrize("name", NAMES)
def test_deletion_during_fault_is_told(outcomes: dict[str, Seen | BaseException], name: str) -> None:
    assert outcome(outcomes, name).deleted == [("default", "goes")]


@pytest.mark.parametrize("name", ["403 on watch", "403 on everything", "404, definition not installed"])
def test_refusal_turns_health_off_with_a_reason(outcomes: dict[str, Seen | BaseException], name: str) -> None:
    seen = outcome(outcomes, name)
    assert not seen.healthy
    assert "configmaps" in seen.reason
    assert ("forbidden" in seen.restarts) == ("403" in name)
    assert ("missing" in seen.restarts) == ("404" in name)


@pytest.mark.parametrize("name", ["502 with HTML", "connection refused", "instant close", "410 as event", *RESTORES])
def test_passing_fault_leaves_health_alone(outcomes: dict[str, Seen | BaseException], name: str) -> None:
    """The cache is still good while an API server restarts."""
    assert outcome(outcomes, name).healthy


def test_html_of_a_proxy_is_never_copied(outcomes: dict[str, Seen | BaseException]) -> None:
    seen = outcome(outcomes, "502 with HTML")
    assert "502" in seen.reason
    assert "hunter2" not in seen.reason
    assert "server_error" in seen.restarts


def test_retry_after_is_honored(outcomes: dict[str, Seen | BaseException]) -> None:
    """Two seconds between tries leave room for two in three seconds."""
    assert outcome(outcomes, "429 with Retry-After").requests <= 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("410 as HTTP status", "expired"),
        ("410 as event", "expired"),
        ("connection refused", "transport"),
        ("half-open connection", "transport"),
        ("silent stream", "idle"),
        ("instant close", "eof"),
        ("connection cut in a line", "transport"),
        ("429 with Retry-After", "throttled"),
    ],
)
def test_restart_is_counted_with_its_reason(outcomes: dict[str, Seen | BaseException], name: str, reason: str) -> None:
    assert reason in outcome(outcomes, name).restarts


def test_html_in_a_watch_is_skipped_as_poison(outcomes: dict[str, Seen | BaseException]) -> None:
    assert outcome(outcomes, "200 with HTML").poisoned >= 4


def test_a_poison_object_is_counted_and_a_long_line_read(outcomes: dict[str, Seen | BaseException]) -> None:
    assert outcome(outcomes, "poison object").poisoned >= 1
    assert outcome(outcomes, "line of 300 kB").longest == 300_000
