"""Exclusive CPUs of the stand-in for kubelet, as the static policy gives them."""

from __future__ import annotations

from typing import Any

import pytest

from app.devtools.kubelet.cpus import CpuManager, Machine, NotAdmitted

MACHINE = Machine({0: range(8), 1: range(8, 16)}, reserved=frozenset({0, 8}))


def container(name: str, cpu: str | None, **more: Any) -> dict[str, Any]:
    amounts = {"memory": "64Mi"} | ({"cpu": cpu} if cpu else {})
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **more}


def pod(*containers: dict[str, Any], uid: str = "u", init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"containers": list(containers), "initContainers": list(init)}}


def given(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, list[int]]:
    manager = CpuManager(MACHINE)
    manager.admit(pod(*containers, init=init))
    return {name: sorted(cpus) for name, cpus in manager.given.get("u", {}).items()}


def test_whole_cpus_of_a_guaranteed_pod_are_its_own() -> None:
    assert given(container("a", "2"), container("b", "1500m"), container("c", "1")) == {"a": [1, 2], "c": [3]}


@pytest.mark.parametrize("other", [container("b", None), {"name": "b"}])
def test_a_pod_that_is_not_guaranteed_gets_none(other: dict[str, Any]) -> None:
    assert given(container("a", "2"), other) == {}


@pytest.mark.parametrize(("resources", "kept"), [({"limits": {"cpu": "4"}}, {}), ({}, {"a": [1, 2]})])
def test_a_pod_with_resources_of_its_own_gets_none(resources: dict[str, Any], kept: dict[str, list[int]]) -> None:
    manager, whole = CpuManager(MACHINE), pod(container("a", "2"))
    whole["spec"]["resources"] = resources
    manager.admit(whole)
    assert {name: sorted(cpus) for name, cpus in manager.given.get("u", {}).items()} == kept


def test_reserved_cpus_are_of_the_machine() -> None:
    with pytest.raises(ValueError, match=r"reserved: the machine has no CPU 16: want some of \[0, "):
        Machine({0: range(16)}, reserved=frozenset({0, 16, 17}))


def test_one_node_where_it_is_enough_and_else_several() -> None:
    assert given(container("a", "6"), container("b", "3"))["b"] == [9, 10, 11]
    assert len(given(container("a", "9"))["a"]) == 9


def test_an_init_container_that_ends_leaves_its_cpus_and_a_sidecar_keeps_them() -> None:
    found = given(
        container("app", "3"),
        init=(container("first", "2"), container("sidecar", "1", restartPolicy="Always"), container("last", "2")),
    )
    assert found["first"] == [1, 2]
    assert found["sidecar"] == [1]
    assert not set(found["app"]) & set(found["sidecar"])
    assert len(found["app"]) == 3


def test_too_many_are_refused_and_nothing_is_kept() -> None:
    manager = CpuManager(MACHINE)
    with pytest.raises(NotAdmitted, match="requested=13, available=12") as refused:
        manager.admit(pod(container("a", "2"), container("b", "13")))
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert (manager.given, manager.shared) == ({}, MACHINE.cpus)
    manager.admit(pod(container("a", "14")))
    assert manager.shared == MACHINE.reserved
    manager.remove("u")
    assert manager.shared == MACHINE.cpus
