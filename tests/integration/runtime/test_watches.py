"""What each role lists and watches, as the API server sees it: `watches.json` has the resource and the scope of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from app.devtools.sandbox.api.apiserver import ApiServer
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from app.registry import CONTROLLERS
from tests.support.paths import ROOT
from tests.support.staging import Stage, staged
from tests.support.waiting import eventually

OTHERS = (
    ROOT / "app/networks/crds/network-attachment-definitions.yaml",
    *(ROOT / "app/devtools/kueue/crds").glob("*.yaml"),
)
"""The kinds that are not Berth's."""
GOLDEN = json.loads(Path(__file__).with_name("watches.json").read_text())
FLAGS = {
    # The sandbox does not serve the kinds of controller `policies`.
    "controller": (
        f"--controllers={','.join(name for name in CONTROLLERS if name != 'policies')}",
        "--no-leader-elect",
    ),
    "certificates": (),
    "claims-node": ("--node-name=node1",),
    "gateway": (),
    "webhook": ("--insecure", "--port=0", "--claims", "--appwrappers", "--confine-tenants", "--rmd-backend=daemon"),
}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each collection is watched, while the test runs."""
    counts = Counter[str]()

    class Recorded(ApiServer):
        async def __call__(
            self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
        ) -> None:
            query = {name: values[0] for name, values in parse_qs(scope.get("query_string", b"").decode()).items()}
            if query.get("watch") != "true":
                await super().__call__(scope, receive, send)
                return
            selectors = [query[name] for name in ("labelSelector", "fieldSelector") if name in query]
            name = "?".join([scope["path"], *selectors])
            counts[name] += 1
            try:
                await super().__call__(scope, receive, send)
            finally:
                counts[name] -= 1

    monkeypatch.setattr("app.devtools.sandbox.server.ApiServer", Recorded)
    return counts


@pytest.mark.parametrize("case", FLAGS)
async def test_a_role_watches_each_scope_as_often_as_is_written_down(
    watched: Counter[str], tmp_path: Path, case: str
) -> None:
    async with staged(tmp_path) as stage:
        await _defined(stage)
        if case == "gateway":
            await stage.gateway()
        else:
            files = stage.folder / "gateway"
            pair = (f"--tls-cert-file={files / 'tls.crt'}", f"--tls-private-key-file={files / 'tls.key'}")
            role = await stage.berth(case, *FLAGS[case], *(pair if case == "webhook" else ()))
            await role.until_ready()
        await eventually(lambda: {name: count for name, count in watched.items() if count}, GOLDEN[case].__eq__)


async def _defined(stage: Stage) -> None:
    for path in OTHERS:
        await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
