"""View `reviews` over HTTP: Events of denials, and the metrics of webhook Pods through the API server's proxy."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from app.admission import metrics
from app.devtools.sandbox.processes import PodLog
from app.kube.resources import DEPLOYMENTS, EVENTS, PODS
from tests.support.fabric import Fabric
from tests.support.page import Page, page_of
from tests.support.sandbox import Sandboxed, sandboxed
from tests.support.waiting import eventually

__all__ = ["sandboxed"]
JSON = dict[str, Any]
LABELS = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/component": "webhook"}


def event(name: str, last: str, message: str, component: str = "berth-webhook") -> JSON:
    about = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": "u"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": about,
        "reason": "AttachmentNotFound",
        "message": message,
        "type": "Warning",
        "count": 3,
        "lastTimestamp": last,
        "source": {"component": component},
        "reportingComponent": component,
    }


async def test_denials_are_told_by_events_the_last_first(sandboxed: Sandboxed) -> None:
    fabric = Fabric(sandboxed)
    fabric.make(EVENTS, event("old", "2026-11-29T10:00:00Z", "the first"))
    fabric.make(EVENTS, event("new", "2026-11-29T11:00:00Z", "<b>the last</b>"))
    fabric.make(EVENTS, event("other", "2026-11-29T12:00:00Z", "of another", "kubelet"))
    async with page_of(sandboxed.kubeconfig()) as page:
        denials = (await page.get("/api/reviews")).json["denials"]
        assert [denial["message"] for denial in denials["events"]] == ["<b>the last</b>", "the first"]
        first = denials["events"][0]
        assert first["target"] == {"kind": "ReplicaSet", "namespace": "default", "name": "web"}
        assert (first["reason"], first["count"]) == ("AttachmentNotFound", 3)
        html = (await page.get("/reviews")).text
        assert "&lt;b&gt;the last&lt;/b&gt;" in html


@contextlib.asynccontextmanager
async def serving_metrics() -> AsyncIterator[int]:
    registry = CollectorRegistry()
    registry.register(metrics.ADMISSION_REQUESTS)
    registry.register(metrics.ADMISSION_DURATION)

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry))

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def figures(page: Page) -> JSON | None:
    model: JSON = (await page.get("/api/reviews")).json
    return model["figures"]


async def test_reviews_are_counted_by_the_metrics_of_webhook_pods(sandboxed: Sandboxed) -> None:
    fabric = Fabric(sandboxed)
    metrics.create_series(("pods",))
    metrics.ADMISSION_REQUESTS.labels("pods", "CREATE", "denied").inc(2)
    async with serving_metrics() as port:
        container = {"name": "webhook", "image": "i", "args": ["webhook", f"--health-check-port={port}"]}
        selector = {"matchLabels": LABELS}
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
        metadata = {"name": "berth-webhook", "namespace": "berth-system", "labels": LABELS}
        fabric.make(DEPLOYMENTS, {"metadata": metadata, "spec": {"selector": selector, "template": template}})
        pod = {"metadata": {"name": "webhook-0", "namespace": "berth-system", "labels": LABELS}}
        made = fabric.make(
            PODS, {**pod, "spec": {"containers": [container]}}, status={"phase": "Running", "podIP": "10.0.0.9"}
        )
        log = PodLog("127.0.0.1", Path("none"))
        sandboxed.inside(lambda: sandboxed.cluster.state.processes.update({made["metadata"]["uid"]: log}))
        async with page_of(sandboxed.kubeconfig()) as page:
            found = await eventually(partial(figures, page))
            assert found is not None
            assert (found["pods"], found["left"], found["unread"]) == (1, 0, [])
            assert found["totals"]["denied"] >= 2
