"""Requests, limits and quality of service of Pods are those of Kubernetes: KEP-753 (sidecars), KEP-2837 (whole Pods).

`pod_requests.json` has, of each spec, the resources and the quality of service that a kube-apiserver 1.37.2 stored, and
what k8s.io/component-helpers (`tests/peers/pod-requests`) counts of what is stored.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from app.kinds.requests import (
    Amounts,
    amounts_of,
    fill_pod_level,
    pod_level,
    pod_limits,
    pod_requests,
    quality_of_service,
)
from app.kube.quantity import QuantityError
from app.wire import JSON

READINGS: list[JSON] = json.loads(Path(__file__).with_name("pod_requests.json").read_text())["readings"]


def some(amounts: Amounts) -> Amounts:
    """Without zeros, of which it does not matter whether they are there."""
    return {name: amount for name, amount in amounts.items() if amount}


def test_pods_have_the_quality_of_service_that_an_api_server_stores() -> None:
    assert {reading["qosClass"] for reading in READINGS} == {"Guaranteed", "Burstable", "BestEffort"}
    wrong = [reading for reading in READINGS if quality_of_service(reading["given"]) != reading["qosClass"]]
    assert wrong == []


def test_resources_of_a_whole_pod_are_filled_in_as_an_api_server_does() -> None:
    assert sum(reading["resources"] != reading["given"].get("resources") for reading in READINGS) > 50
    for reading in READINGS:
        spec = copy.deepcopy(reading["given"])
        fill_pod_level(spec)
        assert spec.get("resources") == reading["resources"], reading["given"]
        again = copy.deepcopy(spec)
        fill_pod_level(again)
        assert again == spec


def test_requests_and_limits_are_those_that_scheduler_and_quota_count() -> None:
    for reading in READINGS:
        pod = {"spec": reading["given"]}
        assert some(pod_requests(pod)) == some(amounts_of(reading["requests"])), reading["given"]
        assert some(pod_limits(pod)) == some(amounts_of(reading["limits"])), reading["given"]


def test_overhead_comes_on_top_of_the_resources_of_a_whole_pod() -> None:
    spec = {"containers": [{}], "resources": {"limits": {"cpu": "2"}}, "overhead": {"cpu": "1", "memory": "1Ki"}}
    assert pod_requests({"spec": spec}) == amounts_of({"cpu": 3, "memory": 1024})
    assert pod_limits({"spec": spec}) == amounts_of({"cpu": 3})


@pytest.mark.parametrize("resources", [None, {}, {"requests": None}, {"limits": {}, "requests": {}}])
def test_a_pod_without_resources_of_its_own_is_counted_by_its_containers(resources: Any) -> None:
    spec = {"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}], "resources": resources}
    assert pod_level(spec) is None
    assert quality_of_service(spec) == "Guaranteed"


@pytest.mark.parametrize("part", ["containers", "resources"])
def test_what_is_no_quantity_is_said(part: str) -> None:
    bad = {"limits": {"cpu": "one"}}
    with pytest.raises(QuantityError):
        quality_of_service({"containers": [{"resources": bad}]} if part == "containers" else {"resources": bad})
