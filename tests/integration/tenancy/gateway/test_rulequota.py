"""How many rules and keys that compute a tenant may have, and what the cache has not shown of them yet."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import pytest

from app.kube.store import Store
from app.tenancy.gateway.caches import BY_NAMESPACE, View
from app.tenancy.gateway.failures import Refused
from app.tenancy.gateway.quotas import MAX_COMPUTED, MAX_RULES, RuleQuota, refuse_beyond
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.rules.problems import computed_keys
from tests.support.gateway_calls import admin_rule, admin_rules, data, fails, rule, rules
from tests.support.tenancy import Door

NS = "tenant-tenant1"
NONE: frozenset[str] = frozenset()


def keyed(*keys: str) -> Any:
    made = data()
    made.workload_terms[0].match_expressions[0].key = keys[0]
    for key in keys[1:]:
        made.workload_terms.add().match_expressions.add(key=key, operation=1, values=["x"])
    return made


def view(name: str, *keys: str, namespace: str = NS) -> View:
    return View(namespace, name, rule(name, data=keyed(*keys)).SerializeToString(), keys=computed_keys(keys))


class Bench:
    def __init__(self) -> None:
        self.now = 0.0
        self.store: Store[View] = Store(lambda obj: obj["view"], indices={BY_NAMESPACE: lambda view: [view.namespace]})
        self.workloads = 0
        self.quota = RuleQuota(self.store, workloads=lambda _: self.workloads, pairs=1000, clock=lambda: self.now)

    def show(self, shown: View) -> None:
        self.store.upsert({"metadata": {"namespace": shown.namespace, "name": shown.name}, "view": shown})

    def write(self, name: str, *keys: str, namespace: str = NS) -> bool:
        try:
            with self.quota.room(namespace, name, frozenset(keys)):
                return True
        except Refused as refused:
            return refused.code is not grpc.StatusCode.FAILED_PRECONDITION


def test_rules_are_counted_by_namespace_from_the_store_and_what_was_just_written() -> None:
    at = Bench()
    for number in range(MAX_RULES - 1):
        at.show(view(f"r{number}", "a.b"))
    assert at.write("one")
    assert not at.write("more")
    assert at.write("one")
    assert at.write("r1")
    assert at.write("more", namespace="tenant-b")
    at.quota.deleted(NS, "r1")
    assert at.write("more")
    assert not at.write("r1")
    at.store.remove(NS, "r2")
    assert at.write("r1")


def test_keys_are_counted_once_however_many_rules_have_them() -> None:
    at = Bench()
    for number in range(MAX_COMPUTED):
        at.show(view(f"r{number}", f"a[{number}]", "a.b", "a[0]"))
    assert at.write("same", "a[3]", "a[4]")
    assert not at.write("other", "b[0]")
    assert at.write("r3", "b[0]", "a[3]") is False
    at.store.remove(NS, "r5")
    assert at.write("other", "b[0]")
    assert not at.write("another", "b[1]")


def test_a_rule_that_asks_for_no_more_may_always_be_written() -> None:
    there = {f"r{number}": frozenset({f"a[{number}]"}) for number in range(MAX_RULES + 5)}
    refuse_beyond("r3", frozenset({"a[3]"}), there)
    refuse_beyond("r3", NONE, there)
    with pytest.raises(Refused, match="at most 16 in all rules together"):
        refuse_beyond("r3", frozenset({"b"}), there)
    with pytest.raises(Refused, match="261 rules already: at most 256"):
        refuse_beyond("new", NONE, there)


def test_a_write_that_fails_or_never_shows_does_not_count_for_ever() -> None:
    at = Bench()
    keys = [f"a[{number}]" for number in range(MAX_COMPUTED)]
    with contextlib.suppress(OSError), at.quota.room(NS, "fails", frozenset(keys)):
        assert not at.write("meanwhile", "b[0]")
        raise OSError
    assert at.write("lost", *keys)
    assert not at.write("other", "b[0]")
    at.now = 31.0
    assert at.write("other", "b[0]")


async def test_a_tenant_is_told_that_its_keys_are_too_many(door: Door) -> None:
    stub = rules(door.tenant("tenant1"))
    for number in range(4):
        keys = [f"a[{index}]" for index in range(number * 4, number * 4 + 4)]
        await stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule(f"r{number}", data=keyed(*keys))))
    for call in (
        stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule("more", data=keyed("b[0]")))),
        stub.Create(pb.CreateWorkloadRuleRequest(rule=rule("more", data=keyed("b[0]")))),
    ):
        error = await fails(call)
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "17 different keys" in (error.details() or "")
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule("more", data=keyed("a.b", "a[3]"))))
    await stub.Delete(pb.DeleteWorkloadRuleRequest(id="r2"))
    await stub.Update(pb.UpdateWorkloadRuleRequest(rule=rule("more", data=keyed("b[0]"))))


async def test_the_admins_rules_are_counted_by_themselves(door: Door) -> None:
    await rules(door.tenant("tenant1")).Update(pb.UpdateWorkloadRuleRequest(rule=rule("r", data=keyed("z[0]"))))
    stub = admin_rules(door.admin())
    for number in range(4):
        keys = [f"a[{index}]" for index in range(number * 4, number * 4 + 4)]
        await stub.Update(admin_pb.UpdateRequest(rule=admin_rule(f"r{number}", data=keyed(*keys))))
    for call in (
        stub.Update(admin_pb.UpdateRequest(rule=admin_rule("more", data=keyed("b[0]")))),
        stub.Create(admin_pb.CreateRequest(rule=admin_rule("more", data=keyed("b[0]")))),
    ):
        assert (await fails(call)).code() is grpc.StatusCode.FAILED_PRECONDITION


def test_rules_times_workloads_are_bounded() -> None:
    at = Bench()
    for number in range(9):
        at.show(view(f"r{number}", "a.b"))
    at.workloads = 100
    assert at.write("tenth")
    assert not at.write("more")
    assert at.write("r1")
    at.workloads = 50
    assert at.write("more")


def test_a_deletion_stays_noted_when_the_rule_cannot_be_made_again() -> None:
    bench = Bench()
    bench.workloads = 500
    for name in ("r1", "r2"):
        bench.show(view(name, "metadata.name"))
    bench.quota.deleted(NS, "r1")
    with pytest.raises(OSError, match="no answer"), bench.quota.room(NS, "r1", NONE):
        raise OSError("no answer")
    with bench.quota.room(NS, "r3", NONE):
        pass
