"""Clusters whose etcd is restored from an earlier snapshot: nobody restarts a role, and all comes right by events.

"Behind": the restored server's version is lower than the one that clients hold. "Ahead": it has passed that number
meanwhile, so that every watch could be resumed, in another history.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults.driver import CUTS, RESTORES, Driver
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki


@pytest.mark.parametrize("seed", [51, 52])
async def test_restores_among_other_faults(tmp_path: Path, pki: Pki, seed: int) -> None:
    async with world(tmp_path, pki, Tuning(tenants=("tenant1", "tenant2")), seed) as made:
        await Driver(made, seed, {**CUTS, **dict.fromkeys(RESTORES, 6)}).play(8)
