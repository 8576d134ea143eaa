"""No two servers of a test run are given the same port, whether or not one of them listens already."""

from __future__ import annotations

import pytest

from tests.support.ports import NODE_PORTS, lasting_port


def test_a_port_is_given_once() -> None:
    ports = [lasting_port() for _ in range(200)] + [lasting_port(NODE_PORTS) for _ in range(100)]
    assert len(set(ports)) == len(ports)
    assert set(ports[200:]) <= set(NODE_PORTS)


def test_workers_that_look_at_the_same_time_find_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    found = {}
    for number in range(4):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{number}")
        found[number] = {lasting_port(NODE_PORTS) % 4 for _ in range(20)}
    assert sorted(found.values(), key=min) == [{0}, {1}, {2}, {3}]
