"""A cluster of the sandbox in a thread of its own, so that blocking clients (Python, kubectl) can be run against it;
and a webhook server with the dispatcher that calls it."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import urllib3
import yaml
from aiohttp import web

from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.webhooks.admission import WebhookDispatcher
from tests.patience import PATIENCE
from tests.sandbox.webhookserver import Server, issue

JSON = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Any


class Served:
    """A running cluster and ways to reach it."""

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self.cluster = cluster
        self.loop = loop
        self.folder = folder
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._namespaces = 0

    def inside(self, function: Callable[[], Any]) -> Any:
        """Run something on the cluster's own loop."""

        async def call() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(10)

    def kubeconfig(self, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        if not path.exists():
            path.write_text(self.cluster.kubeconfig(user, groups))
        return path

    def pool(self, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)) -> urllib3.PoolManager:
        if user not in self._pools:
            config = yaml.safe_load(self.kubeconfig(user, groups).read_text())
            entry = config["users"][0]["user"]
            certificate, key = self.folder / f"{user}.crt", self.folder / f"{user}.key"
            certificate.write_bytes(base64.b64decode(entry["client-certificate-data"]))
            key.write_bytes(base64.b64decode(entry["client-key-data"]))
            context = ssl.create_default_context(cadata=self.cluster.ca_pem)
            context.load_cert_chain(certificate, key)
            self._pools[user] = urllib3.PoolManager(ssl_context=context, retries=False, timeout=PATIENCE)
        return self._pools[user]

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        groups: tuple[str, ...] = ("system:masters",),
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": content_type, "Accept": "application/json", **(headers or {})}
        got = self.pool(user, groups).request(method, self.cluster.url + path, body=data, headers=sent)
        text = got.data
        return Answer(got.status, json.loads(text) if text.startswith((b"{", b"[")) else text, got.headers)

    def watch(self, path: str, *, count: int) -> list[JSON]:
        """The first events of a watch; fewer where it ends before."""
        got = self.pool().request("GET", self.cluster.url + path, preload_content=False)
        events: list[JSON] = []
        rest = b""
        for chunk in got.stream(65536):
            rest += chunk
            *lines, rest = rest.split(b"\n")
            events += [json.loads(line) for line in lines]
            if len(events) >= count:
                break
        got.close()
        return events[:count]

    def namespace(self) -> str:
        """A fresh namespace, so that tests do not meet each other's objects."""
        self._namespaces += 1
        name = f"test-{self._namespaces}"
        answer = self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.status == 201, answer.body
        return name

    def kubectl(self, *arguments: str, stdin: str = "", user: str = "admin") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                "kubectl",
                "--kubeconfig",
                str(self.kubeconfig(user)),
                "--cache-dir",
                str(self.folder / "cache"),
                *arguments,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


HAS_KUBECTL = shutil.which("kubectl") is not None


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cluster = Cluster("test", bookmark_interval=0.2, window=500)
    asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(20)
    server = Served(cluster, loop, tmp_path_factory.mktemp("served"))
    yield server
    for pool in server._pools.values():
        pool.clear()
    asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def namespace(served: Served) -> str:
    return served.namespace()


@pytest.fixture
def has_kubectl() -> bool:
    """Whether kubectl is installed; its tests check the same promises over HTTP where it is not."""
    return HAS_KUBECTL


@pytest_asyncio.fixture(name="server")
async def webhook_server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server()
    made.ca = issue(tmp_path / "server.pem", ["svc.hooks.svc", "localhost"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem")
    context.sni_callback = lambda _, name, __: made.snis.append(name)
    application = web.Application()
    application.router.add_post("/{tail:.*}", made.handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


@pytest_asyncio.fixture
async def dispatcher(server: Server) -> AsyncIterator[WebhookDispatcher]:
    def resolve(namespace: str, name: str, port: int) -> tuple[str, int] | None:
        return ("127.0.0.1", server.port) if (namespace, name, port) == ("hooks", "svc", 443) else None

    versions = {("x.io", "things"): ["v1", "v2"]}
    made = WebhookDispatcher(
        server.configurations.__getitem__,
        server.namespaces.get,
        resolve,
        versions=lambda g, r: versions.get((g, r), []),
    )
    yield made
    await made.close()
    await asyncio.sleep(0)
