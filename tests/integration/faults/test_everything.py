"""All kinds of faults over two tenants, with resyncs: what only they can find is meddled with too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults.driver import CHANGES, CUTS, KILLS, MEDDLING, REPLICAS, Driver
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki


@pytest.mark.parametrize("seed", [41, 42])
async def test_everything_at_once(tmp_path: Path, pki: Pki, seed: int) -> None:
    tuning = Tuning(resync=1.0, tenants=("tenant1", "tenant2"))
    async with world(tmp_path, pki, tuning, seed) as made:
        await Driver(made, seed, {**CUTS, **KILLS, **REPLICAS}, changes={**CHANGES, **MEDDLING}).play(25)
