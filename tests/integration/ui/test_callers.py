"""The page in a cluster: who a caller is, what a caller sees, and when a stream ends."""

from __future__ import annotations

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.certs.issuing import Issued, Names, issue_authority, issue_client, issue_serving
from app.ui import rights, visitors
from app.ui.serving import certificate_of
from app.ui.visitors import COOKIE, InCluster
from tests.support.clock import Clock
from tests.support.page import Page, page_of, until
from tests.support.sandbox import Sandboxed, sandboxed

__all__ = ["sandboxed"]
JSON = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALL = ["get", "list", "watch"]


@dataclass
class Callers:
    """The page, and the API server behind it."""

    page: Page
    server: Sandboxed
    clock: Clock
    tokens: int = 0

    def token(self, user: str, *groups: str) -> dict[str, str]:
        """The header of a new token of the user."""
        self.tokens += 1
        token = f"token-{user}-{self.tokens}"
        self.server.inside(lambda: self.server.cluster.add_token(token, user, groups))
        return {"Authorization": f"Bearer {token}"}

    def revoke(self, headers: dict[str, str]) -> None:
        token = headers["Authorization"].removeprefix("Bearer ")
        self.server.inside(lambda: self.server.cluster.state.authenticator.tokens.pop(token))

    def grant(
        self, user: str, namespace: str = "", *, resources: tuple[str, ...] = ("*",), names: tuple[str, ...] = ()
    ) -> str:
        """Lets the user read these resources: in a namespace, or everywhere. The path of the binding."""
        name = f"{user}-{namespace or 'all'}"
        rule: JSON = {"apiGroups": ["*"], "resources": [*resources], "verbs": ALL}
        rule |= {"resourceNames": [*names]} if names else {}
        self.server.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        where = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
        answer = self.server.request("POST", where, binding)
        assert answer.status == 201, answer.body
        return f"{where}/{name}"

    def grant_group(self, group: str, namespace: str) -> None:
        """Lets all of the group read everything in the namespace."""
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ALL}
        self.server.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": namespace}, "rules": [rule]})
        binding = {
            "metadata": {"name": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
            "subjects": [{"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        answer = self.server.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
        assert answer.status == 201, answer.body

    def pod(self, namespace: str, name: str) -> None:
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert self.server.request("POST", f"/api/v1/namespaces/{namespace}/pods", body).status == 201


@dataclass(frozen=True)
class Files:
    """The page's certificate, and the CA of front proxies, on disk."""

    certificate: Path
    key: Path
    authority: Issued
    proxies: Issued
    proxy_ca: Path
    folder: Path

    def client(self, signed_by: Issued | None = None, name: str = "proxy") -> ssl.SSLContext:
        """The TLS of who asks, with a certificate where a CA signs one."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        if signed_by is not None:
            pair = issue_client(signed_by, common_name=name, now=datetime.now(UTC), days=1)
            path = self.folder / f"{name}-{id(pair)}.pem"
            path.write_bytes(pair.key_pem + pair.certificate_pem)
            context.load_cert_chain(path)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    now = datetime.now(UTC)
    authority, proxies = (issue_authority(common_name=name, now=now, days=1) for name in ("pages", "proxies"))
    served = issue_serving(authority, names=Names(("localhost",)), now=now, days=1)
    certificate, key, ca = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "proxies.crt"
    certificate.write_bytes(served.certificate_pem)
    key.write_bytes(served.key_pem)
    ca.write_bytes(proxies.certificate_pem)
    return Files(certificate, key, authority, proxies, ca, tmp_path)


@contextlib.asynccontextmanager
async def page_for(server: Sandboxed, files: Files, tls: ssl.SSLContext | None = None) -> AsyncIterator[Callers]:
    clock = Clock(1000.0)
    served = certificate_of(str(files.certificate), str(files.key), str(files.proxy_ca))

    def access(client: Any) -> InCluster:
        return InCluster(client, proxies=["proxy"], clock=clock)

    async with page_of(
        server.kubeconfig(), access=access, context=served.context, client=tls or files.client(), clock=clock, look=0.05
    ) as page:
        yield Callers(page, server, clock)


@pytest_asyncio.fixture
async def callers(sandboxed: Sandboxed, files: Files) -> AsyncIterator[Callers]:
    async with page_for(sandboxed, files) as callers:
        yield callers


async def test_without_a_token_there_is_a_form_and_no_json(callers: Callers) -> None:
    answer = await callers.page.get("/overview")
    assert (answer.status, answer.headers["Location"]) == (303, "/login")
    assert 'name="token"' in (await callers.page.get("/login")).text
    for path in ("/api", "/api/schema", "/api/overview", "/events/overview"):
        answer = await callers.page.get(path)
        assert answer.status == 401, path
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_token_that_is_not_known_is_refused(callers: Callers) -> None:
    for token in ("wrong", "a" * 5000, "\u00e4", ""):
        headers = {"Authorization": f"Bearer {token}"}
        assert (await callers.page.get("/api/overview", **headers)).status == 401


async def test_the_form_makes_a_cookie_that_scripts_and_other_sites_do_not_get(callers: Callers) -> None:
    token = callers.token("alice")["Authorization"].removeprefix("Bearer ")
    own = {"Origin": callers.page.url}
    answer = await callers.page.send("POST", "/login", own, {"token": token})
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}={token};")
    for word in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert word in cookie
    assert "Domain" not in cookie
    page = await callers.page.get("/overview", Cookie=f"{COOKIE}={token}")
    assert page.status == 200
    assert "alice" in page.text
    assert token not in page.text
    answer = await callers.page.send("POST", "/login", own, {"token": "wrong"})
    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers
    out = await callers.page.send("POST", "/logout", own | {"Cookie": f"{COOKIE}={token}"})
    assert f'{COOKIE}=""' in out.headers["Set-Cookie"]


@pytest.mark.parametrize("origin", [None, "https://evil.example", "null"])
async def test_a_form_of_another_site_logs_nobody_in(callers: Callers, origin: str | None) -> None:
    token = callers.token("alice")["Authorization"].removeprefix("Bearer ")
    headers = {} if origin is None else {"Origin": origin}
    answer = await callers.page.send("POST", "/login", headers, {"token": token})
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


async def test_a_caller_sees_the_namespace_that_it_may_list(callers: Callers) -> None:
    mine, other = callers.server.namespace(), callers.server.namespace()
    callers.pod(mine, "mine")
    callers.pod(other, "other")
    alice = callers.token("alice-of-one")
    callers.grant("alice-of-one", mine)
    page = callers.page
    rows = (await page.get(f"/api/objects?kind=pods&namespace={mine}", **alice)).json["page"]["rows"]
    assert [row["target"]["name"] for row in rows] == ["mine"]
    for namespace in ("", other):
        model = (await page.get(f"/api/objects?kind=pods&namespace={namespace}", **alice)).json
        assert model["page"]["rows"] == []
        assert "403" in model["choice"]["problem"]
    assert (await page.get(f"/api/why?q=pod/mine&namespace={mine}", **alice)).json["said"]["state"]
    refused = await page.get(f"/api/why?q=pod/other&namespace={other}", **alice)
    assert "no right to get pods" in refused.json["problem"]
    assert refused.json["said"] is None
    hits = (await page.get("/api/why?q=other", **alice)).json["hits"]["targets"]
    assert hits == []


async def test_what_one_caller_has_seen_is_not_shown_to_another(callers: Callers) -> None:
    home = callers.server.namespace()
    callers.pod(home, "secretive")
    callers.grant("carol", home)
    path = f"/api/why?q=pod/secretive&namespace={home}"
    assert (await callers.page.get(path, **callers.token("carol"))).status == 200
    refused = await callers.page.get(path, **callers.token("dave"))
    assert refused.json["said"] is None


async def test_the_chain_stops_at_what_the_caller_may_not_get(callers: Callers) -> None:
    home = callers.server.namespace()
    body = {
        "metadata": {"name": "asks", "annotations": {"k8s.v1.cni.cncf.io/networks": "hidden"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert callers.server.request("POST", f"/api/v1/namespaces/{home}/pods", body).status == 201
    callers.grant("erin", home, resources=("pods",))
    said = (await callers.page.get(f"/api/why?q=pod/asks&namespace={home}", **callers.token("erin"))).json["said"]
    assert any("no right to" in text for text in said["unread"])


async def test_a_right_that_is_taken_ends_what_was_shown(callers: Callers) -> None:
    home = callers.server.namespace()
    callers.pod(home, "brief")
    binding, frank = callers.grant("frank", home), callers.token("frank")
    path = f"/api/objects?kind=pods&namespace={home}"
    assert (await callers.page.get(path, **frank)).json["page"]["rows"]
    callers.server.request("DELETE", binding)
    callers.clock.now += rights.KEPT + 1
    assert (await callers.page.get(path, **frank)).json["page"]["rows"] == []


async def test_kept_results_are_shown_only_while_their_rights_hold(callers: Callers) -> None:
    home = callers.server.namespace()
    callers.pod(home, "kept")
    binding, grace = callers.grant("grace", home), callers.token("grace")
    async with callers.page.stream(f"/events/objects?kind=pods&namespace={home}", **grace) as events:
        assert "kept" in await until(events, "f-page")
        callers.server.request("DELETE", binding)
        callers.clock.now += rights.KEPT + 1
        assert "kept" not in await until(events, "f-page")


async def test_a_stream_ends_when_its_token_does(callers: Callers) -> None:
    heidi = callers.token("heidi")
    async with callers.page.stream("/events/overview", **heidi) as events:
        await until(events, "f-summary")
        callers.revoke(heidi)
        callers.clock.now += rights.KEPT + 1
        await until(events, "ended")
        assert [event async for event in events if event[0].startswith("f-")] == []


def reviewed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens of all TokenReviews from now on."""
    reviews, review = list[str](), InCluster._review

    async def counted(self: InCluster, token: str) -> Any:
        reviews.append(token)
        return await review(self, token)

    monkeypatch.setattr(InCluster, "_review", counted)
    return reviews


async def test_tokens_are_reviewed_once_in_some_seconds(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = reviewed(monkeypatch)
    ivan = callers.token("ivan")
    for _ in range(20):
        assert (await callers.page.get("/api/schema", **ivan)).status == 200
    assert len(reviews) == 1
    callers.clock.now += rights.KEPT + 1
    await callers.page.get("/api/schema", **ivan)
    assert len(reviews) == 2


async def test_unknown_tokens_are_bounded_and_known_ones_go_on(callers: Callers) -> None:
    judy = callers.token("judy")
    assert (await callers.page.get("/api", **judy)).status == 200
    answers = [await callers.page.get("/api", Authorization=f"Bearer wrong-{n}") for n in range(40)]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) >= 25
    assert int(refused[0].headers["Retry-After"]) >= 1
    callers.clock.now += rights.KEPT + 1
    for n in range(40):
        await callers.page.get("/api", Authorization=f"Bearer worse-{n}")
    assert (await callers.page.get("/api", **judy)).status == 200


async def test_a_caller_has_a_rate(callers: Callers) -> None:
    mallory, peggy = callers.token("mallory"), callers.token("peggy")
    statuses = [(await callers.page.get("/api/schema", **mallory)).status for _ in range(210)]
    assert statuses[:200] == [200] * 200
    assert 429 in statuses
    assert (await callers.page.get("/api/schema", **peggy)).status == 200


async def test_tokens_are_kept_as_hashes_alone(callers: Callers) -> None:
    token = callers.token("trent")["Authorization"].removeprefix("Bearer ")
    await callers.page.get("/api/overview", Authorization=f"Bearer {token}")
    found = list[object]()
    for holder in (callers.page.sources[0].results, callers.page.sources[0].stores):
        found += [key for key in vars(holder).values() if token in repr(key)]
    assert found == []


async def test_secrets_are_never_shown(callers: Callers) -> None:
    home = callers.server.namespace()
    sentinel = base64.b64encode(b"sentinel-of-a-secret").decode()
    body = {"metadata": {"name": "private"}, "type": "Opaque", "data": {"tls.key": sentinel, "tls.crt": sentinel}}
    assert callers.server.request("POST", f"/api/v1/namespaces/{home}/secrets", body).status == 201
    admin = callers.token("root", "system:masters")
    for path in (f"/api/why?q=secret/private&namespace={home}", f"/api/objects?kind=secrets&namespace={home}"):
        answer = await callers.page.get(path, **admin)
        assert sentinel not in answer.text
        assert "knows no kind" in answer.text


async def test_a_front_proxy_names_the_caller(sandboxed: Sandboxed, files: Files) -> None:
    async with page_for(sandboxed, files, files.client(files.proxies)) as callers:
        home = callers.server.namespace()
        callers.pod(home, "behind")
        callers.grant("walter", home)
        path = f"/api/objects?kind=pods&namespace={home}"
        rows = (await callers.page.get(path, **{"X-Remote-User": "walter"})).json["page"]["rows"]
        assert [row["target"]["name"] for row in rows] == ["behind"]
        assert (await callers.page.get(path, **{"X-Remote-User": "other"})).json["page"]["rows"] == []
        masters = {"X-Remote-User": "x", "X-Remote-Group": "system:masters"}
        assert (await callers.page.get(path, **masters)).json["page"]["rows"]
        assert (await callers.page.get(path)).status == 401
        callers.grant_group("system:authenticated", home)
        assert (await callers.page.get(path, **{"X-Remote-User": "anybody"})).json["page"]["rows"]


async def test_headers_of_a_front_proxy_mean_nothing_without_its_certificate(callers: Callers) -> None:
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
    assert (await callers.page.get("/api/overview", **headers)).status == 401


async def test_a_certificate_of_another_name_is_no_front_proxy(sandboxed: Sandboxed, files: Files) -> None:
    async with page_for(sandboxed, files, files.client(files.proxies, "client")) as callers:
        headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        assert (await callers.page.get("/api/overview", **headers)).status == 401


async def test_the_page_writes_nothing(callers: Callers) -> None:
    admin = callers.token("boss", "system:masters")
    before = callers.server.request("GET", "/api/v1/pods").body["metadata"]["resourceVersion"]
    for path in ("/api/overview", "/api/objects", "/api/why?q=node/none"):
        await callers.page.get(path, **admin)
    assert callers.server.request("GET", "/api/v1/pods").body["metadata"]["resourceVersion"] == before


def test_a_caller_has_one_key_whatever_its_token() -> None:
    one = visitors.caller_of({"username": "a", "groups": ["x", "y"], "extra": {"k": ["1"]}})
    assert one.key == visitors.caller_of({"username": "a", "groups": ["y", "x"], "extra": {"k": ["1"]}}).key
    assert one.key != visitors.caller_of({"username": "a", "groups": ["x"], "extra": {"k": ["1"]}}).key
