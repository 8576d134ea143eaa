"""Processes of all roles are killed at random points, and replaced: afterwards all is as it should be."""

from __future__ import annotations

import signal

from tests.integration.faults.driver import Driver
from tests.integration.faults.oracle import Oracle
from tests.integration.faults.processes import QUICK, Crew, Processes


async def test_processes_killed_at_random_points(stage: Processes) -> None:
    async with Crew(stage) as crew:
        driver = Driver(stage, 51, {}, changes=QUICK)
        for number in range(8):
            driver.history.append(f"-- round {number}")
            await driver.change(8)
            for role in driver.random.sample(sorted(crew.members), driver.random.choice((1, 1, 2))):
                driver.history.append(f"FAULT kill {role}")
                crew.members[role].send(signal.SIGKILL)
                await driver.change(driver.random.randrange(4))
                await crew.members[role].kill()
                crew.members[role] = await stage.launch(role)
                await driver.change(driver.random.randrange(4))
            await driver.converged(number)
        assert Oracle(stage, driver.book).wanted
