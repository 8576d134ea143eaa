"""Connections are cut, stalled and refused, API servers restart and forget their history: afterwards all is as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.faults.driver import CUTS, Driver
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki


@pytest.mark.parametrize("seed", [21, 22])
async def test_connections_that_fail(tmp_path: Path, pki: Pki, seed: int) -> None:
    async with world(tmp_path, pki, Tuning(window=100), seed) as made:
        await Driver(made, seed, CUTS).play(20)
