"""What an RmdWorkload asks for, and what is wrong with it: the tables of the daemon's own checks."""

from __future__ import annotations

from typing import Any

import pytest

from app.rmd import requests
from app.rmd.requests import MOST_MBPS, Settings, read_spec

CORES = {"coreIds": ["0-3"], "nodes": ["a"]}


def spec(**parts: Any) -> dict[str, Any]:
    return {**CORES, **parts}


def rdt(cache: tuple[int, int] | None = None, **mba: int) -> dict[str, Any]:
    found: dict[str, Any] = {"mba": mba} if mba else {}
    if cache:
        found["cache"] = {"max": cache[0], "min": cache[1]}
    return {"rdt": found}


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (rdt((2, 2)), Settings(cache=(2, 2))),
        (rdt((0, 0)), Settings(cache=(0, 0))),
        (rdt((2, 1)), Settings(cache=(2, 1))),
        (rdt((2, 2), percentage=50), Settings(cache=(2, 2), percentage=50)),
        (rdt((2, 2), mbps=5000), Settings(cache=(2, 2), mbps=5000)),
        (rdt((2, 1), percentage=100), Settings(cache=(2, 1), percentage=100)),
        (rdt((2, 1), mbps=MOST_MBPS), Settings(cache=(2, 1), mbps=MOST_MBPS)),
        (rdt((2, 2), percentage=0), Settings(cache=(2, 2))),
        ({"policy": "gold"}, Settings(policy="gold")),
        ({"plugins": {"pstate": {"ratio": "1.5", "monitoring": "on"}}}, Settings(ratio=1.5, monitoring="on")),
        ({"policy": "gold", "plugins": {"pstate": {"ratio": "0"}}}, Settings(policy="gold")),
    ],
)
def test_settings(given: dict[str, Any], settings: Settings) -> None:
    read = read_spec(spec(**given))
    assert (read.request.settings, read.problems, read.warnings) == (settings, (), ())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (rdt((1, 2)), "spec.rdt.cache.min: want at most max, 1, got 2"),
        (rdt((2, 0)), "spec.rdt.cache.min: want 1 to 2 beside max 2"),
        ({"rdt": {"cache": {"max": 2}}}, "spec.rdt.cache.min: required beside the other"),
        ({"rdt": {"cache": {"min": 2}}}, "spec.rdt.cache.max: required beside the other"),
        (rdt((-1, -1)), "spec.rdt.cache.max: want a number of ways, got -1"),
        (rdt((2**32, 2)), f"spec.rdt.cache.max: want a number of ways, got {2**32}"),
        (rdt((2, 2), percentage=101), "spec.rdt.mba.percentage: want 1 to 100, got 101"),
        (rdt((2, 2), mbps=-1), f"spec.rdt.mba.mbps: want 1 to {MOST_MBPS}, got -1"),
        (rdt((2, 2), percentage=50, mbps=5000), "spec.rdt.mba: percentage and mbps exclude each other"),
        (rdt((2, 1), percentage=50), "spec.rdt.mba: wants guaranteed cache"),
        (rdt((0, 0), percentage=50), "spec.rdt.mba: wants guaranteed cache"),
        (rdt((0, 0), percentage=50, mbps=1), "spec.rdt.mba: percentage and mbps exclude each other"),
        (rdt(None, mbps=5000), "spec.rdt.mba.mbps: wants spec.rdt.cache beside it"),
        ({}, "spec: asks for nothing: want policy, rdt.cache, rdt.mba or plugins.pstate"),
        ({"plugins": {"pstate": {"ratio": "fast"}}}, "spec.plugins.pstate.ratio: want a positive number"),
        ({"plugins": {"pstate": {"ratio": "-1"}}}, "spec.plugins.pstate.ratio: want a positive number"),
        ({"plugins": {"pstate": {"ratio": "1_0"}}}, "spec.plugins.pstate.ratio: want a positive number"),
        ({"plugins": {"pstate": {"ratio": "\u0661"}}}, "spec.plugins.pstate.ratio: want a positive number"),
        ({"plugins": {"pstate": {"ratio": "nan"}}}, "spec.plugins.pstate.ratio: want a positive number"),
        ({"plugins": {"pstate": {"ratio": "inf"}}}, "spec.plugins.pstate.ratio: want a positive number"),
        ({"plugins": {"pstate": {"monitoring": "yes"}}}, "spec.plugins.pstate.monitoring: want on or off, got 'yes'"),
        ({**rdt((2, 2)), "coreIds": ["9-4"]}, "spec.coreIds[0]: want the lower core first"),
        ({**rdt((2, 2)), "coreIds": []}, "spec.coreIds: required"),
        ({**rdt((2, 2)), "allCores": True, "reservedCoreIds": ["x"]}, "spec.reservedCoreIds[0]: want a core"),
    ],
)
def test_what_no_daemon_takes_is_a_problem(given: dict[str, Any], problem: str) -> None:
    found = read_spec(spec(**given)).problems
    assert [one for one in found if one.startswith(problem)], found


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({"cache": {"max": 2, "min": 1}}, "spec.cache: is the form of v0.1 and taken for spec.rdt.cache"),
        ({"pstate": {"ratio": "3.0"}}, "spec.pstate: is the form of v0.1 and taken for spec.plugins.pstate"),
        ({"cache": {"max": 1, "min": 1}, **rdt((2, 2))}, "spec.cache: has no effect beside spec.rdt.cache"),
        ({"policy": "gold", **rdt((2, 2))}, "spec.rdt.cache: policy 'gold' wins"),
        ({"policy": "gold", **rdt(None, mbps=5)}, "spec.rdt.mba: a daemon does not enforce bandwidth beside a policy"),
        (rdt(None, percentage=50), "spec.rdt.mba.percentage: without spec.rdt.cache"),
        ({**rdt((2, 2)), "allCores": True}, "spec.coreIds: has no effect beside spec.allCores"),
        ({**rdt((2, 2)), "reservedCoreIds": ["0"]}, "spec.reservedCoreIds: has no effect without spec.allCores"),
        ({**rdt((2, 2)), "nodeSelector": {"a": "b"}}, "spec.nodes: has no effect beside spec.nodeSelector"),
        ({**rdt((2, 2)), "nodes": []}, "spec: neither nodes nor nodeSelector"),
    ],
)
def test_what_may_work_is_a_warning(given: dict[str, Any], warning: str) -> None:
    read = read_spec(spec(**given))
    assert read.problems == ()
    assert [one for one in read.warnings if one.startswith(warning)], read.warnings


@pytest.mark.timeout(60)
def test_many_ranges_are_read_at_once() -> None:
    """As many as there may be. As sets of cores they would take minutes."""
    found = read_spec(spec(**rdt((2, 2)), coreIds=["0-8191"] * 4096 + [",".join(["0-8190"] * 4096)]))
    assert (len(found.request.cores), found.problems) == (8192, ())


@pytest.mark.parametrize("field", ["coreIds", "reservedCoreIds"])
def test_no_range_is_read_of_more_than_there_may_be(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "parse_ranges", None)  # a call would raise TypeError
    texts = {"coreIds": [], field: ["1", ",".join(["0-8190"] * 200_000)]}
    asked = spec(**rdt((2, 2)), allCores=field != "coreIds", **texts)
    assert read_spec(asked).problems == (f"spec.{field}: want at most 8192 cores and ranges, got 200001",)


def test_nodes_and_labels_are_bounded() -> None:
    many = spec(**rdt((2, 2)), nodes=[f"n{n}" for n in range(5001)], nodeSelector={f"k{n}": "" for n in range(257)})
    assert read_spec(many).problems == (
        "spec.nodes: want at most 5000, got 5001",
        "spec.nodeSelector: want at most 256, got 257",
    )


def test_values_of_version_0_1_count() -> None:
    read = read_spec(spec(cache={"max": 2, "min": 1}, pstate={"ratio": "3.0", "monitoring": "on"}))
    assert read.request.settings == Settings(cache=(2, 1), ratio=3.0, monitoring="on")


def test_all_cores_but_the_reserved_ones() -> None:
    request = read_spec(
        {"allCores": True, "reservedCoreIds": ["0-3"], "nodeSelector": {"a": "b"}, **rdt((2, 2))}
    ).request
    assert (request.all_cores, request.reserved, request.node_selector) == (True, {0, 1, 2, 3}, {"a": "b"})
