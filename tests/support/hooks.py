"""A webhook server beside an API server of the tests, whose answers a test decides."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from app.devtools.sandbox.pki import Authority, server_context
from tests.support.waiting import PATIENCE

BASE = "/apis/admissionregistration.k8s.io/v1"


class Hook:
    """A webhook server in the cluster's loop; `answer` decides, `reviews` keeps what came."""

    def __init__(self) -> None:
        self.reviews: list[dict[str, Any]] = []
        self.answer: Any = lambda _request: {"allowed": True}
        self.authority = Authority("hook-ca")
        self.port = 0

    def client(self, path: str = "review") -> dict[str, Any]:
        """The clientConfig of a webhook that is served here."""
        bundle = base64.b64encode(self.authority.pem).decode()
        return {"url": f"https://127.0.0.1:{self.port}/{path}", "caBundle": bundle}

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/{path}", self._serve)
        runner = web.AppRunner(app)
        await runner.setup()
        pair = self.authority.serving(["hook.test.svc", "127.0.0.1"])
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(pair, self.authority.pem))
        await site.start()
        self.port = runner.addresses[0][1]
        return runner

    async def _serve(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


async def ended(runner: web.AppRunner) -> None:
    """The TLS connections of the API server take a moment to close."""
    await runner.cleanup()
    await asyncio.sleep(0.5)


def patching(*operations: Any) -> dict[str, Any]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


@contextlib.contextmanager
def hooked() -> Iterator[Hook]:
    """A webhook server, in a loop of its own."""
    hook = Hook()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(hook.start(), loop).result(PATIENCE)
    yield hook
    asyncio.run_coroutine_threadsafe(ended(runner), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()


@pytest.fixture
def hook(served: Any) -> Iterator[Hook]:
    with hooked() as hook:
        yield hook
        for kind in ("mutating", "validating"):
            served.request("DELETE", f"{BASE}/{kind}webhookconfigurations")
