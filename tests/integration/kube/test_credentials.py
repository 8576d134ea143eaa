"""Who we are to the server, over TLS: static tokens, expiring tokens of an exec plugin, the service account."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import ipaddress
import json
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.aio.config import incluster_config

from app.errors import ApiError, UsageError
from app.kube import credentials
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS
from app.kube.transport import Session, connect
from tests.support.fake_apiserver import ApiServer, config_map, write_kubeconfig
from tests.support.waiting import PATIENCE, eventually


def issue(directory: Path) -> tuple[Path, ssl.SSLContext]:
    """A fresh authority's certificate and a server context that it vouches for."""
    directory.mkdir(exist_ok=True)
    now = dt.datetime.now(dt.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def builder(subject: x509.Name, public_key: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )

    usage = dict.fromkeys(
        [
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ],
        False,
    )
    ca = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{**usage, "key_cert_sign": True}), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test server")])
    leaf = builder(subject, key.public_key()).add_extension(names, critical=False).sign(ca_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (directory / "ca.crt").write_bytes(ca.public_bytes(pem))
    (directory / "tls.crt").write_bytes(leaf.public_bytes(pem))
    (directory / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return directory / "ca.crt", context


@pytest_asyncio.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Path]]:
    """A TLS server that wants a known token, and its authority's file."""
    api = ApiServer()
    ca, api.tls = issue(tmp_path / "pki")
    api.tokens = set()
    await api.start()
    api.put(config_map("a"))
    yield api, ca
    await api.stop()


PLUGIN = """\
import datetime, json, pathlib, sys, time
counter, ttl, pause = pathlib.Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
time.sleep(pause)
number = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(number))
status = {"token": f"token-{number}"}
if ttl:
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ttl)
    status["expirationTimestamp"] = expiry.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


class Plugin:
    """A kubeconfig whose user is an exec plugin that issues token-1, token-2 …"""

    def __init__(self, directory: Path, server: ApiServer, ca: Path, *, ttl: float, pause: float = 0) -> None:
        self.counter = directory / "counter"
        script = directory / "plugin.py"
        script.write_text(PLUGIN)
        user = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": ["-I", str(script), str(self.counter), str(ttl), str(pause)],
                "interactiveMode": "Never",
            }
        }
        self.kubeconfig = str(write_kubeconfig(directory / "kubeconfig", server.url, user=user, ca=ca))

    @property
    def runs(self) -> int:
        return int(self.counter.read_text())


async def read(client: KubeClient) -> str:
    return str((await client.get(CONFIG_MAPS, "a", namespace="default"))["metadata"]["name"])


async def test_token_over_tls(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    server, ca = secure
    server.tokens = {"static"}
    async with await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server.url, ca=ca))) as client:
        assert await read(client) == "a"
    assert server.seen_tokens == ["static"]


async def test_untrusted_server_is_refused(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    server, _ = secure
    other, _ = issue(tmp_path / "other")
    async with await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server.url, ca=other))) as client:
        with pytest.raises(ApiError, match="certificate") as caught:
            await read(client)
    assert caught.value.status == 0
    assert server.requests == []


async def test_rotated_authority_is_read_again(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    """The file that the kubeconfig names gets the right authority after the first connection failed."""
    server, ca = secure
    server.tokens = {"static"}
    known, _ = issue(tmp_path / "known")
    async with await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server.url, ca=known))) as client:
        known.write_bytes(ca.read_bytes())
        assert await read(client) == "a"


async def test_exec_token_is_renewed_before_it_expires(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    server, ca = secure
    server.tokens = {"token-1", "token-2"}
    plugin = Plugin(tmp_path, server, ca, ttl=200)
    now = time.time()
    found = credentials.KubeConfig(plugin.kubeconfig, clock=lambda: now)
    await found.reload()
    async with KubeClient(Session(found)) as client:
        await asyncio.gather(*(read(client) for _ in range(5)))
        assert plugin.runs == 1
        now += 190.0
        await asyncio.gather(*(read(client) for _ in range(5)))
        assert plugin.runs == 2
    assert server.seen_tokens == ["token-1"] * 5 + ["token-2"] * 5


async def test_exec_token_is_not_renewed_early(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    server, ca = secure
    server.tokens = {"token-1"}
    plugin = Plugin(tmp_path, server, ca, ttl=200)
    async with await connect(kubeconfig=plugin.kubeconfig) as client:
        for _ in range(3):
            await read(client)
    assert plugin.runs == 1


async def test_401_reloads_once_for_all_and_tries_again(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    """A revoked token costs no caller an error, and the plugin runs once however many were refused."""
    server, ca = secure
    server.tokens = {"token-1"}
    plugin = Plugin(tmp_path, server, ca, ttl=3600)
    async with await connect(kubeconfig=plugin.kubeconfig) as client:
        await read(client)
        server.tokens = {"token-2"}
        assert await asyncio.gather(*(read(client) for _ in range(8))) == ["a"] * 8
        assert plugin.runs == 2
        lines = client.watch(CONFIG_MAPS, resource_version="1")
        server.tokens = {"token-3"}
        await asyncio.sleep(1.0)
        assert await anext(lines) == b""
        await lines.aclose()


async def test_401_that_stays_is_told_without_running_the_plugin_each_time(
    secure: tuple[ApiServer, Path], tmp_path: Path
) -> None:
    server, ca = secure
    plugin = Plugin(tmp_path, server, ca, ttl=3600)
    async with await connect(kubeconfig=plugin.kubeconfig) as client:
        for _ in range(6):
            with pytest.raises(ApiError) as caught:
                await read(client)
            assert caught.value.status == 401
    assert plugin.runs <= 3


async def test_slow_plugin_outlives_the_request_that_started_it(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    """Requests run into their deadline while it works; none of them starts another one."""
    server, ca = secure
    server.tokens = {"token-2"}
    plugin = Plugin(tmp_path, server, ca, ttl=3600, pause=0.6)
    async with await connect(kubeconfig=plugin.kubeconfig, deadline=0.25) as client:
        for _ in range(2):
            with pytest.raises(ApiError, match="no answer in time"):
                await read(client)
        await eventually(lambda: plugin.runs == 2)
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(ApiError):
                    assert await read(client) == "a"
                    break
    assert plugin.runs == 2


async def test_kubeconfig_edited_after_a_refusal(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    server, ca = secure
    server.tokens = {"fresh"}
    path = write_kubeconfig(tmp_path / "k", server.url, ca=ca)
    async with await connect(kubeconfig=str(path)) as client:
        write_kubeconfig(path, server.url, ca=ca, user={"token": "fresh"})
        assert await read(client) == "a"


async def test_reload_that_fails_leaves_the_refusal(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    server, ca = secure
    path = write_kubeconfig(tmp_path / "k", server.url, ca=ca)
    async with await connect(kubeconfig=str(path)) as client:
        path.write_text("{")
        with pytest.raises(ApiError) as caught:
            await read(client)
    assert caught.value.status == 401


async def test_a_kubeconfig_that_cannot_be_used_sends_no_token_to_its_server(
    secure: tuple[ApiServer, Path], tmp_path: Path
) -> None:
    """The token that we have belongs to the server that we had."""
    server, ca = secure
    path = write_kubeconfig(tmp_path / "k", server.url, ca=ca)
    broken = tmp_path / "broken.crt"
    broken.write_text("not a certificate")
    async with await connect(kubeconfig=str(path)) as client:
        write_kubeconfig(path, "https://127.0.0.1:1", ca=broken)
        for _ in range(2):
            with pytest.raises(ApiError) as caught:
                await read(client)
            assert caught.value.status == 401
    assert server.seen_tokens == ["static"] * 2


async def test_service_account_is_preferred_and_its_token_read_again(
    secure: tuple[ApiServer, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, ca = secure
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT_TOKEN", token)
    monkeypatch.setitem(os.environ, "KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setitem(os.environ, "KUBERNETES_SERVICE_PORT", str(server.port))
    server.tokens = {"first"}
    async with await connect(kubeconfig=None) as client:
        assert await read(client) == "a"
        token.write_text("second\n")
        server.tokens = {"second"}
        assert await read(client) == "a"
    assert server.seen_tokens == ["first", "first", "second"]


async def test_malformed_authority_is_a_usage_error(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("not a certificate")
    with pytest.raises(UsageError, match="TLS files"):
        await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", "https://127.0.0.1:1", ca=ca)))


@pytest.mark.parametrize(
    "server", ["", "host", "no url", "ftp://host", "https://host:99999", "https://[::1", "https://"]
)
async def test_a_server_that_nothing_can_be_sent_to_is_a_usage_error(tmp_path: Path, server: str) -> None:
    with pytest.raises(UsageError, match=r"^kubeconfig .*k: ") as caught:
        await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server)))
    assert "\n" not in str(caught.value)


def id_token(name: str, *, left: float) -> str:
    """An unsigned identity token that expires in so many seconds."""
    claims = {"sub": name, "exp": int(dt.datetime.now(dt.UTC).timestamp() + left)}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)]
    return ".".join([*parts, name])


# The official loader opens its connection to the provider in ways that aiohttp deprecates.
@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The 'auth' parameter is deprecated:DeprecationWarning")
async def test_oidc_token_is_renewed_and_its_refresh_token_kept(secure: tuple[ApiServer, Path], tmp_path: Path) -> None:
    """A provider that takes each refresh token once: after a refusal the newest one is used, not the file's.

    It is reached over TLS and verified: nothing is sent to one that the kubeconfig does not vouch for.
    """
    server, ca = secure
    issuer_ca, issuer_tls = issue(tmp_path / "issuer")
    grants: list[str] = []

    async def metadata(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"https://{request.host}/token"})

    async def grant(request: web.Request) -> web.Response:
        form = await request.post()
        grants.append(str(form["refresh_token"]))
        number = len(grants)
        token = id_token(f"granted-{number}", left=30 if number == 1 else 3600)
        return web.json_response({"id_token": token, "refresh_token": f"refresh-{number}"})

    app = web.Application()
    app.add_routes([web.get("/.well-known/openid-configuration", metadata), web.post("/token", grant)])
    issuer = TestServer(app, scheme="https", host="127.0.0.1")
    await issuer.start_server(ssl=issuer_tls)
    try:
        config = {
            "client-id": "berth",
            "client-secret": "s",
            "id-token": id_token("old", left=-60),
            "idp-issuer-url": f"https://127.0.0.1:{issuer.port}",
            "refresh-token": "refresh-0",
        }
        user = {"auth-provider": {"name": "oidc", "config": config}}
        with pytest.raises(UsageError, match="certificate"):
            await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server.url, ca=ca, user=user)))
        assert grants == []
        config["idp-certificate-authority-data"] = base64.b64encode(issuer_ca.read_bytes()).decode()
        kubeconfig = str(write_kubeconfig(tmp_path / "k", server.url, ca=ca, user=user))
        async with await connect(kubeconfig=kubeconfig) as client:
            assert grants == ["refresh-0"]
            with pytest.raises(ApiError) as caught:
                await read(client)
            assert caught.value.status == 401
            assert grants == ["refresh-0", "refresh-1"]
            assert server.tokens is not None
            server.tokens.add(server.seen_tokens[-1])
            assert await read(client) == "a"
        assert server.seen_tokens[-1].endswith("granted-2")
    finally:
        await issuer.close()
