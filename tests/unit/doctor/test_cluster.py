"""What the doctor reads of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from app.doctor.cluster import Cluster, locate
from app.doctor.installed import read_deployment
from app.kube.client import KubeClient, Page


class Answering:
    """An API server that takes its time: for each request `took` seconds, with its clock read `read` seconds in."""

    def __init__(self, *, ahead: float, read: float, took: float) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self._ahead, self._read, self._took = ahead, read, took

    async def server_time(self) -> datetime:
        there = self.now + timedelta(seconds=self._read + self._ahead)
        self.now += timedelta(seconds=self._took)
        return there.replace(microsecond=0)


@pytest.mark.parametrize(
    ("ahead", "read", "took", "skew"),
    [
        (0, 0, 30, 0),
        (0, 30, 30, 0.5),
        (0, 0.5, 1, 0),
        (60, 0, 0, 60.5),
        (60, 10, 20, 50.5),
        (-60, 10, 20, -49.5),
        (-3600, 0, 0, -3599.5),
    ],
)
async def test_a_slow_answer_is_no_difference_of_clocks(ahead: float, read: float, took: float, skew: float) -> None:
    server = Answering(ahead=ahead, read=read, took=took)
    cluster = Cluster(cast("KubeClient", server), "berth", now=lambda: server.now)
    found = await cluster.skew()
    assert found is not None
    assert found.total_seconds() == skew


async def test_a_deployment_that_is_listed_without_a_namespace_is_none_of_ours() -> None:
    """The API server that lists it is a proxy, or broken. There is nothing to be found by it, and it stops nothing."""
    labels = {"app.kubernetes.io/part-of": "berth", "app.kubernetes.io/component": "webhook"}
    odd = {"metadata": {"name": "berth-webhook", "labels": labels}, "spec": {}}

    class Listing:
        async def list_page(self, *_: object, **__: object) -> Page:
            return Page([odd], "", "")

    assert read_deployment(odd) is None
    cluster = Cluster(cast("KubeClient", Listing()), "")
    await locate(cluster)
    assert (cluster.namespace, await cluster.installed()) == ("berth-system", [])
