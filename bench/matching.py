"""`python -m bench.matching`: what matching costs without any server: events of workloads and of rules, and memory.

The goals: an event with 2,000 rules of distinct values costs at most 1.2 times one with 10, one with 100,000 workloads
at most 1.2 times one with few, and a workload (with what the indexes and matches hold of it) stays under 4 KiB. Every
rule asks for a namespace that all workloads have and for a label of its own value, so that only an index keeps them
apart; three rules of the admin look at every tenant by other keys, and one of them matches everything.
"""

from __future__ import annotations

import gc
import json
import time
import timeit
import tracemalloc
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from app.kube.store import Store, key_of
from app.wire import decode_json
from app.workloads.controller.stored import project_workload
from app.workloads.matching.matcher import Matcher
from app.workloads.model import Expression, Injection, Rule, Term, Workload, workload_name

FEW, MANY = 10, 2000
CROWD = 100_000
"""Workloads, where their number is compared."""
RATIO_GOAL = 1.2
MEMORY_GOAL = 4096
_REPEATS = 15
_HOSTS = 50


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds, but for `memory`: bytes of one workload."""

    few: float
    many: float
    crowd: float
    """By how much more an event costs with CROWD workloads than with those of the others."""
    unchanged: float
    rule: float
    template: float
    memory: float

    @property
    def ratio(self) -> float:
        return self.many / self.few


def measure(*, workloads: int = 5000, calls: int = 1000, crowd: int = CROWD) -> Costs:
    """Every time is the best of some repeats, which noise cannot improve."""
    same = _workload(7)
    bodies = [_body(number) for number in range(workloads)]
    few, many = _with_rules(FEW), _with_rules(MANY)
    memory = _memory(many, bodies)
    for body in bodies:
        few.put_workload(project_workload(decode_json(body)))
    few_cost, many_cost = _events(few, many, calls)
    crowded = _with_rules(MANY)
    for number in range(crowd):
        crowded.put_workload(_workload(number))
    usual_cost, crowd_cost = _events(many, crowded, calls)
    return Costs(
        few=few_cost,
        many=many_cost,
        crowd=crowd_cost / usual_cost,
        unchanged=_seconds(lambda: many.put_workload(same), calls) / calls,
        rule=_rule_change(many, calls // 10),
        template=_template_change(many, calls // 10),
        memory=memory,
    )


def main() -> None:
    found = measure()
    table = Table(title="Matching: 5,000 workloads of one tenant", title_justify="left")
    for column in ("what", "found", "goal"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row(f"event of a workload, {FEW} rules", _micro(found.few), "")
    table.add_row(f"event of a workload, {MANY} rules", _micro(found.many), "")
    table.add_row("ratio of the two", f"{found.ratio:.2f}", f"{RATIO_GOAL}")
    table.add_row(f"{CROWD:,} workloads / 5,000", f"{found.crowd:.2f}", f"{RATIO_GOAL}")
    table.add_row("event that changes nothing", _micro(found.unchanged), "")
    table.add_row("rule with other values", _micro(found.rule), "")
    table.add_row("rule with another template", _micro(found.template), "")
    table.add_row("memory of a workload", f"{found.memory:,.0f} B", f"{MEMORY_GOAL:,} B")
    Console().print(table)


def _with_rules(count: int) -> Matcher:
    matcher = Matcher()
    for number in range(count):
        matcher.put_rule(_rule(number, f"app-{number}"))
    matcher.put_rule(_admin_rule("names", Expression("metadata.resourceName", "In", frozenset({"web-00007"}))))
    matcher.put_rule(_admin_rule("hosts", Expression("state.nodeName", "In", frozenset({"host-1", "host-7"}))))
    matcher.put_rule(_admin_rule("all", Expression("metadata.id", "Exists")))
    return matcher


def _admin_rule(name: str, expression: Expression) -> Rule:
    return Rule(
        kind="admin",
        namespace="universe",
        name=name,
        generation=1,
        tenants=None,
        terms=(Term((expression,)),),
        injections=(),
        policy="Any",
        template=b"{}",
    )


def _rule(number: int, value: str, *, generation: int = 1) -> Rule:
    expressions = (
        Expression("metadata.resourceNamespace", "In", frozenset({"default"})),
        Expression("state.extra.labels.app", "In", frozenset({value})),
        Expression("state.ready", "NotIn", frozenset({"unknown"})),
    )
    return Rule(
        kind="tenant",
        namespace="tenant-tenant1",
        name=f"rule-{number}",
        generation=generation,
        tenants=frozenset({"tenant1"}),
        terms=(Term(expressions),),
        injections=(Injection("@", "workload"),),
        policy="SameNode",
        template=b"{}",
    )


def _body(number: int, *, ready: bool = True) -> bytes:
    """A Workload object as the API server sends it: 5 labels, 5 annotations of usual size."""
    workload_id = str(uuid.UUID(int=number * 2**64 + number))
    network = [{"name": "ovn/default", "interface": "eth0", "ips": [f"10.1.{number % 250}.7"], "default": True}]
    labels = {
        "app": f"app-{number % MANY}",
        "app.kubernetes.io/instance": f"web-{number % 40}",
        "app.kubernetes.io/part-of": "shop",
        "pod-template-hash": f"{number:010x}",
        "topology.kubernetes.io/zone": "zone-1",
    }
    annotations = {
        "k8s.v1.cni.cncf.io/network-status": json.dumps(network),
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z",
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8080",
        "checksum/config": f"{number:064x}",
    }
    obj: dict[str, Any] = {
        "metadata": {"namespace": "tenant-tenant1", "name": workload_name(workload_id)},
        "spec": {
            "metadata": {
                "id": workload_id,
                "orchestrator": "kubernetes",
                "resourceType": "v1/Pod",
                "resourceName": f"web-{number:05}-{number:010x}",
                "resourceNamespace": "default",
            },
            "state": {
                "nodeName": f"host-{number % _HOSTS}",
                "ready": ready,
                "extra": {"labels": labels, "annotations": annotations},
            },
        },
    }
    return json.dumps(obj).encode()


def _workload(number: int, *, ready: bool = True) -> Workload:
    return project_workload(decode_json(_body(number, ready=ready)))


def _memory(matcher: Matcher, bodies: list[bytes]) -> float:
    """Bytes per workload that stay allocated: in the store, in the indexes and as what it matches."""
    gc.collect()
    tracemalloc.start()
    store: Store[Workload] = Store(project_workload)
    before = tracemalloc.get_traced_memory()[0]
    for body in bodies:
        obj = decode_json(body)
        store.upsert(obj)
        kept = store.get(*key_of(obj))
        if kept is not None:
            matcher.put_workload(kept)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(bodies)


def _events(few: Matcher, many: Matcher, calls: int) -> tuple[float, float]:
    """A workload turns ready and unready, and the same rules match it both times.

    The two take turns, in short samples, so that whatever else the machine does meets both.
    """
    states = [_workload(7, ready=False), _workload(7, ready=True)]

    samples = _REPEATS * 20
    size = max(1, calls // 20)

    def events(matcher: Matcher) -> float:
        begin = time.perf_counter()
        for number in range(size):
            matcher.put_workload(states[number % 2])
        return (time.perf_counter() - begin) / size

    rounds = [(events(few), events(many)) for _ in range(samples)]
    return min(first for first, _ in rounds), min(second for _, second in rounds)


def _rule_change(matcher: Matcher, calls: int) -> float:
    """One of the rules asks for another value and gets other workloads, as many as before."""
    states = [_rule(7, "app-8"), _rule(7, "app-7")]

    def changes() -> None:
        for number in range(calls):
            matcher.put_rule(states[number % 2])

    return _seconds(changes, 1) / calls


def _template_change(matcher: Matcher, calls: int) -> float:
    states = [_rule(7, "app-7", generation=2), _rule(7, "app-7", generation=3)]

    def changes() -> None:
        for number in range(calls):
            matcher.put_rule(states[number % 2])

    return _seconds(changes, 1) / calls


def _seconds(call: Callable[[], object], calls: int) -> float:
    return min(timeit.repeat(call, repeat=_REPEATS, number=calls))


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs"


if __name__ == "__main__":
    main()
