"""The real client against real HTTP: what it sends, what it makes of bad answers."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

from app.certs.issuing import issue_authority
from app.errors import ApiError, UsageError
from app.kube import credentials
from app.kube.answers import MESSAGE_LIMIT, delay_of
from app.kube.client import KubeClient
from app.kube.credentials import context_names
from app.kube.resources import CONFIG_MAPS, LEASES, NODES, PODS, Resource
from app.kube.retry import get_or_none
from app.kube.transport import Session, connect
from tests.support.fake_apiserver import ApiServer, config_map, status, write_kubeconfig
from tests.support.waiting import eventually


async def test_create_get_replace_delete(server: ApiServer, client: KubeClient) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"), namespace="default")
    read = await client.get(CONFIG_MAPS, "a", namespace="default")
    assert read == made
    read["data"]["x"] = "2"
    replaced = await client.replace(CONFIG_MAPS, "a", read, namespace="default")
    assert replaced["data"] == {"x": "2"}
    with pytest.raises(ApiError) as caught:
        await client.replace(CONFIG_MAPS, "a", read, namespace="default")
    assert caught.value.conflict
    assert caught.value.reason == "Conflict"
    await client.delete(CONFIG_MAPS, "a", namespace="default", uid="u-1", grace_period_seconds=0)
    assert server.bodies[-1][2]["preconditions"] == {"uid": "u-1"}
    assert server.bodies[-1][2]["gracePeriodSeconds"] == 0
    with pytest.raises(ApiError) as missing:
        await client.get(CONFIG_MAPS, "a", namespace="default")
    assert missing.value.not_found
    assert "'a' not found" in str(missing.value)


@pytest.mark.parametrize(
    ("patch_type", "body", "content_type"),
    [
        ("json", [{"op": "add", "path": "/data/x", "value": "1"}], "application/json-patch+json"),
        ("merge", {"data": {"x": None}}, "application/merge-patch+json"),
        ("strategic", {"data": {"x": "1"}}, "application/strategic-merge-patch+json"),
    ],
)
async def test_patch_types(
    server: ApiServer, client: KubeClient, patch_type: str, body: object, content_type: str
) -> None:
    await client.patch(CONFIG_MAPS, "a", body, patch_type=patch_type, namespace="default")
    assert server.bodies[-1] == ("PATCH", content_type, body)


async def test_apply_names_its_manager_and_keeps_unknown_fields(server: ApiServer, client: KubeClient) -> None:
    body = {**config_map("a"), "futureField": {"deep": [1, None]}}
    answer = await client.apply(CONFIG_MAPS, "a", body, namespace="default", subresource="status")
    assert answer["echo"] == body
    assert server.bodies[-1][1] == "application/apply-patch+yaml"
    assert server.requests[-1].startswith("PATCH /api/v1/namespaces/default/configmaps/a/status?")
    assert "fieldManager=berth" in server.requests[-1]
    assert "force=true" in server.requests[-1]


async def test_bodies_are_as_go_writes_them(server: ApiServer, client: KubeClient) -> None:
    sent: list[bytes] = []

    async def keep(_server: ApiServer, request: web.Request) -> web.Response:
        sent.append(await request.read())
        return web.json_response({})

    server.fault = keep
    await client.create(CONFIG_MAPS, {"b": [1, {}], "a": "<é>&\u2028"}, namespace="default")
    await client.patch(CONFIG_MAPS, "a", [{"op": "remove", "path": "/data"}], patch_type="json", namespace="default")
    await client.patch(CONFIG_MAPS, "a", {}, patch_type="merge", namespace="default")
    assert sent == [
        '{"a":"\\u003cé\\u003e\\u0026\\u2028","b":[1,{}]}'.encode(),
        b'[{"op":"remove","path":"/data"}]',
        b"{}",
    ]


async def test_list_items_say_what_they_are(server: ApiServer, client: KubeClient) -> None:
    """The API leaves apiVersion and kind out of list items."""
    server.put(config_map("a"))
    page = await client.list_page(CONFIG_MAPS)
    assert page.items[0]["kind"] == "ConfigMap"
    assert page.items[0]["apiVersion"] == "v1"
    assert page.continue_token == ""
    assert page.resource_version == str(server.version)


BAD_SEGMENTS = ("", ".", "..", "a/b", "../x", "a%2fb", "%2e%2e", "/")


@pytest.mark.parametrize("segment", BAD_SEGMENTS)
async def test_names_cannot_climb_out_of_their_path(server: ApiServer, client: KubeClient, segment: str) -> None:
    """As the API server's own rule for segments of a path: nothing is sent."""
    resource = Resource("example.com", "v1", "widgets", "Widget")
    for path in (
        lambda: PODS.path(namespace="ns", name=segment),
        lambda: PODS.path(namespace=segment, name="x"),
        lambda: PODS.path(namespace="ns", name="x", subresource=segment),
        lambda: replace(resource, plural=segment).path(),
        lambda: replace(resource, version=segment).path(),
    ):
        with pytest.raises(ApiError, match="cannot be part of a path") as caught:
            path()
        assert caught.value.rejected
    with pytest.raises(ApiError, match="use a name without '/' and '%'"):
        await client.get(PODS, segment, namespace="ns")
    assert server.requests == []


async def test_a_name_with_other_characters_is_quoted(server: ApiServer, client: KubeClient) -> None:
    with pytest.raises(ApiError):
        await client.get(PODS, "x?y#z;ü", namespace="a")
    assert server.requests[-1].startswith("GET /api/v1/namespaces/a/pods/x%3Fy%23z")


@pytest.mark.parametrize("code", [300, 301, 302, 303, 304, 307, 308])
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_no_redirect_is_followed(server: ApiServer, client: KubeClient, code: int, *, elsewhere: bool) -> None:
    """The token, and who is impersonated, go to the API server alone."""
    location = "http://127.0.0.1:9/x" if elsewhere else "/api/v1/namespaces/default/secrets/s"

    async def redirect(_server: ApiServer, _request: web.Request) -> web.Response:
        return web.Response(status=code, headers={"Location": location})

    server.fault = redirect
    for request in (
        lambda: client.get(CONFIG_MAPS, "a", namespace="default"),
        lambda: client.create(CONFIG_MAPS, config_map("a"), namespace="default"),
        lambda: client.relayed("/api/v1/namespaces/default/pods/a:1/proxy/readyz"),
    ):
        server.requests.clear()
        with pytest.raises(ApiError, match=f"HTTP {code}: the answer is a redirect, and no redirect is followed"):
            await request()
        assert len(server.requests) == 1


def test_paths() -> None:
    assert LEASES.path(namespace="ns", name="n") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/n"
    assert NODES.path(namespace="ignored", name="n", subresource="status") == "/api/v1/nodes/n/status"


async def test_watch_says_first_that_it_is_open(server: ApiServer, client: KubeClient) -> None:
    server.put(config_map("a"))
    lines = client.watch(CONFIG_MAPS, resource_version="1")
    assert await anext(lines) == b""
    assert b'"ADDED"' in await anext(lines)
    await lines.aclose()
    await eventually(lambda: not server.watches)


def answering(response: web.Response) -> object:
    async def fault(server: ApiServer, request: web.Request) -> web.Response:
        return response

    return fault


async def test_status_is_read_and_cut(server: ApiServer, client: KubeClient) -> None:
    body = status(429, "TooManyRequests", "line one\nline two " + "x" * 1000, retryAfterSeconds=7)
    server.fault = answering(web.json_response(body, status=429))
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "a", namespace="b")
    error = caught.value
    assert (error.status, error.reason, error.delay) == (429, "TooManyRequests", 7)
    assert len(str(error)) <= MESSAGE_LIMIT
    assert "\n" not in str(error)
    assert str(error).startswith("GET /api/v1/namespaces/b/pods/a: HTTP 429: line one line two")


async def test_status_that_comes_in_pieces_is_read_whole(server: ApiServer, client: KubeClient) -> None:
    body = json.dumps(status(422, "Invalid", "spec.foo: bad value")).encode()

    async def in_pieces(server: ApiServer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=422, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in (body[:20], body[20:]):
            await response.write(piece)
            await asyncio.sleep(0.1)
        return response

    server.fault = in_pieces
    with pytest.raises(ApiError, match=r"HTTP 422: spec\.foo: bad value") as caught:
        await client.get(PODS, "a", namespace="b")
    assert caught.value.reason == "Invalid"


@pytest.mark.parametrize(
    "response",
    [
        lambda: web.Response(status=500, text="password=hunter2"),
        lambda: web.json_response({"kind": "Secret", "message": "hunter2", "data": {"p": "hunter2"}}, status=500),
        lambda: web.Response(status=200, text="hunter2"),
        lambda: web.json_response(["hunter2"]),
        lambda: web.Response(status=204),
    ],
)
async def test_other_bodies_never_reach_the_message(server: ApiServer, client: KubeClient, response: object) -> None:
    server.fault = answering(response())
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "a", namespace="b")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in caught.value.reason


async def test_retry_after_header(server: ApiServer, client: KubeClient) -> None:
    server.fault = answering(web.Response(status=503, headers={"Retry-After": "3"}))
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "a", namespace="b")
    assert caught.value.delay == 3


@pytest.mark.parametrize(
    ("header", "delay"),
    [
        (None, None),
        ("", None),
        ("2.5", 2.5),
        ("-1", 0),
        ("99999", 300),
        ("nan", None),
        ("soon", None),
        (format_datetime(dt.datetime.fromtimestamp(1060, dt.UTC), usegmt=True), 60),
    ],
)
def test_retry_after_forms(header: str | None, delay: float | None) -> None:
    assert delay_of(header, clock=lambda: 1000.0) == delay


async def test_no_answer_is_status_zero(server: ApiServer, client: KubeClient) -> None:
    await server.stop()
    with pytest.raises(ApiError) as caught:
        await client.get(PODS, "a", namespace="b")
    assert caught.value.status == 0
    with pytest.raises(ApiError) as watched:
        await anext(client.watch(PODS, resource_version="1"))
    assert watched.value.status == 0


async def test_deadline_bounds_the_whole_answer(server: ApiServer, tmp_path: Path) -> None:
    """Headers alone do not stop the clock: a body that never ends is no answer."""

    async def dribble(server: ApiServer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    server.fault = dribble
    kubeconfig = write_kubeconfig(tmp_path / "k", server.url)
    async with await connect(kubeconfig=str(kubeconfig), deadline=0.2) as client:
        with pytest.raises(ApiError, match="no answer in time") as caught:
            await client.get(PODS, "a", namespace="b")
    assert caught.value.status == 0


async def test_caller_can_cancel(server: ApiServer, client: KubeClient) -> None:
    async def wait(server: ApiServer, request: web.Request) -> None:
        await asyncio.sleep(30)

    server.fault = wait
    task = asyncio.create_task(client.get(PODS, "a", namespace="b"))
    await eventually(lambda: bool(server.requests))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closed_client_answers_like_a_lost_server(server: ApiServer, tmp_path: Path) -> None:
    client = await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server.url)))
    await client.close()
    with pytest.raises(ApiError, match="closed") as caught:
        await client.get(PODS, "a", namespace="b")
    assert caught.value.status == 0


async def test_a_watch_whose_connection_went_between_two_reads_is_a_lost_server(
    server: ApiServer, tmp_path: Path
) -> None:
    """Nobody waited at that moment, so that no error was left for the next read."""
    client = await connect(kubeconfig=str(write_kubeconfig(tmp_path / "k", server.url)))
    server.put(config_map("a"))
    lines = client.watch(CONFIG_MAPS, resource_version="1")
    assert await anext(lines) == b""
    assert b'"ADDED"' in await anext(lines)
    await client.close()
    with pytest.raises(ApiError) as caught:
        await anext(lines)
    assert caught.value.status == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "kubeconfig"),
        ("[]", "kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "current-context"),
        ("current-context: x\ncontexts: []\nclusters: []\nusers: []\n", "name x"),
    ],
)
async def test_bad_kubeconfig_is_a_usage_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        await connect(kubeconfig=str(path))
    assert "\n" not in str(caught.value)


async def test_absent_kubeconfig_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        await connect(kubeconfig=str(tmp_path / "absent"))


async def test_default_rules_read_the_environment(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "k", server.url)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    async with await connect(kubeconfig=None) as client:
        assert client.server == server.url
    with pytest.raises(UsageError, match="nowhere"):
        await connect(kubeconfig=None, context="nowhere")


def config(path: Path, current: str, **contexts: str) -> str:
    """A kubeconfig whose contexts have these namespaces ("": none), with a cluster and a user of the same names."""
    listed = [
        {"name": name, "context": {"cluster": name, "user": name} | ({"namespace": place} if place else {})}
        for name, place in contexts.items()
    ]
    clusters = [{"name": name, "cluster": {"server": f"https://{path.name}.{name}.example"}} for name in contexts]
    users = [{"name": name, "user": {"token": "t"}} for name in contexts]
    body = {"current-context": current, "contexts": listed, "clusters": clusters, "users": users}
    path.write_text(json.dumps(body))
    return str(path)


async def test_several_files_are_joined_as_kubectl_joins_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that sets something counts; one that is missing or empty adds nothing."""
    (tmp_path / "empty").write_text("")
    first, second = config(tmp_path / "a", "one", one="mine"), config(tmp_path / "b", "two", one="", two="other")
    paths = [str(tmp_path / "absent"), str(tmp_path / "empty"), first, second]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    async with await connect(kubeconfig=None) as client:
        assert (client.server, client.default_namespace) == ("https://a.one.example", "mine")
        assert client.source == f"kubeconfig {os.pathsep.join(paths)}, context one"
    async with await connect(kubeconfig=None, context="two") as client:
        assert (client.server, client.default_namespace) == ("https://b.two.example", "other")
    assert context_names(None) == ["one", "two"]


async def test_a_context_without_a_namespace_means_default(tmp_path: Path) -> None:
    async with await connect(kubeconfig=config(tmp_path / "a", "one", one="")) as client:
        assert client.default_namespace == "default"


async def test_a_context_that_is_not_there_is_said_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no context 'nope': want one of one; two"):
        await connect(kubeconfig=config(tmp_path / "a", "one", one="", two=""), context="nope")


async def test_what_names_the_cluster_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag, else the variable, else the service account, else the file at home."""
    mounted = tmp_path / "serviceaccount"
    mounted.mkdir()
    authority = issue_authority(common_name="pod", now=dt.datetime.now(dt.UTC), days=2).certificate_pem
    for name, content in {"token": b"t", "namespace": b"of-pod", "ca.crt": authority}.items():
        (mounted / name).write_bytes(content)
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    config(home / ".kube" / "config", "home", home="of-home")
    flag, variable = config(tmp_path / "flag", "flag", flag="of-flag"), config(tmp_path / "env", "env", env="of-env")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT_TOKEN", mounted / "token")
    incluster = credentials.config.incluster_config
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(mounted / "token"))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(mounted / "ca.crt"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", variable)
    seen = []
    async with await connect(kubeconfig=flag) as client:
        seen.append((client.default_namespace, client.source))
    async with await connect(kubeconfig=None) as client:
        seen.append((client.default_namespace, client.source))
    monkeypatch.delenv("KUBECONFIG")
    async with await connect(kubeconfig=None) as client:
        seen.append((client.default_namespace, client.source))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    async with await connect(kubeconfig=None) as client:
        seen.append((client.default_namespace, client.source))
    assert seen == [
        ("of-flag", f"kubeconfig {flag}, context flag"),
        ("of-env", f"kubeconfig {variable}, context env"),
        ("of-pod", "in-cluster, the service account of the Pod"),
        ("of-home", "kubeconfig ~/.kube/config, context home"),
    ]


async def test_the_answer_of_a_watch_is_closed_with_its_iterator(
    client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when it is collected: a connection is given back, or ended, before the next request."""
    closed = []

    async def lines(*_: object) -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"{}"
        finally:
            closed.append(True)

    monkeypatch.setattr(Session, "lines", lines)
    async with aclosing(client.watch(CONFIG_MAPS, resource_version="1")) as found:
        assert await anext(found) == b"{}"
        assert not closed
    assert closed


async def test_a_name_that_is_too_long_for_any_object_is_not_asked_for(server: ApiServer, client: KubeClient) -> None:
    """A server would answer that the address is too long, which says nothing of the object."""
    asked = len(server.requests)
    assert await get_or_none(client, PODS, "x" * 254, namespace="default") is None
    with pytest.raises(ApiError, match="no object has a name of 1000000 characters"):
        await client.get(PODS, "x" * 1_000_000, namespace="default")
    assert len(server.requests) == asked
    assert await get_or_none(client, PODS, "x" * 253, namespace="default") is None
    assert len(server.requests) == asked + 1
