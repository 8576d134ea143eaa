"""The page on a laptop: what it shows, what changes in it, and which requests it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.status.gathering import gather
from app.status.rendering import document
from app.ui.footprints import Footprint
from app.ui.rights import Own
from tests.support.page import page_of, until
from tests.support.sandbox import Sandboxed, sandboxed
from tests.support.waiting import eventually

__all__ = ["sandboxed"]
JSON = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, **metadata: Any) -> JSON:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def made(server: Sandboxed, name: str, **metadata: Any) -> None:
    answer = server.request("POST", PODS, pod(name, **metadata))
    assert answer.status == 201, answer.body


async def test_the_overview_has_what_status_says(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        model = (await page.get("/api/overview")).json
        cluster = page.sources[0].cluster(Own(), Footprint())
        status = document(await gather(cluster))
        await cluster.close()
        assert set(model["sections"]) == set(status["sections"])
        for name, section in status["sections"].items():
            assert model["sections"][name]["totals"] == section["totals"]
            assert len(model["sections"][name]["items"]) == len(section["items"])
        html = (await page.get("/overview")).text
        assert all(part["title"] in html for part in model["sections"].values())


async def test_an_object_has_its_verdict_and_its_chain(sandboxed: Sandboxed) -> None:
    made(sandboxed, "lonely", annotations={"k8s.v1.cni.cncf.io/networks": "missing"})
    async with page_of(sandboxed.kubeconfig()) as page:
        model = (await page.get("/api/why?q=pod/lonely")).json
        assert model["said"]["subject"] == "Pod default/lonely"
        assert any("missing" in cause for cause in model["said"]["because"])
        subjects = [node["subject"] for node in model["chain"]["nodes"]]
        assert subjects[0] == "Pod default/lonely"
        assert "NetworkAttachmentDefinition default/missing" in subjects
        html = (await page.get("/why?q=Pod+default/lonely")).text
        assert "<svg" in html
        assert "NetworkAttachmentDefinition default/missing" in html


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("q=pdo/web-0", "did you mean po?"),
        ("q=pod/", "want KIND/NAME"),
        ("q=pod/web-0&namespace=A_b", "namespace: "),
        ("q=a+b+c+d", "want KIND/NAME"),
    ],
)
async def test_a_wrong_question_says_what_would_be_right(sandboxed: Sandboxed, query: str, text: str) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        assert text in (await page.get(f"/api/why?{query}")).json["problem"]


async def test_a_part_of_a_name_finds_objects(sandboxed: Sandboxed) -> None:
    made(sandboxed, "needle-in-hay")
    async with page_of(sandboxed.kubeconfig()) as page:
        hits = (await page.get("/api/why?q=needle")).json["hits"]
        assert hits["targets"] == [{"kind": "Pod", "namespace": "default", "name": "needle-in-hay"}]


async def test_a_list_has_pages_and_verdicts(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    for number in range(120):
        sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod(f"p-{number:03}"))
    async with page_of(sandboxed.kubeconfig()) as page:
        names, after = list[str](), ""
        while True:
            model = (await page.get(f"/api/objects?kind=pods&namespace={home}&after={after}")).json
            assert model["choice"]["problem"] == ""
            names += [row["target"]["name"] for row in model["page"]["rows"]]
            assert all(row["state"] for row in model["page"]["rows"])
            if not (after := model["page"]["following"]):
                break
            assert len(model["page"]["rows"]) == 50
        assert names == [f"p-{number:03}" for number in range(120)]
        html = (await page.get(f"/objects?kind=pods&namespace={home}")).text
        assert "Next page" in html
        assert "p-049" in html
        assert "p-050" not in html


async def test_a_change_comes_over_the_stream(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    async with page_of(sandboxed.kubeconfig()) as page:
        path = f"kind=pods&namespace={home}"
        await page.get(f"/objects?{path}")
        async with page.stream(f"/events/objects?{path}") as events:
            assert "There are none" in await until(events, "f-page")
            sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod("late"))
            assert "late" in await until(events, "f-page", "late")
            sandboxed.request("DELETE", f"/api/v1/namespaces/{home}/pods/late")
            assert "There are none" in await until(events, "f-page", "There are none")


async def test_a_page_that_was_seen_is_not_sent_again(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    async with page_of(sandboxed.kubeconfig()) as page:
        html = (await page.get(f"/objects?kind=pods&namespace={home}")).text
        stream = html.partition('sse-connect="')[2].partition('"')[0].replace("&amp;", "&")
        async with page.stream(stream) as events:
            sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod("first"))
            name, data = await anext(events)
            assert (name, "first" in data) == ("f-page", True)


async def test_many_browsers_cost_one_watch_and_one_computation(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    async with page_of(sandboxed.kubeconfig()) as page:
        path = f"kind=pods&namespace={home}"
        await page.get(f"/objects?{path}")
        results, watches = page.sources[0].results, page.sources[0].stores.watches
        computed = results.computed
        for _ in range(20):
            await page.get(f"/objects?{path}")
        assert results.computed == computed
        assert page.sources[0].stores.watches == watches
        assert len(watches) == len(set(watches))


async def test_an_update_costs_what_changed(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    for number in range(20):
        sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod(f"p-{number}"))
    async with page_of(sandboxed.kubeconfig()) as page:
        path, results = f"kind=pods&namespace={home}", page.sources[0].results
        await page.get(f"/objects?{path}")
        computed = results.computed
        patch = {"metadata": {"labels": {"changed": "yes"}}}
        where = f"/api/v1/namespaces/{home}/pods/p-7"
        async with page.stream(f"/events/objects?{path}") as events:
            await until(events, "f-page")
            sandboxed.request("PATCH", where, patch, content_type="application/merge-patch+json")
            await eventually(lambda: results.computed > computed)
            await page.get(f"/objects?{path}")
        # The page of objects, and the verdict on the one that changed.
        assert results.computed - computed <= 3


HOSTILE = '<script>alert("x")</script>'


async def test_what_the_cluster_says_is_text(sandboxed: Sandboxed) -> None:
    made(sandboxed, "hostile", annotations={"k8s.v1.cni.cncf.io/networks": HOSTILE}, labels={"a": "b"})
    async with page_of(sandboxed.kubeconfig()) as page:
        for path in (
            "/why?q=pod/hostile",
            "/objects?kind=pods",
            "/overview",
            f"/why?q={HOSTILE}",
            f"/objects?labels={HOSTILE}",
            f"/objects?kind={HOSTILE}",
            f"/objects?namespace={HOSTILE}",
            f"/{HOSTILE}",
        ):
            html = (await page.get(path)).text
            assert "<script>alert" not in html, path
        assert "&lt;script&gt;alert" in (await page.get("/why?q=pod/hostile")).text


async def test_every_answer_forbids_what_is_not_of_the_page(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        for path in ("/", "/overview", "/api", "/api/why", "/static/ui.css", "/static/no", "/no", "/a/b/c"):
            headers = (await page.get(path)).headers
            assert headers["Content-Security-Policy"].startswith("default-src 'none'"), path
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "LOCALHOST"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/why", "/api/why"])
async def test_who_may_ask(sandboxed: Sandboxed, headers: dict[str, str], status: int, path: str) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        assert (await page.get(path, **headers)).status == status


async def test_only_get_is_answered(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await page.send(method, "/overview", {})).status == 405
            assert (await page.send(method, "/api/overview", {})).status == 405


async def test_a_refused_kind_is_a_line_and_hides_nothing_else(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig("mallory", ())) as page:
        model = (await page.get("/api/objects?kind=pods")).json
        assert "403" in model["choice"]["problem"]
        overview = await page.get("/api/overview")
        assert overview.status == 200
        assert any(part["unread"] for part in overview.json["sections"].values())


async def test_several_clusters_have_a_switch(sandboxed: Sandboxed, tmp_path: Any) -> None:
    other = tmp_path / "other.kubeconfig"
    other.write_text(sandboxed.kubeconfig().read_text())
    async with page_of(sandboxed.kubeconfig(), other) as page:
        html = (await page.get("/why?cluster=other")).text
        assert 'href="/why" ' in html.replace(">", " ") or 'href="/why"' in html
        assert 'href="/why?cluster=other" aria-current="true"' in html
        assert 'href="/objects?cluster=other"' in html
        assert (await page.get("/why?cluster=no")).status == 404


async def test_the_json_is_as_its_schema_says(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        schema = (await page.get("/api/schema")).json
        views = (await page.get("/api")).json["views"]
        assert set(schema) == {view["name"] for view in views}
        for view in views:
            model = (await page.get(view["path"])).json
            name = schema[view["name"]]["$ref"].rpartition("/")[2]
            assert set(model) == set(schema[view["name"]]["$defs"][name]["properties"])


async def test_without_the_api_server_the_page_says_so(sandboxed: Sandboxed, tmp_path: Any) -> None:
    config = json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
    )
    path = tmp_path / "dead.kubeconfig"
    path.write_text(config)
    async with page_of(path) as page:
        answer = await page.get("/overview")
        assert answer.status == 503
        assert "could not be asked" in answer.text
        assert (await page.get("/api/overview")).status == 503


async def test_a_wing_adds_a_view(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        assert 'href="/appwrappers"' in (await page.get("/overview")).text
        model = (await page.get("/api/appwrappers")).json
        assert model["choice"]["headings"] == {"phase": "phase", "queue": "queue"}
