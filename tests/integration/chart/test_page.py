"""The page by the rules of the chart: its account reads all that views show, and callers see what they may get."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from app.devtools.clusters.accounts import CLUSTER_ROLES
from app.kube.resources import NAMESPACES, PODS, ROLE_BINDINGS, SERVICE_ACCOUNTS
from app.registry import BY_NAME
from app.runtime.composing import compose, context_of
from app.ui import objects
from app.ui.catalog import VIEWS
from app.wiring import READ, resolve
from tests.integration.chart.staging import Stage, staged
from tests.support.chart import JSON, NAMESPACE, Render, Server
from tests.support.chart_accounts import recorded
from tests.support.rbac import CLUSTER_ROLE_BINDINGS, token_kubeconfig
from tests.support.waiting import PATIENCE, eventually


@dataclass
class Served:
    """The page as its Pod serves it, and requests to it."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str, token: str) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        async with asyncio.timeout(PATIENCE), self.session.get(f"{self.url}/api/{path}", headers=headers) as answer:
            text = await answer.text()
            assert answer.status == 200, text
            return json.loads(text)


@contextlib.asynccontextmanager
async def served(stage: Stage) -> AsyncIterator[Served]:
    """The role with the settings of its container, as its own account, with the certificate that is kept for it."""
    await stage.run(compose(BY_NAME["certificates"], stage.settings("certificates")))
    files = await stage.files_of(stage.infra, "berth-ui-tls")
    settings = stage.settings(
        "ui",
        port=0,
        namespace=NAMESPACE,
        tls_cert_file=str(files / "tls.crt"),
        tls_private_key_file=str(files / "tls.key"),
    )
    context = context_of(BY_NAME["ui"], settings)
    await stage.run(resolve(BY_NAME["ui"].build)(context))
    port = str(context.listening["page"]).rpartition(":")[2]
    trusted = ssl.create_default_context(cafile=str(files / "ca.crt"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
        yield Served(f"https://localhost:{port}", session)


async def token_of(server: Server, name: str, *, role: str, namespace: str = "") -> str:
    """The token of a new account with this ClusterRole: in the namespace, or everywhere."""
    await server.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.body({"name": name}), namespace="default")
    binding: JSON = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    kind = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    await server.client.create(kind, kind.body({}) | binding, namespace=namespace or None)
    path = await token_kubeconfig(server.client, server.kubeconfig, "default", name)
    return str(yaml.safe_load(path.read_text())["users"][0]["user"]["token"])


async def test_every_view_works_with_the_rights_of_the_chart(
    clusters: list[Server], render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = recorded(monkeypatch)
    async with staged(clusters, render, tmp_path) as stage, served(stage) as page:
        await stage.infra.client.create(PODS, pod("web"), namespace="default")
        admin = await token_of(stage.infra, "admin", role="cluster-admin")
        for view in VIEWS:
            model = await page.get(view.name, admin)
            assert said(model) == [], view.name
        for kind in objects.kinds():
            secret = kind.startswith("uvssecrets.")  # they hold what becomes a Secret
            assert bool(said(await page.get(f"objects?kind={kind}", admin))) is secret, kind
        assert (await page.get("why?q=pod/web", admin))["said"]["state"]

        async def examined() -> bool:
            return (await page.get("overview", admin))["doctor"] is not None

        await eventually(examined)
        found = [problem["message"] for problem in (await page.get("overview", admin))["doctor"]["problems"]]
        assert [text for text in found if "no right" in text and "secret" not in text] == []
    # The doctor asks besides whether the account may do what no role should.
    reads = {refusal[1:] for refusal in refused if refusal[0].endswith(":berth-ui") and refusal[1] in READ}
    assert {read for read in reads if read[2] != "secrets"} == set()


async def test_a_viewer_of_one_namespace_sees_what_it_may_get(
    clusters: list[Server], render: Render, tmp_path: Path
) -> None:
    async with staged(clusters, render, tmp_path) as stage, served(stage) as page:
        client = stage.infra.client
        for namespace in ("mine", "other"):
            await client.create(NAMESPACES, NAMESPACES.body({"name": namespace}))
            await client.create(PODS, pod(f"of-{namespace}"), namespace=namespace)
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
        await client.create(CLUSTER_ROLES, CLUSTER_ROLES.body({"name": "pod-viewer"}, rules=rules))
        viewer = await token_of(stage.infra, "viewer", role="pod-viewer", namespace="mine")
        rows = (await page.get("objects?kind=pods&namespace=mine", viewer))["page"]["rows"]
        assert [row["target"]["name"] for row in rows] == ["of-mine"]
        for path in ("objects?kind=pods", "objects?kind=pods&namespace=other", "objects?kind=nodes"):
            shown = await page.get(path, viewer)
            assert (shown["page"]["rows"], "no right" in shown["choice"]["problem"]) == ([], True), path
        assert (await page.get("why?q=pod/of-mine&namespace=mine", viewer))["said"]["state"]
        assert (await page.get("why?q=pod/of-other&namespace=other", viewer))["said"] is None
        for view in VIEWS:
            assert "of-other" not in json.dumps(await page.get(view.name, viewer)), view.name


def pod(name: str) -> JSON:
    return PODS.body({"name": name}, spec={"containers": [{"name": "c", "image": "i"}]})


def said(model: Any) -> list[str]:
    """Everything that a model says of a right that is missing."""
    if isinstance(model, dict):
        return [text for value in model.values() for text in said(value)]
    if isinstance(model, list):
        return [text for value in model for text in said(value)]
    return [model] if isinstance(model, str) and ("HTTP 403" in model or "no right" in model) else []
