"""The status of an RmdWorkload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.rmd.controller.states import CREATED, failed, readiness, state_of
from app.rmd.daemon.wire import read_reservation
from app.rmd.stored import stored_config, stored_daemon, stored_workload

SAID = {
    "id": "2",
    "uuid": "ns/a",
    "core_ids": ["0-3"],
    "status": "Successful",
    "cos_name": "COS4",
    "origin": "REST",
    "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}},
    "plugins": {"pstate": {"ratio": 1.5, "monitoring": "on"}},
}


def test_a_state_has_what_the_daemon_says() -> None:
    assert state_of(read_reservation(SAID), CREATED) == {
        "response": "Success: 201",
        "id": "2",
        "cosName": "COS4",
        "status": "Successful",
        "coreIds": ["0-3"],
        "rdt": {"cache": {"max": 2, "min": 2}, "mba": {"percentage": 50}},
        "plugins": {"pstate": {"ratio": "1.500000", "monitoring": "on"}},
    }


def test_a_fault_keeps_what_is_known() -> None:
    state = state_of(read_reservation(SAID), CREATED)
    assert failed("the  daemon\nis silent", state) == {**state, "response": "Fail: the daemon is silent"}


def workload(states: dict[str, Any], **spec: Any) -> Any:
    return stored_workload(
        {
            "metadata": {"namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "1"},
            "spec": {"coreIds": ["0"], "rdt": {"cache": {"max": 2, "min": 2}}, "nodes": ["n1", "n2"], **spec},
            "status": {"workloadStates": states},
        }
    )


GOOD = state_of(read_reservation(SAID), CREATED)


@pytest.mark.parametrize(
    ("states", "condition"),
    [
        ({"n1": GOOD, "n2": GOOD}, ("True", "Reserved", "reserved on 2 of 2 nodes")),
        ({"n1": GOOD}, ("False", "Pending", "reserved on 1 of 2 nodes; n2: not asked yet")),
        (
            {"n1": GOOD, "n2": failed("CPU list [0] has been assigned")},
            ("False", "NotReserved", "reserved on 1 of 2 nodes; n2: Fail: CPU list [0] has been assigned"),
        ),
    ],
)
def test_ready(states: dict[str, Any], condition: tuple[str, str, str]) -> None:
    assert readiness(workload(states), ("n1", "n2")) == condition


def test_ready_without_nodes_and_with_a_bad_spec() -> None:
    assert readiness(workload({}, nodes=[]), ())[1] == "NoNodes"
    assert readiness(workload({}, coreIds=["x"]), ("n1",))[1] == "InvalidSpec"


@pytest.mark.parametrize(
    ("ports", "status", "url"),
    [
        ([{"containerPort": 8081}], {"podIP": "10.0.0.1"}, "http://10.0.0.1:8081"),
        ([{"containerPort": 8443}], {"podIP": "10.0.0.1"}, "https://10.0.0.1:8443"),
        ([{"containerPort": 9443, "name": "https"}], {"podIP": "10.0.0.1"}, "https://10.0.0.1:9443"),
        (None, {"podIPs": [{"ip": "fd00::1"}]}, "http://[fd00::1]:8081"),
        (None, {}, ""),
    ],
)
def test_the_address_of_a_daemon(ports: Any, status: dict[str, Any], url: str) -> None:
    pod = {
        "metadata": {"namespace": "default", "name": "rmd-x"},
        "spec": {"nodeName": "n", "containers": [{"name": "rmd", **({"ports": ports} if ports else {})}]},
        "status": status,
    }
    found = stored_daemon(pod)
    assert found is not None
    assert (found.node, found.url, found.usable) == ("n", url, True)


def test_a_daemon_that_has_ended_is_not_usable() -> None:
    pod = {"metadata": {"namespace": "d", "name": "r"}, "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}
    found = stored_daemon(pod)
    assert found is not None
    assert not found.usable
    assert stored_daemon({"metadata": {"namespace": "d", "name": "r"}, "spec": {}}) is None


def config(name: str = "rmdconfig", **spec: Any) -> Any:
    return stored_config({"metadata": {"namespace": "default", "name": name, "uid": "u"}, "spec": spec})


def test_the_nodes_of_a_config() -> None:
    assert config().selector == {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}
    assert config(rmdNodeSelector={"a": "b"}).selector == {"a": "b"}
    assert config("other") is None


def test_a_state_of_an_earlier_spec_is_not_that_of_this_one() -> None:
    """Else a change would be reserved before its daemon is asked."""
    changed = replace(workload({"n1": GOOD, "n2": {**GOOD, "observedGeneration": 2}}), generation=2)
    assert readiness(changed, ("n1", "n2")) == ("False", "Pending", "reserved on 1 of 2 nodes; n1: not asked yet")
