"""What a PATCH changes, and what it only seems to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.devtools.rmd.failures import Failure
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.workloads import Daemon
from tests.support.rmd import on

PSTATE = {"pstate": {"monitoring": "on"}}


def patched(first: Workload, patch: Workload, machine: Machine | None = None) -> tuple[Daemon, Workload]:
    daemon = Daemon(machine)
    return daemon, daemon.patch(daemon.post(first).id, patch)


@pytest.mark.parametrize(
    ("first", "patch", "expected"),
    [
        (on("1", ways=2), on("1", ways=3), on("1", ways=3)),
        (on("1", ways=2), on("2", ways=3), on("2", ways=3)),
        (on("1", ways=2), Workload(max=3, min=3), on("1", ways=3)),
        (on("1", ways=2), Workload(policy="gold"), on("1", ways=4, policy="gold")),
        (on("1", policy="gold"), Workload(max=2, min=2), on("1", ways=2)),
        (on("1", ways=2), Workload(percentage=50), on("1", ways=2, percentage=50)),
        (on("1", ways=2, plugins=PSTATE), Workload(max=3, min=3), on("1", ways=3)),
        (on("1", ways=2), on("1", plugins=PSTATE), on("1", ways=2, plugins=PSTATE)),
    ],
)
def test_enforced_anew(first: Workload, patch: Workload, expected: Workload) -> None:
    """With cores, if the patch has some, and with its plugins, even if it has none."""
    daemon, one = patched(first, patch)
    assert one == replace(expected, id="1", status="Successful", cos_name="COS3")
    assert daemon.workloads() == [one]
    assert daemon.classes.used == ["COS3"]


@pytest.mark.parametrize(
    ("first", "patch", "policy"),
    [
        (on("1", ways=2), on("1", ways=2), ""),
        (on("1", ways=2), on("1", uuid="other"), ""),
        (on("1", policy="gold"), on("1", policy="gold", ways=1), "gold"),
        (on("1", policy="gold"), on("1", ways=4), ""),
        (on("1", ways=2, plugins=PSTATE), on("1", plugins=PSTATE), ""),
    ],
)
def test_nothing_to_enforce(first: Workload, patch: Workload, policy: str) -> None:
    _, one = patched(first, patch)
    assert (one.cos_name, one.policy, one.uuid, one.plugins) == ("COS2", policy, "", first.plugins)


def test_plugins_with_numbers_are_always_enforced_anew() -> None:
    numbers = {"pstate": {"ratio": 1.5}}
    _, one = patched(on("1", ways=2, plugins=numbers), on("1", plugins=numbers))
    assert one.cos_name == "COS3"


MBPS = Machine(mba="mbps")


@pytest.mark.parametrize(
    ("machine", "patch", "text"),
    [
        (Machine(), on("1", mbps=5), "Please provide MBA in Percentage"),
        (MBPS, on("1", percentage=5), "Please provide MBA in Mbps"),
        (Machine(), on("1", percentage=0), "MBA values range only from 1 to 100"),
        (MBPS, on("1", mbps=0), "MBA values range only from 1 to 4294967290"),
        (Machine(), on("1", plugins={"other": {}}), "Trying to use module that is not loaded"),
        (
            Machine(),
            on("1", plugins={"pstate": {"ratio": -1}}),
            "Invalid params received. Details: ratio is not a number above 0\n",
        ),
        (Machine(), on("1", ways=7), "Not enough cache left on cache_id 0"),
        (Machine(), on("1", ways=(1, 2)), "Min cache value cannot be greater than max cache value"),
        (
            Machine(),
            Workload(policy="tin"),
            "Could not find the Policy.. Details: Can not find specified policy tin\n",
        ),
        (
            Machine(),
            on("x1", ways=3),
            "Failed to Parse workload coreIDs.. Details: wrong expression : x1\n",
        ),
        (Machine(), Workload(), "Failed to validate workload. Details: No task or core id specified\n"),
    ],
)
def test_refused(machine: Machine, patch: Workload, text: str) -> None:
    """With 500, whatever it is; the record stays as it was."""
    daemon = Daemon(machine)
    one = daemon.post(on("1", ways=2))
    with pytest.raises(Failure) as caught:
        daemon.patch("1", patch)
    assert (caught.value.status, caught.value.text) == (500, text)
    assert daemon.workloads() == [one]


def test_cores_that_plugins_cannot_read_hold_up_the_release() -> None:
    daemon = Daemon()
    daemon.add(on("0,3", ways=2, plugins=PSTATE))
    with pytest.raises(Failure, match=r"Failed to release workload\. Details: \n"):
        daemon.patch("1", Workload(max=3, min=3))
    with pytest.raises(Failure, match=r"Invalid params \(core ids\) received"):
        daemon.delete("1")


@pytest.mark.parametrize("key", ["2", "x"])
def test_unknown(key: str) -> None:
    daemon = Daemon()
    for act in (lambda: daemon.patch(key, Workload()), lambda: daemon.delete(key), lambda: daemon.get(key)):
        with pytest.raises(Failure) as caught:
            act()
        assert (caught.value.status, caught.value.text) == (404, "404: Could not found workload")
