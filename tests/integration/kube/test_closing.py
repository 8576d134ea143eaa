"""A closed client leaves no connection behind, also where the server does not close its side of TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from app.devtools.clusters.certificates import write_webhook_certificate
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS
from app.kube.transport import connect
from tests.support.fake_apiserver import write_kubeconfig
from tests.support.waiting import PATIENCE

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Mute:
    """Takes one request, sends this beginning of an answer, and neither reads nor closes after that."""

    def __init__(self, folder: Path, answer: bytes) -> None:
        write_webhook_certificate(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._listener, self._answer = socket.create_server(("127.0.0.1", 0)), answer
        self.asked, self._over = threading.Event(), threading.Event()
        url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", url, ca=folder / "ca.crt")

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._listener.close()

    def _serve(self) -> None:
        plain, _ = self._listener.accept()
        # The client may give up before it has sent anything.
        with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(self._answer)
            self.asked.set()
            self._over.wait()


async def watched(client: KubeClient, _mute: Mute) -> None:
    async with aclosing(client.watch(CONFIG_MAPS, resource_version="1")) as lines:
        assert await anext(lines) == b""


async def cancelled(client: KubeClient, mute: Mute) -> None:
    request = asyncio.create_task(client.list_page(CONFIG_MAPS))
    await asyncio.to_thread(mute.asked.wait)
    request.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await request


async def given_up(client: KubeClient, _mute: Mute) -> None:
    with pytest.raises(ApiError):
        await client.list_page(CONFIG_MAPS)


@pytest.mark.parametrize(
    ("answer", "use", "deadline"),
    [
        pytest.param(HEAD, watched, PATIENCE, id="watch"),
        pytest.param(b"", cancelled, PATIENCE, id="no answer"),
        pytest.param(HEAD + b"1\r\n{\r\n", given_up, 1.0, id="half an answer"),
    ],
)
def test_nothing_is_left(
    tmp_path: Path, answer: bytes, use: Callable[[KubeClient, Mute], Awaitable[None]], deadline: float
) -> None:
    mute = Mute(tmp_path, answer)

    async def run() -> None:
        async with await connect(kubeconfig=str(mute.kubeconfig), deadline=deadline) as client:
            await use(client, mute)

    with mute.serving(), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(run())
        gc.collect()
    assert [str(one.message) for one in found] == []
