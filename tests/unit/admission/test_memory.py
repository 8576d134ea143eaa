"""What requests of one port may hold together, whose gives way, and what becomes of a body that lost its room."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.admission import endpoint
from app.admission.body import Body
from app.admission.connection import HEAD_BYTES, HEAD_FIELDS
from app.admission.endpoint import VALUES, values_in
from app.admission.server import make_server
from app.errors import Overloaded
from app.serving.health import health_app
from app.serving.listener import bind
from app.serving.memory import SMALL, Budget, Client, Holding
from app.settings.webhook import LEAST_BYTES, UNDECIDED_BYTES
from tests.support.clock import Clock
from tests.support.waiting import eventually

MIB = 1024 * 1024
LOUD, QUIET, THIRD = Client("10.0.0.1"), Client("10.0.0.2"), Client("10.0.0.3")
PROVEN = Client("10.0.0.1", proven=True)


class Port:
    """A budget of 16 MiB, and the names of the requests that gave way."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.budget = Budget(16 * MIB, clock=self.clock)
        self.gone: list[str] = []

    def begin(self, name: str, size: int, client: Client = LOUD) -> Holding:
        holding = self.budget.hold(client, lambda: self.gone.append(name))
        holding.take(size)
        return holding


def test_one_client_has_half() -> None:
    port = Port()
    port.begin("first", 7 * MIB)
    assert port.begin("second", 7 * MIB).lost
    assert port.gone == ["second"]
    assert port.budget.refused == {"full": 1, "slow": 0}
    assert not port.begin("other", 7 * MIB, QUIET).lost


def test_what_is_slow_gives_way_to_what_the_same_client_begins_later() -> None:
    port = Port()
    port.begin("first", 4 * MIB)
    port.clock.now = 0.5
    port.begin("second", 4 * MIB)
    port.clock.now = 1.2
    assert not port.begin("third", 4 * MIB).lost
    assert port.gone == ["first"]


def test_the_client_that_holds_most_gives_way_its_oldest_first() -> None:
    port = Port()
    for name in ("a", "b", "c"):
        port.begin(name, 2 * MIB, LOUD)
    port.begin("quiet", 5 * MIB, QUIET)
    assert not port.begin("third", 3 * MIB, THIRD).lost
    assert port.gone == ["a"]


def test_strangers_have_three_quarters_and_give_way_to_who_is_proven() -> None:
    port = Port()
    port.begin("proven", 3 * MIB, PROVEN)
    port.begin("big", 6 * MIB, QUIET)
    port.begin("mine", 6 * MIB, THIRD)
    assert not port.begin("stranger", 5 * MIB, LOUD).lost
    assert port.gone == ["big"]
    assert not port.begin("proven too", 5 * MIB, PROVEN).lost
    assert "proven" not in port.gone


def test_no_stranger_has_who_is_proven_give_way() -> None:
    port = Port()
    port.begin("a", 8 * MIB, PROVEN)
    port.begin("b", 8 * MIB, Client("10.0.0.9", proven=True))
    assert port.begin("stranger", MIB, QUIET).lost
    assert port.gone == ["stranger"]


def test_what_is_complete_never_gives_way() -> None:
    port = Port()
    for client in (LOUD, QUIET):
        port.begin("complete", 6 * MIB, client).keep()
    port.clock.now = 100
    assert port.begin("more", 6 * MIB, THIRD).lost
    assert port.gone == ["more"]


def test_small_ones_always_find_room() -> None:
    port = Port()
    for client in (LOUD, QUIET):
        port.begin("large", 6 * MIB, client)
    holdings = [port.begin("small", SMALL, Client(f"10.1.0.{number}")) for number in range(180)]
    assert port.gone == ["large", "large"]
    assert not any(holding.lost for holding in holdings)
    assert port.budget.held <= 16 * MIB


def test_of_too_many_small_ones_the_oldest_incomplete_gives_way() -> None:
    port = Port()
    for number in range(1000):
        port.begin(str(number), SMALL, Client(f"10.1.{number}"))
        assert port.budget.held <= 16 * MIB
    assert port.gone[0] == "0"


def test_what_is_released_is_free_once() -> None:
    port = Port()
    holding = port.begin("a", MIB)
    holding.release()
    holding.release()
    assert port.budget.held == 0
    assert not port.begin("b", 8 * MIB).lost


def test_what_took_nothing_leaves_nothing_behind() -> None:
    """Else the budget would ask it for ever to give way: it has nothing to give."""
    port = Port()
    empty = port.begin("empty", 0)
    empty.release()
    assert port.budget._accounts == {}
    assert not port.begin("a", 7 * MIB).lost
    port.clock.now = 2
    assert not port.begin("b", 7 * MIB).lost
    assert port.gone == ["a"]


@pytest.mark.parametrize("limit", [LEAST_BYTES, UNDECIDED_BYTES])
async def test_a_review_that_waits_alone_finds_room_however_many_values_it_has(limit: int) -> None:
    body = Body(Budget(limit).hold(PROVEN, lambda: None))
    content = await read(body, [b"[" * 7 * MIB], limit=7 * MIB)
    body.came()
    answer = asyncio.sleep(0)
    endpoint._hold_decoded(endpoint.Waiting(content, None, answer), body)  # type: ignore[arg-type]
    answer.close()
    assert body.keeping


async def read(body: Body, chunks: list[bytes], **options: Any) -> bytes:
    """What the body is, of these chunks as they come in."""

    async def receive() -> Any:
        chunk = chunks.pop(0)
        body.arrived(len(chunk))
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    return await body.read(receive, **options)


async def test_a_body_is_counted_ahead_where_its_length_is_known() -> None:
    port = Port()
    holding = port.begin("a", 0)
    body = Body(holding)
    assert await read(body, [b"x" * MIB] * 3, limit=7 * MIB, length=3 * MIB) == b"x" * 3 * MIB
    assert port.budget.held == 3 * MIB
    ahead = port.budget.hold(QUIET, lambda: None)
    Body(ahead).expect(5 * MIB)
    assert ahead.size == 5 * MIB


async def test_a_body_without_room_is_thrown_away_and_refused_at_its_end() -> None:
    port = Port()
    port.begin("other", 7 * MIB)

    def give_way() -> None:
        body.drop()

    body = Body(port.budget.hold(LOUD, give_way))
    with pytest.raises(Overloaded):
        await read(body, [b"x" * MIB] * 4, limit=7 * MIB)
    assert body.complete
    assert len(body.chunks[0]) == 1024
    assert port.budget.held == 7 * MIB


def test_values_are_counted_however_they_are_nested() -> None:
    assert values_in(b"[" + b",".join([b"[]"] * 10) + b"]") == 20
    assert values_in(b"[[[[]]],[[[]]]]") == 8
    assert values_in(b'{"a":1,"b":{"c":2}}') == 3


async def test_a_body_of_too_many_values_is_refused_and_keeps_its_uid(calling: Any, review: Any) -> None:
    document = review()
    document["request"]["object"] = {"x": "HERE"}
    many = endpoint.msgspec.json.encode(document).replace(b'"HERE"', b"[" + b",".join([b"0"] * VALUES) + b"]")
    answer = await calling()(many)
    assert answer.status == 413
    assert answer.response["uid"] == document["request"]["uid"]
    assert f"want at most {VALUES} values" in answer.response["status"]["message"]


@pytest.fixture
def budget() -> Budget:
    return Budget()


@pytest.fixture
async def port(budget: Budget) -> AsyncIterator[int]:
    running, listener = (
        make_server(health_app(readiness=list, metrics=lambda: (b"", "text/plain")), budget=budget),
        bind("127.0.0.1", 0),
    )
    listener.listen()
    task = asyncio.create_task(running.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    running.should_exit = True
    await task


def padded(size: int, *, before: bytes = b"") -> bytes:
    """A request whose head has exactly so many bytes."""
    start, end = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ", b"\r\n\r\n"
    return before + start + b"x" * (size - len(start) - len(end)) + end


async def status(port: int, content: bytes, *, step: int) -> list[bytes]:
    """The statuses of all answers, where so many bytes are sent at a time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for begin in range(0, len(content), step):
        writer.write(content[begin : begin + step])
        await asyncio.sleep(0)
    answers = await reader.read()
    writer.close()
    return re.findall(rb"HTTP/1.1 ([0-9]{3}) ", answers)


@pytest.mark.simulated
@pytest.mark.parametrize("step", [1000, 40_000, 1_000_000])
@pytest.mark.parametrize(
    ("size", "code"), [(HEAD_BYTES, b"200"), (HEAD_BYTES + 1, b"431"), (70_000, b"431"), (200_000, b"431")]
)
async def test_the_bound_of_a_head_is_exact(port: int, size: int, code: bytes, step: int) -> None:
    assert await status(port, padded(size), step=step) == [code]


@pytest.mark.simulated
async def test_the_bound_holds_for_a_head_behind_a_body(port: int) -> None:
    before = b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + b" " * 100
    assert await status(port, padded(60_000, before=before), step=1_000_000) == [b"404", b"200"]
    assert b"200" not in await status(port, padded(70_000, before=before), step=1_000_000)


@pytest.mark.simulated
@pytest.mark.parametrize(("more", "code"), [(-2, b"200"), (1, b"431")])
async def test_a_head_has_so_many_fields(port: int, more: int, code: bytes) -> None:
    fields = b"".join(b"X%d: y\r\n" % number for number in range(HEAD_FIELDS + more))
    head = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + fields + b"\r\n"
    assert await status(port, head, step=1_000_000) == [code]


@pytest.mark.simulated
async def test_a_head_of_which_only_the_method_began_holds_nothing_afterwards(port: int, budget: Budget) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"cdG")
    await asyncio.sleep(0.1)
    writer.close()
    await eventually(lambda: budget._accounts == {})
