"""Controller, gateway and agent are killed and begin anew at random points: afterwards all is as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults.driver import KILLS, Driver
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki


@pytest.mark.parametrize("seed", [11, 12])
async def test_killed_and_begun_anew(tmp_path: Path, pki: Pki, seed: int) -> None:
    async with world(tmp_path, pki, Tuning(), seed) as made:
        await Driver(made, seed, KILLS).play(30)
