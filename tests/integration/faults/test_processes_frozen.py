"""A process that says nothing for a while and then goes on."""

from __future__ import annotations

import asyncio
import signal

from tests.integration.faults.driver import Driver
from tests.integration.faults.oracle import Oracle
from tests.integration.faults.processes import QUICK, Crew, Processes


async def test_a_gateway_that_freezes_for_a_while(stage: Processes) -> None:
    """Nobody hears of it: calls and streams hang, and go on."""
    async with Crew(stage) as crew:
        driver = Driver(stage, 52, {}, changes=QUICK)
        await driver.change(10)
        for _ in range(2):
            crew.members["gateway"].send(signal.SIGSTOP)
            await driver.change(8)
            await asyncio.sleep(1.0)
            crew.members["gateway"].send(signal.SIGCONT)
            await driver.converged()
        assert Oracle(stage, driver.book).wanted
