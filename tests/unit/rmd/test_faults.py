"""Each fault of the daemon, on and off. That of the missing lock needs requests, and is in tests/integration."""

from __future__ import annotations

from dataclasses import fields

import pytest

from app.devtools.rmd.failures import Failure, RefusedStart
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.reports import caches
from app.devtools.rmd.workloads import Daemon
from tests.support.rmd import on


def refusal(daemon: Daemon, key: str, patch: Workload) -> Failure:
    with pytest.raises(Failure) as caught:
        daemon.patch(key, patch)
    return caught.value


def test_all_are_on() -> None:
    assert all(getattr(Faults(), one.name) for one in fields(Faults))


def test_cores_cannot_be_changed() -> None:
    daemon = Daemon()
    daemon.post(on("1", ways=2))
    assert refusal(daemon, "1", on("2", ways=2)).text == (
        "Failed to validate workload. Details: "
        "Workload validation in database failed. Details: Workload with id 1 already exists\n\n"
    )
    daemon.faults = Faults(core_change_refused=False)
    assert daemon.patch("1", on("2", ways=2)).core_ids == ("2",)
    assert daemon.workloads()[0].core_ids == ("2",)


def test_another_origin() -> None:
    daemon = Daemon()
    one = daemon.add(on("1", ways=2, origin="OPENSTACK"))
    for status, faults in ((200, Faults()), (403, Faults(foreign_origin_succeeds=False))):
        daemon.faults = faults
        error = refusal(daemon, one.id, on("1", ways=3))
        assert (error.status, error.text) == (status, "200: You only have permission to modify REST origin workloads")
        with pytest.raises(Failure, match="200: You only have permission to delete REST origin workloads") as caught:
            daemon.delete(one.id)
        assert caught.value.status == status
    assert daemon.workloads() == [one]


def test_a_restart_forgets() -> None:
    daemon = Daemon()
    daemon.post(on("1", ways=2))
    daemon.restart()
    assert (daemon.workloads(), daemon.classes.used) == ([], [])
    assert daemon.post(on("1", ways=2)).id == "1", "ids begin anew"


def test_a_restart_without_the_fault() -> None:
    daemon = Daemon(faults=Faults(restart_forgets=False))
    one = daemon.post(on("1", ways=2))
    settings = daemon.classes.present()["COS2"]
    daemon.restart()
    assert (daemon.workloads(), daemon.classes.used) == ([one], ["COS2"])
    assert daemon.classes.present()["COS2"] == settings
    assert daemon.post(on("2", ways=2)).id == "2"
    daemon.restart(keep=False)
    assert daemon.workloads() == []


def test_a_record_without_a_class_is_kept() -> None:
    daemon = Daemon()
    one = daemon.post(on("1", plugins={"pstate": {"ratio": 1.5}}))
    daemon.restart(keep=True)
    assert daemon.workloads() == [one]


def test_a_restart_that_keeps_records_alone() -> None:
    daemon = Daemon()
    one = daemon.post(on("1", ways=2))
    daemon.restart(keep=True, enforced=False)
    assert (daemon.workloads(), daemon.classes.used) == ([one], ["COS2"])
    assert caches(daemon)["Caches"]["0"]["available_ways_pool"]["guaranteed"] == "1-6"
    daemon.delete(one.id)
    assert "COS2" in daemon.classes.available


def test_what_keeps_a_daemon_from_starting() -> None:
    daemon = Daemon()
    daemon.post(on("1", ways=2, percentage=50))
    with pytest.raises(RefusedStart, match="MBA setting"):
        daemon.restart(keep=True, machine=Machine(mba="mbps"))
    assert (daemon.machine.mba, len(daemon.workloads())) == ("percentage", 1)
    daemon.restart(machine=Machine(mba="mbps"))
    assert daemon.machine.mba == "mbps"
    for core in ("1", "2"):
        daemon.post(on(core, ways=0))
    with pytest.raises(RefusedStart, match="CLOS COS2 not found on available list"):
        daemon.restart(keep=True)


@pytest.mark.parametrize(("faulty", "enforced"), [(True, 70), (False, 30)])
def test_one_mba_value(*, faulty: bool, enforced: int) -> None:
    """A PATCH of the cache sets the MBA value of another request."""
    daemon = Daemon(faults=Faults(one_mba_value=faulty))
    one = daemon.post(on("1", ways=2, percentage=30))
    daemon.post(on("2", ways=1, percentage=70))
    patched = daemon.patch(one.id, on("1", ways=1, percentage=30))
    assert patched.percentage == 30
    assert daemon.classes.present()[patched.cos_name].mba == {0: enforced}


def test_a_request_that_is_refused_sets_the_mba_value() -> None:
    daemon = Daemon()
    one = daemon.post(on("1", ways=2, percentage=30))
    with pytest.raises(Failure):
        daemon.post(on("1", ways=2, percentage=70))
    patched = daemon.patch(one.id, Workload(max=1, min=1))
    assert daemon.classes.present()[patched.cos_name].mba == {0: 70}


def failed_patch(*, faulty: bool) -> tuple[Daemon, Workload, Workload]:
    """A daemon of which a PATCH has failed, and whose next workload has the class that it gave back."""
    daemon = Daemon(Machine(classes=5), Faults(failed_patch_keeps_class=faulty, last_class_lost=False))
    one = daemon.post(on("1", ways=1))
    refusal(daemon, one.id, on("1", ways=7))
    record = daemon.get(one.id)
    others = [daemon.post(on(core, ways=1)) for core in ("2", "3", "4")]
    return daemon, record, others[-1]


def test_a_failed_patch_keeps_the_class_in_the_record() -> None:
    daemon, record, other = failed_patch(faulty=True)
    assert (record.status, record.max, record.cos_name) == ("Successful", 1, other.cos_name)
    daemon.delete(record.id)
    assert daemon.get(other.id) == other
    assert other.cos_name in daemon.classes.available, "the class of another workload is given back"


def test_a_failed_patch_without_the_fault() -> None:
    daemon, record, other = failed_patch(faulty=False)
    assert (record.status, record.cos_name) == ("Failed", "")
    daemon.delete(record.id)
    assert other.cos_name in daemon.classes.present()


@pytest.mark.parametrize("faulty", [True, False])
def test_collected_workloads_leave_their_class(*, faulty: bool) -> None:
    daemon = Daemon(faults=Faults(collection_leaks_class=faulty))
    daemon.tasks |= {"7", "8"}
    daemon.post(Workload(task_ids=("7", "8"), max=2, min=2))
    kept = daemon.post(on("1", ways=2))
    daemon.tasks.discard("7")
    daemon.collect()
    assert len(daemon.workloads()) == 2, "one of its tasks runs"
    daemon.tasks.discard("8")
    daemon.patch(kept.id, on("1", ways=2))
    assert daemon.workloads() == [kept], "every PATCH collects"
    assert ("COS2" in daemon.classes.used) is faulty


@pytest.mark.parametrize(("faulty", "status"), [(True, 500), (False, 400)])
def test_every_failure_is_internal(*, faulty: bool, status: int) -> None:
    daemon = Daemon(faults=Faults(every_failure_is_internal=faulty))
    with pytest.raises(Failure) as caught:
        daemon.post(on("1", ways=7))
    assert caught.value.status == status
    daemon.post(on("1", ways=2))
    assert refusal(daemon, "1", on("1", percentage=0)).status == status
