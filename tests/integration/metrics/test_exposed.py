"""The catalogue and what roles really expose are the same, and series are there before anything happens."""

from __future__ import annotations

import pytest

from app.registry import BY_NAME
from docs.generate.catalog import catalog
from tests.support.scraping import JOBS, OURS, Exposed

# What Prometheus and its operator call the target by: a label of ours by such a name would become exported_….
TARGET = {"job", "instance", "namespace", "pod", "service", "container", "endpoint", "node", "prometheus"}
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum")}
OF_PEERS = {"appwrapper_phase_total"}
"""Metrics with the labels that a peer gives them; their series begin with the first object of a namespace."""
PROCESSES = [*BY_NAME, "webhook --workers"]


def role_of(process: str) -> str:
    return JOBS.get(process, process)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_role_has_series_of_what_the_catalogue_says_and_of_nothing_else(
    exposed: dict[str, Exposed], process: str
) -> None:
    wanted = {
        metric.name + suffix
        for metric in catalog()
        if role_of(process) in metric.roles and metric.name not in OF_PEERS
        for suffix in SUFFIXES.get(metric.kind, ("",))
    }
    if process == "webhook":
        wanted.discard("worker_restarts_total")
    assert set(exposed[process].ours) == wanted


@pytest.mark.parametrize("process", PROCESSES)
def test_labels_and_types_are_those_of_the_catalogue(exposed: dict[str, Exposed], process: str) -> None:
    for metric in catalog():
        if role_of(process) not in metric.roles or (metric.name, process) == ("worker_restarts_total", "webhook"):
            continue
        assert exposed[process].kinds[metric.name] == metric.kind
        for suffix in SUFFIXES.get(metric.kind, ("",)) if metric.name not in OF_PEERS else ():
            for labels in exposed[process].ours[metric.name + suffix]:
                assert set(labels) - {"le"} == set(metric.labels), metric.name


def test_no_label_has_the_name_of_one_of_the_target() -> None:
    found = {metric.name for metric in catalog() if set(metric.labels) & TARGET}
    assert found == OF_PEERS


def test_every_metric_of_ours_is_known_by_how_its_name_begins() -> None:
    assert [metric.name for metric in catalog() if not metric.name.startswith(OURS)] == []


@pytest.mark.parametrize("process", PROCESSES)
def test_series_say_nothing_of_when_they_began(exposed: dict[str, Exposed], process: str) -> None:
    assert [name for name in exposed[process].series if name.endswith("_created")] == []


@pytest.mark.parametrize("process", PROCESSES)
def test_what_runs_is_told(exposed: dict[str, Exposed], process: str) -> None:
    (labels,) = exposed[process].ours["berth_build_info"]
    assert labels["role"] == role_of(process)
    assert labels["version"][0].isdigit()


def test_workers_expose_the_series_of_one_process_and_none_twice(exposed: dict[str, Exposed]) -> None:
    """With the same labels: a pid among them would make new series at every restart."""

    def series(process: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        found = exposed[process].ours.items()
        names = [(name, tuple(sorted(labels.items()))) for name, all_of in found for labels in all_of]
        assert len(names) == len(set(names))
        # The parent serves health, and workers alone are counted.
        return {name for name in names if ("port", "health") not in name[1]}

    assert series("webhook --workers") - {("worker_restarts_total", ())} == series("webhook")


def test_workers_and_their_parent_count_as_one_process(exposed: dict[str, Exposed]) -> None:
    alone, several = exposed["webhook"], exposed["webhook --workers"]
    names = {name for name in alone.series if name.startswith("process_")}
    assert {name for name in several.series if name.startswith("process_")} == names
    # Two workers and a parent, of which each takes more than a quarter of the memory of one process. Time of CPU is not
    # compared: what each of them spends depends on what it imports, and when it is asked.
    memory = "process_resident_memory_bytes"
    assert several.value(memory) > 1.5 * alone.value(memory)
    assert several.value("process_max_fds") == alone.value("process_max_fds")


@pytest.mark.parametrize("process", PROCESSES)
def test_every_cache_has_an_age_and_a_size(exposed: dict[str, Exposed], process: str) -> None:
    ages = {labels["kind"]: exposed[process].value("cache_age_seconds", **labels)
            for labels in exposed[process].ours["cache_age_seconds"]}  # fmt: skip
    assert ages.keys() == {labels["kind"] for labels in exposed[process].ours["cache_objects"]}
    assert all(0 <= age < 60 for age in ages.values())


def test_caches_hold_what_is_there(exposed: dict[str, Exposed]) -> None:
    assert exposed["gateway"].value("cache_objects", kind="Tenant") == 1
    assert exposed["controller"].value("cache_objects", kind="Tenant") == 1
    assert exposed["webhook"].value("cache_objects", kind="Namespace") > 1
    assert exposed["webhook --workers"].value("cache_objects", kind="Namespace") > 1


def test_a_tenant_has_its_series_before_it_does_anything(exposed: dict[str, Exposed]) -> None:
    gateway = exposed["gateway"]
    assert gateway.value("gateway_throttled_total", tenant="tenant1", limit="rate") == 0
    assert gateway.value("gateway_workload_events_dropped_total", tenant="tenant1", reason="size") == 0
    assert gateway.value("gateway_workload_writes_total", tenant="tenant1", verb="delete", outcome="failed") == 0
    assert gateway.value("gateway_streams", tenant="tenant1") == 3


def test_who_leads_and_whose_streams_are_up(exposed: dict[str, Exposed]) -> None:
    assert exposed["controller"].value("leader", lease="berth-controller") == 1
    assert exposed["agent"].value("leader", lease="berth-agent") == 1
    for stream in ("workloads", "rules", "resources"):
        assert exposed["agent"].value("agent_stream_up", stream=stream) == 1
