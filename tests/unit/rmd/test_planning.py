"""What is done on a daemon: wanted, leaving and found in; steps out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.rmd.controller.steps import DaemonPlan, Leaving, Wanted, plan_node
from app.rmd.daemon.wire import Malformed, Reservation, body_of, read_reservation, read_reservations
from app.rmd.requests import Settings

CACHE = Settings(cache=(2, 2))


def wanted(name: str, cores: set[int], settings: Settings = CACHE, *, created: str = "1", known: str = "") -> Wanted:
    return Wanted(("ns", name), created, frozenset(cores), settings, known)


def held(one: Wanted, number: int, *, cos: str = "", **changes: Any) -> Reservation:
    """What a daemon says of a request that it took."""
    body = body_of(one.uuid, one.core_ids, one.settings)
    said = {**body, "id": str(number), "cos_name": cos or f"COS{number}", "status": "Successful", "origin": "REST"}
    return replace(read_reservation(said), **changes)


def steps(plan: DaemonPlan) -> tuple[list[str], list[str], list[str]]:
    return (
        [reservation.id for _, reservation in plan.release],
        [one.key[1] for one in plan.reserve],
        [one.key[1] for one, _ in plan.held],
    )


A, B = wanted("a", {0, 1}), wanted("b", {2})


def test_what_is_not_there_is_reserved_the_oldest_first() -> None:
    young, old = wanted("young", {5}, created="2026-02"), wanted("old", {5}, created="2026-01")
    assert steps(plan_node([young, old], [], [])) == ([], ["old", "young"], [])


def test_what_is_there_needs_nothing() -> None:
    assert steps(plan_node([A, B], [], [held(A, 1), held(B, 2)])) == ([], [], ["a", "b"])


@pytest.mark.parametrize(
    "changed",
    [
        wanted("a", {0, 2}),
        wanted("a", {0, 1}, Settings(cache=(3, 3))),
        wanted("a", {0, 1}, Settings(cache=(2, 2), percentage=50)),
        wanted("a", {0, 1}, Settings(policy="gold")),
        wanted("a", {0, 1}, Settings(cache=(2, 2), ratio=1.5)),
        wanted("a", {0, 1}, Settings(cache=(2, 2), monitoring="on")),
    ],
)
def test_what_differs_is_released_and_reserved(changed: Wanted) -> None:
    assert steps(plan_node([changed], [], [held(A, 1)])) == (["1"], ["a"], [])


def test_a_policy_has_its_own_cache() -> None:
    gold = wanted("a", {0}, Settings(policy="gold"))
    shown = held(gold, 1, settings=Settings(policy="gold", cache=(4, 4)))
    assert steps(plan_node([gold], [], [shown])) == ([], [], ["a"])


def test_what_leaves_is_released_and_what_is_foreign_stays() -> None:
    foreign = held(wanted("other", {7}), 9, uuid="made-by-hand")
    plan = plan_node([A], [Leaving(B.key)], [held(A, 1), held(B, 2), foreign])
    assert steps(plan) == (["2"], [], ["a"])
    assert plan.foreign == (foreign,)


def test_one_that_is_there_twice_is_kept_once() -> None:
    assert steps(plan_node([A], [], [held(A, 1), held(A, 2)])) == (["2"], [], ["a"])


def test_a_reservation_of_the_operator_is_taken_over_by_its_id() -> None:
    of_operator = held(A, 4, uuid="a")
    assert steps(plan_node([replace(A, known="4")], [], [of_operator])) == ([], [], ["a"])
    assert steps(plan_node([], [Leaving(A.key, "4")], [of_operator])) == (["4"], [], [])
    plan = plan_node([A], [], [of_operator])
    assert steps(plan) == ([], ["a"], [])
    assert plan.foreign == (of_operator,)


@pytest.mark.parametrize("change", [{"id": "mine"}, {"id": ""}, {"origin": "OPENSTACK"}, {"id": "²"}])
def test_what_no_request_can_release_is_blocked(change: dict[str, Any]) -> None:
    found = held(A, 1, **change)
    plan = plan_node([wanted("a", {5})], [], [found])
    assert steps(plan) == ([], [], [])
    assert [(one.key[1], reservation) for one, reservation in plan.blocked] == [("a", found)]


def test_two_that_share_a_class_of_service_are_both_made_anew() -> None:
    plan = plan_node([A, B], [], [held(A, 1, cos="COS3"), held(B, 2, cos="COS3")])
    assert steps(plan) == (["1", "2"], ["a", "b"], [])


def test_the_shared_pool_has_one_class_for_all() -> None:
    shared = Settings(cache=(0, 0))
    one, other = wanted("a", {0}, shared), wanted("b", {1}, shared)
    plan = plan_node([one, other], [], [held(one, 1, cos="COS5"), held(other, 2, cos="COS5")])
    assert steps(plan) == ([], [], ["a", "b"])


def test_the_body_has_nothing_that_is_not_set() -> None:
    settings = Settings(cache=(2, 2), mbps=5000, ratio=1.5, monitoring="on")
    assert body_of("ns/a", ("0-2", "6"), settings) == {
        "uuid": "ns/a",
        "core_ids": ["0-2", "6"],
        "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"mbps": 5000}},
        "plugins": {"pstate": {"ratio": 1.5, "monitoring": "on"}},
    }
    assert body_of("ns/a", ("4",), Settings(policy="gold")) == {
        "uuid": "ns/a",
        "core_ids": ["4"],
        "policy": "gold",
    }


@pytest.mark.parametrize("plugins", [[1], {"pstate": 5}, {"pstate": {"ratio": "fast"}}, {"pstate": {"monitoring": 1}}])
def test_plugins_that_another_client_sent_hold_up_no_reservation(plugins: Any) -> None:
    """A daemon keeps of them whatever it was sent; ids, cores and ways have the types of its own API."""
    (read,) = read_reservations(
        [{"id": "1", "uuid": "ns/a", "core_ids": ["0-1"], "origin": "REST", "plugins": plugins}]
    )
    assert (read.id, read.cores) == ("1", frozenset({0, 1}))
    assert steps(plan_node([A], [], [read])) == (["1"], ["a"], [])


@pytest.mark.parametrize(
    "malformed",
    [
        {"id": 5},
        {"core_ids": [4]},
        {"rdt": [1]},
        {"rdt": {"cache": {"max": "2"}}},
        {"rdt": {"mba": {"mbps": -1}}},
        [],
        1,
        None,
    ],
)
def test_a_reservation_that_cannot_be_read_costs_no_other(malformed: Any) -> None:
    """It may be released and made again where its uuid is ours, and is left alone where it is of another."""
    good = {"id": "1", "uuid": "ns/a", "core_ids": ["0-1"], "origin": "REST"}
    bad = malformed | {"uuid": "ns/b"} if isinstance(malformed, dict) else malformed
    first, second = read_reservations([good, bad])
    assert (first.uuid, first.cores, second.cores) == ("ns/a", frozenset({0, 1}), None)
    assert second.status.startswith("cannot be read: not a workload: ")
    plan = plan_node([], [], [first, second])
    assert plan.foreign == (first, second)
    stuck = malformed | {"id": "7", "uuid": "ns/a", "origin": "REST"} if isinstance(malformed, dict) else {}
    if stuck:
        assert steps(plan_node([A], [], read_reservations([stuck, good | {"uuid": "ns/b"}]))) == (["7"], ["a"], [])


@pytest.mark.parametrize(
    "said",
    [None, "text", {}, [1], [{"id": 5}], [{"core_ids": [4]}], [{"rdt": [1]}], [{"rdt": {"cache": {"max": "2"}}}], [[]]],
)
def test_what_is_no_list_of_reservations(said: Any) -> None:
    with pytest.raises(Malformed):
        read_reservations(said)
