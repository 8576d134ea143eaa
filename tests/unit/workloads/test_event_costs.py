"""What one event costs the caches of the controller does not grow with rules and workloads that it does not concern.

Counted in calls and in bytes that are needed meanwhile, which are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from app.placement.model import PlacementOptions
from app.wire import JSON
from app.workloads.companions.plan import Planner
from app.workloads.controller.caches import WorkloadCaches
from app.workloads.controller.statuses import workload_rules
from bench import companions_objects as objects
from bench.companions_memory import stored
from tests.support.costs import cost_of_event
from tests.support.kits import offline_kit

_FEW, _MANY = 10, 2000
_EACH = 4
"""Workloads that the rules of the label `app` match: as many in both clusters."""
_OTHERS = 1000


class Cluster(NamedTuple):
    caches: WorkloadCaches
    workloads: list[JSON]
    rules: list[JSON]
    pods: list[JSON]

    def plan(self, number: int) -> None:
        """As a reconcile does."""
        found = self.caches.workloads.get(objects.NAMESPACE, self.workloads[number]["metadata"]["name"])
        assert found is not None
        assert found.workload is not None
        planner = Planner(PlacementOptions())
        rules = self.caches.matcher.rules_of(found.workload.key)
        assert len(list(planner.plans(found.workload, rules))) == objects.MATCHES


def cluster(rules: int) -> Cluster:
    workloads = [stored(objects.workload(number, rules=rules)) for number in range(_EACH * rules // objects.MATCHES)]
    made = [stored(objects.rule(number, rules=rules)) for number in range(rules)]
    for obj in made:
        obj["metadata"]["generation"] = 1
    # Those of the rules whose events are counted, and of others.
    half = rules // objects.MATCHES
    some = [obj for number, obj in enumerate(workloads) if number < _OTHERS or number % half < _FEW // 2]
    pods = [stored(obj) for obj in objects.companions(some, made)]
    caches = WorkloadCaches(offline_kit(), {})
    for store, found in ((caches.tenant_rules, made), (caches.workloads, workloads), (caches.companions, pods)):
        store.replace_all(found)
        store.mark_synced()
    return Cluster(caches, workloads, made, pods)


@pytest.fixture(scope="module")
def clusters() -> tuple[Cluster, Cluster, Cluster]:
    """The first takes what is computed once in a process."""
    return cluster(_FEW), cluster(_FEW), cluster(_MANY)


def labeled(of: Cluster) -> None:
    """Another label of a workload."""
    obj = objects.workload(0, rules=len(of.rules))
    obj["spec"]["state"]["extra"]["labels"][objects.VERSION_LABEL] = "2"
    of.caches.workloads.upsert(stored(obj))
    of.plan(0)


def told(of: Cluster) -> None:
    """The status of a workload."""
    key = (objects.NAMESPACE, of.workloads[1]["metadata"]["name"])
    known = [("tenant", rule.key) for rule in of.caches.matcher.rules_of(key)]
    of.caches.workloads.upsert({**of.workloads[1], "status": {"rules": workload_rules(known, [], {})}})


def started(of: Cluster) -> None:
    """A companion that runs."""
    of.caches.companions.upsert({**of.pods[0], "status": {"phase": "Running"}})


def ended(of: Cluster) -> None:
    """The end of a companion, and of its workload."""
    of.caches.companions.remove(objects.NAMESPACE, of.pods[4]["metadata"]["name"])
    of.caches.workloads.remove(objects.NAMESPACE, of.workloads[2]["metadata"]["name"])


def asked_other(of: Cluster) -> None:
    """Another value that a rule asks for."""
    obj = {**of.rules[3], "metadata": {**of.rules[3]["metadata"], "generation": 2}}
    obj["spec"] = {**obj["spec"], "workloadTerms": of.rules[4]["spec"]["workloadTerms"]}
    of.caches.tenant_rules.upsert(obj)
    assert of.caches.matcher.count((objects.NAMESPACE, obj["metadata"]["name"])) == _EACH


def removed(of: Cluster) -> None:
    """The end of a rule, whose workloads have companions."""
    of.caches.tenant_rules.remove(objects.NAMESPACE, of.rules[0]["metadata"]["name"])


@pytest.mark.parametrize("event", [labeled, told, started, ended, asked_other, removed])
def test_one_event_costs_the_same(clusters: tuple[Cluster, ...], event: Callable[[Cluster], None]) -> None:
    _, few, many = (cost_of_event(partial(event, of)) for of in clusters)
    assert many[0] == pytest.approx(few[0], rel=0.2)
    assert many[1] == pytest.approx(few[1], rel=0.2, abs=2048)
