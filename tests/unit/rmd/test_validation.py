"""What the daemon refuses before it enforces, as a table: machine, workload, text."""

from __future__ import annotations

from typing import Any

import pytest

from app.devtools.rmd.failures import Failure
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.workloads import Daemon
from tests.support.rmd import on

PERCENTAGE, MBPS, NO_MBA = Machine(), Machine(mba="mbps"), Machine(mba="none")
MBA_ONLY, MBPS_ONLY = Machine(cat=False), Machine(cat=False, mba="mbps")
NOT_GUARANTEED = "MBA only supported for Guaranteed Request and not for BestEffort and Shared"
BOTH = "Need to provide both cache.* or none of them"
PSTATE: dict[str, Any] = {"pstate": {"ratio": 1.5}}
REFUSED = [
    (PERCENTAGE, Workload(max=2, min=2), "No task or core id specified"),
    (PERCENTAGE, Workload(policy="gold"), "No task or core id specified"),
    (PERCENTAGE, Workload(task_ids=("7", "8")), "The task: 8 does not exist"),
    (PERCENTAGE, on("1", ways=(2, None), mbps=1), BOTH),
    (PERCENTAGE, on("1", ways=(None, 2)), BOTH),
    (PERCENTAGE, on("1", ways=2, mbps=5000), "Please provide MBA in Percentage"),
    (MBPS, on("1", ways=2, percentage=50), "Please provide MBA in Mbps"),
    (PERCENTAGE, on("1", ways=(2, 1), percentage=50), NOT_GUARANTEED),
    (PERCENTAGE, on("1", ways=0, percentage=50), NOT_GUARANTEED),
    (PERCENTAGE, on("1", ways=2, percentage=0), "MBA values in should range from 1 to 100"),
    (PERCENTAGE, on("1", ways=2, percentage=101), "MBA values in should range from 1 to 100"),
    (MBPS, on("1", ways=2, mbps=4294967291), "MBA values in should range from 1 to 4294967290"),
    (PERCENTAGE, on("1", percentage=50), "Need to provide both cache and mba for better performance"),
    (NO_MBA, on("1", ways=2, percentage=50), "MBA values in should range from 1 to 0"),
    (MBA_ONLY, on("1", ways=2), "This machine supports only MBA and not cache"),
    (PERCENTAGE, on("1", ways=2, plugins={"other": {}}), "Trying to use module that is not loaded"),
    (PERCENTAGE, on("0,3", plugins=PSTATE), "Invalid params (core ids) received"),
    (PERCENTAGE, Workload(task_ids=("7",), core_ids=("x",), plugins=PSTATE), "Invalid params (core ids) received"),
    (
        PERCENTAGE,
        on("1", plugins={"pstate": {"ratio": 0}}),
        "Invalid params received. Details: ratio is not a number above 0\n",
    ),
    (
        PERCENTAGE,
        on("1", plugins={"pstate": {"monitoring": "yes"}}),
        "Invalid params received. Details: monitoring is neither on nor off\n",
    ),
    (PERCENTAGE, on("1", plugins={"pstate": {}}), "Invalid params received. Details: no parameters\n"),
    (PERCENTAGE, on("1"), "No RDT/Plugins params in workload"),
    (MBPS_ONLY, on("1", mbps=5000), "No RDT/Plugins params in workload"),
    (PERCENTAGE, on("1", policy="tin"), "Could not find the Policy. Can not find specified policy tin"),
    (
        Machine(architecture="icelake"),
        on("1", policy="gold"),
        "Could not find the Policy. Error while get platform policy: icelake",
    ),
    (
        Machine(architecture=""),
        on("1", policy="gold"),
        "Could not find the Policy. Unknown platform, please update the cpu_map.toml conf file",
    ),
    (
        Machine(policies={"skylake": {"odd": {"cache": {"max": 1}}}}),
        on("1", ways=(None, 1), policy="odd"),
        "Invalid policy - exactly one *Cache param defined",
    ),
]
STORED = "Workload validation in database failed. Details: {}\n"
TAKEN = [
    (on("2", id="1"), "Workload with id 1 already exists"),
    (on("2", uuid="u"), "UUID u already exists in workload 1"),
    (Workload(task_ids=("7",)), "TaskID 7 already exists in workload 1"),
    (on("3-5"), "CPU list [4 5] has been assigned"),
    (on("40"), "CPU list [] has been assigned"),
    (on("1x"), "wrong expression : 1x"),
]


def refusal(daemon: Daemon, one: Workload) -> str:
    with pytest.raises(Failure) as caught:
        daemon.validate(one)
    assert caught.value.status == 400
    before, after = "Failed to validate workload. Reason: ", caught.value.text
    assert after.startswith(before)
    return after.removeprefix(before)


@pytest.mark.parametrize(("machine", "one", "text"), REFUSED)
def test_refused(machine: Machine, one: Workload, text: str) -> None:
    daemon = Daemon(machine)
    daemon.tasks.add("7")
    assert refusal(daemon, one) == text
    assert daemon.workloads() == []


@pytest.mark.parametrize(("one", "text"), TAKEN)
def test_refused_because_of_another(one: Workload, text: str) -> None:
    daemon = Daemon(Machine(ways=11))
    daemon.tasks.add("7")
    daemon._records["1"] = Workload(id="1", uuid="u", core_ids=("4-5", "40"), task_ids=("7",))
    named = on(*one.core_ids, ways=2, id=one.id, uuid=one.uuid, task_ids=one.task_ids)
    assert refusal(daemon, named) == STORED.format(text)


@pytest.mark.parametrize(
    ("machine", "one"),
    [
        (PERCENTAGE, on("1", ways=2)),
        (PERCENTAGE, on("1", ways=2, percentage=50)),
        (PERCENTAGE, on("1", ways=(2, 1), percentage=100)),
        (PERCENTAGE, on("1", ways=(1, 2))),
        (MBPS, on("1", ways=2, mbps=4294967290)),
        (MBA_ONLY, on("1", percentage=50)),
        (PERCENTAGE, on("1", plugins={"pstate": {"ratio": 1.5, "monitoring": "on"}})),
        (Machine(plugins=frozenset({"other"})), on("1", plugins={"other": {}})),
        (PERCENTAGE, Workload(task_ids=("7",), max=0, min=0)),
    ],
)
def test_accepted(machine: Machine, one: Workload) -> None:
    daemon = Daemon(machine)
    daemon.tasks.add("7")
    assert daemon.validate(one) == one


def test_a_policy_replaces_the_cache_and_keeps_the_rest() -> None:
    asked = on("1", ways=9, policy="silver", percentage=500, plugins={"unknown": {}})
    assert Daemon().validate(asked) == on("1", ways=(3, 1), policy="silver", percentage=500, plugins={"unknown": {}}), (
        "neither MBA nor plugins are looked at"
    )


def test_mbps_alone_on_a_machine_with_mba_alone() -> None:
    asked = on("1", mbps=5000)
    assert Daemon(MBPS_ONLY, Faults(mbps_alone_refused=False)).validate(asked) == asked


def test_pools_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="should be less or equal to 11"):
        Machine(guaranteed=10)
