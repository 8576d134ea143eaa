"""How often a watch asks an API server, and what it gives while there is none."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import Any, cast

import pytest

from app.doctor.cluster import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient
from app.status.gathering import Watch
from app.status.model import Away

pytestmark = [pytest.mark.asyncio, pytest.mark.simulated]


class Silent:
    """An API server that takes its time, and then does not answer. `asked` are the times of requests."""

    def __init__(self, took: float) -> None:
        self._took = took
        self.asked: list[float] = []

    async def server_time(self) -> datetime:
        self.asked.append(asyncio.get_running_loop().time())
        return await self.list_page()

    async def list_page(self, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(self._took)
        raise ApiError("GET /version: no answer", status=0)


def watch(server: Silent, pause: float) -> Watch:
    return Watch(lambda: Cluster(cast("KubeClient", server), "berth"), pause)


@pytest.mark.parametrize(("took", "pause", "between"), [(0.0, 5.0, 5.0), (1.0, 5.0, 6.0), (30.0, 5.0, 60.0)])
async def test_it_pauses_as_long_as_the_reads_took(took: float, pause: float, between: float) -> None:
    server = Silent(took)
    async with aclosing(watch(server, pause).screens()) as screens:
        found = [await anext(screens) for _ in range(5)]
    assert all(isinstance(one, Away) for one in found)
    pauses = [after - before for before, after in zip(server.asked, server.asked[1:], strict=False)]
    assert pauses == pytest.approx([between] * 4, abs=0.01)


async def test_an_api_server_that_stays_away_is_said_once() -> None:
    changes = watch(Silent(0.0), 1.0).changes()
    async with aclosing(changes):
        assert isinstance(await anext(changes), Away)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(changes), 100.0)
