"""API servers for tests that state what one does: the sandbox's, in a thread of its own, and a real one where its
binaries are given; and a webhook server with the dispatcher that calls it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import urllib3
import yaml
from aiohttp import web

from app.certs.issuing import issue_client
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.webhooks.admission import WebhookDispatcher
from tests.support.real_apiserver import read_authority, real_api_servers
from tests.support.waiting import PATIENCE, wait_until
from tests.support.webhook_server import Server, issue

JSON = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Any


class Served:
    """A running API server and ways to reach it."""

    def __init__(self, url: str, ca_pem: str, folder: Path) -> None:
        self.url = url
        self.ca_pem = ca_pem
        self.folder = folder
        self._pools: dict[str, urllib3.PoolManager] = {}

    def _new_kubeconfig(self, user: str, groups: tuple[str, ...]) -> str:
        raise NotImplementedError

    def kubeconfig(self, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        if not path.exists():
            path.write_text(self._new_kubeconfig(user, groups))
        return path

    def pool(self, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)) -> urllib3.PoolManager:
        if user not in self._pools:
            config = yaml.safe_load(self.kubeconfig(user, groups).read_text())
            entry = config["users"][0]["user"]
            certificate, key = self.folder / f"{user}.crt", self.folder / f"{user}.key"
            certificate.write_bytes(base64.b64decode(entry["client-certificate-data"]))
            key.write_bytes(base64.b64decode(entry["client-key-data"]))
            context = ssl.create_default_context(cadata=self.ca_pem)
            context.load_cert_chain(certificate, key)
            self._pools[user] = urllib3.PoolManager(ssl_context=context, retries=False, timeout=PATIENCE)
        return self._pools[user]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()

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
        got = self.pool(user, groups).request(method, self.url + path, body=data, headers=sent)
        text = got.data
        return Answer(got.status, json.loads(text) if text.startswith(b"{") else text, got.headers)

    def watch(self, path: str, *, count: int) -> list[JSON]:
        """The first events of a watch; fewer where it ends before."""
        got = self.pool().request("GET", self.url + path, preload_content=False)
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
        name = f"test-{next(_NUMBERS):04}"
        answer = self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.status == 201, answer.body
        return name

    def define(self, crd: JSON) -> JSON:
        """Creates the definition and waits until its resources are served."""
        answer = self.request("POST", CRDS, crd)
        assert answer.status == 201, answer.body["message"]
        spec = crd["spec"]
        for version in spec["versions"]:
            self.until(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}", 200)
        return self.request("GET", f"{CRDS}/{crd['metadata']['name']}").body

    def undefine(self, name: str) -> None:
        """Deletes a definition and waits until it is gone."""
        self.request("DELETE", f"{CRDS}/{name}")
        plural, _, group = name.partition(".")
        self.until(f"{CRDS}/{name}", 404)
        self.until(f"/apis/{group}/v1/{plural}", 404)

    def until(self, path: str, status: int) -> None:
        """A real API server takes up definitions a moment after they were written."""
        wait_until(lambda: self.request("GET", path).status == status)

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


class Sandboxed(Served):
    """A cluster of the sandbox, whose inside can be reached."""

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        super().__init__(cluster.url, cluster.ca_pem, folder)
        self.cluster = cluster
        self.loop = loop

    def _new_kubeconfig(self, user: str, groups: tuple[str, ...]) -> str:
        return self.cluster.kubeconfig(user, groups)

    def inside(self, function: Callable[[], Any]) -> Any:
        """Run something on the cluster's own loop."""

        async def call() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(PATIENCE)


class Real(Served):
    """A real API server, where its binaries are given."""

    def __init__(self, directory: Path, folder: Path) -> None:
        self._config = yaml.safe_load((directory / "admin.kubeconfig").read_text())
        self._authority = read_authority(directory)
        url = self._config["clusters"][0]["cluster"]["server"]
        super().__init__(url, (directory / "ca.crt").read_text(), folder)

    def _new_kubeconfig(self, user: str, groups: tuple[str, ...]) -> str:
        now = datetime.now(UTC)
        pair = issue_client(self._authority, common_name=user, organizations=list(groups), now=now, days=1)
        files = {"client-certificate-data": pair.certificate_pem, "client-key-data": pair.key_pem}
        encoded = {name: base64.b64encode(content).decode() for name, content in files.items()}
        return yaml.safe_dump({**self._config, "users": [{"name": "admin", "user": encoded}]})


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NUMBERS = itertools.count(1)
_ASSETS = os.environ.get("KUBEBUILDER_ASSETS")


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("real")
    with real_api_servers(Path(_ASSETS or ""), directory, ["conformance"]):
        yield directory / "conformance"


@contextlib.contextmanager
def sandbox(folder: Path) -> Iterator[Sandboxed]:
    """A cluster of the sandbox in a thread of its own; kubeconfigs are written into the folder."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cluster = Cluster("test", bookmark_interval=0.2, window=500)
    asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(PATIENCE)
    server = Sandboxed(cluster, loop, folder)
    try:
        yield server
    finally:
        server.close()
        asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@pytest.fixture(scope="module")
def sandboxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandboxed]:
    """The sandbox, for tests that look inside, or that state what only the sandbox does."""
    with sandbox(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(
    scope="module",
    params=["sandbox", *([pytest.param("real", marks=pytest.mark.conformance)] if _ASSETS else [])],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An API server: the sandbox's and, where `KUBEBUILDER_ASSETS` names its folder, a real one."""
    if request.param == "sandbox":
        yield request.getfixturevalue("sandboxed")
        return
    server = Real(request.getfixturevalue("real_server"), tmp_path_factory.mktemp("served"))
    server.until("/readyz", 200)
    yield server
    server.close()


@pytest.fixture
def namespace(served: Served) -> str:
    return served.namespace()


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
