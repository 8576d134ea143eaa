"""A device that a Pod asks for by one name of its DeviceClass serves the networks that need the other (KEP-5004)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.kube.resources import IMPLICIT_PREFIX
from tests.support.claim_reviews import Reviews
from tests.unit.claims.injection.test_goldens import cluster, written_out

FOO, VF = "example.com/foo", f"{IMPLICIT_PREFIX}vf.example.com"


async def limits(networks: str, containers: list[Any], settings: dict[str, Any] | None = None, **spec: Any) -> Any:
    """The limits of the first container after the review."""
    short = {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}, "containers": containers, **spec}
    async with Reviews(cluster(), settings or {}) as reviews:
        review = await reviews.mutate(written_out(short))
        assert review.decision.allowed, review.decision.message
        again = await reviews.mutate(review.obj)
        if not settings:
            assert again.plan.patch.operations == []
    return review.obj["spec"]["containers"][0].get("resources", {}).get("limits", {})


def asks(**amounts: Any) -> Any:
    names = {"foo": FOO, "vf": VF, "other": f"{IMPLICIT_PREFIX}other.example.com", "absent": f"{IMPLICIT_PREFIX}absent"}
    return {"name": "main", "resources": {"limits": {names[name]: amount for name, amount in amounts.items()}}}


@pytest.mark.parametrize(
    ("networks", "asked", "wanted"),
    [
        ("foo", {"vf": 1}, {VF: 1}),
        ("foo", {"vf": "2"}, {VF: "2"}),
        ("foo,foo", {"vf": 1}, {VF: 1, FOO: "1"}),
        ("foo,foo,foo", {"vf": 1, "foo": "1"}, {VF: 1, FOO: "2"}),
        ("foo", {"vf": 0}, {VF: 0, FOO: "1"}),
        ("foo,implicit", {"vf": "1"}, {VF: "1", FOO: "1"}),
        ("foo,implicit", {"vf": "2"}, {VF: "2"}),
        ("foo,implicit", {"foo": "2"}, {FOO: "2"}),
        ("implicit", {"foo": "1"}, {FOO: "1"}),
        ("implicit,implicit", {"foo": "1"}, {FOO: "1", VF: "1"}),
        ("foo", {"other": 1}, {f"{IMPLICIT_PREFIX}other.example.com": 1, FOO: "1"}),
        ("foo", {"absent": 1}, {f"{IMPLICIT_PREFIX}absent": 1, FOO: "1"}),
    ],
)
async def test_two_names_count_as_one(networks: str, asked: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = await limits(networks, [asks(**asked)])
    assert {name: int(amount) for name, amount in found.items()} == {n: int(amount) for n, amount in wanted.items()}


async def test_only_containers_that_stay_hold_a_device() -> None:
    init = {**asks(vf=1), "name": "i"}
    assert FOO in await limits("foo", [{"name": "main"}], initContainers=[init])
    assert FOO not in await limits("foo", [{"name": "main"}], initContainers=[{**init, "restartPolicy": "Always"}])


async def test_without_claims_the_names_of_classes_are_not_known() -> None:
    assert (await limits("foo", [asks(vf=1)], {"claims": False}))[FOO] == "1"


async def test_modes_count_the_other_name_as_they_count_the_same() -> None:
    assert FOO not in await limits("foo,foo", [asks(vf=1)], {"existing_resources": "skip"})
    assert (await limits("foo", [asks(vf=1)], {"existing_resources": "add"}))[FOO] == "1"


async def test_each_warning_about_networks_is_given_once() -> None:
    networks = json.dumps([{"name": "implicit", "macRequest": "02:00:00:00:00:01"}])
    short = {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}, "containers": [{"name": "main"}]}
    async with Reviews(cluster(), {}) as reviews:
        review = await reviews.mutate(written_out(short))
    (warning,) = review.decision.warnings
    assert "macRequest" in warning
