"""A small API server on loopback, with a switch for every way in which a watch goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

JSON = dict[str, Any]


def config_map(name: str, *, namespace: str = "default", **data: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def status(code: int, reason: str, message: str, **details: Any) -> JSON:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


Handler = Callable[["ApiServer", web.Request], Any]


class ApiServer:
    """Collections of objects by path, with versions, a replayed history and open watches."""

    def __init__(self) -> None:
        self.version = 1
        self.oldest = 0
        self.objects: dict[tuple[str, str, str], JSON] = {}
        self.history: list[tuple[int, str, str, JSON]] = []
        self.requests: list[str] = []
        self.bodies: list[tuple[str, str, Any]] = []
        self.tokens: set[str] | None = None
        self.seen_tokens: list[str] = []
        self.fault: Handler | None = None
        self.watches: set[asyncio.Queue[tuple[int, str, str, JSON] | None]] = set()
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self._runner: web.AppRunner | None = None
        self._silent: asyncio.Server | None = None
        self._silent_writers: set[asyncio.StreamWriter] = set()
        self.accepted = 0

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=32 * 1024**2)
        app.router.add_route("*", "/{tail:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.tls, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._silent is not None:
            self._silent.close()
            for writer in self._silent_writers:
                writer.close()
            self._silent_writers.clear()
            await self._silent.wait_closed()
            self._silent = None

    async def go_silent(self) -> None:
        """Accept connections on the same port and never answer."""

        async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.accepted += 1
            self._silent_writers.add(writer)
            with contextlib.suppress(OSError):
                await reader.read()

        await self.stop()
        self._silent = await asyncio.start_server(swallow, "127.0.0.1", self.port)

    def drop_watches(self) -> None:
        for queue in self.watches:
            queue.put_nowait(None)

    def put(self, obj: JSON, *, plural: str = "configmaps") -> JSON:
        self.version += 1
        metadata = obj["metadata"]
        obj = {**obj, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        key = (plural, metadata.get("namespace", ""), metadata["name"])
        self._record("MODIFIED" if key in self.objects else "ADDED", plural, obj)
        self.objects[key] = obj
        return obj

    def remove(self, name: str, *, namespace: str = "default", plural: str = "configmaps") -> None:
        self.version += 1
        obj = self.objects.pop((plural, namespace, name))
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._record("DELETED", plural, obj)

    def forget_history(self) -> None:
        """From now on every version up to the present one is gone, as after a compaction."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def _record(self, kind: str, plural: str, obj: JSON) -> None:
        entry = (self.version, kind, plural, obj)
        self.history.append(entry)
        for queue in self.watches:
            queue.put_nowait(entry)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") == "true"
        self.requests.append(f"{'WATCH' if watching else request.method} {request.path_qs}")
        if self.tokens is not None:
            token = request.headers.get("Authorization", "").split(" ")[-1]
            self.seen_tokens.append(token)
            if token not in self.tokens:
                return web.json_response(status(401, "Unauthorized", "Unauthorized"), status=401)
        if self.fault is not None:
            answer = await self.fault(self, request)
            if answer is not None:
                return answer
        plural, namespace, name = parse_path(request.path)
        if watching:
            return await self._watch(request, plural)
        if name is None and request.method == "GET":
            return self._list(request, plural, namespace)
        body = await request.json() if request.can_read_body else None
        self.bodies.append((request.method, request.content_type, body))
        return self._one(request.method, plural, namespace, name, body)

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        found = [o for (p, ns, _), o in sorted(self.objects.items()) if p == plural and namespace in ("", ns)]
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0) or len(found) or 1
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(found):
            metadata["continue"] = str(start + limit)
        items = [{k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in found[start : start + limit]]
        return web.json_response({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return web.json_response(status(410, "Expired", "too old resource version"), status=410)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        for entry in self.history:
            queue.put_nowait(entry)
        self.watches.add(queue)
        try:
            while (entry := await queue.get()) is not None:
                version, kind, of, obj = entry
                if version > since and of == plural:
                    await send(response, {"type": kind, "object": obj})
        except ConnectionError:
            pass
        finally:
            self.watches.discard(queue)
        return response

    def _one(self, method: str, plural: str, namespace: str, name: str | None, body: Any) -> web.Response:
        name = name or body["metadata"]["name"]
        old = self.objects.get((plural, namespace, name))
        if method == "POST":
            if old is not None:
                return web.json_response(status(409, "AlreadyExists", f"{name} already exists"), status=409)
            body["metadata"].setdefault("namespace", namespace)
            return web.json_response(self.put(body, plural=plural), status=201)
        if old is None and method != "PATCH":
            return web.json_response(status(404, "NotFound", f"{plural} {name!r} not found"), status=404)
        if method == "GET":
            return web.json_response(old)
        if method == "PUT":
            if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
                return web.json_response(status(409, "Conflict", "the object has been modified"), status=409)
            return web.json_response(self.put(body, plural=plural))
        if method == "DELETE":
            self.remove(name, namespace=namespace, plural=plural)
            return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})
        return web.json_response({"echo": body})


def parse_path(path: str) -> tuple[str, str, str | None]:
    """(plural, namespace, name) of an API path."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts and parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return (parts[0] if parts else "", namespace, parts[1] if len(parts) > 1 else None)


async def send(response: web.StreamResponse, event: JSON | bytes) -> None:
    line = event if isinstance(event, bytes) else json.dumps(event).encode()
    await response.write(line + b"\n")


def write_kubeconfig(path: Path, server: str, *, user: JSON | None = None, ca: Path | None = None) -> Path:
    cluster: JSON = {"server": server}
    if ca is not None:
        cluster["certificate-authority"] = str(ca)
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": user or {"token": "static"}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
        )
    )
    return path
