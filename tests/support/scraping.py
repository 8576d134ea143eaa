"""What each role really exposes: processes of all roles on one sandbox cluster, scraped once."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.definitions import read_definitions
from app.devtools.kubelet.server import Kubelet
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS
from tests.support.kubelet import MACHINE
from tests.support.processes import Berth
from tests.support.rmd_cluster import RmdCluster, StandIn
from tests.support.staging import Stage, staged
from tests.support.waiting import eventually

JOBS = {"webhook --workers": "webhook"}
"""Roles by what was started, where that is not the same."""
OURS = ("admission_", "agent_", "berth_", "cache_", "cert_", "event_loop_", "events_", "gateway_", "leader", "queue_")
OURS += (
    "handling_",
    "port_",
    "reconcile_",
    "watch_",
    "worker_",
    "appwrapper",
    "rmd_",
    "claim_",
    "claims_",
    "tenants_",
    "policies_",
)


@dataclass(frozen=True, slots=True)
class Exposed:
    """One scrape: series by sample name, and types by family name."""

    series: dict[str, list[dict[str, str]]]
    kinds: dict[str, str]
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    @classmethod
    def parse(cls, text: str) -> Exposed:
        found = cls({}, {}, {})
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found.kinds[name] = family.type
            for sample in family.samples:
                found.series.setdefault(sample.name, []).append(sample.labels)
                found.values[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float:
        return self.values[name, tuple(sorted(labels.items()))]

    @property
    def ours(self) -> dict[str, list[dict[str, str]]]:
        """What is not of the Prometheus client."""
        return {name: series for name, series in self.series.items() if name.startswith(OURS)}


async def _scrape(folder: Path) -> dict[str, str]:
    async with staged(folder) as stage, _daemon(stage):
        gateway, address = await stage.gateway()
        tls = (f"--tls-cert-file={folder}/gateway/tls.crt", f"--tls-private-key-file={folder}/gateway/tls.key")
        webhook = ("--port=0", "--insecure", "--confine-tenants", *tls)
        started: dict[str, Berth] = {
            "webhook": await stage.berth("webhook", *webhook),
            "webhook --workers": await stage.berth("webhook", "--workers=2", *webhook),
            "controller": await stage.berth(
                "controller", "--controllers=workloads,tenants,appwrappers,rmd,claims,claim-templates,network-services"
            ),
            "gateway": gateway,
            "agent": await stage.berth(
                "agent", f"--gateway={address}", "--tenant=tenant1", *stage.tls("tenant1", "gateway-ca")
            ),
            "certificates": await stage.berth("certificates", "--namespace=universe", "--gateway"),
            "claims-node": await stage.berth("claims-node", "--node-name=n1"),
            "ui": await stage.berth("ui", "--access=callers", "--port=0", *tls),
            "rmd-node": await stage.berth("rmd-node", "--node-name=n1", f"--kubelet-folder={folder / 'kubelet'}"),
        }
        for name, process in started.items():
            await process.until_ready()
            if name in ("controller", "agent"):
                await eventually(lambda process=process: process.event("leading"))
        await eventually(lambda: _visited(stage, started["ui"]))
        await eventually(lambda: _has(started["certificates"], "cert_managed_not_after_seconds{"))
        await eventually(lambda: _has(started["controller"], "rmd_cache_ways_free{"))
        texts = {name: (await process.get("/metrics"))[1] for name, process in started.items()}
        return texts | {"controller": texts["controller"] + await _of_policies(stage)}


async def _of_policies(stage: Stage) -> str:
    """The series of controller `policies`, from a replica that stands by: the sandbox has no admission policies."""
    replica = await stage.berth("controller", "--controllers=policies")
    await eventually(lambda: _has(replica, "policies_attachments{"))
    lines = (await replica.get("/metrics"))[1].splitlines(keepends=True)
    return "".join(
        line for line in lines if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith("policies_")
    )


@contextlib.asynccontextmanager
async def _daemon(stage: Stage) -> AsyncIterator[None]:
    """A node with a daemon of RMD, and a kubelet; attachments are defined."""
    for definition in read_definitions((NETWORK_ATTACHMENTS,)):
        await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    cluster = RmdCluster(stage.cluster, stage.folder / "kubeconfig", stage.client)
    async with cluster.node("n1", StandIn()), Kubelet(stage.folder / "kubelet", MACHINE):
        await cluster.show("n1")
        yield


async def _visited(stage: Stage, page: Berth) -> bool:
    """Whether the page has something in its caches: it watches what is looked at."""
    stage.cluster.add_token("visitor", "visitor", ("system:masters",))
    event = page.event("listening")
    assert event is not None
    headers = {"Authorization": "Bearer visitor"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(event["page"], ssl=False) as answer:
        assert answer.status == 200, await answer.text()
    return await _has(page, "cache_age_seconds{")


async def _has(process: Berth, text: str) -> bool:
    return text in (await process.get("/metrics"))[1]


@pytest.fixture(scope="session")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exposed]:
    """What each process exposes, by the command that started it (`webhook --workers` beside `webhook`).

    Scraped once in a run of the tests, whichever of its workers comes first.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "scrapes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "scrapes.json"
        if not kept.exists():
            kept.write_text(json.dumps(asyncio.run(_scrape(tmp_path_factory.mktemp("roles")))))
    return {name: Exposed.parse(text) for name, text in json.loads(kept.read_text()).items()}
