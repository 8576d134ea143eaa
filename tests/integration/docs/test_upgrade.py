"""What the upgrade page says of objects whose controllers are gone, as it is typed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.appwrappers import model as app_wrappers
from app.appwrappers.model import APP_WRAPPERS
from app.definitions import read_definitions
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from app.rmd import model as rmd
from app.rmd.model import RMD_WORKLOADS
from tests.e2e.pages import commands_of
from tests.integration.doctor.patient import Patient, a_patient

LOOP = commands_of("docs/upgrade.md", "If the controllers are gone already")[0]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Patient]:
    async with a_patient(tmp_path) as patient:
        for definition in read_definitions((APP_WRAPPERS, RMD_WORKLOADS)):
            await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        yield patient


@pytest.mark.parametrize(
    ("resource", "ours", "spec"),
    [
        (APP_WRAPPERS, app_wrappers.FINALIZER, {"components": [{"template": POD}]}),
        (RMD_WORKLOADS, rmd.FINALIZER, {"allCores": True, "nodes": ["n"], "cache": {"max": 1, "min": 1}}),
    ],
)
async def test_the_loop_takes_away_our_finalizer_alone(
    cluster: Patient, resource: Resource, ours: str, spec: dict[str, object]
) -> None:
    """Wherever it is in the list, and without a fault for an object that has none."""
    other = "example.com/disk"
    wanted = {"none": ([], []), "alone": ([ours], []), "last": ([other, ours], [other]), "others": ([other], [other])}
    for name, (before, _) in wanted.items():
        metadata = {"finalizers": before} if before else {}
        await cluster.create(resource, name, namespace="default", metadata=metadata, spec=spec)
    first, rest = LOOP.split("\n", 1)
    if resource == RMD_WORKLOADS:
        first = f"kind=rmdworkloads finalizer={ours}"
    await cluster.run(f"set -e\n{first}\n{rest}")
    for name, (_, after) in wanted.items():
        stored = await cluster.client.get(resource, name, namespace="default")
        assert (stored["metadata"].get("finalizers") or []) == after, name
