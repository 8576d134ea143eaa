"""kopf's admission server with a handler that makes the same injection, as an operator's author would write it.

Real: `kopf.WebhookServer` (aiohttp, with Berth's TLS context), `serve_admission_request` bound as kopf binds it when
it spawns an operator, the registry that `@kopf.on.mutate` fills, kopf's default log, and uvloop, chosen by the
function that `kopf run` uses. Left out, for want of a cluster: the operator's other tasks (credentials, resource and
namespace observers, peering, the manager of webhook configurations), none of which takes part in answering a review;
what the resource observer would have found out (that there are Pods) is put into `insights` by hand.

The handler does less than Berth: it validates nothing and knows none of the switches, which favors kopf.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
from collections import Counter
from typing import Any

import kopf
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs.ephemera import AnyMemo, Memo
from kopf._cogs.structs.references import Insights, Resource
from kopf._core.engines.admission import serve_admission_request
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.intents.registries import get_default_registry
from kopf._core.reactor.inventory import ResourceMemories
from kopf._kits.loops import proper_loop

from app.serving.tls_options import server_context
from bench.surroundings import RESOURCES

_NETWORKS = "k8s.v1.cni.cncf.io/networks"
_VOLUME = "podnetinfo"
_MOUNT = {"name": _VOLUME, "readOnly": True, "mountPath": "/etc/podnetinfo"}


@kopf.on.mutate("pods", id="mutate")
async def inject(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    """Put what the selected networks need into the first container, and the volume into all of them."""
    annotations = body.metadata.annotations
    counts = Counter(RESOURCES[name] for name in _selected(annotations.get(_NETWORKS, "")))
    if not counts:
        return
    needed = {resource: str(count) for resource, count in counts.items()}
    containers = [
        {**container, "volumeMounts": [*container.get("volumeMounts", ()), _MOUNT]}
        for container in body.spec["containers"]
    ]
    resources = containers[0].get("resources", {})
    containers[0]["resources"] = {
        **resources,
        **{side: {**resources.get(side, {}), **needed} for side in ("requests", "limits")},
    }
    present = [field for field in ("labels", "annotations") if body.metadata.get(field)]
    items = [{"path": field, "fieldRef": {"fieldPath": f"metadata.{field}"}} for field in present]
    patch.spec["containers"] = containers
    patch.spec["volumes"] = [*body.spec.get("volumes", ()), {"name": _VOLUME, "downwardAPI": {"items": items}}]


def _selected(value: str) -> list[str]:
    if value.startswith("["):
        return [element["name"] for element in json.loads(value)]
    return [item.strip() for item in value.split(",")] if value else []


async def serve(port: int, *, cert: str, key: str) -> None:
    """Answer reviews on /mutate until cancelled."""
    insights = Insights()
    insights.webhook_resources.add(Resource("", "v1", "pods", kind="Pod", singular="pod", namespaced=True))
    settings, indexers, registry = OperatorSettings(), OperatorIndexers(), get_default_registry()
    indexers.ensure(registry._indexing.get_all_handlers())  # noqa: SLF001  as kopf's spawn_tasks does
    answer = functools.partial(
        serve_admission_request,
        settings=settings,
        registry=registry,
        insights=insights,
        memories=ResourceMemories(),
        memobase=AnyMemo(Memo()),
        indices=indexers.indices,
    )
    context, _ = server_context()
    async with kopf.WebhookServer(addr="127.0.0.1", port=port, context=context, certfile=cert, pkeyfile=key) as server:
        async for _config in server(answer):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    given = parser.parse_args()
    kopf.configure()
    with proper_loop() as loop:
        assert loop is not None, "uvloop is a dependency of Berth's server, so kopf finds it too"
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve(given.port, cert=given.cert, key=given.key))


if __name__ == "__main__":
    main()
