"""Two controllers, two gateways, two agents at once for a while: afterwards nothing exists twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults.driver import REPLICAS, Driver
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki


@pytest.mark.parametrize("seed", [31, 32])
async def test_two_of_a_role(tmp_path: Path, pki: Pki, seed: int) -> None:
    async with world(tmp_path, pki, Tuning(), seed) as made:
        await Driver(made, seed, REPLICAS).play(25)
