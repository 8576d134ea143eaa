"""A review has the same answer, line and metrics whether the connection answers it or uvicorn does, however it comes."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from uvicorn.server import ServerState

from app import logs
from app.admission.application import ReviewApp, review_app
from app.admission.chain import Chain, MutationPlan
from app.admission.connection import BoundedProtocol
from app.admission.endpoint import in_flight
from app.admission.review import Request
from app.admission.server import AnsweringProtocol
from app.errors import Denied, Transient
from app.runtime.review_log import ReviewLog
from app.serving.listener import ConnectionPool
from tests.support import simulated
from tests.support.simulated import SimulatedLoop
from tests.unit.admission.conftest import make_review

LIMIT = 100_000
QUIET = 400.0
"""Seconds of the simulated clock, after which every clock of a connection has run out."""
ACTS = ("allow", "warn", "deny", "wait", "wait and deny", "late", "transient", "bug", "unsendable")


class Acting:
    """An injector that does what the name of the Pod says, and counts how often it was asked."""

    name = "acting"
    asked = 0

    def inject(self, request: Request, plan: MutationPlan) -> Any:
        self.asked += 1
        if request.name.startswith("wait") or request.name == "late":
            return self._later(request, plan)
        return self._act(request.name, plan)

    async def _later(self, request: Request, plan: MutationPlan) -> None:
        await asyncio.sleep(100 if request.name == "late" else 0.5)
        self._act(request.name, plan)

    def _act(self, name: str, plan: MutationPlan) -> None:
        match name:
            case "deny" | "wait and deny":
                raise Denied("no", reason="No")
            case "transient":
                raise Transient("no cache")
            case "bug":
                raise KeyError("k")
            case "unsendable":
                plan.patch.add("/a", object(), reason="")
            case "warn":
                plan.warnings.append("careful")
                plan.count("env", 2)
                plan.patch.add("/metadata/labels", {"a": "b"}, reason="")


class Road:
    """A server on one end of a stream; its `protocol` is the class under test, or uvicorn's with the same bounds."""

    def __init__(self, *, quick: bool, draining: bool = False, limit: int = LIMIT) -> None:
        self.acting = Acting()
        self.log = ReviewLog()
        self.app = review_app(
            {"mutate": Chain(injectors=[self.acting], exempt_namespaces=frozenset({"exempt"}))},
            aliases={"other-name": "mutate"},
            finished=self.log.finished,
            body_limit=limit,
            deadline=5.0,
            draining=lambda: draining,
        )
        self.kind = _quick(self.app) if quick else BoundedProtocol
        self.state = ServerState()
        self.fresh = True

    def protocol(self) -> BoundedProtocol:
        config = uvicorn.Config(self.app, lifespan="off", ws="none", log_config=None, timeout_keep_alive=120)
        self.pool = ConnectionPool(1000)
        slot = self.pool.acquire()
        assert slot is not None
        self.slot = slot
        return self.kind(config=config, server_state=self.state, app_state={}, slot=slot)


def _quick(app: ReviewApp) -> Callable[..., BoundedProtocol]:
    return lambda **options: AnsweringProtocol(endpoints=app.endpoints, **options)


class Client(asyncio.Protocol):
    """Keeps what comes, and says nothing more once the server has closed."""

    received = b""
    ended = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.ended = True

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended = True


async def exchange(road: Road, pieces: list[tuple[bytes, float]], *, hang_up: bool) -> bytes:
    """All that comes back for these pieces, sent with pauses between them."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    await loop.connect_accepted_socket(road.protocol, theirs)
    transport, client = await loop.connect_accepted_socket(Client, ours)
    for piece, pause in pieces:
        if not client.ended:
            transport.write(piece)
        await asyncio.sleep(pause)
    if hang_up:
        await asyncio.sleep(0.001)
        transport.close()
    await asyncio.sleep(0.001)
    road.fresh = bool(road.pool.fresh)
    await asyncio.sleep(QUIET)
    assert client.ended
    assert not road.pool.taken
    assert not road.state.connections
    assert not road.state.tasks
    return client.received


def seen(road: Road, pieces: list[tuple[bytes, float]], *, hang_up: bool) -> dict[str, object]:
    """What a client, the log, the metrics and the parts see of the exchange."""
    before = _samples()
    lines: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        patch.setattr(logs, "write_lines", lines.extend)
        received = runner.run(exchange(road, pieces, hang_up=hang_up))
        road.log.flush()
    return {
        "received": re.sub(rb"date: [^\r]*\r\n", b"", received),
        "lines": [_line(line) for line in lines],
        "metrics": {name: value - before.get(name, 0) for name, value in _samples().items()},
        "asked": road.acting.asked,
        "in flight": dict(in_flight),
        "requests": road.state.total_requests,
        "fresh": road.fresh,
    }


def _line(line: bytes) -> dict[str, object]:
    read: dict[str, object] = json.loads(line)
    # Where an error was caught is not where it came from.
    read["traceback"] = [frame.rpartition(" ")[2] for frame in read.get("traceback", [])][-2:]  # type: ignore[attr-defined]
    return {key: value for key, value in read.items() if key not in ("time", "duration_ms")}


def _samples() -> dict[tuple[str, str], float]:
    return {
        (sample.name, str(sorted(sample.labels.items()))): sample.value
        for family in REGISTRY.collect()
        if family.name.startswith("admission_")
        for sample in family.samples
        if not sample.name.startswith(("admission_duration_seconds_bucket", "admission_duration_seconds_sum"))
    }


@pytest.fixture(autouse=True)
def _arrives_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written to one end of a pair of sockets can be read from the other."""
    monkeypatch.setattr(simulated, "_SETTLED", 0.0)


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


LINE, TYPE, LENGTH = "POST /mutate HTTP/1.1", "Content-Type: application/json", "Content-Length: {}"


def http(
    body: bytes,
    *,
    line: str = LINE,
    type_: str | None = TYPE,
    length: str | None = LENGTH,
    more: tuple[str, ...] = (),
) -> bytes:
    headers = [
        "Host: berth",
        *([length.replace("{}", str(len(body)))] if length else []),
        *([type_] if type_ else []),
        *more,
    ]
    return "\r\n".join([line, *headers, "", ""]).encode("latin-1") + body


reviews = st.builds(
    lambda act, version, namespace, generate, padding: _json(
        make_review(
            version=version,
            name=act,
            namespace=namespace,
            obj={"metadata": {"generateName": generate}, "spec": {"x": "y" * padding}},
        )
    ),
    st.sampled_from(["allow", "warn", *ACTS]),
    st.sampled_from(["v1", "v1beta1"]),
    st.sampled_from(["team"] * 5 + ["exempt"]),
    st.sampled_from(["", "web-"]),
    st.sampled_from([0] * 6 + [70_000, LIMIT]),
)
broken = st.sampled_from([b"", b"{", b"null", b'{"kind":"Pod"}', _json(make_review(uid="")), b"\xff", b"[" * 3000])
LINES = (
    "POST /mutate?timeout=1s HTTP/1.1",
    "POST /other-name HTTP/1.1",
    "POST http://berth/mutate HTTP/1.1",
    "POST http://berth HTTP/1.1",
    "POST /mutat%65 HTTP/1.1",
    "POST /none HTTP/1.1",
    "POST /mutate HTTP/1.0",
    "PUT /mutate HTTP/1.1",
    "HEAD /mutate HTTP/1.1",
    "GET /mutate HTTP/1.1",
    "\r\nPOST /mutate HTTP/1.1",
    "POST  HTTP/1.1",
)
TYPES = ("content-type:Application/JSON; charset=utf-8", "Content-Type: text/plain", "Content-Type:", None)
LENGTHS = (
    "content-length: {}",
    "Content-Length: 00{}",
    "Content-Length: {}0",
    "Content-Length: 9",
    "Content-Length: +{}",
    "Content-Length: {}\r\nContent-Length: {}",
    "X: y\r\nContent-Length : {}",
    None,
)
ADDITIONS = (
    "Accept-Encoding: gzip",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "Expect: 100-continue",
    "Connection: close",
    "Connection: keep-alive",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "Upgrade: h2c",
    "X-Long: " + "z" * 3000,
    "X-Folded: a\r\n b",
    "Transfer-Encoding: identity",
    "X\xff: y",
)
lines = st.sampled_from([LINE] * 8 + [*LINES])
types = st.sampled_from([TYPE] * 6 + [*TYPES])
lengths = st.sampled_from([LENGTH] * 8 + [*LENGTHS])
additions = st.lists(st.sampled_from(ADDITIONS), max_size=2).map(tuple)


@st.composite
def chunked(draw: st.DrawFn) -> bytes:
    body = draw(reviews | broken)
    cut = draw(st.integers(0, len(body)))
    head = http(b"", length="Transfer-Encoding: chunked", line=draw(lines))
    trailer = draw(st.sampled_from([b"", b"Expect: 100-continue\r\n", b"Content-Type: text/plain\r\n"]))
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
    return head + parts + b"0\r\n" + trailer + b"\r\n"


ordinary = reviews.map(http)
odd = st.builds(
    lambda body, line, type_, length, more: http(body, line=line, type_=type_, length=length, more=more),
    reviews | broken,
    lines,
    types,
    lengths,
    additions,
)


kinds = st.sampled_from([ordinary] * 5 + [odd] * 3 + [chunked()]).flatmap(lambda kind: kind)


class Pieces(list[tuple[bytes, float]]):
    def __repr__(self) -> str:
        shown = [(piece if len(piece) < 2000 else piece[:1000] + b"..." + piece[-50:], pause) for piece, pause in self]
        return f"Pieces({shown})"


@st.composite
def conversations(draw: st.DrawFn) -> Pieces:
    """Some requests, cut into pieces anywhere, each with the pause after it."""
    pieces: list[tuple[bytes, float]] = []
    pauses = st.sampled_from([0.0, 0.001, 0.03, 1.0, 7.0])
    for request in draw(st.lists(kinds, min_size=1, max_size=4)):
        cuts = sorted(draw(st.integers(0, len(request))) for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 3]))))
        bounds = [0, *cuts, len(request)]
        parts = [request[begin:end] for begin, end in itertools.pairwise(bounds) if end > begin]
        pieces += [(part, draw(pauses)) for part in parts]
        # The next request may come with this one, but not with the last piece of it. Otherwise uvicorn reads on while
        # requests wait, or not, depending on how the first of them came; what is wrong with a later one is then
        # answered before them, or after.
        together = len(parts) == 1 and draw(st.booleans())
        pieces[-1] = pieces[-1][0], 0.0 if together else max(0.001, pieces[-1][1])
    return Pieces(pieces[: draw(st.integers(1, len(pieces)))] if draw(st.booleans()) else pieces)


ALLOW, WAIT = (http(_json(make_review(name=name))) for name in ("allow", "wait"))
TRAILER = http(b"", length="Transfer-Encoding: chunked") + b"0\r\nContent-Type: text/plain\r\n\r\n"
NOT_OURS = http(ALLOW, line="POST /none HTTP/1.1")
HUGE = http(b"", more=("X-Long: " + "z" * 70_000,))[:-4]
"""A head that is too long, without its end."""
BODY = _json(make_review(name="warn"))
ODD = [
    *(http(BODY, line=line) for line in LINES),
    *(http(BODY, type_=type_) for type_ in TYPES),
    *(http(BODY, length=length) for length in LENGTHS),
    *(http(BODY, more=(one,)) for one in ADDITIONS),
    http(BODY, line="POST /mutate HTTP/1.0", more=("Connection: keep-alive",)),
    http(b"", more=("X-Long: " + "z" * 70_000,)),
    http(_json(make_review(obj={"x": "y" * 70_000}))),
    http(_json(make_review(obj={"x": "y" * LIMIT}))),
]
"""Requests that are ordinary but for one thing."""


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@example(Pieces([(ALLOW, 1.0)]), False, True)
@example(Pieces([(TRAILER, 1.0), (ALLOW, 1.0)]), False, False)
@example(Pieces([(ALLOW, 119.98), (ALLOW[:200], 0.03), (ALLOW[200:], 1.0)]), False, False)
@example(Pieces([(WAIT, 0.001), (ALLOW, 1.0)]), False, False)
@example(Pieces([(NOT_OURS[: -len(ALLOW)], 1.0), (ALLOW, 1.0)]), False, False)
@example(Pieces([(ALLOW[:200], 0.001), (ALLOW[200:] + NOT_OURS, 1.0)]), False, False)
@example(Pieces([(ALLOW[:200], 0.001)]), True, False)
@example(Pieces([(HUGE[:100], 0.001), (HUGE[100:], 0.1), (ALLOW, 1.0)]), False, False)
@given(conversations(), st.booleans(), st.sampled_from([False, False, False, True]))
def test_both_roads_give_the_same(pieces: Pieces, hang_up: Any, draining: Any) -> None:
    quick, usual = (seen(Road(quick=quick, draining=draining), pieces, hang_up=hang_up) for quick in (True, False))
    assert quick == usual


@pytest.mark.parametrize("number", range(len(ODD)))
def test_what_is_odd_in_one_thing_is_answered_as_uvicorn_does(number: int) -> None:
    """Whole and in pieces, and so is what follows on the connection."""
    odd = ODD[number]
    for pieces in ([(odd, 0.1), (ALLOW, 1.0)], [(odd[:150], 0.001), (odd[150:], 0.1), (ALLOW, 1.0)]):
        quick, usual = (seen(Road(quick=quick), pieces, hang_up=False) for quick in (True, False))
        assert quick == usual


def test_a_body_is_bounded_where_it_is_short_too() -> None:
    quick, usual = (seen(Road(quick=quick, limit=100), [(ALLOW, 1.0)], hang_up=False) for quick in (True, False))
    assert quick == usual
    assert b"413" in bytes(str(quick["received"]), "ascii")
    assert quick["asked"] == 0


def test_ordinary_reviews_are_one_write_each_and_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, or in pieces that follow each other. What has to wait has a task."""
    written: list[bytes] = []
    started: list[object] = []
    road = Road(quick=True)
    plain = road.kind

    def watched(**options: Any) -> BoundedProtocol:
        protocol = plain(**options)
        begin, made = protocol._start_asgi_task, protocol.connection_made

        def connected(transport: Any) -> None:
            write = transport.write

            def noted(data: bytes) -> None:
                written.append(data)
                write(data)

            monkeypatch.setattr(transport, "write", noted)
            made(transport)

        def starts(*given: Any) -> None:
            started.append(given)
            begin(*given)

        monkeypatch.setattr(protocol, "_start_asgi_task", starts)
        monkeypatch.setattr(protocol, "connection_made", connected)
        return protocol

    road.kind = watched
    whole = http(_json(make_review(name="warn")), line="POST /mutate?timeout=10s HTTP/1.1")
    pieces = [(whole, 0.001), (whole[:200], 0.001), (whole[200:300], 0.001), (whole[300:], 0.001)]
    assert seen(road, pieces, hang_up=False)["asked"] == 2
    assert (len(written), len(started)) == (2, 0)
    assert all(answer.startswith(b"HTTP/1.1 200 OK") and b"patch" in answer for answer in written)
    assert seen(road, [(WAIT, 1.0), (whole, 0.001)], hang_up=False)["asked"] == 4
    assert len(started) == 1


def test_an_idle_connection_is_closed_when_its_time_is_over_after_the_last_answer() -> None:
    review = http(_json(make_review(name="allow")))
    often = [(review, 100.0)] * 4
    late = [(review, 119.0), (review, 121.0), (review, 1.0)]
    for quick in (True, False):
        assert seen(Road(quick=quick), often, hang_up=False)["asked"] == 4
        assert seen(Road(quick=quick), late, hang_up=False)["asked"] == 2


@pytest.mark.simulated
async def test_a_client_that_takes_no_answers_gets_no_more_of_them() -> None:
    road = Road(quick=True)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(road.protocol, theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    protocol.pause_writing()
    writer.write(ALLOW)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 1)
    assert road.acting.asked == 1
    protocol.resume_writing()
    assert b"200 OK" in await reader.readline()
    writer.close()
    transport.abort()
    await asyncio.sleep(1)


@pytest.mark.simulated
async def test_a_server_that_ends_answers_what_has_begun_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    review = http(_json(make_review(name="allow")))
    for cut, answers in ((0, 0), (200, 1)):
        road, made = Road(quick=True), list[BoundedProtocol]()
        monkeypatch.setattr(road, "protocol", lambda new=road.protocol, made=made: made.append(new()) or made[0])
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        await loop.connect_accepted_socket(road.protocol, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(review[:cut])
        await asyncio.sleep(0.001)
        assert in_flight["mutate"] == answers
        made[0].shutdown()
        if answers:
            writer.write(review[cut:])
        received = await reader.read()
        assert received.count(b"connection: close") == received.count(b'"allowed":true') == answers
        writer.close()
        assert in_flight["mutate"] == 0
