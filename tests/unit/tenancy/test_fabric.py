"""View `fabric`: how a companion stands on a DPU, and what is left of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.tenancy.views.fabric import COLORS, Place, Site, _of_companion, _resources
from app.why.model import State
from tests.support.paths import ROOT

JSON = dict[str, Any]
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def companion(namespace: str, phase: str, *, age: float = 0, **status: Any) -> JSON:
    created = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"name": "c", "namespace": namespace, "creationTimestamp": created},
        "spec": {"nodeName": "dpu", "containers": []},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("pod", "state", "text"),
    [
        (companion("tenant-acme", "Running"), State.fine, ""),
        (companion("tenant-acme", "Pending"), State.waits, "NotStarted: its node has not started it"),
        (companion("tenant-acme", "Pending", age=400), State.stuck, "NotStarted: its node has not started it"),
        (companion("tenant-acme", "Failed", reason="Evicted", message="disk"), State.stuck, "Evicted: disk"),
        (companion("tenant-zeta", "Running"), State.broken, "is of tenant zeta, on a DPU of tenant acme"),
        (companion("universe", "Running"), State.fine, ""),
    ],
)
def test_how_a_companion_stands_on_a_dpu_of_a_tenant(pod: JSON, state: State, text: str) -> None:
    assert _of_companion(pod, "acme", NOW) == (state, text)


def test_a_host_of_two_tenants_and_one_without_a_dpu_are_broken() -> None:
    place = Place({"metadata": {"name": "dpu"}}, "acme", State.fine, "")
    assert [text for _, text in Site("h", ["acme", "zeta"], [place]).problems("l")] == [
        "is a host of Tenants acme, zeta: want one"
    ]
    assert [text for _, text in Site("h", ["acme"]).problems("l")] == ["has no DPU: no node has label l=h"]


def test_a_pod_with_an_odd_amount_does_not_hide_what_others_ask() -> None:
    def pod(cpu: str) -> JSON:
        return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}

    node = {"status": {"allocatable": {"cpu": "4", "memory": "much", "hugepages-2Mi": "0", "example.com/nic": "2"}}}
    amounts = list(_resources(node, [pod("1"), pod("odd"), pod("500m")]))
    assert [(value.name, value.used, value.whole) for value in amounts] == [
        ("cpu", "1500m", "4"),
        ("example.com/nic", "0", "2"),
    ]


def test_each_color_has_a_rule_in_both_schemes() -> None:
    styles = (ROOT / "app/ui/static/ui.css").read_text()
    for number in range(COLORS):
        assert styles.count(f"--tenant-{number}: #") == 2
        assert f".tenant-{number} {{" in styles
