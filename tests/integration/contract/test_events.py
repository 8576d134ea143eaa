"""The real process tells the owner of a denied Pod by an Event, and nothing of that shows in its answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.kube.events import EventRecorder
from app.registry import settings_of
from app.runtime.serving import Serving
from tests.support.fake_apiserver import ApiServer, parse_path, status, write_kubeconfig
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
OWNERS = [
    {"apiVersion": "v1", "kind": "Thing", "name": "other", "uid": "u-0"},
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-1", "controller": True},
]
UNHEARD = [OWNERS[1] | {"name": "unheard", "uid": "u-2"}]
"""Of no other Pod: Events about one object are counted in one."""


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def start(launch, pki, api: ApiServer, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts a webhook at the API server."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    started: list[Any] = []

    async def begin(*flags: str) -> Any:
        started.append(launch(pki, "--insecure", f"--kubeconfig={kubeconfig}", *flags, source=None))
        return await asyncio.to_thread(started[-1].until_ready)

    yield begin
    for webhook in started:
        await asyncio.to_thread(webhook.stop)


def denied(review: Any, *, owners: Any = OWNERS, **request: Any) -> JSON:
    asked: JSON = review("webhook-demo")
    asked["request"] |= request
    asked["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = "a/b/c"
    asked["request"]["object"]["metadata"]["ownerReferences"] = owners
    return asked


async def post(webhook: Any, asked: JSON) -> JSON:
    code, answer = await asyncio.to_thread(webhook.post, asked)
    assert (code, answer["response"]["allowed"]) == (200, False)
    return answer["response"]  # type: ignore[no-any-return]  # JSON


def told(api: ApiServer) -> list[JSON]:
    return [body for method, _, body in api.bodies if method == "POST" and body["kind"] == "Event"]


async def _true_of(webhook: Any, true: Callable[[], Any]) -> None:
    await asyncio.to_thread(webhook.until, true, "told")


async def test_the_owner_of_a_denied_pod_is_told_why(start, api: ApiServer, review) -> None:
    webhook = await start()
    for unheard in (
        denied(review, owners=UNHEARD, dryRun=True),
        denied(review, owners=None),
        denied(review, owners=[{"name": "../x", "kind": "K", "apiVersion": "v1", "uid": "u"}]),
        denied(review, owners=[{"name": "x" * 9999, "kind": "K", "apiVersion": "v1", "uid": "u"}]),
    ):
        await post(webhook, unheard)
    response = await post(webhook, denied(review))
    await _true_of(webhook, lambda: told(api))
    (event,) = told(api)
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-1",
        "namespace": "default",
        "uid": "u-1",
    }
    assert (event["type"], event["reason"]) == ("Warning", response["status"]["reason"])
    assert event["message"] == response["status"]["message"]
    assert response["auditAnnotations"] == {"decision": event["reason"], "message": event["message"]}
    await post(webhook, denied(review, owners=OWNERS[:1]))
    await _true_of(webhook, lambda: len(told(api)) == 2)
    assert told(api)[1]["involvedObject"]["name"] == "other"


def on_the_host(review: Any, *, owners: Any = OWNERS, networks: str | None = "foo-network", **request: Any) -> JSON:
    """A Pod that asks for a network, and uses that of its host: Multus attaches nothing to it."""
    asked: JSON = review("plain")
    asked["request"] |= request
    metadata = asked["request"]["object"]["metadata"]
    metadata["annotations"] = {"k8s.v1.cni.cncf.io/networks": networks} if networks else {"a": "b"}
    metadata["ownerReferences"] = owners
    asked["request"]["object"]["spec"]["hostNetwork"] = True
    return asked


async def test_the_owner_of_a_pod_that_gets_no_networks_is_told_why(start, api: ApiServer, review) -> None:
    webhook = await start("--workers=1")

    async def allowed(asked: JSON) -> None:
        code, answer = await asyncio.to_thread(webhook.post, asked)
        assert (code, answer["response"]["allowed"], "patch" in answer["response"]) == (200, True, False)

    for unheard in (
        on_the_host(review, owners=UNHEARD, dryRun=True),
        on_the_host(review, owners=None),
        on_the_host(review, owners=UNHEARD, networks=None),
    ):
        await allowed(unheard)
    for _ in range(4):  # kept answers are told of too
        await allowed(on_the_host(review))
    await allowed(on_the_host(review, owners=OWNERS[:1]))
    await _true_of(webhook, lambda: len({event["involvedObject"]["name"] for event in told(api)}) == 2)
    assert [event["involvedObject"]["name"] for event in told(api)] == ["web-1", "other"], "alike ones are counted"
    for event in told(api):
        assert (event["type"], event["reason"]) == ("Warning", "HostNetwork")
        assert event["message"] == "the Pod uses the host's network: Multus attaches nothing to it"


@pytest.mark.parametrize("flags", [["--no-events"], []])
async def test_no_events_where_they_are_turned_off_or_forbidden(start, api: ApiServer, review, flags) -> None:
    """Without the permission there is one line of log and one request; reviews go on."""

    async def refuse(_server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        if parse_path(request.path)[0] != "events":
            return None
        message = 'events is forbidden: User "u" cannot create resource "events" in API group ""'
        return web.json_response(status(403, "Forbidden", message), status=403)

    api.fault = refuse
    webhook = await start(*flags)
    await post(webhook, denied(review))
    if not flags:
        await _true_of(webhook, lambda: any('"no events:' in line for line in webhook.lines))
    for number in range(5):
        await post(webhook, denied(review, owners=[OWNERS[1] | {"uid": f"other-{number}"}]))
    webhook.signal()
    assert await asyncio.to_thread(webhook.wait) == 0
    assert len([request for request in api.requests if "events" in request]) == (0 if flags else 1)
    assert len([line for line in webhook.lines if '"no events:' in line]) == (0 if flags else 1)


@pytest.mark.parametrize("workers", [1, 2])
async def test_the_end_of_the_process_writes_the_last_events(start, api: ApiServer, review, workers: int) -> None:
    """The API server lets them wait until the process is told to stop. Each worker tells for itself."""
    stopping = asyncio.Event()

    async def hold(_server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        if parse_path(request.path)[0] == "events":
            await stopping.wait()
        return None

    api.fault = hold
    webhook = await start(f"--workers={workers}")
    for number in range(8):
        await post(webhook, denied(review, owners=[OWNERS[1] | {"uid": f"u-{number}"}]))
    assert told(api) == []
    webhook.signal()
    stopping.set()
    assert await asyncio.to_thread(webhook.wait) == 0
    assert {event["involvedObject"]["uid"] for event in told(api)} == {f"u-{number}" for number in range(8)}


async def test_an_api_server_that_is_down_delays_neither_reviews_nor_the_end(start, api: ApiServer, review) -> None:
    webhook = await start()
    await api.go_silent()
    for number in range(50):
        await post(webhook, denied(review, owners=[OWNERS[1] | {"uid": f"u-{number}"}]))
    webhook.signal()
    assert await asyncio.to_thread(webhook.wait) == 0
    assert any("events were not written in time" in line for line in webhook.lines)


async def test_a_second_signal_does_not_wait_for_events(start, api: ApiServer, review) -> None:
    webhook = await start("--drain-seconds=600")
    await api.go_silent()
    await post(webhook, denied(review))
    webhook.signal()
    await _true_of(webhook, lambda: webhook.events("draining"))
    await asyncio.sleep(0.3)  # a signal that follows at once is the same wish
    webhook.signal()
    assert await asyncio.to_thread(webhook.wait) == 1
    assert not any("events were not written in time" in line for line in webhook.lines)
    assert webhook.events("stopped before everything was drained")


async def test_a_writer_of_events_that_fails_is_started_again(
    pki, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes comes from users' objects: a fault ends neither the webhook nor the writer."""
    runs: list[EventRecorder] = []
    stop = asyncio.Event()

    async def fail_once(recorder: EventRecorder) -> None:
        runs.append(recorder)
        if len(runs) == 1:
            raise RuntimeError("the writer fails")
        stop.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(EventRecorder, "run", fail_once)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    given = {"tls_cert_file": str(pki.certificate), "tls_private_key_file": str(pki.key), "drain_seconds": 0.0}
    settings = settings_of("webhook").load({**given, "kubeconfig": str(kubeconfig), "insecure": True, "port": 0})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await asyncio.wait_for(Serving(settings, listener=listener).run(stop), PATIENCE)
    assert len(runs) == 2
