"""What the client takes from the environment: proxies where there are any, and no stranger's password."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS
from app.kube.transport import connect
from tests.support.fake_apiserver import ApiServer, write_kubeconfig


async def test_password_of_a_netrc_is_never_sent(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be read anew for every request, and it is not meant for API servers."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    sent: list[str] = []

    async def listen(_server: ApiServer, request: web.Request) -> None:
        sent.append(request.headers.get("Authorization", ""))

    server.fault = listen
    async with await connect(kubeconfig=str(write_kubeconfig(tmp_path / "kubeconfig", server.url))) as client:
        await client.list_page(CONFIG_MAPS)
    assert sent == ["Bearer static"]


async def test_proxy_of_the_environment_is_used(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens where the proxy should be, so a request that goes through it fails."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
    async with await connect(kubeconfig=str(kubeconfig), deadline=3) as client:
        with pytest.raises(ApiError):
            await client.list_page(CONFIG_MAPS)
    assert not server.requests
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with await connect(kubeconfig=str(kubeconfig), deadline=3) as client:
        await client.list_page(CONFIG_MAPS)
    assert server.requests


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
async def test_a_kubeconfig_with_a_byte_order_mark_is_read(server: ApiServer, tmp_path: Path, encoding: str) -> None:
    """As kubectl reads it."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
    kubeconfig.write_text(kubeconfig.read_text(), encoding=encoding)
    async with await connect(kubeconfig=str(kubeconfig), deadline=3) as client:
        await client.list_page(CONFIG_MAPS)
    assert server.requests
