"""A world is not at rest while one of its controllers is behind: it would put back what it still believes in."""

from __future__ import annotations

from pathlib import Path

from app.workloads.model import WORKLOAD_RULES
from tests.integration.faults.driver import Driver
from tests.integration.faults.lag import behind
from tests.integration.faults.oracle import Oracle
from tests.integration.faults.world import Tuning, world
from tests.support.tenancy import Pki
from tests.support.waiting import eventually


async def test_a_controller_that_has_not_seen_a_rule_is_waited_for(tmp_path: Path, pki: Pki) -> None:
    async with world(tmp_path, pki, Tuning(), 71) as made:
        driver = Driver(made, 71, {})
        await driver.change(15)
        late = await made.start("controller")
        await made.ready()
        await driver.converged()
        late.proxies[0].stall()
        await driver.put(made.tenants["tenant1"], WORKLOAD_RULES, "r9", driver.spec())
        await eventually(lambda: not Oracle(made, driver.book).differences)
        assert f"{late.name}: has not seen all tenantworkloadrules" in behind(made)
        late.proxies[0].resume()
        await driver.converged()
        assert not behind(made)
