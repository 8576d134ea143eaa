"""What a daemon says of its caches: every core of a machine, and the ways that a node has to give."""

from __future__ import annotations

from typing import Any

import pytest

from app.rmd.agent.kubelet import pools_of
from app.rmd.cores import ranges_of
from app.rmd.daemon.wire import Malformed, read_caches, read_reservations


def said(*cpus: str, guaranteed: str | None = "0-9", **more: Any) -> dict[str, Any]:
    pools = {"os": "0-9"} | ({} if guaranteed is None else {"guaranteed": guaranteed})
    members = {
        str(number): {"share_cpu_list": one, "location_on_node": str(number), "available_ways_pool": pools, **more}
        for number, one in enumerate(cpus)
    }
    return {"number": len(members), "Caches": members}


def reservation(cores: str, most: int, least: int) -> dict[str, Any]:
    return {"id": "1", "uuid": cores, "core_ids": [cores], "rdt": {"cache": {"max": most, "min": least}}}


@pytest.mark.parametrize(
    ("cpus", "cores"),
    [
        (("0-10",), ("0-10",)),
        (("0-10", "11-20"), ("0-20",)),
        (("0-23,48-71", "24-47,72-95"), ("0-95",)),
        (("0-9,21-29", "10-19,30-39"), ("0-19", "21-39")),
    ],
)
def test_every_core(cpus: tuple[str, ...], cores: tuple[str, ...]) -> None:
    found = read_caches(said(*cpus))
    assert ranges_of(frozenset().union(*(one.cores for one in found))) == cores
    assert [one.numa for one in found] == list(range(len(cpus)))


@pytest.mark.parametrize("answer", [{"number": 0, "Caches": None}, {}, [], "", said(""), said("9-4"), said("a")])
def test_an_answer_without_cores(answer: Any) -> None:
    with pytest.raises(Malformed):
        read_caches(answer)


def test_a_location_that_is_no_number_is_not_known() -> None:
    for location in ("?", "9" * 20):
        (found,) = read_caches(said("0-3", location_on_node=location))
        assert found.numa is None


def test_more_ways_than_a_cache_can_have() -> None:
    """Each way becomes a device of kubelet."""
    with pytest.raises(Malformed, match="want ways below 32"):
        read_caches(said("0-3", guaranteed="0-32"))
    held = read_reservations([reservation("0", 4294967295, 4294967295)])
    with pytest.raises(Malformed, match="cache 0: 4294967305 guaranteed ways: want at most 32"):
        pools_of(read_caches(said("0-3")), held)


@pytest.mark.parametrize(
    "lie",
    [
        {"rdt": {"cache": {"max": -1, "min": -1}}},
        {"rdt": {"cache": {"max": 2**32, "min": 1}}},
        {"rdt": {"mba": {"percentage": -50}}},
        {"plugins": {"pstate": {"ratio": 10**400}}},
    ],
)
def test_numbers_that_no_daemon_has(lie: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read_reservations([lie])


@pytest.mark.parametrize(
    ("free", "held", "counts"),
    [
        ("0-10", [], [11, 11]),
        ("5-10", [], [6, 6]),
        ("", [], [0, 0]),
        (None, [], []),
        ("2-9", [reservation("0-1", 2, 2)], [10, 8]),
        ("2-9", [reservation("0-1,5", 2, 2), reservation("12", 3, 1)], [10, 10]),
        ("0-9", [reservation("0", 2, 1), reservation("1", 0, 0)], [10, 10]),
    ],
)
def test_ways_are_counted(free: str | None, held: list[dict[str, Any]], counts: list[int]) -> None:
    """The operator counted the integer value of a mask: 2047 for eleven ways. Reserved ways stay those of a node."""
    pools = pools_of(read_caches(said("0-3", "4-7", guaranteed=free)), read_reservations(held))
    assert [one.ways for one in pools] == counts
    assert len({name for one in pools for name in one.ids}) == sum(counts)
