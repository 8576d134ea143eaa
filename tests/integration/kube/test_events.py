"""Events: recording never waits and never fails, whatever the API server does; what repeats is counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.devtools.sandbox.server import Cluster
from app.kube.client import KubeClient
from app.kube.events import WINDOW, EventRecorder, Regarding
from app.kube.names import check_dns_subdomain
from app.kube.resources import EVENTS
from app.kube.retry import Backoff
from app.kube.transport import connect
from app.text import MESSAGE
from tests.support.clock import Clock
from tests.support.counting import Counted
from tests.support.fake_apiserver import ApiServer, status
from tests.support.waiting import PATIENCE, eventually


def owner(name: str = "web-1", namespace: str = "default", uid: str = "u-1") -> Regarding:
    return Regarding("apps/v1", "ReplicaSet", name, namespace, uid)


OWNER = owner()
FORBIDDEN = 'events is forbidden: User "u" cannot create resource "events" in API group "" in the namespace "default"'


class Desk:
    """A recorder at work; `seen` is what it has counted."""

    def __init__(self, client: Any, *, pause: float = 30.0, **options: Any) -> None:
        self._counted, self.time = Counted("events_total", "outcome", component="test"), Clock(1000.0)
        self.backoff = Backoff(base=0.5, cap=pause)
        self.recorder = EventRecorder(
            lambda: client, role="test", instance="pod-1", clock=self.time, backoff=self.backoff, **options
        )

    @property
    def seen(self) -> Counter[str]:
        return self._counted()

    def record(self, regarding: Regarding = OWNER, message: str = "no", reason: str = "Refused") -> None:
        self.recorder.record(regarding, "Warning", reason=reason, message=message)

    async def settle(self) -> None:
        """Everything is written or given up."""
        await self.recorder.flush(10)

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[Desk]:
        task = asyncio.create_task(self.recorder.run())
        try:
            yield self
        finally:
            assert not task.done(), "nothing ends the writer"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with Cluster("events") as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=PATIENCE) as client:
            yield client


@pytest.fixture
async def desk(sandbox: KubeClient) -> AsyncIterator[Desk]:
    async with Desk(sandbox).writing() as made:
        yield made


@pytest.fixture
async def slow_desk(client: KubeClient) -> AsyncIterator[Desk]:
    """At the API server that does what a test says."""
    async with Desk(client, pause=0.02).writing() as made:
        yield made


async def events(client: KubeClient, namespace: str | None = None) -> list[dict[str, Any]]:
    return (await client.list_page(EVENTS, namespace=namespace)).items


async def test_an_event_is_seen_where_kubectl_describe_looks(desk: Desk, sandbox: KubeClient) -> None:
    desk.record(message="m" * 5000)
    await desk.settle()
    selector = "involvedObject.name=web-1,involvedObject.namespace=default,involvedObject.kind=ReplicaSet"
    page = await sandbox.list_page(EVENTS, namespace="default", field_selector=f"{selector},involvedObject.uid=u-1")
    (event,) = page.items
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "Refused", 1)
    assert len(event["message"]) == MESSAGE
    assert event["involvedObject"]["apiVersion"] == "apps/v1"
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert (event["source"]["component"], event["reportingComponent"], event["reportingInstance"]) == (
        "berth-test",
        "berth-test",
        "pod-1",
    )
    assert desk.seen == {"recorded": 1}


async def test_the_same_again_is_counted_in_the_event_that_is_there(desk: Desk, sandbox: KubeClient) -> None:
    for _ in range(3):
        desk.record()
        await desk.settle()
    desk.record(message="something else")
    await desk.settle()
    found = {event["message"]: event["count"] for event in await events(sandbox)}
    assert found == {"no": 3, "something else": 1}
    assert desk.seen == {"recorded": 2, "aggregated": 2}


async def test_what_comes_while_one_waits_costs_no_request(desk: Desk, sandbox: KubeClient) -> None:
    for _ in range(500):
        desk.record()
    await desk.settle()
    (event,) = await events(sandbox)
    assert event["count"] == 500
    assert desk.seen == {"recorded": 1}


async def test_after_the_window_it_is_told_anew(desk: Desk, sandbox: KubeClient) -> None:
    desk.record()
    await desk.settle()
    desk.time.now += WINDOW + 1
    desk.record()
    await desk.settle()
    assert [event["count"] for event in await events(sandbox)] == [1, 1]


async def test_an_event_that_the_api_server_forgot_is_made_again(desk: Desk, sandbox: KubeClient) -> None:
    desk.record()
    await desk.settle()
    (event,) = await events(sandbox)
    await sandbox.delete(EVENTS, event["metadata"]["name"], namespace="default")
    desk.record()
    await desk.settle()
    (event,) = await events(sandbox)
    assert event["count"] == 1


async def test_an_object_in_no_namespace_has_its_events_in_default(desk: Desk, sandbox: KubeClient) -> None:
    desk.record(Regarding("v1", "Node", "node-1"))
    await desk.settle()
    (event,) = await events(sandbox)
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


async def test_names_of_any_length_make_names_of_events(desk: Desk, sandbox: KubeClient) -> None:
    for name in ("a", "a" * 253, "a." * 126 + "b", f"{'a' * 234}.b.{'c' * 10}"):
        desk.record(owner(name=name))
    await desk.settle()
    assert desk.seen == {"recorded": 4}
    for event in await events(sandbox):
        check_dns_subdomain(event["metadata"]["name"])


async def test_one_object_has_a_limit_and_leaves_the_others_theirs(desk: Desk) -> None:
    for number in range(40):
        desk.record(message=f"{number}")
    desk.record(owner(name="other", uid="u-2"))
    await desk.settle()
    assert desk.seen == {"recorded": 26, "dropped": 15}
    desk.time.now += 300
    desk.record(message="later")
    desk.record(message="too soon")
    await desk.settle()
    assert desk.seen == {"recorded": 27, "dropped": 16}


async def test_one_namespace_cannot_take_the_room_of_others(sandbox: KubeClient) -> None:
    async with Desk(sandbox, namespace_burst=5, waiting=7).writing() as desk:
        for number in range(20):
            desk.record(owner(name=f"loud-{number}", uid=str(number)))
        desk.record(owner(name="quiet", namespace="kube-system"))
        await desk.settle()
        assert desk.seen == {"recorded": 6, "dropped": 15}


async def test_without_the_permission_it_is_said_once_and_asked_rarely(
    server: ApiServer, slow_desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return web.json_response(status(403, "Forbidden", FORBIDDEN), status=403)

    server.fault = refuse
    for _ in range(2):
        for number in range(5):
            slow_desk.record(message=f"{number}")
        await slow_desk.settle()
        dropped = slow_desk.seen["dropped"]
        slow_desk.record()
        assert slow_desk.seen["dropped"] == dropped + 1
        slow_desk.time.now += 601
    assert len(server.requests) == 2
    assert capsys.readouterr().out.count("no events") == 1
    server.fault = None
    slow_desk.record(message="permitted now")
    await slow_desk.settle()
    assert slow_desk.seen["recorded"] == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (403, "unable to create new content in namespace default because it is being terminated"),
        (403, "exceeded quota: q, requested: count/events=1"),
        (404, 'namespaces "default" not found'),
        (422, "involvedObject.namespace: Invalid value"),
    ],
)
async def test_one_that_is_rejected_is_given_up_and_the_next_is_tried(
    server: ApiServer, slow_desk: Desk, code: int, message: str
) -> None:
    async def refuse(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return web.json_response(status(code, "Reason", message), status=code)

    server.fault = refuse
    slow_desk.record()
    await slow_desk.settle()
    server.fault = None
    slow_desk.record(message="next")
    await slow_desk.settle()
    assert slow_desk.seen == {"failed": 1, "recorded": 1}


async def test_events_outlive_an_api_server_that_is_down(server: ApiServer, slow_desk: Desk) -> None:
    await server.stop()
    slow_desk.record(message="first")
    slow_desk.record(message="second")
    await asyncio.sleep(0.1)
    slow_desk.record(message="first")
    assert slow_desk.seen == {}
    await server.start()
    await eventually(lambda: slow_desk.seen["recorded"] == 2)
    posted = [body for method, _, body in server.bodies if method == "POST"]
    assert {body["message"]: body["count"] for body in posted} == {"first": 2, "second": 1}


async def test_one_that_fails_again_and_again_lets_the_others_pass(server: ApiServer, slow_desk: Desk) -> None:
    """Such as where a webhook for Events is broken, in one namespace."""

    async def broken(_server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        if "/namespaces/bad/" not in request.path:
            return None
        return web.json_response(status(500, "InternalError", "failed calling webhook"), status=500)

    server.fault = broken
    slow_desk.record(owner(namespace="bad"))
    slow_desk.record(message="good")
    await eventually(lambda: slow_desk.seen["recorded"] == 1)
    assert slow_desk.seen["failed"] == 0


async def test_what_is_too_old_is_given_up_without_asking_again(server: ApiServer, slow_desk: Desk) -> None:
    """An API server that fails is not asked for each of a thousand in a row."""

    async def down(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return web.json_response(status(503, "ServiceUnavailable", "etcd"), status=503)

    server.fault = down
    for number in range(50):
        slow_desk.record(owner(uid=str(number)))
    slow_desk.time.now += 601
    slow_desk.backoff.cap = 30.0
    await eventually(lambda: slow_desk.seen["failed"] == 50)
    assert len([line for line in server.requests if line.startswith("POST")]) <= 2


async def test_memory_is_bounded_while_nothing_can_be_written(server: ApiServer, slow_desk: Desk) -> None:
    await server.stop()
    for number in range(5000):
        slow_desk.record(owner(namespace=f"n{number}", uid=str(number)), message="m" * 100_000)
    assert slow_desk.seen["dropped"] >= 3999
    slow_desk.time.now += 601
    await eventually(lambda: slow_desk.seen["dropped"] + slow_desk.seen["failed"] == 5000)


async def test_a_lost_answer_makes_no_second_event(server: ApiServer, slow_desk: Desk) -> None:
    async def lose(api: ApiServer, request: web.Request) -> web.StreamResponse | None:
        body = await request.json()
        api.fault = None
        body["metadata"]["namespace"] = "default"
        api.put(body, plural="events")
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    server.fault = lose
    slow_desk.record()
    await slow_desk.settle()
    assert len([key for key in server.objects if key[0] == "events"]) == 1
    assert slow_desk.seen == {"recorded": 1}


async def test_what_cannot_even_be_sent_ends_nothing(slow_desk: Desk) -> None:
    slow_desk.record(owner(uid=object()))  # type: ignore[arg-type]  # no JSON
    slow_desk.record(message="next")
    await slow_desk.settle()
    assert slow_desk.seen == {"failed": 1, "recorded": 1}


async def test_before_there_is_a_client_events_wait(client: KubeClient) -> None:
    found: list[KubeClient] = []
    counted = Counted("events_total", "outcome", component="c")
    recorder = EventRecorder(lambda: found[0] if found else None, role="c", instance="i", backoff=Backoff(cap=0.02))
    task = asyncio.create_task(recorder.run())
    recorder.record(OWNER, "Normal", reason="R", message="m")
    await asyncio.sleep(0.05)
    found.append(client)
    await recorder.flush(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert counted() == {"recorded": 1}


async def test_a_flush_waits_no_longer_than_it_was_told(server: ApiServer, slow_desk: Desk) -> None:
    await server.go_silent()
    slow_desk.record()
    async with asyncio.timeout(PATIENCE):
        await slow_desk.recorder.flush(0.05)
    assert slow_desk.seen == {}
