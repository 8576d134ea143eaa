"""Names of companions: as the API has them, never too long, never the same for two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.kube.names import check_dns_subdomain
from app.placement.model import PlacementOptions
from app.workloads.companions.marks import companion_name
from app.workloads.companions.plan import Blueprint, Planned, plan
from app.workloads.model import Rule, RuleKind, Workload, workload_name
from app.workloads.rules.keys import Facts

ID = "0a7c0d7f-ba7f-4301-afed-8db108dbee1a"


def made_rule(name: str, kind: RuleKind = "tenant", namespace: str = "tenant-tenant1") -> Rule:
    return Rule(kind, namespace, name, 1, None, (), (), "Any", b"{}")


def made_workload(id_: str = ID, namespace: str = "tenant-tenant1") -> Workload:
    return Workload(namespace, workload_name(id_), id_, "", b"{}")


def test_names_of_the_walk_through() -> None:
    admin = made_rule("adminrule1", "admin", "universe")
    assert companion_name(made_rule("tenant1-rule1"), made_workload()) == f"tenant1-rule1-{ID}"
    assert companion_name(admin, made_workload()) == f"adminrule1-tenant-tenant1-{ID}"


@pytest.mark.parametrize(("kind", "namespace"), [("tenant", "tenant-tenant1"), ("admin", "universe")])
def test_companions_are_in_the_namespace_of_whose_rule_it_is(kind: RuleKind, namespace: str) -> None:
    template = b'{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"x","name":"c"}]}}'
    blueprint = Blueprint(replace(made_rule("r", kind, namespace), template=template), PlacementOptions())
    planned = plan(blueprint, made_workload(), Facts(b"{}"))
    assert isinstance(planned, Planned)
    assert planned.namespace == planned.manifest["metadata"]["namespace"] == namespace


@pytest.mark.parametrize("kind", ["tenant", "admin"])
@pytest.mark.parametrize("length", [1, 26, 27, 63, 253])
@pytest.mark.parametrize("id_length", [1, 36, 52, 53, 63])
def test_every_name_fits_and_can_be_a_pods(kind: RuleKind, length: int, id_length: int) -> None:
    id_ = "i" * id_length
    name = companion_name(made_rule("r" * length, kind), made_workload(id_))
    assert len(name) <= 63
    assert check_dns_subdomain(name)
    if id_length <= 52:
        assert name.endswith(f"-{id_}")


def test_long_names_that_differ_at_the_end_stay_different_and_stable() -> None:
    names = {companion_name(made_rule("r" * 60 + last), made_workload()) for last in "abc"}
    assert len(names) == 3
    assert names == {companion_name(made_rule("r" * 60 + last), made_workload()) for last in "abc"}
    long_ids = {companion_name(made_rule("rule"), made_workload("i" * 62 + last)) for last in "abc"}
    assert len(long_ids) == 3
