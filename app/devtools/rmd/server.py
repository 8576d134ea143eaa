"""The REST API of a stand-in daemon, over HTTP or TLS, as RMD v0.3 answers: errors are plain text.

It says in the header `Server` that it is a stand-in.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator, Collection
from typing import Any, NamedTuple

from aiohttp import web

from app.devtools.rmd.checks import Failure
from app.devtools.rmd.faults import Faults, Trouble, forever
from app.devtools.rmd.machine import Machine, caches_document, summary_document
from app.devtools.rmd.workloads import Workloads
from app.wire import JSON, decode_json, encode_json

STAND_IN = "berth-stand-in-for-rmd"
_REMEMBERED = 10_000
_ENDLESS = b"x" * 65536


class Asked(NamedTuple):
    method: str
    path: str
    body: bytes


class StandInDaemon:
    """`clients` are the common names that may ask over TLS, None for all. `asked` are the requests in their order."""

    def __init__(
        self,
        machine: Machine | None = None,
        *,
        faults: Faults | None = None,
        clients: Collection[str] | None = None,
    ) -> None:
        self.workloads = Workloads(machine or Machine(), faults or Faults())
        self.troubles: list[Trouble] = []
        self.asked: deque[Asked] = deque(maxlen=_REMEMBERED)
        self._clients = clients
        self._lock = asyncio.Lock()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._middleware], client_max_size=2**20)
        router = application.router
        for path in ("/v1/workloads", "/v1/workloads/"):
            router.add_get(path, self._list, allow_head=False)
            router.add_post(path, self._create)
        router.add_get(r"/v1/workloads/{id:\d+}", self._get, allow_head=False)
        router.add_patch(r"/v1/workloads/{id:\d+}", self._patch)
        router.add_delete(r"/v1/workloads/{id:\d+}", self._delete)
        router.add_get("/v1/cache", self._summary, allow_head=False)
        router.add_get(r"/v1/cache/{level:l3|llc}", self._caches, allow_head=False)
        router.add_get(r"/v1/cache/{level:l3|llc}/{id:\d+}", self._cache, allow_head=False)
        router.add_get("/v1/policy", self._policies, allow_head=False)
        router.add_get("/v1/mba", self._bandwidth, allow_head=False)
        return application

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        trouble = next((one for one in self.troubles if one.applies(request.method)), None)
        self.asked.append(Asked(request.method, request.path, await request.read()))
        if trouble is not None and trouble.kind != "cut-after":
            return await _troubled(request, trouble)
        try:
            self._authorize(request)
            answer: web.StreamResponse = await handler(request)
        except Failure as failure:
            answer = web.Response(status=failure.status, text=failure.text)
        except web.HTTPException as error:
            answer = web.Response(status=error.status, text=f"{error.status}: {error.reason}")
        if trouble is not None:
            return _cut(request)
        answer.headers["Server"] = STAND_IN
        return answer

    def _authorize(self, request: web.Request) -> None:
        if request.method in ("POST", "PATCH") and request.content_type != "application/json":
            raise Failure(415, "415: Unsupported Media Type")
        tls = request.transport.get_extra_info("ssl_object") if request.transport else None
        if tls is None or self._clients is None:
            return
        subject = dict(pair for part in tls.getpeercert()["subject"] for pair in part)
        name = subject.get("commonName", "")
        if name not in self._clients:
            raise Failure(401, f"{name} is not authorized")

    async def _list(self, _request: web.Request) -> web.Response:
        return _json([_shown(one) for one in self.workloads.records.values()])

    async def _get(self, request: web.Request) -> web.Response:
        return _json(_shown(self._found(request)))

    async def _create(self, request: web.Request) -> web.Response:
        record = _record(await request.read())
        locked = contextlib.nullcontext() if self.workloads.faults.unlocked_checks else self._lock
        async with locked:
            self.workloads.check(record)
            await asyncio.sleep(0)  # another request may be checked here
            created = self.workloads.create(record)
        return _json(_shown(created), status=201)

    async def _patch(self, request: web.Request) -> web.Response:
        record = self._found(request)
        self._own(record, "modify")
        try:
            changed = self.workloads.patch(record, _document(await request.read()))
        except Failure as failure:
            status = 500 if self.workloads.faults.errors_of_patch_are_500 else failure.status
            raise Failure(status, failure.text) from failure
        return _json(_shown(changed))

    async def _delete(self, request: web.Request) -> web.Response:
        record = self._found(request)
        self._own(record, "delete")
        self.workloads.delete(record)
        return web.Response(status=200)

    async def _summary(self, _request: web.Request) -> web.Response:
        return _json(summary_document(self.workloads.machine))

    async def _caches(self, _request: web.Request) -> web.Response:
        return _json(self._all_caches())

    async def _cache(self, request: web.Request) -> web.Response:
        found = self._all_caches()["Caches"].get(request.match_info["id"])
        if found is None:
            raise Failure(404, "404: Could not found cache")
        return _json(found)

    async def _policies(self, _request: web.Request) -> web.Response:
        policies = self.workloads.machine.policies.items()
        return _json({name: {"cache": {"max": most, "min": least}} for name, (most, least) in policies})

    async def _bandwidth(self, _request: web.Request) -> web.Response:
        has = self.workloads.machine.mba != "none"
        return _json({"mba": has, **({"mba_enable": True, "mba_step": 10, "mba_min": 10} if has else {})})

    def _all_caches(self) -> JSON:
        machine = self.workloads.machine
        return caches_document(machine, {one.id: self.workloads.free_ways(one.id) for one in machine.caches})

    def _found(self, request: web.Request) -> JSON:
        record = self.workloads.records.get(request.match_info["id"])
        if record is None:
            raise Failure(404, "404: Could not found workload")
        return record

    def _own(self, record: JSON, verb: str) -> None:
        if record["origin"] != "REST":
            status = 200 if self.workloads.faults.other_origin_is_200 else 403
            raise Failure(status, f"{status}: You only have permission to {verb} REST origin workloads")


@contextlib.asynccontextmanager
async def serving(
    daemon: StandInDaemon, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve until the end of the block; the result is the port."""
    runner = web.AppRunner(daemon.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _document(body: bytes) -> JSON:
    try:
        found = decode_json(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Failure(500, "Failed to read request correctly. Please check request syntax and data")
    return found


def _record(body: bytes) -> JSON:
    """What is stored of the body of a POST; Go reads a value of another type as an error."""
    said = _document(body)
    rdt = said.get("rdt") or {}
    record: JSON = {
        "id": said.get("id") or "",
        "core_ids": said.get("core_ids") or [],
        "task_ids": said.get("task_ids") or [],
        "policy": said.get("policy") or "",
        "status": "None",
        "cos_name": "",
        "rdt": {"cache": dict(rdt.get("cache") or {}), "mba": dict(rdt.get("mba") or {})},
        "plugins": said.get("plugins") or {},
        "uuid": said.get("uuid") or "",
        "origin": "REST",
    }
    numbers = [*record["rdt"]["cache"].values(), *record["rdt"]["mba"].values()]
    texts = [*record["core_ids"], *record["task_ids"], record["id"], record["policy"], record["uuid"]]
    if not all(isinstance(one, str) for one in texts) or not all(
        isinstance(one, int) and 0 <= one < 2**32 for one in numbers
    ):
        raise Failure(500, "Failed to read request correctly. Please check request syntax and data")
    return record


def _shown(record: JSON) -> JSON:
    """As Go writes it: what is empty is left out, but for `rdt`, status, class and origin."""
    always = ("status", "cos_name", "rdt", "origin")
    return {name: value for name, value in record.items() if value or name in always}


def _json(value: Any, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=encode_json(value), content_type="application/json")


async def _troubled(request: web.Request, trouble: Trouble) -> web.StreamResponse:
    if trouble.kind == "hang":
        await forever()
    if trouble.kind == "cut":
        return _cut(request)
    if trouble.kind == "endless":
        return await _endless(request)
    answers = {
        "garbage": web.Response(body=b'[{"id": 7, "core_ids": "all"}]', content_type="application/json"),
        "html": web.Response(text="<html>a proxy</html>", content_type="text/html"),
        "empty": web.Response(body=b""),
        "error": web.Response(status=500, text="internal error\n"),
    }
    return answers[trouble.kind]


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await answer.write(_ENDLESS)
    return answer
