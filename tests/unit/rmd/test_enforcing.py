"""Pools, ways and classes of service."""

from __future__ import annotations

import pytest

from app.devtools.rmd.bits import text_of
from app.devtools.rmd.failures import Crash, Failure
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Cache, Group, Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.reports import caches, hospitality
from app.devtools.rmd.workloads import Daemon
from tests.support.rmd import on

TWO = Machine(caches=(Cache(0, "0-3"), Cache(1, "4-7", socket=1, node=1)))


def ways(daemon: Daemon, one: Workload) -> dict[int, str]:
    settings = daemon.classes.present()[one.cos_name]
    return {cache: text_of(mask) for cache, mask in settings.ways.items()}


def failure(daemon: Daemon, one: Workload) -> str:
    before = daemon.workloads()
    with pytest.raises(Failure) as caught:
        daemon.post(one)
    assert daemon.workloads() == before
    assert caught.value.status == 500
    return caught.value.text


def pools(daemon: Daemon, cache: str = "0") -> dict[str, str]:
    return caches(daemon)["Caches"][cache]["available_ways_pool"]


def test_pools_of_the_machine() -> None:
    """The operating system's ways are the lowest, where its CPUs are; infrastructure has the highest."""
    assert pools(Daemon(TWO)) == {"guaranteed": "1-6", "besteffort": "7-9", "shared": "10", "os": "0"}
    assert pools(Daemon(TWO), "1") == {"guaranteed": "0-5", "besteffort": "6-8", "shared": "9", "os": ""}
    infra = Machine(ways=20, infra=Group(2, "2-3"), besteffort=0, shared=0)
    assert pools(Daemon(infra)) == {"guaranteed": "1-6", "infra": "", "os": "0"}


def test_a_pool_is_chosen_by_the_ways() -> None:
    daemon = Daemon(TWO)
    assert ways(daemon, daemon.post(on("1", ways=2))) == {0: "5-6", 1: "0-10"}
    assert ways(daemon, daemon.post(on("2", ways=(2, 1)))) == {0: "8-9", 1: "0-10"}
    assert ways(daemon, daemon.post(on("5", ways=0))) == {0: "10", 1: "9"}
    assert pools(daemon) == {"guaranteed": "1-4", "besteffort": "7", "shared": "", "os": "0"}
    assert pools(daemon, "1") == {"guaranteed": "0-5", "besteffort": "6-8", "shared": "", "os": ""}


def test_cores_of_two_caches_take_ways_of_both() -> None:
    daemon = Daemon(TWO)
    assert ways(daemon, daemon.post(on("3-4", ways=2))) == {0: "5-6", 1: "4-5"}


def test_tasks_take_ways_of_all_caches() -> None:
    daemon = Daemon(TWO)
    daemon.tasks.add("7")
    assert ways(daemon, daemon.post(Workload(task_ids=("7",), max=2, min=2))) == {0: "5-6", 1: "4-5"}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (on("1", ways=7), "Not enough cache left on cache_id 0"),
        (on("1", ways=(5, 4)), "Not enough cache left on cache_id 0"),
        (on("1", ways=(1, 2)), "Min cache value cannot be greater than max cache value"),
        (on("1", ways=(2, 0)), "Bad cache ways request. Details: max_cache=2, min_cache=0, doesn't support\n"),
        (on("1", ways=0, percentage=100), "MBA forbidden for shared group"),
    ],
)
def test_what_is_refused_at_enforcement(asked: Workload, text: str) -> None:
    assert failure(Daemon(), asked) == text


@pytest.mark.parametrize(
    ("missing", "asked", "pool"),
    [("guaranteed", 2, "guarantee"), ("besteffort", (2, 1), "besteffort"), ("shared", 0, "shared")],
)
def test_pools_that_are_not_configured(missing: str, asked: int | tuple[int, int], pool: str) -> None:
    daemon = Daemon(Machine(**{missing: 0}))
    text = failure(daemon, on("1", ways=asked))
    assert text == f"Unable to read cache schemata; error doesn't support pool {pool}"
    assert missing not in pools(daemon)


def test_best_effort_takes_what_is_left_down_to_its_minimum() -> None:
    daemon = Daemon()
    assert ways(daemon, daemon.post(on("1", ways=(2, 1)))) == {0: "8-9"}
    assert ways(daemon, daemon.post(on("2", ways=(3, 1)))) == {0: "7"}
    assert failure(daemon, on("3", ways=(2, 1))) == "Not enough cache left on cache_id 0"


def test_shrinking_gives_ways_twice() -> None:
    daemon = Daemon(Machine(shrink=True))
    daemon.post(on("1", ways=(3, 1)))
    assert ways(daemon, daemon.post(on("2", ways=(2, 1)))) == {0: "7"}


def test_one_class_for_all_in_the_shared_pool() -> None:
    daemon = Daemon()
    first, second = daemon.post(on("1", ways=0)), daemon.post(on("2", ways=0))
    assert first.cos_name == second.cos_name == "COS2"
    daemon.delete(first.id)
    assert "COS2" in daemon.classes.present()
    daemon.delete(second.id)
    assert daemon.classes.available[-1] == "COS2"


def test_mba_is_set_on_the_caches_of_the_workload() -> None:
    daemon = Daemon(TWO)
    one = daemon.post(on("1", ways=2, percentage=30))
    assert daemon.classes.present()[one.cos_name].mba == {0: 30, 1: 100}


def test_mba_beside_a_policy_is_shown_and_not_set() -> None:
    daemon = Daemon()
    one = daemon.post(on("1", policy="gold", percentage=30))
    assert one.percentage == 30
    assert daemon.classes.present()[one.cos_name].mba == {}


def test_a_plugin_alone_takes_no_class() -> None:
    daemon = Daemon()
    one = daemon.post(on("1", plugins={"pstate": {"ratio": 1.5}}))
    assert (one.cos_name, one.status) == ("", "Successful")
    daemon.delete(one.id)
    assert daemon.workloads() == []


def test_classes_run_out() -> None:
    """The last class cannot be used, and is lost when that is tried."""
    daemon = Daemon(Machine(classes=4))
    first = daemon.post(on("1", ways=1))
    assert failure(daemon, on("2", ways=1)) == (
        "Error while try to commit resource group for default group.. Details: error, not enough CLOS on host, 4 used\n"
    )
    assert failure(daemon, on("2", ways=1)) == "No free CLOS available"
    assert failure(daemon, on("2", ways=0)) == "No free CLOS left to create shared group"
    daemon.delete(first.id)
    assert daemon.classes.available == ["COS2"]


def test_the_last_class_without_the_fault() -> None:
    daemon = Daemon(Machine(classes=4), Faults(last_class_lost=False))
    assert [daemon.post(on(core, ways=1)).cos_name for core in ("1", "2")] == ["COS2", "COS3"]
    assert failure(daemon, on("3", ways=1)) == "Unable to read cache schemata; error, not enough CLOS on host, 4 used"


def test_ids_rise_and_a_client_may_choose_its_own() -> None:
    daemon = Daemon()
    ids = [daemon.post(on(core, ways=(0, 0), id=own)).id for core, own in (("1", ""), ("2", "x"), ("3", ""))]
    assert ids == ["1", "x", "2"]
    daemon.post(on("4", ways=0, id="3"))
    daemon.post(on("5", ways=0))
    assert [(one.id, one.core_ids) for one in daemon.workloads()][-2:] == [("3", ("5",)), ("x", ("2",))], "overwritten"


def test_a_core_that_is_beyond_the_machine() -> None:
    with pytest.raises(Crash):
        Daemon().post(on("64", ways=2))


def test_what_a_cache_report_says() -> None:
    daemon = Daemon(Machine(isolated="2-3", infra=Group(0, "7")))
    daemon.post(on("1-2", ways=2))
    shown = caches(daemon)["Caches"]["0"]
    assert (shown["available_ways"], shown["available_cpus"], shown["available_isolated_cpus"]) == ("780", "3-6", "3")
    assert shown["available_policy"] == {"bronze": 10, "gold": 1, "silver": 3}
    assert (shown["share_cpu_list"], shown["location_on_socket"], shown["NumWays"]) == ("0-7", "0", 11)


def test_a_policy_without_cache_spoils_the_report() -> None:
    with pytest.raises(Failure, match="Max cache doesn't exist in policy"):
        caches(Daemon(Machine(policies={"skylake": {"odd": {"pstate": {"ratio": 1}}}})))


@pytest.mark.parametrize(
    ("asked", "score"),
    [
        ({"max_cache": 6, "min_cache": 6}, 100),
        ({"max_cache": 7, "min_cache": 7}, 0),
        ({"max_cache": 6, "min_cache": 2}, 50),
        ({}, 100),
    ],
)
def test_hospitality(asked: dict[str, int], score: int) -> None:
    assert hospitality(Daemon(), asked) == {"score": {"l3": {"0": score}}}
    assert hospitality(Daemon(), {**asked, "cache_id": 1}) == {"score": {"l3": {}}}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"max_cache": 0, "min_cache": 2}, "Bad request, max_cache=0, min_cache=2"),
        ({"max_cache": 2}, "Bad request, max_cache=2, min_cache=0"),
        ({"policy": "gold"}, "Unknown AppError type!"),
        ({"policy": "tin"}, "Can not find Policy. Details: Can not find specified policy tin\n"),
    ],
)
def test_hospitality_refused(asked: dict[str, int | str], text: str) -> None:
    with pytest.raises(Failure) as caught:
        hospitality(Daemon(), asked)
    assert caught.value.text == text


def test_hospitality_without_a_shared_pool() -> None:
    with pytest.raises(Crash):
        hospitality(Daemon(Machine(shared=0)), {})


def test_a_core_is_in_the_class_that_took_it_last() -> None:
    daemon = Daemon()
    first, second = (daemon.validate(on(*cores, ways=1)) for cores in (("1", "2"), ("2", "3")))
    names = [daemon.enforce(one).cos_name for one in (first, second)]
    assert [text_of(daemon.classes.present()[name].cpus) for name in names] == ["1", "2-3"]


def test_the_shared_class_has_all_its_cores_and_tasks() -> None:
    daemon = Daemon()
    daemon.tasks.add("7")
    asked = (on("1", ways=0), Workload(task_ids=("7",), max=0, min=0), on("2", ways=0))
    ids = [daemon.post(one).id for one in asked]
    shared = daemon.classes.present()["COS2"]
    assert (text_of(shared.cpus), shared.tasks) == ("1-2", ("7",))
    daemon.delete(ids[0])
    daemon.delete(ids[2])
    assert "COS2" in daemon.classes.present(), "a task is left"


def test_tasks_beside_cores_take_ways_of_all_caches() -> None:
    daemon = Daemon(TWO)
    daemon.tasks.add("7")
    assert ways(daemon, daemon.post(on("1", ways=2, task_ids=("7",)))) == {0: "5-6", 1: "4-5"}


def test_a_core_of_no_cache_takes_ways_of_all() -> None:
    daemon = Daemon(TWO)
    assert ways(daemon, daemon.post(on("9", ways=2))) == {0: "5-6", 1: "4-5"}
