"""No status that grows with a cluster, or with what others say, becomes larger than an API server stores.

An AppWrapper has a test of its own, in `tests/unit/appwrappers/test_sizes.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from app.kube.client import KubeClient
from app.rmd.controller.caches import RmdCaches
from app.rmd.controller.controller import ConfigSync
from app.rmd.controller.nodes import Showing, rows_of
from app.rmd.controller.states import CREATED, PENDING, failed, fitting, state_of
from app.rmd.daemon.wire import read_reservation
from app.rmd.requests import MOST_NODES, read_spec
from app.rmd.stored import stored_config, stored_node_state
from app.tenancy.controller.status import Finding, write_status
from app.text import MESSAGE
from app.wire import encode_as_go
from app.workloads.controller.statuses import workload_rules
from app.workloads.model import Problem

JSON = dict[str, Any]
NOW = datetime(2026, 11, 27, tzinfo=UTC)
STORED = 1536 * 1024
"""Bytes of an object that etcd takes."""
ROOM = STORED - 320 * 1024
"""Without annotations, and the rest of an object."""
METADATA = {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "1", "generation": 1}


def size(value: Any) -> int:
    return len(encode_as_go(value))


def reservation(number: int) -> JSON:
    """As large as a daemon would say it: every second of 512 cores."""
    return {
        "id": str(number),
        "uuid": f"others/{number}",
        "core_ids": [str(core) for core in range(0, 512, 2)],
        "status": "Successful",
        "cos_name": f"COS{number}",
        "origin": "REST",
        "rdt": {"cache": {"max": 2, "min": 2}},
    }


class Sent:
    """What a client would send: the parts of a connection to an API server that statuses need."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def json(self, request: Any, **_options: Any) -> JSON:
        self.bodies.append(request.body)
        return {}

    @property
    def client(self) -> KubeClient:
        return KubeClient(cast("Any", self))

    @property
    def status(self) -> JSON:
        """The one of the last JSON patch or apply."""
        body = self.bodies[-1]
        status: JSON = body[-1]["value"] if isinstance(body, list) else body["status"]
        return status


@pytest.mark.parametrize("nodes", [64, MOST_NODES])
def test_an_rmd_workload_of_many_nodes_that_all_refuse(nodes: int) -> None:
    states: dict[str, JSON] = {f"worker-{number}.example.com": dict(PENDING) for number in range(nodes)}
    held = state_of(read_reservation(reservation(2**31)), CREATED)
    state = fitting({**failed("<" * 5000, held), "observedGeneration": 2**31}, states)
    assert state["id"] == held["id"]
    assert fitting(state, states) == state
    states = dict.fromkeys(states, state)
    assert size(states) < ROOM


def test_few_nodes_have_whole_states() -> None:
    state = state_of(read_reservation(reservation(1)), CREATED)
    assert fitting(state, {"n1": {}, "n2": {}}) == state


def test_an_rmd_workload_names_no_more_nodes_than_have_room() -> None:
    spec = {"coreIds": ["0"], "rdt": {"cache": {"max": 2, "min": 2}}}
    assert read_spec({**spec, "nodes": [f"n{number}" for number in range(MOST_NODES)]}).problems == ()
    (problem,) = read_spec({**spec, "nodes": [f"n{number}" for number in range(MOST_NODES + 1)]}).problems
    assert problem.startswith(f"spec.nodes: want at most {MOST_NODES}, got {MOST_NODES + 1}")


async def test_a_daemon_that_holds_very_much() -> None:
    reservations = [read_reservation(reservation(number)) for number in range(2000)]
    sent = Sent()
    state = stored_node_state({"metadata": METADATA, "spec": {"node": "n"}})
    await Showing(sent.client, lambda: NOW).connected(state, reservations, [])
    assert size(sent.status) < ROOM
    rest = len(reservations) - len(sent.status["workloads"])
    assert rest > 0
    assert (
        sent.status["conditions"][0]["message"] == f"the daemon answers; {rest} more of its reservations are not shown"
    )
    assert len(rows_of(reservations[:100])) == 100


async def test_an_rmd_config_for_very_many_nodes() -> None:
    sent = Sent()
    config = stored_config({"metadata": {**METADATA, "name": "rmdconfig"}})
    assert config is not None
    await ConfigSync(sent.client, cast("RmdCaches", None), lambda: NOW, namespace="default")._say(
        config, [f"n-{n}" for n in range(100_000)], ""
    )
    assert size(sent.status) < ROOM
    assert len(sent.status["nodes"]) == 5000
    assert sent.status["conditions"][0]["message"].startswith("100000 nodes have the labels")


def test_a_workload_that_very_many_rules_match() -> None:
    keys = [("tenant-" + "t" * 56, f"rule-{number:05}-" + "r" * 52) for number in range(3000)]
    matching = [(kind, key) for kind in ("tenant", "admin") for key in keys]
    findings = {key: Problem("QuotaExceeded", "<" * 5000) for key in keys}
    rules = workload_rules(cast("Any", matching), (), findings)
    assert size(rules) < ROOM
    for entries in rules.values():
        assert len(entries) == 512
        assert entries[-1]["status"]["message"].endswith("… and 2488 more rules")
    few = workload_rules(cast("Any", matching[:5]), (), {})
    assert [len(entries or ()) for entries in few.values()] == [5, 0]


async def test_a_tenant_with_very_many_problems() -> None:
    sent = Sent()
    findings = [Finding("HostsReady", "HostTaken", "<" * 100_000), Finding("IdentityReady", note="x" * 100_000)]
    obj = {"metadata": {"name": "t", "uid": "u", "generation": 1}}
    await write_status(sent.client, obj, findings, suspended=False, now=NOW)
    assert all(len(condition["message"]) <= MESSAGE for condition in sent.status["conditions"])
    assert len(sent.status["message"]) <= MESSAGE
