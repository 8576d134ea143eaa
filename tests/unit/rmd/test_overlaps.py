"""Which stored RmdWorkloads a review looks at."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.store import Store
from app.rmd.admission import workloads
from app.rmd.admission.workloads import (
    BY_NODE,
    Held,
    Hosts,
    indexed_nodes,
    neighbors,
    overlaps,
    stored_held,
    stored_host,
)
from app.rmd.requests import read_spec
from tests.support.rmd_reviews import node

STORED = 1000
RDT = {"cache": {"max": 2, "min": 2}}


def stored(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "a", "name": name}, "spec": {"coreIds": ["0-1"], "rdt": RDT, **spec}}


def hosts() -> Hosts:
    store = Store(stored_host)
    for number in range(STORED):
        store.upsert(node(f"n{number}", "4", zone=f"z{number}"))
    return Hosts(store)


def held_of_each_node() -> Store[Held]:
    """One for each node by name, and one by the label of node 7."""
    store = Store(stored_held, indices={BY_NODE: indexed_nodes})
    for number in range(STORED):
        store.upsert(stored(f"w{number}", nodes=[f"n{number}"]))
    store.upsert(stored("selecting", nodeSelector={"zone": "z7"}))
    return store


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"nodes": ["n7"]}, {"selecting", "w7"}),
        ({"nodes": ["n7", "n8"]}, {"selecting", "w7", "w8"}),
        ({"nodeSelector": {"zone": "z8"}}, {"selecting", "w8"}),
        ({}, set()),
    ],
)
def test_only_those_that_may_share_a_node_are_looked_at(spec, names, monkeypatch) -> None:
    steps: list[None] = []
    monkeypatch.setattr(workloads, "step", lambda: steps.append(None))
    request = read_spec({"coreIds": ["1"], **spec}).request
    others = list(neighbors(request, held_of_each_node(), hosts()))
    assert {held.key[1] for held in others} == names
    list(overlaps(Held(("b", "new"), request), others, hosts(), home="b"))
    assert len(steps) == len(names)


def test_many_nodes_in_common_are_each_looked_at_once() -> None:
    store = Store(stored_held, indices={BY_NODE: indexed_nodes})
    nodes = [f"n{number}" for number in range(50)]
    for number in range(50):
        store.upsert(stored(f"w{number}", nodes=nodes))
    request = read_spec({"coreIds": ["1"], "nodes": nodes}).request
    assert len(list(neighbors(request, store, hosts()))) == 50
