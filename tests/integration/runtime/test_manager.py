"""What runs in the background of a role: its health port, one leader of several, a drain before the end, and death."""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError, BerthError, UsageError
from app.kube.client import KubeClient
from app.kube.lease import LeaseTiming
from app.kube.metrics import LEADER
from app.kube.resources import LEASES, NAMESPACES
from app.kube.transport import connect
from app.runtime.manager import HUNG_SECONDS, Connected, Group, Health, LeaderElected, Manager
from app.serving.listener import address, listen
from app.settings.reconciling import Drained
from tests.support.counting import value
from tests.support.waiting import PATIENCE, eventually

FAST = LeaseTiming(duration=8.0, renew_deadline=6.0, retry_period=0.1)


class Part:
    """Runs until it is cancelled, or dies when told to; `draining` is how long its end may be held up."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.started, self.ended = asyncio.Event(), asyncio.Event()
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.drained = asyncio.Event()
        self.drained.set()

    def waiting(self) -> list[str]:
        return self.lines

    async def run(self) -> None:
        self.started.set()
        try:
            await self.death
        finally:
            await self.drained.wait()
            self.ended.set()


class Role:
    """A Manager that runs in a task; `get` asks its health port."""

    def __init__(self, part: Any) -> None:
        self.socket = listen("--health-check-port", "127.0.0.1", 0)
        self.url = address(self.socket, "http")
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(Manager(part, role="tested", health=self.socket).run(self.stop))

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body; status 0 where nobody answers."""
        return await asyncio.to_thread(_get, self.url + path)


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


@contextlib.asynccontextmanager
async def role(part: Any) -> AsyncIterator[Role]:
    made = Role(part)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


async def test_health_says_alive_what_is_waited_for_and_the_figures() -> None:
    part = Part("Pods: not listed yet")
    async with role(part) as running:
        await part.started.wait()
        await eventually(lambda: _alive(running))
        status, body = await running.get("/readyz")
        assert (status, json.loads(body)) == (503, {"ready": False, "waitingFor": ["Pods: not listed yet"]})
        part.lines.clear()
        assert (await running.get("/readyz"))[0] == 200
        assert "event_loop_lag_seconds" in (await running.get("/metrics"))[1]


async def test_health_answers_while_the_event_loop_is_busy() -> None:
    """The test itself holds the only event loop of the role until the answers are there."""
    part = Part("Pods: not listed yet")
    async with role(part) as running:
        await part.started.wait()
        await eventually(lambda: _alive(running))
        await eventually(lambda: _waits_for(running, part.lines))
        for path in ("/livez", "/healthz"):
            assert _get(running.url + path) == (200, "ok")
        status, body = _get(running.url + "/readyz")
        assert (status, json.loads(body)["waitingFor"]) == (503, ["Pods: not listed yet"])


async def test_metrics_that_wait_for_the_loop_hold_up_no_health() -> None:
    part = Part()
    async with role(part) as running:
        await part.started.wait()
        await eventually(lambda: _alive(running))
        metrics = asyncio.create_task(running.get("/metrics"))
        await asyncio.sleep(0)  # the request is under way in another thread, and its answer takes this loop
        assert _get(running.url + "/healthz") == (200, "ok")
        assert (await metrics)[0] == 200


def test_a_loop_without_a_turn_for_too_long_counts_as_hung() -> None:
    now = 0.0
    health = Health(lambda: (b"", ""), clock=lambda: now)
    health.published([])
    now = HUNG_SECONDS
    assert (health.hung(), health.waiting()) == ("", [])
    now = HUNG_SECONDS + 15
    assert health.hung() == "the event loop has had no turn for 75 s: after 60 s it counts as hung"
    assert health.waiting() == [health.hung()]
    health.published([])
    assert health.hung() == ""


async def _waits_for(running: Role, lines: list[str]) -> bool:
    return bool(json.loads((await running.get("/readyz"))[1])["waitingFor"] == lines)


async def _alive(running: Role) -> bool:
    return (await running.get("/healthz"))[0] == 200


async def test_a_stop_ends_the_part_first_and_health_says_so_until_then() -> None:
    """A probe that is refused during the drain would look like a crash."""
    part = Part()
    part.drained.clear()
    async with role(part) as running:
        await part.started.wait()
        await eventually(lambda: _alive(running))
        running.stop.set()
        await asyncio.sleep(0.4)
        status, body = await running.get("/readyz")
        assert (status, json.loads(body)["waitingFor"]) == (503, ["stopping"])
        assert await _alive(running)
        assert not running.task.done()
        part.drained.set()
        await asyncio.wait_for(running.task, PATIENCE)
        assert part.ended.is_set()
        assert await running.get("/healthz") == (0, "")


async def test_what_the_part_dies_of_ends_the_role() -> None:
    part = Part()
    async with role(part) as running:
        await eventually(lambda: _alive(running))
        part.death.set_exception(UsageError("kubeconfig nowhere: no such file"))
        with pytest.raises(UsageError, match=r"^kubeconfig nowhere: no such file$"):
            await asyncio.wait_for(running.task, PATIENCE)


async def test_a_second_wish_to_stop_does_not_wait_for_the_drain() -> None:
    part = Part()
    part.drained.clear()
    async with role(part) as running:
        await part.started.wait()
        running.stop.set()
        await asyncio.sleep(0.1)
        running.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running.task, PATIENCE)
        assert not part.ended.is_set()


class Short(Part):
    """Ends when it is told to die of nothing, and takes a stop for a wish to end well."""

    async def run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await super().run()


@pytest.mark.parametrize("wrapped", [lambda part: part, lambda part: Group(Part(), part)], ids=["alone", "together"])
async def test_a_part_that_ends_by_itself_has_failed(wrapped: Callable[[Part], Any]) -> None:
    """Nobody would do its work from then on; a status of 0 would say that this was wished for."""
    part = Short()
    async with role(wrapped(part)) as running:
        await eventually(lambda: _alive(running))
        part.death.set_result(None)
        with pytest.raises(BerthError, match=r"^Short ended by itself$"):
            await asyncio.wait_for(running.task, PATIENCE)


async def test_a_part_that_ends_when_it_is_stopped_has_not_failed() -> None:
    part = Short()
    async with role(Group(part)) as running:
        await part.started.wait()
        await eventually(lambda: _alive(running))
        running.stop.set()
        await asyncio.wait_for(running.task, PATIENCE)
        assert part.ended.is_set()


async def test_together_is_ready_when_all_are_and_dies_with_the_first() -> None:
    parts = [Part("one: not yet"), Part("two: not yet")]
    both = Group(*parts)
    assert both.waiting() == ["one: not yet", "two: not yet"]
    task = asyncio.create_task(both.run())
    await asyncio.gather(*(part.started.wait() for part in parts))
    parts[1].death.set_exception(BerthError("broken"))
    with pytest.raises(ExceptionGroup):
        await task
    assert parts[0].ended.is_set()


async def test_connected_says_that_it_is_not_and_closes_what_it_opened(tmp_path: Path) -> None:
    async with Cluster("one") as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        clients: list[KubeClient] = []
        part = Part("the part: not yet")

        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[Part]:
            async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=PATIENCE) as client:
                clients.append(client)
                yield part

        whole = Connected(opened())
        assert whole.waiting() == ["API server: not connected"]
        task = asyncio.create_task(whole.run())
        await part.started.wait()
        assert whole.waiting() == ["the part: not yet"]
        await clients[0].list_page(NAMESPACES)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(ApiError, match="closed"):
            await clients[0].list_page(NAMESPACES)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with Cluster("leases") as made:
        (tmp_path / "kubeconfig").write_text(made.kubeconfig())
        async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=30) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "universe"}})
            yield client


class Replicas:
    """Replicas of one role; `parts` are those made for each term of each, by name."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.parts: dict[str, list[Part]] = {}

    def led(self, name: str) -> LeaderElected:
        made = self.parts.setdefault(name, [])

        def build(_client: KubeClient) -> Part:
            assert not any(
                part.started.is_set() and not part.ended.is_set() for all_ in self.parts.values() for part in all_
            )
            made.append(Part(f"{name}: caches"))
            return made[-1]

        return LeaderElected(
            build, client=self._client, namespace="universe", lease="lease", identity=name, timing=FAST
        )


async def test_of_two_replicas_one_works_and_the_other_is_ready_to(cluster: KubeClient) -> None:
    replicas = Replicas(cluster)
    first, second = replicas.led("first"), replicas.led("second")
    one = asyncio.create_task(first.run())
    await eventually(lambda: first.leading and replicas.parts["first"])
    two = asyncio.create_task(second.run())
    assert first.waiting() == ["first: caches"]
    await eventually(lambda: second.waiting() == [])
    await asyncio.sleep(0.5)
    assert second.waiting() == []
    assert not second.leading
    assert replicas.parts["second"] == []
    assert value(LEADER.labels("lease")) == 1

    one.cancel()
    await asyncio.gather(one, return_exceptions=True)
    assert replicas.parts["first"][0].ended.is_set()
    await eventually(lambda: second.leading and second.waiting() == ["second: caches"])
    two.cancel()
    await asyncio.gather(two, return_exceptions=True)
    released = await cluster.get(LEASES, "lease", namespace="universe")
    assert released["spec"]["holderIdentity"] == ""
    assert value(LEADER.labels("lease")) == 0


async def test_whoever_loses_the_lease_stops_and_starts_anew_in_its_next_term(cluster: KubeClient) -> None:
    """What one term has cached is not trusted in the next."""
    replicas = Replicas(cluster)
    led = replicas.led("mine")
    task = asyncio.create_task(led.run())
    await eventually(lambda: replicas.parts["mine"] and replicas.parts["mine"][0].started.is_set())
    taken = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}}
    await cluster.patch(LEASES, "lease", taken, patch_type="merge", namespace="universe")
    await eventually(replicas.parts["mine"][0].ended.is_set)
    await eventually(lambda: len(replicas.parts["mine"]) == 2 and replicas.parts["mine"][1].started.is_set())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_a_term_dies_of_is_not_swallowed(cluster: KubeClient) -> None:
    replicas = Replicas(cluster)
    led = replicas.led("mine")
    task = asyncio.create_task(led.run())
    await eventually(lambda: replicas.parts["mine"])
    replicas.parts["mine"][0].death.set_exception(BerthError("broken"))
    with pytest.raises(BerthError, match="broken"):
        await asyncio.wait_for(task, PATIENCE)


async def test_a_replica_that_cannot_reach_its_lease_is_not_ready(tmp_path: Path) -> None:
    async with Cluster("gone") as made:
        (tmp_path / "kubeconfig").write_text(made.kubeconfig())
    async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=1) as client:
        led = Replicas(client).led("mine")
        task = asyncio.create_task(led.run())
        await eventually(led.waiting)
        assert led.waiting()[0].startswith("Lease lease: ")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Slow:
    """A gateway whose last call takes until it is let go."""

    def __init__(self) -> None:
        self.asked, self.let_go, self.done = asyncio.Event(), asyncio.Event(), False

    def waiting(self) -> list[str]:
        return ["slow"]

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.asked.set()
        await self.let_go.wait()
        self.done = True


async def test_a_gateway_that_is_cancelled_drains_first() -> None:
    slow = Slow()
    serving = Drained(slow)
    assert serving.waiting() == ["slow"]
    task = asyncio.create_task(serving.run())
    await asyncio.sleep(0)
    task.cancel()
    await slow.asked.wait()
    assert not task.done()
    slow.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.done


async def test_a_gateway_that_is_cancelled_twice_does_not_drain() -> None:
    slow = Slow()
    task = asyncio.create_task(Drained(slow).run())
    await asyncio.sleep(0)
    task.cancel()
    await slow.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE)
    assert not slow.done
